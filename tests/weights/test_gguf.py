"""GGUF: what the gguf package writes is read as it reads it; files that lie, that were cut, and that were flipped are not (pitfall 17)."""

import random
import struct
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType as Kind
from gguf import GGUFValueType as Value

from cutaway.errors import WeightsError
from cutaway.weights.gguf import PLAIN, open_gguf
from cutaway.weights.gguf_header import DEEPEST, MOST, read_gguf

RNG = np.random.default_rng(0)
NUMPY = {
    Kind.F64: np.float64, Kind.F32: np.float32, Kind.F16: np.float16,
    Kind.I64: np.int64, Kind.I32: np.int32, Kind.I16: np.int16, Kind.I8: np.int8,
}  # fmt: skip
SETTINGS = {
    "a.string": ("naïve ▁", Value.STRING),
    "a.bool": (True, Value.BOOL),
    "a.u8": (255, Value.UINT8),
    "a.i8": (-128, Value.INT8),
    "a.u16": (65535, Value.UINT16),
    "a.i16": (-1, Value.INT16),
    "a.u32": (1 << 31, Value.UINT32),
    "a.i32": (-7, Value.INT32),
    "a.u64": (1 << 63, Value.UINT64),
    "a.i64": (-(1 << 63), Value.INT64),
    "a.f32": (0.5, Value.FLOAT32),
    "a.f64": (0.1, Value.FLOAT64),
    "a.strings": (["a", "", "中"], Value.ARRAY),
    "a.numbers": ([1, -2, 3], Value.ARRAY),
    "a.floats": ([0.5, -1.5], Value.ARRAY),
    "a.flags": ([True, False], Value.ARRAY),
}


def blocks(kind: Kind, rows: int = 3) -> np.ndarray:
    """Rows of two blocks of that type, as bytes: quantized noise, or noise where the package can only unpack."""
    block, size = gguf.GGML_QUANT_SIZES[kind]
    try:
        return gguf.quants.quantize(RNG.standard_normal((rows, 2 * block), dtype=np.float32), kind)
    except NotImplementedError:
        return RNG.integers(0, 256, (rows, 2 * size), dtype=np.uint8)


