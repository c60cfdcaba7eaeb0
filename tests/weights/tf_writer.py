"""A small writer of TensorFlow checkpoints, made from the format's description and not from the reader: tests write with it.

Its files are those of TensorFlow, byte for byte (a test compares them). Each step can be called alone, so that a test can lie in one
place and have the rest right, checksums included.
"""

import struct
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

NUMBERS = {
    torch.float32: 1, torch.float64: 2, torch.int32: 3, torch.uint8: 4, torch.int16: 5, torch.int8: 6,
    torch.int64: 9, torch.bool: 10, torch.bfloat16: 14, torch.float16: 19,
}  # fmt: skip
MAGIC = struct.pack("<Q", 0xDB4775248B80FB57)

Value = Tensor | Sequence[str]
Pairs = Iterable[tuple[bytes, bytes]]


def _crc_table() -> list[int]:
    table = []
    for crc in range(256):
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
        table.append(crc)
    return table


_CRC = _crc_table()


def crc32c(data: bytes) -> int:
    """Castagnoli's CRC, bit by bit as it is defined: independent of the library that the reader uses."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _CRC[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def masked(data: bytes) -> int:
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) % 2**32


def varint(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number % 0x80 | 0x80)
        number //= 0x80
    return bytes([*out, number])


def field(number: int, value: int | bytes, fixed: bool = False) -> bytes:
    """A protocol buffer's field; nothing where it has its default value, as proto3 leaves it out."""
    if value == 0:
        return b""
    if isinstance(value, bytes):
        return varint(number * 8 + 2) + varint(len(value)) + value
    return varint(number * 8 + 5) + struct.pack("<I", value) if fixed else varint(number * 8) + varint(value)


def header(shards: int = 1, endianness: int = 0, version: bytes = b"\x08\x01") -> bytes:
    return field(1, shards) + field(2, endianness) + field(3, version)


def shape_of(sizes: Sequence[int]) -> bytes:
    return b"".join(field(2, field(1, size)) for size in sizes)


def entry(dtype: int, shape: bytes, shard: int, offset: int, size: int, crc: int) -> bytes:
    return field(1, dtype) + field(2, shape) + field(3, shard) + field(4, offset) + field(5, size) + field(6, crc, fixed=True)


def block(pairs: Pairs, every: int = 16) -> bytes:
    """Keys share their beginnings with the one before, but for one in `every`."""
    out, restarts, last = bytearray(), [], b""
    for number, (key, value) in enumerate(pairs):
        shared = 0
        if number % every == 0:
            restarts.append(len(out))
        else:
            while shared < min(len(key), len(last)) and key[shared] == last[shared]:
                shared += 1
        out += varint(shared) + varint(len(key) - shared) + varint(len(value)) + key[shared:] + value
        last = key
    restarts = restarts or [0]
    return bytes(out) + struct.pack(f"<{len(restarts) + 1}I", *restarts, len(restarts))


def sealed(content: bytes, compression: int = 0) -> bytes:
    whole = content + bytes([compression])
    return whole + struct.pack("<I", masked(whole))


def footer(metaindex: bytes, index: bytes) -> bytes:
    return (metaindex + index).ljust(40, b"\0") + MAGIC


def table(pairs: Pairs, largest: int = 1 << 18, compression: int = 0) -> bytes:
    """A whole table, a new block begun as soon as one has reached `largest` bytes."""
    blocks: list[list[tuple[bytes, bytes]]] = [[]]
    for pair in pairs:
        if blocks[-1] and len(block(blocks[-1])) >= largest:
            blocks.append([])
        blocks[-1].append(pair)
    out, handles = bytearray(), []
    for content in map(block, blocks):
        handles.append(varint(len(out)) + varint(len(content)))
        out += sealed(content, compression)
    lasts = [held[-1][0] for held in blocks]
    firsts = [held[0][0] for held in blocks[1:]]
    bounds = [_between(last, first) for last, first in zip(lasts, firsts, strict=False)] + [_after(lasts[-1])]
    metaindex = varint(len(out)) + varint(len(block([])))
    out += sealed(block([]))
    top = block(zip(bounds, handles, strict=True), every=1)
    return bytes(out) + sealed(top) + footer(metaindex, varint(len(out)) + varint(len(top)))


def around(content: bytes, *, meta: bytes | None = None, beside: bytes = b"", gap: bytes = b"", after: bytes = b"") -> bytes:
    """A table whose only data block has this content, whatever it is; all around it is right.

    Or not: with another metaindex, with bytes beside the block's handle, in front of the metaindex, or after the index.
    """
    meta = block([]) if meta is None else meta
    top, at = block([(b"~", varint(0) + varint(len(content)) + beside)]), len(content) + 5 + len(gap)
    ends = footer(varint(at) + varint(len(meta)), varint(at + len(meta) + 5) + varint(len(top)))
    return sealed(content) + gap + sealed(meta) + sealed(top) + after + ends


def _between(last: bytes, first: bytes) -> bytes:
    """The shortest key from `last` on that comes before `first`, if one can be had by raising a byte; LevelDB's rule."""
    at = next((n for n, (one, other) in enumerate(zip(last, first, strict=False)) if one != other), None)
    if at is None or last[at] == 255 or last[at] + 1 >= first[at]:
        return last
    return last[:at] + bytes([last[at] + 1])


def _after(key: bytes) -> bytes:
    at = next((n for n, byte in enumerate(key) if byte != 255), None)
    return key if at is None else key[:at] + bytes([key[at] + 1])


def content(value: Value) -> tuple[int, list[int], bytes, int]:
    """A tensor's dtype number, shape, bytes and checksum. Texts: their lengths, the checksum of these, and the texts end to end."""
    if isinstance(value, Tensor):
        raw = bytes(value.contiguous().reshape(-1).view(torch.uint8).tolist()) if value.numel() else b""
        return NUMBERS[value.dtype], list(value.shape), raw, masked(raw)
    texts = [text.encode() for text in value]
    wide = b"".join(struct.pack("<I", len(text)) for text in texts)  # the checksum is over lengths of four bytes each
    check = struct.pack("<I", masked(wide))
    raw = b"".join(varint(len(text)) for text in texts) + check + b"".join(texts)
    return 7, [len(texts)], raw, masked(wide + check + b"".join(texts))


def write_checkpoint(prefix: Path, tensors: Mapping[str, Value], shards: int = 1, largest: int = 1 << 18) -> list[tuple[bytes, bytes]]:
    """Write the index and the data files, the tensors dealt out to the shards in turn. Returns the index's keys and values."""
    data = [bytearray() for _ in range(shards)]
    pairs = [(b"", header(shards))]
    for number, (name, value) in enumerate(sorted(tensors.items(), key=lambda item: item[0].encode())):
        dtype, shape, raw, crc = content(value)
        shard = number % shards
        pairs.append((name.encode(), entry(dtype, shape_of(shape), shard, len(data[shard]), len(raw), crc)))
        data[shard] += raw
    for number, held in enumerate(data):
        prefix.with_name(f"{prefix.name}.data-{number:05d}-of-{shards:05d}").write_bytes(held)
    write_index(prefix, pairs, largest)
    return pairs


def write_index(prefix: Path, pairs: Pairs, largest: int = 1 << 18, compression: int = 0) -> Path:
    index = prefix.with_name(prefix.name + ".index")
    index.write_bytes(table(pairs, largest, compression))
    return index
