"""Where the bytes of a file of PyTorch's lie, and whether they are all there: checked before a single tensor is made.

    zip      (since torch 1.6)  records: data.pkl, which says what the tensors are, and data/<key>, each storage's bytes
    legacy   (before)           five pickles: a magic number, a version, the machine, the content, the storages' keys;
                                then per key its number of elements (8 bytes, little-endian) and its bytes

torch itself checks no record's checksum, and makes room for what a legacy file claims before it has seen whether it is there.
The formats: https://github.com/pytorch/pytorch/blob/main/torch/serialization.py (`_save`, `_legacy_save`).
"""

import io
import math
import mmap
import struct
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

from cutaway.errors import WeightsError
from cutaway.weights.corrupt import corrupt
from cutaway.weights.pickled import PickleReader, Storage

ZIP = b"PK\x03\x04"
MAGIC, VERSION = 0x1950A86A20F9469CFC6C, 1001
LONGEST = 100_000_000  # bytes of pickles: GPT-2 XL's are 0.1 MB
DESCRIPTOR = 24  # bytes that may follow a record: its checksum and sizes once more
ZIP_END = struct.Struct("<4s4H2LH")  # b"PK\5\6", disks, counts, the directory's size and place, a comment's length


@dataclass(frozen=True)
class Layout:
    """What a file holds: tables and plain values, with a View for each tensor. mapped: its storages can be used in place."""

    content: Any
    mapped: bool


