"""A safetensors file says what it holds in its first bytes, and may lie: so all of it is checked before any of it is believed.

    8 bytes    the header's length, little-endian
    header     JSON: {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, …, "__metadata__": {…}}
    data       the tensors, end to end

Reads no tensor. The format: https://github.com/huggingface/safetensors#format
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from cutaway.errors import WeightsError
from cutaway.weights.corrupt import corrupt

SIZES = {
    "BOOL": 1, "U8": 1, "I8": 1, "F8_E4M3": 1, "F8_E5M2": 1,
    "U16": 2, "I16": 2, "F16": 2, "BF16": 2,
    "U32": 4, "I32": 4, "F32": 4,
    "U64": 8, "I64": 8, "F64": 8,
}  # fmt: skip
LONGEST = 100_000_000  # bytes of a header: the reference reader's own limit


class Place(NamedTuple):
    """One tensor: its dtype in the format's words, its shape, and its bytes, from `begin` to before `end` of the file."""

    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


@dataclass(frozen=True)
class Header:
    """What a safetensors file holds."""

    places: dict[str, Place]
    metadata: dict[str, str]

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {name: place.shape for name, place in self.places.items()}


def read_header(path: Path) -> Header:
    """The header of a file whose every byte is accounted for. Raises WeightsError, naming the file and the reason."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            length = _length(path, file.read(8), size)
            raw = file.read(length)
    except OSError as error:
        raise WeightsError(f"{path} cannot be read: {error.strerror}", expected="a safetensors file") from error
    entries = _parse(path, raw)
    metadata = entries.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise corrupt(path, "its __metadata__ is not a table of texts")
    spans = {name: _span(path, name, entry) for name, entry in entries.items()}
    _check_layout(path, spans, size - 8 - length)
    data = 8 + length
    places = {
        name: Place(entry["dtype"], tuple(entry["shape"]), data + spans[name][0], data + spans[name][1]) for name, entry in entries.items()
    }
    return Header(places, metadata)


def _length(path: Path, first: bytes, size: int) -> int:
    if len(first) < 8:
        raise corrupt(path, f"it is {size} bytes long, too short to hold anything")
    length = int.from_bytes(first, "little")
    if length == 0:
        raise corrupt(path, "it begins with zeros: its content was never written")
    if length > LONGEST:
        raise corrupt(path, f"it claims a header of {length} bytes, more than the {LONGEST} allowed: it is no safetensors file")
    if 8 + length > size:
        raise corrupt(path, f"its header should end at byte {8 + length}, and the file ends at {size}: it was cut short")
    return length


def _parse(path: Path, raw: bytes) -> dict[str, Any]:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        table = dict(pairs)
        if len(table) < len(pairs):
            raise ValueError("a name occurs twice")
        return table

    try:
        entries = json.loads(raw.decode(), object_pairs_hook=unique)
    except (ValueError, RecursionError) as error:
        raise corrupt(path, f"its header is not JSON that can be trusted ({error})") from error
    if not isinstance(entries, dict):
        raise corrupt(path, "its header is not a table of tensors")
    return entries


def _span(path: Path, name: str, entry: Any) -> tuple[int, int]:
    """Where a tensor's bytes begin and end, once its shape and dtype agree that it is so."""
    if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
        raise corrupt(path, f"{name} is not described by a dtype, a shape and data_offsets")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in SIZES:
        raise corrupt(path, f"{name} has the unknown dtype {dtype!r}")
    if not _whole_numbers(shape) or not _whole_numbers(offsets) or len(offsets) != 2:
        raise corrupt(path, f"{name} has the shape {shape!r} and the offsets {offsets!r}, which are not whole numbers")
    begin, end = offsets
    need = math.prod(shape) * SIZES[dtype]
    if end - begin != need:
        raise corrupt(path, f"{name} is {dtype} {shape}, which takes {need} bytes, and has {end - begin}")
    return begin, end


def _whole_numbers(values: Any) -> bool:
    return isinstance(values, list) and all(type(value) is int and value >= 0 for value in values)


def _check_layout(path: Path, spans: Mapping[str, tuple[int, int]], data: int) -> None:
    reached = 0
    for name, (begin, end) in sorted(spans.items(), key=lambda item: item[1]):
        if begin != reached:
            raise corrupt(path, f"{name} begins at byte {begin} of the data, where byte {reached} comes next: a gap or an overlap")
        reached = end
    if reached > data:
        raise corrupt(path, f"{reached - data} of its {reached} bytes of data are missing: it was cut short")
    if reached < data:
        raise corrupt(path, f"{data - reached} bytes follow its last tensor: something was appended")
