"""A GGUF file says what it holds before its tensors, and may lie: each number is checked against the file's size before it is used.

    "GGUF", version, how many tensors, how many settings
    settings   a name, a type and a value each: the model's sizes, and its whole vocabulary
    tensors    a name, the dimensions (fastest first), a type and an offset each
    padding    up to general.alignment
    data       the tensors, each padded

Reads no tensor, and knows no model. The format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

import mmap
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

from cutaway.errors import WeightsError
from cutaway.weights.corrupt import corrupt

VERSIONS = (2, 3)  # 3 is 2 with a rule for big-endian files; 1 counted in 32 bits and was in use for two months
MOST = 1 << 22  # values in one array: the longest are vocabularies, and those have a quarter of a million
DEEPEST = 4  # arrays in arrays
DIMENSIONS = 4  # ggml's own limit

# The smallest that a file and its entries can be, in bytes: what remains of the file bounds how many there are.
SHORTEST = 24
SHORTEST_SETTING, SHORTEST_TENSOR, SHORTEST_STRING, SHORTEST_ARRAY = 13, 24, 8, 12

_U32, _U64 = struct.Struct("<I"), struct.Struct("<Q")
_NUMBERS = {
    "UINT8": "B", "INT8": "b", "UINT16": "H", "INT16": "h", "UINT32": "I", "INT32": "i",
    "UINT64": "Q", "INT64": "q", "FLOAT32": "f", "FLOAT64": "d", "BOOL": "B",
}  # fmt: skip


class Place(NamedTuple):
    """One tensor: its ggml type by name, its shape as torch counts it (slowest first), and where in the file it is, in bytes."""

    kind: str
    shape: tuple[int, ...]
    offset: int
    size: int


@dataclass(frozen=True)
class GGUFHeader:
    """What a GGUF file says of itself. `metadata` holds Python values, arrays as lists."""

    version: int
    metadata: dict[str, Any]
    tensors: dict[str, Place]


def read_gguf(path: Path) -> GGUFHeader:
    """The header of a file whose every byte is accounted for. Raises WeightsError, naming the file and the reason."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            if size < SHORTEST:
                raise corrupt(path, f"it is {size} bytes long, too short to hold anything", "GGUF")
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                return _parse(_Reader(path, data))
    except OSError as error:
        raise WeightsError(f"{path} cannot be read: {error.strerror}", expected="a GGUF file") from error


class _Reader:
    """Walks through the header from front to back, and never past the file's end."""

    def __init__(self, path: Path, data: mmap.mmap) -> None:
        self.path, self.data, self.size, self.at = path, data, len(data), 0

    def corrupt(self, reason: str) -> WeightsError:
        return corrupt(self.path, reason, "GGUF")

    def skip(self, count: int, what: str) -> int:
        """Move on by that many bytes, if there are as many; where they begin."""
        start = self.at
        if count > self.size - start:
            raise self.corrupt(f"{what} should end at byte {start + count}, and the file ends at {self.size}: it was cut short, or lies")
        self.at = start + count
        return start

    def u32(self, what: str) -> int:
        number: int = _U32.unpack_from(self.data, self.skip(4, what))[0]
        return number

    def u64(self, what: str) -> int:
        number: int = _U64.unpack_from(self.data, self.skip(8, what))[0]
        return number

    def count(self, what: str, shortest: int) -> int:
        """A number of things that each take that many bytes at least."""
        count = self.u64(what)
        if count * shortest > self.size - self.at:
            raise self.corrupt(f"it claims {count} {what}, more than its remaining {self.size - self.at} bytes can hold")
        return count

    def string(self, what: str) -> str:
        length = self.u64(what)
        start = self.skip(length, what)
        return self._decoded(self.data[start : self.at], what)

    def strings(self, count: int, what: str) -> list[str]:
        """`string`, many times over: a vocabulary is most of a header, so this loop calls nothing of ours."""
        data, size, at, unpack = self.data, self.size, self.at, _U64.unpack_from
        found: list[bytes] = []
        for _ in range(count):
            if at + 8 > size or (end := at + 8 + unpack(data, at)[0]) > size:
                raise self.corrupt(f"text {len(found)} of {what} reaches past the file's end: it was cut short, or lies")
            found.append(data[at + 8 : end])
            at = end
        self.at = at
        try:
            return [raw.decode() for raw in found]
        except UnicodeDecodeError:
            return [self._decoded(raw, f"text {i} of {what}") for i, raw in enumerate(found)]

    def _decoded(self, raw: bytes, what: str) -> str:
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            raise self.corrupt(f"{what} is not UTF-8 (byte {error.start})") from error


