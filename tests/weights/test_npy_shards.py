"""OpenAI's GPT-1 files: a row of numbers in pieces, and how it is cut; files that lie, and files that were damaged (pitfall 17)."""

import json
import math
import time
import tracemalloc
import warnings
from pathlib import Path
from random import Random

import numpy as np
import pytest
import torch

from cutaway.errors import WeightsError
from cutaway.weights.npy_shards import npy_files, open_npy_shards
from tests.weights.damage import SEEDS, damaged

SHAPES = [[5, 4], [3, 4], [1, 4, 12], [12], [], [0, 7], [7], [0]]
TOTAL = sum(math.prod(shape) for shape in SHAPES)


def whole(dtype: str = "<f4") -> np.ndarray:
    return (np.arange(TOTAL) / 8).astype(dtype)


def written(folder: Path, pieces: list[np.ndarray], shapes: object = SHAPES) -> Path:
    for number, piece in enumerate(pieces):
        np.save(folder / f"params_{number}.npy", piece)
    (folder / "params_shapes.json").write_text(json.dumps(shapes))
    return folder


def openai(row: np.ndarray, shapes: list[list[int]]) -> list[np.ndarray]:
    """As OpenAI's train.py cuts it."""
    offsets = np.cumsum([np.prod(shape, dtype=int) for shape in shapes])
    return [param.reshape(shape) for param, shape in zip(np.split(row, offsets)[:-1], shapes, strict=True)]


def right(opened, row: np.ndarray) -> bool:
    tensors = [opened[str(number)].numpy() for number in range(len(SHAPES))]
    return all(
        one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
        for one, other in zip(tensors, openai(row, SHAPES), strict=True)
    )


def refused(folder: Path, *reasons: str) -> None:
    """In one message, without a large allocation, and within a second of the processor's time."""
    tracemalloc.start()
    began = time.process_time()
    with pytest.raises(WeightsError) as caught:
        open_npy_shards(folder)
    took, (_, peak) = time.process_time() - began, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert took < 1
    assert peak < 1_000_000
    for reason in reasons:
        assert reason in str(caught.value)


@pytest.fixture
def folder(tmp_path):
    return written(tmp_path, np.array_split(whole(), 3))


class TestReading:
    @pytest.mark.parametrize("files", [1, 2, 3, 10, 13, TOTAL, TOTAL + 5])
    @pytest.mark.parametrize("dtype", ["<f2", "<f4", "<f8"])
    def test_however_it_is_cut(self, tmp_path, files, dtype):
        """From ten files on, text's order would not do: params_10 lies between params_1 and params_2. The last case has empty files."""
        opened = open_npy_shards(written(tmp_path, np.array_split(whole(dtype), files)))
        assert right(opened, whole(dtype))
        assert [path.name for path in opened.paths] == [f"params_{number}.npy" for number in range(files)]

    def test_empty_files_between_others(self, tmp_path):
        row = whole()
        pieces = [row[:0], row[:20], row[20:20], row[20:20], row[20:33], row[33:33], row[33:], row[:0]]
        assert right(open_npy_shards(written(tmp_path, pieces)), row)

    def test_what_it_says_of_itself(self, folder):
        opened = open_npy_shards(folder)
        assert opened.dialect == "numpy"
        assert opened.settings == {}
        assert list(opened) == [str(number) for number in range(len(SHAPES))]
        assert list(opened.shapes.values()) == [tuple(shape) for shape in SHAPES]

    @pytest.mark.parametrize("name", ["8", "-1", "00", "", "wte"])
    def test_a_name_that_is_not_there(self, folder, name):
        with pytest.raises(KeyError):
            open_npy_shards(folder)[name]

    def test_the_real_shapes(self, data, tmp_path):
        """The release's own list, with 466 MB of zeros for the numbers: holes, which take no room on the disk."""
        shapes = json.loads((data / "tokenizers/gpt1/params_shapes.json").read_text())
        total = sum(math.prod(shape) for shape in shapes)
        assert total == 40478 * 768 + 512 * 768 + 12 * (12 * 768**2 + 13 * 768)
        for number in range(10):
            length = total // 10 + (number < total % 10)
            with (tmp_path / f"params_{number}.npy").open("wb") as file:
                np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": (length,)})
                file.truncate(file.tell() + 4 * length)
        (tmp_path / "params_shapes.json").write_text(json.dumps(shapes))
        tracemalloc.start()
        opened = open_npy_shards(tmp_path)
        assert [list(shape) for shape in opened.shapes.values()] == shapes
        assert opened["2"].shape == (1, 768, 2304)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 1_000_000

    def test_a_view_within_a_file_and_a_copy_across_two(self, tmp_path):
        """NumPy's allocations are traced, and mapped pages are none."""
        half = np.zeros(1 << 20, "<f4")
        shapes = [[1 << 19], [1 << 20], [1 << 19], [1 << 20]]  # the last begins with a file, and is all of it
        opened = open_npy_shards(written(tmp_path, [half, half, half], shapes))
        for name, most, least in (("0", 100_000, 0), ("1", 5 << 20, 4 << 20), ("2", 100_000, 0), ("3", 100_000, 0)):
            tracemalloc.start()
            tensor = opened[name]
            held, _ = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            assert tensor.numel() == math.prod(opened.shapes[name])
            assert least <= held < most, name

    def test_a_change_stays_in_memory(self, folder):
        opened, before = open_npy_shards(folder), (folder / "params_0.npy").read_bytes()
        opened["0"].zero_()
        assert right(opened, whole())
        assert (folder / "params_0.npy").read_bytes() == before

    @pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
    def test_every_version_of_the_header(self, tmp_path, version):
        with (written(tmp_path, [whole()]) / "params_0.npy").open("wb") as file, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # NumPy warns that old readers may not read the newer ones
            np.lib.format.write_array(file, whole(), version)
        assert right(open_npy_shards(tmp_path), whole())

    def test_numbers_across_natural_borders(self, tmp_path):
        """Writers that do not fill up their header are read all the same: there the tensor is a copy."""
        header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({TOTAL}L,), }}\n".encode()
        header = header if len(header) % 4 else b"".join([header[:-1], b" \n"])
        assert (10 + len(header)) % 4
        raw = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + whole().tobytes()
        (written(tmp_path, [whole()]) / "params_0.npy").write_bytes(raw)
        opened = open_npy_shards(tmp_path)
        assert right(opened, whole())
        assert opened["0"].data_ptr() % 4 == 0