def written(
    path: Path,
    tensors: Mapping[str, tuple[np.ndarray, Kind | None]],
    settings: Mapping[str, tuple[Any, Value]] | None = None,
    **options: Any,
) -> Path:
    writer = gguf.GGUFWriter(path, "llama", **options)
    for name, (value, kind) in (settings or {}).items():
        writer.add_key_value(name, value, kind)
    for name, (array, kind) in tensors.items():
        writer.add_tensor(name, array, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.fixture
def good(tmp_path: Path) -> Path:
    tensors = {
        "token_embd.weight": (blocks(Kind.Q8_0), Kind.Q8_0),
        "norm.weight": (RNG.standard_normal(5, dtype=np.float32), None),
        "half": (RNG.standard_normal((2, 3)).astype(np.float16), None),
        "packed": (blocks(Kind.Q4_1), Kind.Q4_1),
    }
    return written(tmp_path / "good.gguf", tensors, SETTINGS)


def refused(path: Path, *reasons: str) -> None:
    with pytest.raises(WeightsError) as caught:
        open_gguf(path)
    for reason in (str(path), *reasons):
        assert reason in str(caught.value)


class TestReading:
    def test_settings_are_python_values_of_every_type(self, good: Path) -> None:
        header = read_gguf(good)
        assert header.version == 3
        assert header.metadata == {"general.architecture": "llama"} | {name: value for name, (value, _) in SETTINGS.items()}
        assert {name: type(value) for name, value in header.metadata.items()} == {
            "general.architecture": str,
            **{name: type(value) for name, (value, _) in SETTINGS.items()},
        }

    def test_places_are_those_of_the_reference_reader(self, good: Path) -> None:
        found = gguf.GGUFReader(good).tensors
        theirs = {one.name: (one.tensor_type.name, tuple(one.shape[::-1].tolist()), one.data_offset, one.n_bytes) for one in found}
        assert read_gguf(good).tensors == theirs

    def test_a_source(self, good: Path) -> None:
        source = open_gguf(good)
        assert (source.dialect, source.paths, source.settings["a.u8"]) == ("gguf", (good,), 255)
        assert source.shapes == {"token_embd.weight": (3, 64), "norm.weight": (5,), "half": (2, 3), "packed": (3, 64)}
        assert {name: tuple(tensor.shape) for name, tensor in source.items()} == source.shapes

    def test_version_2_is_3_by_another_number(self, good: Path) -> None:
        good.write_bytes(patched(good.read_bytes(), 4, "<I", 2))
        assert read_gguf(good).version == 2
        assert len(dict(open_gguf(good))) == 4

    @pytest.mark.parametrize("alignment", [1, 8, 256])
    def test_other_alignments(self, tmp_path: Path, alignment: int) -> None:
        path = tmp_path / "x.gguf"
        writer = gguf.GGUFWriter(path, "llama")
        writer.add_custom_alignment(alignment)
        numbers, byte = np.arange(6, dtype=np.float32).reshape(2, 3), np.arange(1, dtype=np.int8)
        values = {"a": numbers, "b": byte, "c": numbers}  # with an alignment of 1, at least one of the two begins within a number
        for name, array in values.items():
            writer.add_tensor(name, array)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        assert {name: tensor.tolist() for name, tensor in open_gguf(path).items()} == {n: array.tolist() for n, array in values.items()}

    def test_no_torch_for_a_header(self, good: Path) -> None:
        code = f"""
import sys
from pathlib import Path
from cutaway.weights.gguf_header import read_gguf
print('gguf' in sys.modules)
read_gguf(Path({str(good)!r}))
print('torch' in sys.modules, 'transformers' in sys.modules)"""
        assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split() == ["False"] * 3


class TestTypes:
    @pytest.mark.parametrize("kind", [kind for kind in gguf.GGML_QUANT_SIZES if kind.name not in PLAIN], ids=lambda kind: kind.name)
    def test_every_packed_type_is_unpacked_or_refused(self, tmp_path: Path, kind: Kind) -> None:
        packed = blocks(kind)
        source = open_gguf(written(tmp_path / "x.gguf", {"one": (packed, kind)}))
        try:
            with np.errstate(all="ignore"):
                expected = gguf.quants.dequantize(packed, kind)
        except NotImplementedError:
            with pytest.raises(WeightsError, match=f"one is packed as {kind.name}.*F32.*Q4_K"):
                source["one"]
            return
        assert source["one"].dtype == torch.float32
        np.testing.assert_array_equal(source["one"].numpy(), expected)  # a NaN equals a NaN here

    def test_a_block_by_hand(self, tmp_path: Path) -> None:
        """Q8_0 is a half-precision scale and 32 bytes; Q4_1 a scale, a minimum and 32 halves of bytes, the low halves first."""
        eight = np.frombuffer(struct.pack("<e32b", 0.5, *range(-16, 16)), np.uint8)[None]
        four = np.frombuffer(struct.pack("<ee16B", 2.0, -1.0, *[0x50 + i for i in range(16)]), np.uint8)[None]
        source = open_gguf(written(tmp_path / "x.gguf", {"eight": (eight, Kind.Q8_0), "four": (four, Kind.Q4_1)}))
        assert source["eight"].tolist() == [[i / 2 for i in range(-16, 16)]]
        assert source["four"].tolist() == [[2.0 * i - 1 for i in range(16)] + [9.0] * 16]

    @pytest.mark.parametrize("kind", NUMPY, ids=lambda kind: kind.name)
    def test_plain_types_keep_their_precision(self, tmp_path: Path, kind: Kind) -> None:
        array = (RNG.standard_normal((3, 2)) * 99).astype(NUMPY[kind])
        tensor = open_gguf(written(tmp_path / "x.gguf", {"one": (array, None)}))["one"]
        assert tensor.dtype == PLAIN[kind.name]
        assert tensor.tolist() == array.tolist()

    def test_bfloat16(self, tmp_path: Path) -> None:
        tensor = torch.randn(4, 3).bfloat16()
        raw = tensor.view(torch.uint8).numpy()
        found = open_gguf(written(tmp_path / "x.gguf", {"one": (raw, Kind.BF16)}))["one"]
        assert found.dtype == torch.bfloat16 and torch.equal(found, tensor)

    def test_plain_tensors_are_views_and_the_file_is_safe(self, good: Path) -> None:
        before, source = good.read_bytes(), open_gguf(good)
        assert source["half"].untyped_storage().data_ptr() == source["norm.weight"].untyped_storage().data_ptr()
        source["norm.weight"].zero_()
        assert source["norm.weight"].tolist() == [0.0] * 5
        assert good.read_bytes() == before


# Files written by hand. A setting is its name, the number of its type and its bytes; a tensor its name, ggml's dimensions, type, offset.


def text(value: str | bytes) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(raw)) + raw


