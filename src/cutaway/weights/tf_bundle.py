"""What a TensorFlow checkpoint says it holds: its .index file is found, read and compared with its data files. No tensor, no torch.

    model.ckpt.index                  a sorted table: "" → a header, and each tensor's name → its dtype, shape, place and checksum
    model.ckpt.data-00000-of-00001    the tensors, end to end; there may be several such shards

The values are protocol buffers, of which these few fields are read by hand. The format:
https://github.com/tensorflow/tensorflow/blob/master/tensorflow/core/protobuf/tensor_bundle.proto
"""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cutaway.errors import WeightsError
from cutaway.weights.corrupt import corrupt
from cutaway.weights.sstable import KIND, MAGIC, read_table, varint

# TensorFlow's number of a dtype → its name and its bytes: those that can be read.
DTYPES = {
    1: ("float32", 4), 2: ("float64", 8), 14: ("bfloat16", 2), 19: ("float16", 2),
    3: ("int32", 4), 4: ("uint8", 1), 5: ("int16", 2), 6: ("int8", 1), 9: ("int64", 8), 10: ("bool", 1),
}  # fmt: skip
DIMS, ELEMENTS = 254, 2**63 - 1  # at most: TensorFlow's own limits
OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"

VARINT, LENGTH, FIXED32 = 0, 2, 5  # how a field is written
HEADER = {1: VARINT, 2: VARINT, 3: LENGTH}  # num_shards, endianness, version
VERSION = {1: VARINT, 2: VARINT}  # producer, min_consumer
ENTRY = {1: VARINT, 2: LENGTH, 3: VARINT, 4: VARINT, 5: VARINT, 6: FIXED32, 7: LENGTH}  # as in Entry
SHAPE = {2: LENGTH, 3: VARINT}  # dim, unknown_rank
DIM = {1: VARINT, 2: LENGTH}  # size, name


@dataclass(frozen=True)
class Entry:
    """Where a tensor lies. `parted`: it was saved in several parts, each under a key of its own."""

    dtype: int
    shape: tuple[int, ...]
    shard: int
    begin: int
    size: int
    checksum: int
    parted: bool


@dataclass(frozen=True)
class Bundle:
    """What a checkpoint holds."""

    index: Path
    shards: tuple[Path, ...]
    tensors: Mapping[str, Entry]


def find_index(path: Path) -> Path:
    """The .index file of a checkpoint that is given by its folder, its prefix ("model.ckpt") or one of its files.

    Raises WeightsError if there is none, if a folder's cannot be told, or if it is of the format before.
    """
    try:
        if path.is_dir():
            return _only_index(path)
        index = path.with_name(re.sub(r"\.(index|data-\d+-of-\d+)$", "", path.name) + ".index")
        if index.is_file():
            return index
        raise _no_checkpoint(path, [path])
    except OSError as error:
        raise WeightsError(f"{error.filename} cannot be read: {error.strerror}") from error


def read_bundle(index: Path) -> Bundle:
    """The content of a checkpoint whose every byte is accounted for. Raises WeightsError, naming the file and the reason."""
    table = read_table(index)
    try:
        count = _shard_count(table.pop(b"", b""))
        entries = {key: _entry(key, raw) for key, raw in table.items()}
    except ValueError as error:
        raise corrupt(index, str(error), KIND) from error
    if OBJECT_GRAPH.encode() in entries:
        raise WeightsError(
            f"{index} holds {OBJECT_GRAPH}: it is TensorFlow 2's object-graph checkpoint, which names tensors after Python objects",
            expected="a checkpoint by variables' names",
            then="load it in TensorFlow and save its variables with tf.compat.v1.train.Saver",
        )
    if astray := [key for key, entry in entries.items() if entry.shard >= count]:
        raise corrupt(index, f"{_shown(astray[0])} should lie in shard {entries[astray[0]].shard}, and there are {count}", KIND)
    bundle = Bundle(index, _shards(index, count), _named(index, entries))
    for number, shard in enumerate(bundle.shards):
        _check_shard(shard, {key: entry for key, entry in entries.items() if entry.shard == number})
    return bundle


def _only_index(folder: Path) -> Path:
    found = sorted(folder.glob("*.index"))
    if len(found) > 1 and (note := folder / "checkpoint").is_file():  # TensorFlow notes there which is the latest
        latest = re.search(r'^model_checkpoint_path: "(?:.*[/\\])?(.+)"', note.read_text(errors="replace"), re.MULTILINE)
        found = [path for path in found if latest and path.name == f"{latest[1]}.index"] or found
    if len(found) > 1:
        names = ", ".join(path.name for path in found)
        raise WeightsError(f"{folder} holds several checkpoints: {names}", expected="one", then="give the path of one of them")
    if not found:
        raise _no_checkpoint(folder, sorted(folder.glob("*.ckpt*")))
    return found[0]