def read_layout(path: Path) -> Layout:
    """What a file holds, each storage of which is there in full, and each tensor within its storage.

    Raises WeightsError, naming the file and the reason.
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            if size == 0:
                raise _corrupt(path, "it is empty")
            if file.read(len(ZIP)) == ZIP:
                return Layout(_read_zip(path, file, size), mapped=True)
            return Layout(_read_legacy(path, file, size), mapped=False)
    except OSError as error:
        raise WeightsError(f"{path} cannot be read: {error.strerror}", expected="a PyTorch file") from error


def _read_zip(path: Path, file: IO[bytes], size: int) -> Any:
    try:
        with zipfile.ZipFile(file) as archive:
            records = _records(path, archive, file, size)
            if bad := archive.testzip():
                raise _corrupt(path, f"the record {bad} fails its checksum")
            pickle = archive.read(records["data.pkl"])
    except (zipfile.BadZipFile, ValueError, LookupError, NotImplementedError, RuntimeError, EOFError, struct.error) as error:
        raise _corrupt(path, f"its directory of records is damaged or cut off ({error})") from error
    reader = PickleReader(path)
    content = reader.read(stream := io.BytesIO(pickle))
    if stream.read(1):
        raise _corrupt(path, "bytes follow the end of data.pkl")
    for storage in reader.storages.values():
        record = records.get(f"data/{storage.key}")
        if record is None:
            raise _corrupt(path, f"the record data/{storage.key} is missing")
        if record.file_size != storage.nbytes:
            raise _corrupt(path, f"data/{storage.key} should have {storage.nbytes} bytes and has {record.file_size}")
    _check_views(path, reader, size)
    return content


def _records(path: Path, archive: zipfile.ZipFile, file: IO[bytes], size: int) -> dict[str, zipfile.ZipInfo]:
    """The records by name, once each is stored as it is and has a place of its own."""
    first = next(iter(archive.namelist()), "")
    folder = first[: first.find("/") + 1]
    records: dict[str, zipfile.ZipInfo] = {}
    for info in archive.infolist():
        name = info.filename.removeprefix(folder).lower()  # torch finds names without regard to case
        if name in records or not info.filename.startswith(folder):
            raise _corrupt(path, f"it has two records named {info.filename}" if name in records else f"{info.filename} is not in {folder}")
        if info.compress_type != zipfile.ZIP_STORED or info.compress_size != info.file_size or info.flag_bits & 1:
            raise _corrupt(path, f"the record {info.filename} is compressed or encrypted, which torch.save never does")
        records[name] = info
    if "constants.pkl" in records:
        raise _corrupt(path, "it is a TorchScript program")
    if "data.pkl" not in records or records["data.pkl"].file_size > LONGEST:
        raise _corrupt(path, "it has no data.pkl" if "data.pkl" not in records else f"its data.pkl is longer than {LONGEST} bytes")
    _check_places(path, archive, file, size)
    return records


def _check_places(path: Path, archive: zipfile.ZipFile, file: IO[bytes], size: int) -> None:
    """The records lie end to end, then their directory, then nothing."""
    reached = 0
    for info in sorted(archive.infolist(), key=lambda info: info.header_offset):
        _check_gap(path, info.filename, reached, info.header_offset)
        file.seek(info.header_offset + 26)
        reached = info.header_offset + 30 + sum(struct.unpack("<2H", file.read(4))) + info.file_size
    _check_gap(path, "its directory of records", reached, archive.start_dir)
    file.seek(size - ZIP_END.size)
    signature, *_, comment = ZIP_END.unpack(file.read(ZIP_END.size))
    if signature != b"PK\x05\x06" or comment:
        raise _corrupt(path, "bytes follow the end of its directory of records: something was appended")


def _check_gap(path: Path, what: str, reached: int, begin: int) -> None:
    if not reached <= begin <= reached + (DESCRIPTOR if reached else 0):
        raise _corrupt(path, f"{what} begins at byte {begin}, where byte {reached} comes next: something was cut out or put in")


def _read_legacy(path: Path, file: IO[bytes], size: int) -> Any:
    reader = PickleReader(path)
    with mmap.mmap(file.fileno(), min(size, LONGEST), access=mmap.ACCESS_READ) as window:
        if window[0] == 0:
            raise _corrupt(path, "it begins with zeros: its content was never written")
        pickles = cast(IO[bytes], window)
        if reader.read(pickles) != MAGIC:
            raise _corrupt(path, "it is neither a zip archive nor begins with torch's magic number")
        if reader.read(pickles) != VERSION:
            raise _corrupt(path, f"its version is not {VERSION}, the only one there was")
        reader.read(pickles)  # of the machine that wrote it
        content, keys = reader.read(pickles), reader.read(pickles)
        begin = window.tell()
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys) or sorted(keys) != sorted(reader.storages):
        raise _corrupt(path, "its list of storages is not that of its tensors")
    _check_storages(path, file, [reader.storages[key] for key in keys], begin, size)
    _check_views(path, reader, size)
    return content


def _check_storages(path: Path, file: IO[bytes], storages: list[Storage], begin: int, size: int) -> None:
    for storage in storages:
        file.seek(begin)
        count = int.from_bytes(file.read(8), "little")
        begin += 8 + storage.nbytes
        if begin > size:
            raise _corrupt(path, f"storage {storage.key} should end at byte {begin}, and the file ends at {size}: it was cut short")
        if count != storage.count:
            raise _corrupt(path, f"storage {storage.key} should have {storage.count} elements and has {count}")
    if begin < size:
        raise _corrupt(path, f"{size - begin} bytes follow its last storage: something was appended")


def _check_views(path: Path, reader: PickleReader, size: int) -> None:
    """Tensors may overlap, as tied weights do. None may reach past its storage, nor be larger than the file by repetition."""
    for view in reader.views:
        last = sum((length - 1) * step for length, step in zip(view.shape, view.stride, strict=True))
        need = 0 if 0 in view.shape else (view.offset + last + 1) * view.dtype.itemsize
        if need > view.storage.nbytes:
            raise _corrupt(path, f"a tensor {view.shape} needs {need} bytes of storage {view.storage.key}, which has {view.storage.nbytes}")
        if math.prod(view.shape) * view.dtype.itemsize > size:
            raise _corrupt(path, f"a tensor {view.shape} is larger than the file")


def _corrupt(path: Path, reason: str) -> WeightsError:
    return corrupt(path, reason, kind="PyTorch")