LLAMA = ("general.architecture", 8, text("llama"))
ONE = ("one", (4,), 0, 0)
DATA = bytes(16)


def file_of(
    tensors: list[tuple[str, tuple[int, ...], int, int]],
    settings: list[tuple[str, int, bytes]],
    data: bytes = DATA,
    *,
    magic: bytes = b"GGUF",
    version: int = 3,
    counts: tuple[int, int] | None = None,
) -> bytes:
    head = magic + struct.pack("<IQQ", version, *(counts or (len(tensors), len(settings))))
    head += b"".join(text(name) + struct.pack("<I", kind) + value for name, kind, value in settings)
    for name, dims, kind, offset in tensors:
        head += text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, offset)
    return head + bytes(-len(head) % 32) + data


def patched(raw: bytes, at: int, form: str, *values: Any) -> bytes:
    return raw[:at] + struct.pack(form, *values) + raw[at + struct.calcsize(form) :]


def array(kind: int, count: int, data: bytes = b"") -> bytes:
    return struct.pack("<IQ", kind, count) + data


def nested(depth: int) -> bytes:
    return array(4, 1, struct.pack("<I", 7)) if depth == 1 else array(9, 1, nested(depth - 1))


BROKEN: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "0 bytes long"),
    "zeros": (bytes(64), "begins with zeros"),
    "another kind": (b"PK\3\4" + bytes(64), "another kind of file"),
    "2^60 tensors": (file_of([ONE], [LLAMA], counts=(1 << 60, 1)), "claims 1152921504606846976 tensors"),
    "2^60 settings": (file_of([ONE], [LLAMA], counts=(1, 1 << 60)), "claims 1152921504606846976 settings"),
    "a name of 2^62 bytes": (file_of([], [], counts=(0, 1))[:24] + struct.pack("<Q", 1 << 62) + bytes(64), "cut short, or lies"),
    "a string of 2^63 bytes": (file_of([], [("a", 8, struct.pack("<Q", 1 << 63))]), "cut short, or lies"),
    "a list of 2^61": (file_of([], [("a", 9, array(4, 1 << 61))]), "claims 2305843009213693952 values of a"),
    "a list of 2^62 strings": (file_of([], [("a", 9, array(8, 1 << 62))]), "claims 4611686018427387904 values"),
    "a list of too many": (file_of([], [LLAMA, ("a", 9, array(0, MOST + 1, bytes(MOST + 1)))]), f"more than the {MOST} allowed"),
    "a string in a list": (file_of([], [("a", 9, array(8, 2, text("x") + struct.pack("<Q", 1 << 40)))]), "text 1 of a reaches past"),
    "lists too deep": (file_of([], [LLAMA, ("a", 9, nested(DEEPEST + 1))]), f"more than {DEEPEST} deep"),
    "value type": (file_of([], [LLAMA, ("a", 13, b"")]), "the value type 13"),
    "list type": (file_of([], [LLAMA, ("a", 9, array(99, 0))]), "values of type 99"),
    "a bool of 2": (file_of([], [LLAMA, ("a", 7, b"\2")]), "true or false"),
    "setting twice": (file_of([], [LLAMA, LLAMA]), "'general.architecture' occurs twice"),
    "not UTF-8": (file_of([], [LLAMA, ("a", 8, text(b"\xff"))]), "a is not UTF-8 (byte 0)"),
    "not UTF-8 in a list": (file_of([], [LLAMA, ("a", 9, array(8, 2, text("x") + text(b"y\xff")))]), "text 1 of a is not UTF-8 (byte 1)"),
    "no architecture": (file_of([ONE], []), "general.architecture is missing"),
    "architecture of 7": (file_of([ONE], [("general.architecture", 4, struct.pack("<I", 7))]), "general.architecture is missing"),
    "alignment of 24": (file_of([ONE], [LLAMA, ("general.alignment", 4, struct.pack("<I", 24))]), "not a power of two"),
    "alignment of 0": (file_of([ONE], [LLAMA, ("general.alignment", 4, struct.pack("<I", 0))]), "not a power of two"),
    "alignment in words": (file_of([ONE], [LLAMA, ("general.alignment", 8, text("32"))]), "not a power of two"),
    "tensor twice": (file_of([ONE, ("one", (4,), 0, 32)], [LLAMA], bytes(48)), "the tensor 'one' occurs twice"),
    "5 dimensions": (file_of([("one", (1, 1, 1, 1, 4), 0, 0)], [LLAMA]), "one has 5 dimensions"),
    "a dimension of 0": (file_of([("one", (4, 0), 0, 0)], [LLAMA], b""), "holds nothing"),
    "2^63 squared": (file_of([("one", (1 << 63, 1 << 63), 0, 0)], [LLAMA]), "it was cut short"),
    "tensor type": (file_of([("one", (4,), 4, 0)], [LLAMA]), "the type 4, which ggml does not have"),
    "half a block": (file_of([("one", (48,), 8, 0)], [LLAMA], bytes(51)), "rows of 48 numbers, and Q8_0 packs 32 at a time"),
    "a scalar block": (file_of([("one", (), 8, 0)], [LLAMA]), "rows of 1 numbers"),
    "between two alignments": (file_of([("one", (4,), 0, 4)], [LLAMA], bytes(20)), "no multiple of general.alignment"),
    "a gap": (file_of([ONE, ("two", (4,), 0, 64)], [LLAMA], bytes(80)), "two begins at byte"),
    "an overlap": (file_of([("one", (16,), 0, 0), ("two", (4,), 0, 32)], [LLAMA], bytes(64)), "a gap or an overlap"),
    "past the end": (file_of([("one", (5,), 0, 0)], [LLAMA]), "it was cut short"),
    "offset of 2^64": (file_of([("one", (4,), 0, (1 << 64) - 32)], [LLAMA]), "one begins at byte"),
    "appended": (file_of([ONE], [LLAMA], DATA + bytes(100)), "something was appended"),
    "big-endian": (file_of([ONE], [LLAMA], version=3 << 24), "big-endian"),
    "version 1": (file_of([ONE], [LLAMA], version=1), "GGUF of version 1"),
    "version 4": (file_of([ONE], [LLAMA], version=4), "GGUF of version 4"),
}


