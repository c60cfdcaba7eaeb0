"""PyTorch's files that were damaged, or lie about what they hold, are refused before torch sees them (pitfall 17)."""

import io
import pickle
import struct
import zipfile
from collections import OrderedDict
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch
from damage import SEEDS, damaged
from torch_files import FORMATS, Bounded, pickle_of, refused, rewrite, same, save, some_tensors, view

from cutaway.errors import WeightsError
from cutaway.weights.pickled import PickleReader
from cutaway.weights.torch_bin import open_torch


@pytest.fixture
def tensors():
    return some_tensors()


class TestDamage:
    """Each is refused with the file's name and the reason, before torch sees it."""

    @pytest.fixture(params=FORMATS)
    def good(self, request, tmp_path, tensors, monkeypatch):
        path = save(tmp_path / "pytorch_model.bin", tensors, request.param)
        monkeypatch.setattr(torch, "load", lambda *_, **__: pytest.fail("torch was given a damaged file"))
        return path

    @pytest.mark.parametrize("keep", [1, 4, 30, 0.1, 0.5, 0.9, -100, -22, -1])
    def test_cut(self, good, keep):
        raw = good.read_bytes()
        good.write_bytes(raw[: int(len(raw) * keep) if isinstance(keep, float) else keep])
        refused(good)

    @pytest.mark.parametrize("more", [b"\0", b"PK\5\6", bytes(22), bytes(100_000)])
    def test_grown(self, good, more):
        good.write_bytes(good.read_bytes() + more)
        refused(good, "appended" if good.read_bytes()[:2] != b"PK" else "")

    @pytest.mark.parametrize("size", [1, 8, 100_000])
    def test_zeros(self, good, size):
        good.write_bytes(bytes(size))
        refused(good, "begins with zeros")

    def test_empty(self, good):
        good.write_bytes(b"")
        refused(good, "it is empty")

    @pytest.mark.parametrize("head", [b"\xff" * 64, b"PK\3\4" + b"\xff" * 60, b"\x80\x02" + b"\xff" * 62, b"<!DOCTYPE html>" + b" " * 49])
    def test_a_garbled_head(self, good, head):
        good.write_bytes(head + good.read_bytes()[64:])
        refused(good)

    def test_another_magic_number(self, good):
        good.write_bytes(pickle.dumps(12345, 2) + good.read_bytes())
        refused(good, "neither a zip archive nor")


class TestZip:
    @pytest.fixture
    def good(self, tmp_path, tensors):
        return save(tmp_path / "model.pt", tensors)

    def test_a_flipped_bit_of_a_tensor_is_named(self, good, tensors):
        raw = bytearray(good.read_bytes())
        raw[raw.find(tensors["a.weight"].numpy().tobytes()) + 7] ^= 1
        good.write_bytes(raw)
        torch.load(good, weights_only=True)  # says nothing
        refused(good, "model/data/0 fails its checksum")

    def test_compressed(self, good):
        refused(rewrite(good, {}, method=zipfile.ZIP_DEFLATED), "compressed")

    def test_a_bomb_is_not_unpacked(self, good):
        rewrite(good, {"data/0": bytes(20_000_000)}, method=zipfile.ZIP_DEFLATED)
        with Bounded():
            refused(good, "compressed")

    def test_no_directory(self, good):
        raw = good.read_bytes()
        good.write_bytes(raw[: raw.index(b"PK\1\2")])
        refused(good, "directory of records is damaged or cut off")

    @pytest.mark.filterwarnings("ignore:Duplicate name")
    @pytest.mark.parametrize("name", ["model/data/0", "model/DATA/0", "model/data.pkl"])
    def test_two_records_of_one_name(self, good, name):
        with zipfile.ZipFile(good, "a") as archive:
            archive.writestr(name, bytes(60))
        refused(good, "two records named")

    def test_a_record_outside_the_folder(self, good):
        with zipfile.ZipFile(good, "a") as archive:
            archive.writestr("other/data/0", bytes(60))
        refused(good, "other/data/0 is not in model/")

    def test_a_gap(self, good):
        raw = rewrite(good, {}).read_bytes()
        begin = raw.index(b"PK\1\2")
        end = bytearray(raw[-22:])
        struct.pack_into("<L", end, 16, begin + 1000)
        good.write_bytes(raw[:begin] + bytes(1000) + raw[begin:-22] + end)
        with zipfile.ZipFile(good) as archive:
            assert archive.testzip() is None
        refused(good, "put in")

    @pytest.mark.parametrize("size", [0, 59, 61, 10_000])
    def test_a_storage_of_another_size(self, good, size):
        refused(rewrite(good, {"data/0": bytes(size)}), f"data/0 should have 60 bytes and has {size}")

    def test_a_missing_storage(self, good):
        refused(rewrite(good, {"data.pkl": pickle_of(good).replace(b"X\x01\x00\x00\x000", b"X\x01\x00\x00\x00x")}), "data/x is missing")

    def test_no_pickle(self, good):
        with zipfile.ZipFile(good, "w") as archive:
            archive.writestr("model/data/0", bytes(60))
        refused(good, "no data.pkl")

    def test_torchscript(self, tmp_path, good):
        refused(rewrite(good, {}, more={"constants.pkl": b""}), "TorchScript")

    def test_bytes_behind_the_pickle(self, good):
        refused(rewrite(good, {"data.pkl": pickle_of(good) + b"."}), "end of data.pkl")

    def test_no_checksums(self, good):
        """torch can be told to write none. Then nobody can tell a whole file from a damaged one."""
        torch.serialization.set_crc32_options(False)
        try:
            save(good, {"a": torch.ones(100)})
        finally:
            torch.serialization.set_crc32_options(True)
        refused(good, "checksum")


