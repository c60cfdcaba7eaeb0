"""Files that lie, files that were cut, and files that are right (pitfalls 14, 17, 18)."""

import json
import os
import signal
import struct
import subprocess
import sys
import textwrap
import time
import tracemalloc
from pathlib import Path
from random import Random

import pytest
import torch
from safetensors.torch import load_file, save_file

from cutaway.errors import WeightsError
from cutaway.weights.files import weight_files
from cutaway.weights.header import read_header
from cutaway.weights.safetensors import INDEX, open_safetensors, save_safetensors
from tests.weights.damage import SEEDS, damaged


@pytest.fixture
def tensors():
    torch.manual_seed(0)
    return {
        "a.weight": torch.randn(3, 5),
        "a.bias": torch.randn(5, dtype=torch.float16),
        "mask": torch.ones(2, 2, dtype=torch.bool),
        "scale": torch.tensor(-1e4),
        "half": torch.randn(4, dtype=torch.bfloat16),
        "nothing": torch.empty(0, 7),
    }


@pytest.fixture
def good(tmp_path, tensors):
    path = tmp_path / "model.safetensors"
    save_safetensors(path, tensors, {"origin": "a test"})
    return path


def written(path: Path, header: object, data: bytes = b"") -> Path:
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(raw)) + raw + data)
    return path


def refused(path: Path, *reasons: str) -> None:
    with pytest.raises(WeightsError) as caught:
        open_safetensors(path)
    for reason in (str(path), *reasons):
        assert reason in str(caught.value)


def same(one, other) -> bool:
    return one.keys() == other.keys() and all(one[n].dtype == other[n].dtype and torch.equal(one[n], other[n]) for n in one)


class TestReading:
    def test_what_was_saved_is_read_in_every_dtype(self, good, tensors):
        opened = open_safetensors(good)
        assert same(dict(opened), tensors)
        assert opened.metadata == {"origin": "a test", "format": "pt"}
        assert opened.paths == (good,)

    def test_a_folder_is_its_file(self, good, tensors):
        assert same(dict(open_safetensors(good.parent)), tensors)
        assert weight_files(good.parent) == (good,)

    def test_the_reference_library_and_we_read_each_other(self, tmp_path, tensors, good):
        assert same(load_file(good), tensors)
        save_file(tensors, tmp_path / "theirs.safetensors")
        assert same(dict(open_safetensors(tmp_path / "theirs.safetensors")), tensors)

    def test_a_file_of_no_tensors_is_a_file(self, tmp_path):
        assert dict(open_safetensors(written(tmp_path / "empty.safetensors", {}))) == {}