class TestRefusing:
    def test_the_file_that_is_broken_below_is_right(self, tmp_path: Path) -> None:
        path = tmp_path / "x.gguf"
        path.write_bytes(file_of([ONE, ("two", (2, 2), 0, 32)], [LLAMA, ("a", 9, nested(DEEPEST))], bytes(48)))
        assert read_gguf(path).metadata["a"] == [[[[7]]]]
        assert open_gguf(path).shapes == {"one": (4,), "two": (2, 2)}

    @pytest.mark.parametrize("case", BROKEN)
    def test_a_file_that_lies(self, tmp_path: Path, case: str) -> None:
        raw, reason = BROKEN[case]
        path = tmp_path / "x.gguf"
        path.write_bytes(raw)
        tracemalloc.start()
        start = time.perf_counter()
        refused(path, reason)
        assert time.perf_counter() - start < 1
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
        tracemalloc.stop()

    def test_every_cut_is_noticed(self, good: Path) -> None:
        raw = good.read_bytes()
        last = max(place.offset + place.size for place in read_gguf(good).tensors.values())
        for length in [*range(0, last, 5), last - 1]:
            good.write_bytes(raw[:length])
            refused(good)

    def test_a_file_of_settings_alone_is_a_file(self, tmp_path: Path) -> None:
        path, raw = tmp_path / "x.gguf", file_of([], [LLAMA], b"")
        for length in (len(raw), len(raw) - 1):  # the padding may be there or not
            path.write_bytes(raw[:length])
            assert dict(open_gguf(path)) == {}

    def test_a_big_endian_file_of_the_reference_writer(self, tmp_path: Path) -> None:
        path = written(tmp_path / "x.gguf", {"one": (np.ones(4, np.float32), None)}, endianess=gguf.GGUFEndian.BIG)
        refused(path, "big-endian", "gguf-convert-endian")

    def test_one_of_several_files(self, tmp_path: Path) -> None:
        path = written(tmp_path / "x-00001-of-00003.gguf", {"one": (np.ones(4, np.float32), None)}, {"split.count": (3, Value.UINT16)})
        refused(path, "one of 3 files", "llama-gguf-split --merge")

    def test_no_file(self, tmp_path: Path) -> None:
        refused(tmp_path / "nowhere.gguf", "cannot be read")
        refused(tmp_path, "cannot be read")


