"""A sorted table, as LevelDB and TensorFlow write it: every byte accounted for, every checksum compared, before a key is believed.

    data blocks    keys and values in the order of the keys; each key without the beginning that it shares with the one before
    metaindex      a block of no entries
    index          a block that says where each data block lies
    footer         48 bytes: where metaindex and index lie, zeros, the magic number

Each block is followed by one byte for its compression and four for the checksum of both. Knows nothing of tensors, and no torch.
The format: https://github.com/google/leveldb/blob/main/doc/table_format.md
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import google_crc32c

from cutaway.errors import WeightsError
from cutaway.weights.corrupt import corrupt

KIND = "TensorFlow checkpoint"
MAGIC = 0xDB4775248B80FB57.to_bytes(8, "little")
FOOTER, TRAILER = 48, 5  # bytes
LONGEST = 1 << 24  # bytes of a table, and of all its keys written out: a thousand times what the largest GPT-2 needs

Span = tuple[int, int]  # where a block begins and ends, its trailer not counted


def read_table(path: Path) -> dict[bytes, bytes]:
    """All keys and values, in the order of the keys. Raises WeightsError, naming the file and the reason."""
    raw = _content(path)
    try:
        blocks, metaindex = _layout(raw)
        if list(_entries(_block(raw, metaindex))):
            raise ValueError("its metaindex holds entries, which TensorFlow never writes")
        return _gather(entry for span in blocks for entry in _entries(_block(raw, span)))
    except ValueError as error:
        raise corrupt(path, str(error), KIND) from error


def varint(raw: bytes, at: int) -> tuple[int, int]:
    """The number that begins at a byte, seven bits a byte, the lowest first; and where it ends. Raises ValueError.

    >>> varint(bytes([0x96, 0x01, 0xFF]), 0)
    (150, 2)
    """
    value = 0
    for shift in range(0, 70, 7):
        if at == len(raw):
            raise ValueError("a number in it is cut off")
        value, at = value | (raw[at] & 0x7F) << shift, at + 1
        if raw[at - 1] < 0x80 and value < 1 << 64:
            return value, at
    raise ValueError("a number in it is longer than 64 bits")


def checksum(raw: Any) -> int:
    """CRC-32C of bytes or of an array of them, masked as LevelDB stores it: turned and shifted, lest sums of sums come out regular."""
    crc = int(google_crc32c.value(raw))
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _content(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(size - FOOTER, 0))
            footer = file.read()
            if size < FOOTER or not footer.endswith(MAGIC):
                raise corrupt(path, f"its {size} bytes do not end in a sorted table's magic number: it was cut short, or is none", KIND)
            if size > LONGEST:
                raise corrupt(path, f"it is {size} bytes long, more than the {LONGEST} allowed for an index", KIND)
            file.seek(0)
            return file.read(size)
    except OSError as error:
        raise WeightsError(f"{path} cannot be read: {error.strerror}", expected="the .index file of a TensorFlow checkpoint") from error


def _layout(raw: bytes) -> tuple[list[Span], Span]:
    """The data blocks and the metaindex, once they, the index and the footer fill the file without a gap."""
    end = len(raw) - FOOTER
    metaindex, at = _span(raw, end)
    index, at = _span(raw, at)
    if any(raw[at : -len(MAGIC)]):
        raise ValueError("its footer is not filled with zeros")
    if index[1] + TRAILER != end:
        raise ValueError(f"its index should end at byte {index[1] + TRAILER}, and its footer begins at {end}")
    blocks = []
    for _, value in _entries(_block(raw, index)):
        span, after = _span(value, 0)
        if after != len(value):
            raise ValueError("its index says more of a block than where it lies")
        blocks.append(span)
    reached = 0
    for begin, stop in (*blocks, metaindex, index):
        if begin != reached:
            raise ValueError(f"a block begins at byte {begin}, where byte {reached} comes next: a gap or an overlap")
        reached = stop + TRAILER
    return blocks, metaindex


def _span(raw: bytes, at: int) -> tuple[Span, int]:
    begin, at = varint(raw, at)
    size, at = varint(raw, at)
    return (begin, begin + size), at


def _block(raw: bytes, span: Span) -> bytes:
    begin, end = span
    trailer = raw[end : end + TRAILER]
    if len(trailer) < TRAILER or checksum(raw[begin : end + 1]) != int.from_bytes(trailer[1:], "little"):
        raise ValueError(f"the checksum of the block at byte {begin} is wrong")
    if trailer[0]:
        raise ValueError(f"the block at byte {begin} is compressed (method {trailer[0]}), which TensorFlow never does")
    return raw[begin:end]


def _entries(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Read from the first on. The list of restarts at the end serves those who jump, and is passed over."""
    end = len(block) - 4 - 4 * int.from_bytes(block[-4:], "little")
    if end < 0:
        raise ValueError("a block of it is shorter than its list of restarts")
    at, key = 0, b""
    while at < end:
        shared, at = varint(block, at)
        own, at = varint(block, at)
        length, at = varint(block, at)
        if shared > len(key) or at + own + length > end:
            raise ValueError("an entry of it reaches out of its block")
        key, at = key[:shared] + block[at : at + own], at + own + length
        yield key, block[at - length : at]


def _gather(entries: Iterator[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    table: dict[bytes, bytes] = {}
    last, written = None, 0
    for key, value in entries:
        if last is not None and key <= last:
            raise ValueError(f"the key {key!r} follows {last!r}: its keys are not in order")
        written += len(key)
        if written > LONGEST:
            raise ValueError(f"its keys take more than the {LONGEST} bytes allowed")
        table[key] = value
        last = key
    return table