class TestCorrupt:
    """Each is refused with the file's name and the reason."""

    def test_a_last_byte_missing(self, good):
        good.write_bytes(good.read_bytes()[:-1])
        refused(good, "1 of its", "cut short")

    def test_b_cut_inside_the_header(self, good):
        good.write_bytes(good.read_bytes()[:40])
        refused(good, "ends at 40", "cut short")

    @pytest.mark.parametrize("size", [0, 1, 7])
    def test_b_cut_before_the_header(self, good, size):
        good.write_bytes(good.read_bytes()[:size])
        refused(good, f"{size} bytes long")

    @pytest.mark.parametrize("length", [2**62, 2**64 - 1, 100_000_001])
    def test_c_a_header_that_claims_to_be_huge(self, good, length):
        good.write_bytes(struct.pack("<Q", length) + good.read_bytes()[8:])
        tracemalloc.start()
        began = time.perf_counter()
        refused(good, str(length))
        took, (_, peak) = time.perf_counter() - began, tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert took < 1
        assert peak < 1_000_000

    def test_d_something_appended(self, good):
        good.write_bytes(good.read_bytes() + bytes(100))
        refused(good, "100 bytes follow")

    @pytest.mark.parametrize("size", [8, 10_000])
    def test_e_all_zeros(self, good, size):
        good.write_bytes(bytes(size))
        refused(good, "begins with zeros")

    def test_not_there(self, tmp_path):
        refused(tmp_path / "none.safetensors", "No such file")

    @pytest.mark.parametrize(
        ("header", "reason"),
        [
            (b"[1, 2]", "not a table"),
            (b'{"a": ', "not JSON"),
            (b"\xff\xfe{}", "not JSON"),
            (b"[" * 100_000, "not JSON"),
            (b'{"a": 1, "a": 1}', "twice"),
            ({"a": {"dtype": "F32", "shape": [1]}}, "a is not described"),
            ({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4], "more": 1}}, "a is not described"),
            ({"a": {"dtype": "F33", "shape": [1], "data_offsets": [0, 4]}}, "unknown dtype 'F33'"),
            ({"a": {"dtype": ["F32"], "shape": [1], "data_offsets": [0, 4]}}, "unknown dtype"),
            ({"a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}}, "whole numbers"),
            ({"a": {"dtype": "F32", "shape": [True], "data_offsets": [0, 4]}}, "whole numbers"),
            ({"a": {"dtype": "F32", "shape": [1.0], "data_offsets": [0, 4]}}, "whole numbers"),
            ({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0]}}, "whole numbers"),
            ({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}, "takes 8 bytes, and has 4"),
            ({"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 0]}}, "has -4"),
            ({"a": {"dtype": "U8", "shape": [4], "data_offsets": [4, 8]}}, "a begins at byte 4"),
            (
                {
                    "a": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]},
                    "b": {"dtype": "U8", "shape": [4], "data_offsets": [3, 7]},
                },
                "b begins at byte 3 of the data, where byte 4",
            ),
            ({"__metadata__": {"a": 1}}, "__metadata__"),
            ({"__metadata__": "a"}, "__metadata__"),
        ],
    )
    def test_a_header_that_lies(self, tmp_path, header, reason):
        refused(written(tmp_path / "lies.safetensors", header, bytes(8)), reason)

    @pytest.mark.parametrize("cut", range(0, 300, 7))
    def test_wherever_it_is_cut(self, good, cut):
        good.write_bytes(good.read_bytes()[:cut])
        refused(good)

    @pytest.mark.parametrize("seed", SEEDS)
    def test_damage_is_refused_or_is_in_the_data_it_touched(self, good, tensors, seed):
        """There are no checksums. A header may still be one: then names, dtypes or shapes are its own, and each tensor the bytes there."""
        whole = good.read_bytes()
        data = 8 + int.from_bytes(whole[:8], "little")
        good.write_bytes(bad := damaged(whole, Random(seed)))
        began = time.process_time()
        try:
            opened = open_safetensors(good)
            read = dict(opened)
        except WeightsError as error:
            assert good.name in str(error)
        else:
            assert len(bad) == len(whole)
            if bad[:data] == whole[:data]:
                assert {name: (t.dtype, t.shape) for name, t in read.items()} == {name: (t.dtype, t.shape) for name, t in tensors.items()}
            assert b"".join(raw_bytes(read[name]) for name in sorted(read, key=lambda name: opened._places[name][1].begin)) == bad[data:]
        assert time.process_time() - began < 1

    def test_reading_a_header_reads_no_tensor(self, tmp_path):
        with (path := tmp_path / "big.safetensors").open("wb") as file:
            raw = json.dumps({"a": {"dtype": "U8", "shape": [10**9], "data_offsets": [0, 10**9]}}).encode()
            file.write(struct.pack("<Q", len(raw)) + raw)
            file.truncate(8 + len(raw) + 10**9)  # a hole: takes no room on the disk
        tracemalloc.start()
        assert read_header(path).shapes == {"a": (10**9,)}
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 1_000_000


def raw_bytes(tensor):
    return bytes(tensor.contiguous().flatten().view(torch.uint8).tolist()) if tensor.numel() else b""


