"""The hash that names a model's weights is one that a shell can compute, and a file that has not changed is hashed once."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import time

import pytest

from cutaway.errors import WeightsError
from cutaway.weights import hash as hashing
from cutaway.weights.hash import sha256, weights_sha256
from cutaway.weights.remember import cache_folder, recall, remember

LONG_AGO = time.time_ns() - 10**12


@pytest.fixture(autouse=True)
def own_table(tmp_path, monkeypatch):
    monkeypatch.setenv("CUTAWAY_CACHE", str(tmp_path / "own"))
    return tmp_path / "own" / "hashes.json"


@pytest.fixture
def hashed(monkeypatch):
    """The files that were really read."""
    read = []

    def digest(file, name):
        read.append(file.name)
        return hashlib.file_digest(file, name)

    monkeypatch.setattr(hashing, "hashlib", type("counted", (), {"file_digest": staticmethod(digest), "sha256": hashlib.sha256}))
    return read


def written(path, content, when=LONG_AGO):
    path.write_bytes(content)
    os.utime(path, ns=(when, when))
    return path


def true(content):
    return hashlib.sha256(content).hexdigest()


def test_one_file_is_its_own_hash(tmp_path):
    (tmp_path / "a").write_bytes(b"abc")
    assert weights_sha256([tmp_path / "a"]) == hashlib.sha256(b"abc").hexdigest()


@pytest.mark.skipif(shutil.which("sha256sum") is None, reason="needs sha256sum")
def test_several_files_are_what_a_shell_says(tmp_path):
    for number in range(5):
        (tmp_path / f"model-{number}.safetensors").write_bytes(bytes([number]))
    said = subprocess.run(
        "sha256sum *.safetensors | LC_ALL=C sort | sha256sum", shell=True, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    paths = sorted(tmp_path.iterdir())
    assert weights_sha256(paths) == weights_sha256(paths[::-1]) == said.stdout.split()[0]


def test_names_and_contents_both_count(tmp_path):
    for name, content in (("a", b"1"), ("b", b"2"), ("c", b"2"), ("d", b"1")):
        (tmp_path / name).write_bytes(content)
    hashes = {weights_sha256([tmp_path / name for name in pair]) for pair in ("ab", "ac", "db")}
    assert len(hashes) == 3


def test_a_file_is_read_once_by_whatever_name(tmp_path, hashed, monkeypatch):
    path = written(tmp_path / "a", b"abc")
    (tmp_path / "link").symlink_to(path)
    monkeypatch.chdir(tmp_path)
    assert {sha256(one) for one in (path, path, tmp_path / "link", path.relative_to(tmp_path))} == {true(b"abc")}
    assert len(hashed) == 1


@pytest.mark.parametrize(
    ("content", "when"), [(b"abd", LONG_AGO + 1), (b"abcd", LONG_AGO)], ids=["same size, another time", "same time, another size"]
)
def test_a_file_that_changed_is_read_again(tmp_path, hashed, content, when):
    path = written(tmp_path / "a", b"abc")
    assert sha256(path) == true(b"abc")
    assert sha256(written(path, content, when)) == true(content)
    assert len(hashed) == 2


def test_a_file_that_was_written_just_now_may_change_again_and_not_show_it(tmp_path, hashed):
    path = written(tmp_path / "a", b"abc", now := time.time_ns())
    assert sha256(path) == true(b"abc")
    assert sha256(written(path, b"abd", now)) == true(b"abd")


def test_a_file_that_changes_while_it_is_read_is_not_remembered(tmp_path, monkeypatch):
    path = written(tmp_path / "a", b"abc")

    def digest(file, name):
        found = hashlib.file_digest(file, name)
        written(path, b"abd", LONG_AGO + 1)
        return found

    monkeypatch.setattr(hashing, "hashlib", type("changing", (), {"file_digest": staticmethod(digest)}))
    sha256(path)
    monkeypatch.undo()
    monkeypatch.setenv("CUTAWAY_CACHE", str(tmp_path / "own"))
    assert sha256(path) == true(b"abd")


NO_ENTRIES = ['{"%s": 1}', '{"%s": [[3, 0], "x"]}', '{"%s": [[3, %d], 7]}', '{"%s": [[3, %d], "short"]}']
TABLES = ["", "[]", "{", "null", "\x00", "[" * 100_000, *NO_ENTRIES]


@pytest.mark.parametrize("table", TABLES, ids=range(len(TABLES)))
def test_a_corrupt_table_is_ignored_and_written_anew(tmp_path, own_table, table):
    path = written(tmp_path / "a", b"abc")
    own_table.parent.mkdir()
    own_table.write_text(table % (str(path), LONG_AGO)[: table.count("%")])
    assert sha256(path) == true(b"abc")
    assert json.loads(own_table.read_text()) == {str(path): [[3, LONG_AGO], true(b"abc")]}


def test_what_is_gone_is_forgotten(tmp_path):
    old, new = written(tmp_path / "a", b"1"), written(tmp_path / "b", b"2")
    sha256(old)
    old.unlink()
    sha256(new)
    assert [*recall("hashes.json")] == [str(new)]


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path, monkeypatch):
    blocked = written(tmp_path / "file", b"")
    monkeypatch.setenv("CUTAWAY_CACHE", str(blocked / "below"))
    assert sha256(written(tmp_path / "a", b"abc")) == true(b"abc")


def test_a_file_that_is_gone_has_no_hash(tmp_path):
    with pytest.raises(WeightsError, match="cannot be read"):
        weights_sha256([tmp_path / "nothing"])
    with pytest.raises(WeightsError, match="cannot be read"):
        sha256(tmp_path)


def test_the_systems_cache_folder_is_the_default(monkeypatch, tmp_path):
    monkeypatch.delenv("CUTAWAY_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder().name in ("cutaway", "Cache") and cache_folder().is_absolute()


def test_processes_that_write_at_once_leave_a_whole_table(tmp_path):
    code = "import sys; from cutaway.weights.remember import remember\nfor n in range(30): remember('t.json', {sys.argv[1]: 'x' * 20_000})"
    writers = [subprocess.Popen([sys.executable, "-c", code, str(number)]) for number in range(3)]
    remember("t.json", {"0": ""})
    seen = 0
    while any(writer.poll() is None for writer in writers):
        assert recall("t.json") != {}
        seen += 1
    assert [writer.wait() for writer in writers] == [0, 0, 0] and seen
    assert {len(value) for value in recall("t.json").values()} == {20_000}
    assert [path.name for path in (tmp_path / "own").iterdir()] == ["t.json"]