def _parse(reader: _Reader) -> GGUFHeader:
    version = _version(reader)
    tensors = reader.count("tensors", SHORTEST_TENSOR)
    settings = reader.count("settings", SHORTEST_SETTING)
    metadata: dict[str, Any] = {}
    for number in range(settings):
        name = reader.string(f"the name of setting {number}")
        if name in metadata:
            raise reader.corrupt(f"the setting {name!r} occurs twice")
        metadata[name] = _value(reader, reader.u32(name), name)
    if not isinstance(architecture := metadata.get("general.architecture"), str) or not architecture:
        raise reader.corrupt("it does not say which model it is for: general.architecture is missing")
    alignment = _alignment(reader, metadata)
    places: dict[str, Place] = {}
    for number in range(tensors):
        name = reader.string(f"the name of tensor {number}")
        if name in places:
            raise reader.corrupt(f"the tensor {name!r} occurs twice")
        places[name] = _place(reader, name, alignment)
    start = _padded(reader.at, alignment)
    placed = {name: place._replace(offset=start + place.offset) for name, place in places.items()}
    _check_layout(reader, placed, start, alignment)
    return GGUFHeader(version, metadata, placed)


def _version(reader: _Reader) -> int:
    magic = reader.data[reader.skip(4, "the magic word") : reader.at]
    if magic == b"\0\0\0\0":
        raise reader.corrupt("it begins with zeros: its content was never written")
    if magic != b"GGUF":
        raise reader.corrupt(f"it begins with {magic!r}, not with b'GGUF': it is another kind of file")
    version = reader.u32("the version")
    if version & 0xFFFF == 0 and version:
        raise WeightsError(
            f"{reader.path} is a big-endian GGUF file",
            expected="a little-endian one, as nearly all are",
            then="convert it with gguf-convert-endian, which comes with the gguf package",
        )
    if version not in VERSIONS:
        raise WeightsError(
            f"{reader.path} is GGUF of version {version}",
            expected=" or ".join(map(str, VERSIONS)),
            then="get a newer conversion of the model" if version < min(VERSIONS) else "update cutaway, or check that the file is whole",
        )
    return version


def _value(reader: _Reader, code: int, name: str, depth: int = 0) -> Any:
    kind = _value_types().get(code)
    if kind == "STRING":
        return reader.string(name)
    if kind == "ARRAY":
        return _array(reader, name, depth + 1)
    if kind is None:
        raise reader.corrupt(f"{name} has the value type {code}, which GGUF does not have")
    return _numbers(reader, kind, 1, name)[0]


def _array(reader: _Reader, name: str, depth: int) -> list[Any]:
    code = reader.u32(name)
    kind = _value_types().get(code)
    if kind is None:
        raise reader.corrupt(f"{name} is a list of values of type {code}, which GGUF does not have")
    if depth > DEEPEST:
        raise reader.corrupt(f"{name} has lists in lists, more than {DEEPEST} deep")
    shortest = {"STRING": SHORTEST_STRING, "ARRAY": SHORTEST_ARRAY}.get(kind) or struct.calcsize(_NUMBERS[kind])
    count = reader.count(f"values of {name}", shortest)
    if count > MOST:
        raise reader.corrupt(f"{name} has {count} values, more than the {MOST} allowed")
    if kind == "STRING":
        return reader.strings(count, name)
    if kind == "ARRAY":
        return [_array(reader, name, depth + 1) for _ in range(count)]
    return _numbers(reader, kind, count, name)


