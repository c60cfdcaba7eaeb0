"""GPT-1 as OpenAI published it in 2018: one long row of numbers, cut into params_0.npy, params_1.npy, … wherever it came.

params_shapes.json lists the tensors' shapes in their order; end to end, they take the whole row. Names are their numbers in that
list. Nothing is unpickled: of a file's header only the one form is read that NumPy itself writes for a row, and nothing in it is
evaluated. The format: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
"""

import json
import math
import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from cutaway.errors import WeightsError
from cutaway.weights.corrupt import corrupt
from cutaway.weights.mapped import as_tensor, mapped
from cutaway.weights.source import Shape, Source

SHAPES = "params_shapes.json"
KIND = "NumPy"
MAGIC = b"\x93NUMPY"
DTYPES = {"<f2": torch.float16, "<f4": torch.float32, "<f8": torch.float64}
LONGEST = 10_000  # bytes of a header: NumPy's own limit
DIMS, ELEMENTS = 64, 2**63 - 1  # of a tensor, at most
_HEADER = re.compile(r"\{'descr': (.{1,500}), 'fortran_order': (True|False), 'shape': \(([0-9L, ]{0,500})\), \} *\n")
_ROW = re.compile(r"([0-9]+)L?,")  # the L: written by Python 2


@dataclass(frozen=True)
class Shard:
    """A file that holds one row of numbers, from byte `begin` to its end."""

    path: Path
    dtype: torch.dtype
    begin: int
    length: int


class NpyShards(Source):
    """The tensors of one model, in the order in which they lie in the row."""

    dialect = "numpy"

    def __init__(self, shards: tuple[Shard, ...], shapes: Sequence[Shape]) -> None:
        self.paths = tuple(shard.path for shard in shards)
        self.shapes = {str(number): shape for number, shape in enumerate(shapes)}
        self.settings = {}
        self._shards = shards
        self._shard_ends = list(accumulate(shard.length for shard in shards))
        ends = accumulate(math.prod(shape) for shape in shapes)
        self._ends = dict(zip(self.shapes, ends, strict=True))

    def __getitem__(self, name: str) -> Tensor:
        """A view of the mapped file where the tensor lies in one, and a copy where it crosses from one into the next."""
        shape, end = self.shapes[name], self._ends[name]
        dtype = self._shards[0].dtype
        pieces = [mapped(*place) for place in self._places(end - math.prod(shape), end)]
        return as_tensor(pieces[0] if len(pieces) == 1 else np.concatenate(pieces), dtype, shape)

    def _places(self, begin: int, end: int) -> list[tuple[Path, int, int]]:
        """The file, first byte and number of bytes of each piece of a stretch of the row. At least one, even of nothing."""
        places = []
        first = min(bisect_right(self._shard_ends, begin), len(self._shards) - 1)
        for shard, shard_end in zip(self._shards[first:], self._shard_ends[first:], strict=True):
            size, base = shard.dtype.itemsize, shard_end - shard.length
            start, stop = max(begin, base), min(end, shard_end)
            places.append((shard.path, shard.begin + (start - base) * size, (stop - start) * size))
            if stop == end:
                break
        return places


def open_npy_shards(folder: Path) -> NpyShards:
    """The tensors in a folder that holds params_0.npy and so on, and params_shapes.json. Sizes are checked; no number is read.

    Raises WeightsError, naming the file and the reason.
    """
    shapes = _shapes(folder / SHAPES)
    shards = tuple(_shard(path) for path in npy_files(folder))
    for shard in shards:
        if shard.dtype != shards[0].dtype:
            raise corrupt(shard.path, f"it holds {shard.dtype}, and {shards[0].path.name} holds {shards[0].dtype}", KIND)
    held, listed = sum(shard.length for shard in shards), sum(math.prod(shape) for shape in shapes)
    if held != listed:
        raise WeightsError(
            f"{folder} holds {held} numbers in {len(shards)} files, and the shapes in {SHAPES} take {listed}",
            expected="as many",
            then="download the files again",
        )
    return NpyShards(shards, shapes)


def npy_files(folder: Path) -> tuple[Path, ...]:
    """params_0.npy, params_1.npy and so on, by number: params_10.npy comes after params_9.npy. Raises WeightsError if one is missing."""
    found = {path.name for path in folder.glob("params_*.npy")}
    names = [f"params_{number}.npy" for number in range(max(len(found), 1))]
    for name in names:
        if name not in found:
            others = f", and {sorted(found - set(names))[0]} is there" if found else ""
            raise WeightsError(f"{folder / name} is missing{others}", expected="params_0.npy, params_1.npy, … without a gap")
    return tuple(folder / name for name in names)


def _shapes(path: Path) -> list[Shape]:
    try:
        listed = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise WeightsError(f"{path} cannot be read: {error.strerror}", expected="the shapes of the tensors, as JSON") from error
    except (ValueError, RecursionError) as error:
        raise corrupt(path, f"it is not JSON ({error})", "JSON") from error
    if not isinstance(listed, list) or not listed:
        raise corrupt(path, "it is not a list of shapes", "JSON")
    for number, shape in enumerate(listed):
        if not isinstance(shape, list) or not all(type(size) is int and size >= 0 for size in shape):
            raise corrupt(path, f"the shape of number {number} is {shape!r}, which is not a list of whole numbers", "JSON")
        if len(shape) > DIMS or math.prod(size or 1 for size in shape) > ELEMENTS:
            raise corrupt(path, f"the shape of number {number}, {shape}, is larger than any tensor", "JSON")
    return [tuple(shape) for shape in listed]


def _shard(path: Path) -> Shard:
    """A file that is as long as its header says. Raises WeightsError, naming the file and the reason."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            begin, header = _header(path, file.read(LONGEST + 12))
    except OSError as error:
        raise WeightsError(f"{path} cannot be read: {error.strerror}", expected="a .npy file") from error
    descr, fortran, shape = header
    if descr not in DTYPES:
        pickled = ", which only unpickling could read" if "O" in descr else ""
        raise corrupt(path, f"it holds {descr}{pickled}, where little-endian floats, {', '.join(DTYPES)}, are expected", KIND)
    row = _ROW.fullmatch(shape)
    if not row or fortran == "True":
        raise corrupt(path, f"it holds an array of shape ({shape}), where one row is expected", KIND)
    length, dtype = int(row[1]), DTYPES[descr]
    need = begin + length * dtype.itemsize
    if need > size:
        raise corrupt(path, f"its {length} numbers should end at byte {need}, and the file ends at {size}: it was cut short", KIND)
    if need < size:
        raise corrupt(path, f"{size - need} bytes follow its {length} numbers: something was appended", KIND)
    return Shard(path, dtype, begin, length)


def _header(path: Path, raw: bytes) -> tuple[int, tuple[str, str, str]]:
    """Where the numbers begin, and what the header says of their dtype, order and shape."""
    version = tuple(raw[6:8])
    if raw[:6] != MAGIC or version not in ((1, 0), (2, 0), (3, 0)):
        raise corrupt(path, f"it begins with {raw[:8]!r}, which is no .npy file's beginning", KIND)
    first = 10 if version == (1, 0) else 12
    begin = first + int.from_bytes(raw[8:first], "little")
    if begin > len(raw):
        raise corrupt(path, f"its header should end at byte {begin}: it was cut short, or is longer than {LONGEST} bytes", KIND)
    found = _HEADER.fullmatch(raw[first:begin].decode("latin-1"))
    if not found:
        raise corrupt(path, "its header is not one that NumPy writes", KIND)
    return begin, (found[1].strip("'"), found[2], found[3])