def _no_checkpoint(path: Path, candidates: Iterable[Path]) -> WeightsError:
    for old in candidates:
        if old.is_file() and _tail(old) == MAGIC:
            return WeightsError(
                f"{old} is a TensorFlow checkpoint of version 1, all in one file",
                expected="version 2: an .index and its .data files",
                then="load it in TensorFlow and save it with tf.compat.v1.train.Saver(write_version=2)",
            )
    return WeightsError(f"{path} is no TensorFlow checkpoint", expected="an .index file, as in model.ckpt.index")


def _tail(path: Path) -> bytes:
    with path.open("rb") as file:
        file.seek(max(file.seek(0, 2) - len(MAGIC), 0))
        return file.read()


def _shard_count(raw: bytes) -> int:
    if not raw:
        raise ValueError("it has no header")
    header = _message(raw, HEADER)
    version = _message(_only(header[3], b""), VERSION)
    if _only(header[2]) != 0:
        raise ValueError("its numbers are big-endian, the byte order of other machines")
    if _only(version[2]) > 1:
        raise ValueError(f"it asks for a reader of version {_only(version[2])}, and this is one of version 1")
    count: int = _only(header[1])
    if not count:
        raise ValueError("it has no shards")
    return count


def _entry(key: bytes, raw: bytes) -> Entry:
    try:
        fields = _message(raw, ENTRY)
        dtype, shard, begin, size, checksum = (_only(fields[number]) for number in (1, 3, 4, 5, 6))
        entry = Entry(dtype, _shape(_only(fields[2], b"")), shard, begin, size, checksum, bool(fields[7]))
        need = math.prod(entry.shape) * DTYPES[dtype][1] if dtype in DTYPES else size
        if size != (0 if entry.parted else need):
            raise ValueError(f"a dtype of number {dtype} and the shape {entry.shape} take {need} bytes, and it has {size}")
    except ValueError as error:
        raise ValueError(f"{_shown(key)}: {error}") from error
    return entry


def _shape(raw: bytes) -> tuple[int, ...]:
    fields = _message(raw, SHAPE)
    if any(fields[3]):
        raise ValueError("its number of dimensions is not known")
    if len(fields[2]) > DIMS:
        raise ValueError(f"it has {len(fields[2])} dimensions, and at most {DIMS} are allowed")
    shape = tuple(_only(_message(dim, DIM)[1]) for dim in fields[2])
    if math.prod(size or 1 for size in shape) > ELEMENTS:
        raise ValueError(f"the shape {shape} is larger than any tensor")
    return shape


def _message(raw: bytes, schema: Mapping[int, int]) -> dict[int, list[Any]]:
    """Each field's values, in order. A field that the schema does not have, or that is written otherwise, is a ValueError."""
    fields: dict[int, list[Any]] = {number: [] for number in schema}
    at = 0
    while at < len(raw):
        tag, at = varint(raw, at)
        number, wire = tag >> 3, tag & 7
        if schema.get(number) != wire:
            raise ValueError(f"a protocol buffer has the field {number} of wire type {wire}, which is not known")
        size, at = (4, at) if wire == FIXED32 else varint(raw, at)  # of a varint, the value itself
        if wire == VARINT:
            fields[number].append(size)
            continue
        if size > len(raw) - at:
            raise ValueError("a protocol buffer is cut off")
        value, at = raw[at : at + size], at + size
        fields[number].append(int.from_bytes(value, "little") if wire == FIXED32 else value)
    return fields


def _only(values: list[Any], default: Any = 0) -> Any:
    """The value of a field that occurs once or, where it has the default value, not at all."""
    if len(values) > 1:
        raise ValueError("a protocol buffer has a field twice")
    return values[0] if values else default


def _shards(index: Path, count: int) -> tuple[Path, ...]:
    shards = []
    for number in range(count):  # a count that lies ends at the first file that is not there
        shard = index.with_name(f"{index.name.removesuffix('.index')}.data-{number:05d}-of-{count:05d}")
        if not shard.is_file():
            raise WeightsError(f"{shard} is missing", expected=f"each of the {count} that {index.name} counts", then="download it again")
        shards.append(shard)
    return tuple(shards)


def _named(index: Path, entries: Mapping[bytes, Entry]) -> dict[str, Entry]:
    """The tensors by name. A part of a tensor has no name: its key begins with a zero."""
    try:
        return {key.decode(): entry for key, entry in entries.items() if not key.startswith(b"\0")}
    except UnicodeDecodeError as error:
        raise corrupt(index, f"the name {error.object!r} is not UTF-8", KIND) from error


def _check_shard(path: Path, entries: Mapping[bytes, Entry]) -> None:
    reached, size = 0, path.stat().st_size
    for key, entry in sorted(entries.items(), key=lambda item: (item[1].begin, item[1].size)):
        if entry.begin != reached:
            raise corrupt(path, f"{_shown(key)} begins at byte {entry.begin}, where byte {reached} comes next: a gap or an overlap", KIND)
        reached += entry.size
    if reached > size:
        raise corrupt(path, f"{reached - size} of its {reached} bytes are missing: it was cut short", KIND)
    if reached < size:
        raise corrupt(path, f"{size - reached} bytes follow its last tensor: something was appended", KIND)


def _shown(key: bytes) -> str:
    return key.decode(errors="backslashreplace").replace("\0", "\\0")