def _numbers(reader: _Reader, kind: str, count: int, name: str) -> list[Any]:
    form = struct.Struct(f"<{count}{_NUMBERS[kind]}")
    values = list(form.unpack_from(reader.data, reader.skip(form.size, name)))
    if kind != "BOOL":
        return values
    if wrong := next((value for value in values if value > 1), None):
        raise reader.corrupt(f"{name} should be true or false, 1 or 0, and is {wrong}")
    return [value == 1 for value in values]


def _alignment(reader: _Reader, metadata: Mapping[str, Any]) -> int:
    from gguf.constants import GGUF_DEFAULT_ALIGNMENT

    alignment = metadata.get("general.alignment", GGUF_DEFAULT_ALIGNMENT)
    if type(alignment) is not int or alignment < 1 or alignment & (alignment - 1):
        raise reader.corrupt(f"general.alignment is {alignment!r}, which is not a power of two")
    return alignment


def _place(reader: _Reader, name: str, alignment: int) -> Place:
    """One tensor, its offset counted from the beginning of the data."""
    if (dimensions := reader.u32(name)) > DIMENSIONS:
        raise reader.corrupt(f"{name} has {dimensions} dimensions, more than the {DIMENSIONS} that ggml knows")
    shape = tuple(reader.u64(name) for _ in range(dimensions))[::-1]
    code, offset = reader.u32(name), reader.u64(name)
    if (sizes := _sizes().get(code)) is None:
        raise reader.corrupt(f"{name} has the type {code}, which ggml does not have, or has only since the gguf package here was made")
    kind, block, bytes_ = sizes
    if 0 in shape:
        raise reader.corrupt(f"{name} has the shape {shape}, which holds nothing")
    if (shape[-1] if shape else 1) % block:
        raise reader.corrupt(f"{name} has rows of {shape[-1] if shape else 1} numbers, and {kind} packs {block} at a time")
    if offset % alignment:
        raise reader.corrupt(f"{name} begins at byte {offset} of the data, which is no multiple of general.alignment, {alignment}")
    return Place(kind, shape, offset, prod(shape) // block * bytes_)


def _check_layout(reader: _Reader, places: Mapping[str, Place], start: int, alignment: int) -> None:
    """End to end but for the padding, and the last one up to the file's end: what ggml's own reader asks for."""
    reached = start
    for name, place in sorted(places.items(), key=lambda item: item[1].offset):
        if place.offset != (expected := _padded(reached, alignment)):
            raise reader.corrupt(f"{name} begins at byte {place.offset}, where {expected} comes next: a gap or an overlap")
        reached = place.offset + place.size
        if reached > reader.size:
            raise reader.corrupt(f"{name} should end at byte {reached}, and the file ends at {reader.size}: it was cut short")
    if reader.size > _padded(reached, alignment):
        raise reader.corrupt(f"{reader.size - reached} bytes follow its last tensor: something was appended")


def _padded(size: int, alignment: int) -> int:
    return size + -size % alignment


# The gguf package takes a third of a second to import, most of it NumPy: not before a GGUF file is read.


@cache
def _value_types() -> dict[int, str]:
    from gguf.constants import GGUFValueType

    return {int(kind): kind.name for kind in GGUFValueType}


@cache
def _sizes() -> dict[int, tuple[str, int, int]]:
    """By ggml's number for a type: its name, how many numbers one block packs, and into how many bytes."""
    from gguf.constants import GGML_QUANT_SIZES

    return {int(kind): (kind.name, *sizes) for kind, sizes in GGML_QUANT_SIZES.items()}