def fuzzed(good: Path, seed: int) -> None:
    """One flip, cut or addition. GGUF has no checksum, so the rule is: a cut into the tensors and an addition are refused; a flip among the
    tensors changes the one it is in, and nothing else; a flip in the header is refused, or changes what the header says, and each
    tensor is still one that can be read or is refused by name."""
    rng = random.Random(seed)
    raw, before, tensors = good.read_bytes(), read_gguf(good), {name: value.clone() for name, value in open_gguf(good).items()}
    start = min(place.offset for place in before.tensors.values())
    last = max(place.offset + place.size for place in before.tensors.values())
    path = good.with_name("fuzzed.gguf")
    way, at = rng.choice(("flip", "flip", "flip", "cut", "grow")), rng.randrange(len(raw))
    at = rng.randrange(start) if way == "flip" and rng.random() < 0.7 else at
    changed = {
        "flip": raw[:at] + bytes([raw[at] ^ (1 << rng.randrange(8))]) + raw[at + 1 :],
        "cut": raw[:at],
        "grow": raw[:at] + rng.randbytes(1 + rng.randrange(64)) + raw[at:],
    }[way]
    path.write_bytes(changed)
    tracemalloc.start()
    began = time.perf_counter()
    try:
        header, source = read_gguf(path), open_gguf(path)
        found = {name: source[name] for name in source}
    except WeightsError as error:
        assert "fuzzed.gguf" in str(error)
        return
    finally:
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
        tracemalloc.stop()
        assert time.perf_counter() - began < 1
    assert way == "flip" or (way == "cut" and at >= last)
    assert {name: tuple(tensor.shape) for name, tensor in found.items()} == source.shapes
    if at >= start:
        assert header == before
        hit = {name for name, place in before.tensors.items() if place.offset <= at < place.offset + place.size and way == "flip"}
        assert {name for name in tensors if not same_bits(found[name], tensors[name])} <= hit


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    return torch.equal(a.view(torch.uint8), b.view(torch.uint8))


@pytest.mark.parametrize("seed", range(30))
def test_fuzz(good: Path, seed: int) -> None:
    fuzzed(good, seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(30, 600))
def test_fuzz_at_length(good: Path, seed: int) -> None:
    fuzzed(good, seed)


class TestSmolLM2:
    def test_the_header(self, smollm2: Path) -> None:
        start = time.perf_counter()
        header = read_gguf(smollm2)
        assert time.perf_counter() - start < 2  # it takes a tenth of a second where nothing else runs
        assert header.metadata["llama.block_count"] == 30
        assert (len(header.tensors), len(header.metadata["tokenizer.ggml.tokens"])) == (272, 49_152)
        assert header.tensors["token_embd.weight"].shape == (49_152, 576)

    @pytest.mark.long
    def test_all_of_it_is_as_the_reference_reader_has_it(self, smollm2: Path) -> None:
        theirs, source = gguf.GGUFReader(smollm2), open_gguf(smollm2)
        assert source.settings == {name: entry.contents() for name, entry in theirs.fields.items() if not name.startswith("GGUF.")}
        assert list(source) == [tensor.name for tensor in theirs.tensors]
        for tensor in theirs.tensors:
            np.testing.assert_array_equal(source[tensor.name].numpy(), gguf.quants.dequantize(tensor.data, tensor.tensor_type))