class TestLies:
    @pytest.mark.parametrize(
        ("array", "reason"),
        [
            (np.array([1, "a", None], object), "unpickling"),
            (np.zeros(3, [("a", "<f4"), ("b", "O")]), "unpickling"),
            (np.zeros(3, [("a", "<f4")]), "it holds [('a', '<f4')]"),
            (np.zeros(3, ">f4"), "it holds >f4"),
            (np.zeros(3, "<i4"), "it holds <i4"),
            (np.zeros(3, "<c8"), "it holds <c8"),
            (np.zeros((3, 2), "<f4"), "shape (3, 2), where one row"),
            (np.zeros((), "<f4"), "shape (), where one row"),
            (np.zeros((3, 2), "<f4", order="F"), "one row"),
        ],
    )
    def test_another_kind_of_array(self, folder, array, reason):
        np.save(folder / "params_1.npy", array, allow_pickle=True)
        refused(folder, "params_1.npy", reason)

    @pytest.mark.parametrize(
        "text",
        [
            "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (999999999999999999,), }",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }",
            "{'descr': '<f4', 'fortran_order': True, 'shape': (4,), }",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (4), }",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (4,4), }",
            "{'descr': __import__('os').abort(), 'fortran_order': False, 'shape': (4,), }",
            "__import__('os').abort()",
            "{" * 4000,
            "",
        ],
    )
    def test_a_header_that_lies(self, folder, text):
        raw = b"\x93NUMPY\x01\x00" + (len(text) + 1).to_bytes(2, "little") + text.encode() + b"\n" + bytes(16)
        (folder / "params_1.npy").write_bytes(raw)
        refused(folder, "params_1.npy")

    @pytest.mark.parametrize(
        ("raw", "reason"),
        [
            (b"", "no .npy file's beginning"),
            (b"\x93NUMPY", "no .npy file's beginning"),
            (b"PK\x03\x04" * 50, "no .npy file's beginning"),
            (bytes(1000), "no .npy file's beginning"),
            (b"\x93NUMPY\x02\x00\xff\xff\xff\xff" + bytes(99), "header should end at byte 4294967307"),
            (b"\x93NUMPY\x01\x00\x76\x00" + b"{" * 40, "header should end at byte 128"),
        ],
    )
    def test_no_array_at_all(self, folder, raw, reason):
        (folder / "params_1.npy").write_bytes(raw)
        refused(folder, "params_1.npy", reason)

    @pytest.mark.parametrize("version", [b"\0\0", b"\1\1", b"\4\0"])
    def test_a_version_that_is_not_known(self, folder, version):
        raw = (folder / "params_1.npy").read_bytes()
        (folder / "params_1.npy").write_bytes(raw[:6] + version + raw[8:])
        refused(folder, "params_1.npy", "no .npy file's beginning")

    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            ("", "not JSON"),
            ("[" * 100_000, "not JSON"),
            ("[1" + "0" * 5000 + "]", "not JSON"),
            ("{}", "not a list"),
            ("[]", "not a list"),
            ("[5]", "number 0 is 5"),
            ("[[5], [1.0]]", "number 1 is [1.0]"),
            ("[[true]]", "whole numbers"),
            ("[[-1]]", "whole numbers"),
            ("[[0, 4611686018427387904, 4]]", "larger than any tensor"),
            (json.dumps([[1] * 65]), "larger than any tensor"),
        ],
    )
    def test_shapes_that_are_none(self, folder, text, reason):
        (folder / "params_shapes.json").write_text(text)
        refused(folder, "params_shapes.json", reason)

    @pytest.mark.parametrize("shapes", [SHAPES[:-2], [*SHAPES, [1]], [[4611686018427387904]]])
    def test_shapes_that_do_not_fit(self, folder, shapes):
        (folder / "params_shapes.json").write_text(json.dumps(shapes))
        refused(folder, f"holds {TOTAL} numbers in 3 files", f"take {sum(math.prod(shape) for shape in shapes)}")

    def test_two_dtypes(self, folder):
        np.save(folder / "params_1.npy", np.load(folder / "params_1.npy").astype("<f2"))
        refused(folder, "params_1.npy", "float16", "params_0.npy holds torch.float32")