class TestViews:
    @pytest.fixture
    def lying(self, tmp_path, monkeypatch):
        path = save(tmp_path / "model.pt", {"a": torch.arange(15.0)})

        def write(*args: Any) -> Path:
            return rewrite(path, {"data.pkl": view(*args)})

        return write

    def test_the_hand_that_writes_them_is_right(self, lying):
        assert open_torch((lying(15, 1, (2, 3), (5, 2)),))["a"].equal(torch.arange(15.0).as_strided((2, 3), (5, 2), 1))

    def test_overlapping_is_allowed(self, lying):
        assert open_torch((lying(15, 0, (13, 3), (1, 1)),))["a"].equal(torch.arange(15.0).unfold(0, 3, 1))

    @pytest.mark.parametrize(
        ("offset", "shape", "stride"),
        [(1, (15,), (1,)), (0, (16,), (1,)), (0, (3, 5), (6, 1)), (15, (), ()), (2**62, (1,), (1,)), (0, (2,), (2**63,))],
    )
    def test_past_its_storage(self, lying, offset, shape, stride, monkeypatch):
        path = lying(15, offset, shape, stride)
        monkeypatch.setattr(torch, "load", lambda *_, **__: pytest.fail("torch was given a view past its storage"))
        refused(path, "storage 0, which has 60")

    @pytest.mark.parametrize(
        ("count", "offset", "shape", "stride", "reason"),
        [
            (15, 0, (10**12,), (0,), "larger than the file"),
            (15, -1, (1,), (1,), "-1 where a size belongs"),
            (15, 0, (-1,), (1,), "-1 where a size belongs"),
            (15, 0, (1,), (-1,), "-1 where a size belongs"),
            (-15, 0, (1,), (1,), "-15 where a size belongs"),
            (15, 0, (1, 1), (1,), "2 sizes and 1 strides"),
            (15, 0, (1,) * 65, (1,) * 65, "65 sizes"),
            (2**62, 0, (1,), (1,), "data/0 should have"),
        ],
    )
    def test_other_lies(self, lying, count, offset, shape, stride, reason):
        with Bounded():
            refused(lying(count, offset, shape, stride), reason)


