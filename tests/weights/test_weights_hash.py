"""The hash that names a model's weights is one that a shell can compute."""

import hashlib
import shutil
import subprocess

import pytest

from cutaway.weights.hash import weights_sha256


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