class TestFiles:
    def test_by_number(self, tmp_path):
        names = [f"params_{number}.npy" for number in range(12)]
        for name in [*sorted(names), "params_shapes.json", "other.npy"]:
            (tmp_path / name).touch()
        assert [path.name for path in npy_files(tmp_path)] == names

    @pytest.mark.parametrize("missing", [0, 1])
    def test_a_gap(self, folder, missing):
        (folder / f"params_{missing}.npy").unlink()
        refused(folder, f"params_{missing}.npy is missing", "params_2.npy is there")

    @pytest.mark.parametrize("stranger", ["params_01.npy", "params_x.npy", "params_-1.npy", "params_²..npy"])
    def test_a_stranger_among_them(self, folder, stranger):
        (folder / stranger).touch()
        refused(folder, f"{stranger} is there")

    def test_nothing_there(self, tmp_path):
        refused(tmp_path, "params_shapes.json cannot be read")
        (tmp_path / "params_shapes.json").write_text("[[1]]")
        refused(tmp_path, "params_0.npy is missing")


class TestDamage:
    def test_a_last_byte_missing(self, folder):
        (folder / "params_1.npy").write_bytes((folder / "params_1.npy").read_bytes()[:-1])
        refused(folder, "params_1.npy", "cut short")

    def test_something_appended(self, folder):
        (folder / "params_1.npy").write_bytes((folder / "params_1.npy").read_bytes() + bytes(100))
        refused(folder, "params_1.npy", "100 bytes follow")

    def test_a_file_that_shrank_after_it_was_opened(self, folder):
        opened = open_npy_shards(folder)
        (folder / "params_0.npy").write_bytes(b"short")
        with pytest.raises(WeightsError, match="has shrunk"):
            opened["0"]

    @pytest.mark.parametrize("seed", SEEDS)
    def test_damage_is_refused_or_is_in_the_numbers_alone(self, folder, seed):
        path = folder / "params_1.npy"
        good = path.read_bytes()
        path.write_bytes(bad := damaged(good, Random(seed)))
        if len(bad) != len(good) or bad[:128] != good[:128]:
            return refused(folder, "params_1.npy")
        row, first = whole(), np.array_split(whole(), 3)[0].nbytes
        row.view(np.uint8)[first : first + len(bad) - 128] = np.frombuffer(bad, np.uint8, offset=128)
        began = time.process_time()
        assert right(open_npy_shards(folder), row)
        assert time.process_time() - began < 1
        return None

    @pytest.mark.parametrize("seed", SEEDS)
    def test_damaged_shapes(self, folder, seed):
        """They may still fit, as where two sizes changed places; then the row is cut otherwise, and is the same row."""
        path = folder / "params_shapes.json"
        path.write_bytes(damaged(path.read_bytes(), Random(seed)))
        began = time.process_time()
        try:
            opened = open_npy_shards(folder)
        except WeightsError as error:
            assert "params_shapes.json" in str(error)
        else:
            assert torch.equal(torch.cat([tensor.flatten() for tensor in opened.values()]), torch.from_numpy(whole()))
        assert time.process_time() - began < 1