class TestLegacy:
    """Files in the older format, written by hand."""

    @staticmethod
    def written(path: Path, content: bytes, keys: object = ("0",), data: bytes = b"", machine: object = None) -> Path:
        head = [pickle.dumps(part, 2) for part in (0x1950A86A20F9469CFC6C, 1001, machine or {"little_endian": True})]
        path.write_bytes(b"".join([*head, content, pickle.dumps(list(keys), 2), data]))  # type: ignore[call-overload]
        return path

    @pytest.fixture
    def data(self):
        return struct.pack("<Q15f", 15, *range(15))

    def content(self, count: int = 15, kind: str = "FloatStorage") -> bytes:
        return view(count, 0, (15,), (1,), kind).replace(b"tQ", b"NtQ")  # no view of a storage

    def test_the_hand_that_writes_them_is_right(self, tmp_path, data):
        assert open_torch((self.written(tmp_path / "model.bin", self.content(), data=data),))["a"].equal(torch.arange(15.0))

    @pytest.mark.parametrize("kind", ["FloatStorage", "DoubleStorage", "ByteStorage"])
    @pytest.mark.parametrize("count", [76, 2**40, 2**62])
    def test_no_room_is_made_for_what_is_not_there(self, tmp_path, data, kind, count):
        with Bounded():
            refused(self.written(tmp_path / "model.bin", self.content(count, kind), data=data), "cut short")

    def test_a_count_that_is_not_the_pickles(self, tmp_path, data):
        path = self.written(tmp_path / "model.bin", self.content(), data=struct.pack("<Q", 14) + data[8:])
        refused(path, "storage 0 should have 15 elements and has 14")

    @pytest.mark.parametrize("keys", [(), ("0", "0"), ("1",), ("0", "1"), (0,)])
    def test_keys_that_are_not_the_pickles(self, tmp_path, data, keys):
        refused(self.written(tmp_path / "model.bin", self.content(), keys, data), "list of storages")

    def test_a_view_of_a_storage(self, tmp_path, data):
        content = self.content().replace(b"NtQ", b"X\x01\0\0\0vK\0K\x0f\x87tQ")
        refused(self.written(tmp_path / "model.bin", content, data=data), "no storage")


class TestFuzz:
    """Files damaged at random end in WeightsError, or load. What may differ when they load:

    zip: nothing. Every byte that matters has a checksum.
    legacy: it has no checksum. Where only its tensors' bytes were hit, those tensors differ and nothing else does. Where its
    pickles were hit, names, shapes and strides may be others (`assign` then finds that they do not fit), and every tensor
    still lies within the file; numbers whose pickle was hit cannot be vouched for.
    """

    @pytest.fixture
    def state(self):
        torch.manual_seed(1)
        return OrderedDict(wte=torch.randn(7, 6), bias=torch.randn(6), scale=torch.tensor(2.0), wpe=torch.randn(3, 6))

    @pytest.fixture
    def raw(self, state):
        made = {}
        for how in FORMATS:
            torch.save(state, stream := io.BytesIO(), _use_new_zipfile_serialization=how == "zip")
            made[how] = steady(stream.getvalue(), state) if how == "legacy" else stream.getvalue()
        return made

    @pytest.mark.parametrize("how", FORMATS)
    @pytest.mark.parametrize("seed", SEEDS)
    def test_damaged(self, tmp_path, state, raw, how, seed):
        whole, path = raw[how], tmp_path / "model.pt"
        path.write_bytes(found := damaged(whole, Random(f"{how} {seed}")))
        with Bounded():
            try:
                loaded = dict(open_torch((path,)))
            except WeightsError as error:
                assert str(path) in str(error)
                return
        if how == "zip":
            assert same(loaded, state)
        elif found[: (payload := len(whole) - sum(8 + t.nbytes for t in state.values()))] == whole[:payload]:
            assert len(found) == len(whole)
            assert {n: t.shape for n, t in loaded.items()} == {n: t.shape for n, t in state.items()}
            for name, tensor in state.items():
                assert loaded[name].equal(tensor) or tensor.numpy().tobytes() not in found
        else:
            assert all(tensor.numel() * tensor.element_size() <= len(found) for tensor in loaded.values())


def steady(legacy: bytes, state: dict[str, torch.Tensor]) -> bytes:
    """The same legacy file whatever the addresses were that torch used for keys, and in whose order it wrote the storages."""
    stream = io.BytesIO(legacy)
    reader = PickleReader(Path("legacy"))
    for _ in range(4):
        reader.read(stream)
    head = legacy[: stream.tell()]
    for number, key in enumerate(reader.storages):
        head = head.replace(key.encode(), f"{number:0{len(key)}d}".encode())
    keys = pickle.dumps([f"{number:0{len(key)}d}" for number, key in enumerate(reader.storages)], 2)
    return head + keys + b"".join(struct.pack("<Q", t.numel()) + t.numpy().tobytes() for t in state.values())