class TestShards:
    @pytest.fixture
    def folder(self, tmp_path, tensors):
        names = list(tensors)
        shards = {"model-1.safetensors": names[:3], "model-2.safetensors": names[3:]}
        for shard, held in shards.items():
            save_safetensors(tmp_path / shard, {name: tensors[name] for name in held})
        self.index(tmp_path, {name: shard for shard, held in shards.items() for name in held})
        return tmp_path

    @staticmethod
    def index(folder: Path, weight_map: object) -> None:
        (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))

    def read(self, folder: Path) -> dict[str, str]:
        return json.loads((folder / INDEX).read_text())["weight_map"]

    def test_shards_are_one_model(self, folder, tensors):
        assert same(dict(open_safetensors(folder)), tensors)
        assert same(dict(open_safetensors(folder / INDEX)), tensors)
        assert [path.name for path in weight_files(folder)] == ["model-1.safetensors", "model-2.safetensors"]

    def test_a_missing_shard_is_named(self, folder):
        (folder / "model-2.safetensors").unlink()
        with pytest.raises(WeightsError, match=r"model-2\.safetensors is missing"):
            open_safetensors(folder)

    def test_a_tensor_that_only_the_index_has(self, folder):
        self.index(folder, self.read(folder) | {"ghost": "model-1.safetensors"})
        with pytest.raises(WeightsError, match="ghost is in the index alone"):
            open_safetensors(folder)

    def test_a_tensor_that_only_the_shard_has(self, folder):
        names = self.read(folder)
        del names["scale"]
        self.index(folder, names)
        with pytest.raises(WeightsError, match="scale is in the shard alone"):
            open_safetensors(folder)

    @pytest.mark.parametrize(
        "name", ["../x.safetensors", "/etc/x.safetensors", "a/x.safetensors", "..\\x.safetensors", "C:x.safetensors", "x.bin", ""]
    )
    def test_an_index_cannot_reach_out_of_its_folder(self, folder, name):
        self.index(folder, {"a": name})
        with pytest.raises(WeightsError, match="plain name"):
            open_safetensors(folder)

    @pytest.mark.parametrize("text", ["", "[]", "{}", '{"weight_map": {}}', '{"weight_map": {"a": 1}}', '{"weight_map": []}'])
    def test_an_index_that_is_none(self, folder, text):
        (folder / INDEX).write_text(text)
        with pytest.raises(WeightsError, match="no index"):
            open_safetensors(folder)

    def test_a_shard_that_was_cut(self, folder):
        path = folder / "model-2.safetensors"
        path.write_bytes(path.read_bytes()[:-1])
        with pytest.raises(WeightsError, match=r"model-2\.safetensors: .*cut short"):
            open_safetensors(folder)


class TestOtherFormats:
    @pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "tiny.gguf"])
    def test_are_for_other_readers(self, tmp_path, name):
        (tmp_path / name).write_bytes(b"")
        with pytest.raises(WeightsError, match=r"no safetensors file.*model.safetensors"):
            open_safetensors(tmp_path)

    def test_safetensors_are_preferred(self, good, tensors):
        (good.parent / "pytorch_model.bin").write_bytes(b"")
        assert same(dict(open_safetensors(good.parent)), tensors)

    def test_a_folder_without_weights_says_so(self, tmp_path):
        with pytest.raises(WeightsError, match="holds no weights"):
            open_safetensors(tmp_path)


class TestSaving:
    def test_killed_before_the_rename_leaves_the_old_file(self, good, tensors):
        program = f"""
            import os, signal
            from pathlib import Path
            import torch
            from cutaway.weights.safetensors import save_safetensors
            os.fsync = lambda file: os.kill(os.getpid(), signal.SIGKILL)
            save_safetensors(Path({str(good)!r}), {{"other": torch.zeros(9)}})
        """
        before = good.read_bytes()
        path = os.pathsep.join(sys.path)
        ended = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], env={**os.environ, "PYTHONPATH": path}, check=False)
        assert ended.returncode == -signal.SIGKILL
        assert good.read_bytes() == before
        save_safetensors(good, {"other": torch.zeros(9)})
        assert list(open_safetensors(good)) == ["other"]

    def test_a_failed_save_leaves_nothing_behind(self, good, monkeypatch):
        def full(file):
            raise OSError(28, "No space left on device")

        before = good.read_bytes()
        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(WeightsError, match="No space left"):
            save_safetensors(good, {"other": torch.zeros(9)})
        assert [path.name for path in good.parent.iterdir()] == [good.name]
        assert good.read_bytes() == before

    def test_a_tied_matrix_is_not_written_twice(self, tmp_path):
        matrix = torch.randn(4, 3)
        for alias in (matrix, matrix.view(3, 4), torch.nn.Parameter(matrix)):
            with pytest.raises(WeightsError, match="wte and lm_head are one tensor"):
                save_safetensors(tmp_path / "tied.safetensors", {"wte": matrix, "lm_head": alias})
        assert not list(tmp_path.iterdir())

    def test_parts_of_one_matrix_are_several_tensors(self, tmp_path):
        whole = torch.randn(6, 4)
        for name, parts in (("rows", whole.split(2)), ("columns", whole.t().split(2)), ("of_a_transpose", whole.t().split([1, 3]))):
            path = tmp_path / f"{name}.safetensors"
            tensors = {f"{n}": part for n, part in enumerate(parts)}
            save_safetensors(path, tensors)
            assert same(dict(open_safetensors(path)), tensors)

    def test_parameters_that_need_gradients_are_saved(self, tmp_path):
        layer = torch.nn.Linear(3, 2)
        save_safetensors(tmp_path / "layer.safetensors", dict(layer.named_parameters()))
        assert torch.equal(open_safetensors(tmp_path / "layer.safetensors")["weight"], layer.weight)
