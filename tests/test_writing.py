"""Writing: whole or not at all, through links, and never in the place of what is no file."""

import os
import stat
from pathlib import Path

import pytest

from cutaway.writing import replacing, write_bytes, write_text


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    if not hasattr(os, "mkfifo"):
        pytest.skip("this system has no named pipes")
    os.mkfifo(tmp_path / "pipe")
    return tmp_path / "pipe"


class TestWhatIsNoFile:
    """Renaming would put a file in its place: a device node of the system, for one who may."""

    def test_is_left_alone(self, pipe):
        with pytest.raises(OSError, match="no plain file"):
            write_text(pipe, "text")
        assert stat.S_ISFIFO(pipe.stat().st_mode)

    def test_nor_behind_a_link(self, pipe):
        link = pipe.with_name("link")
        link.symlink_to(pipe)
        with pytest.raises(OSError, match="no plain file"):
            write_bytes(link, b"bytes")
        assert link.is_symlink() and stat.S_ISFIFO(pipe.stat().st_mode)

    def test_nor_is_a_folder(self, tmp_path):
        with pytest.raises(OSError, match="folder"):
            write_text(tmp_path, "text")
        assert list(tmp_path.iterdir()) == []

    def test_a_trace_and_weights_refuse_it_too(self, pipe):
        import torch

        from cutaway import load
        from cutaway.errors import CutawayError
        from cutaway.trace.files import save
        from cutaway.weights.safetensors import save_safetensors

        with pytest.raises(CutawayError, match="no plain file"):
            save_safetensors(pipe, {"a": torch.ones(1)})
        with pytest.raises(CutawayError, match="no plain file"):
            save(load("nano-gpt2").trace("The"), pipe)
        assert stat.S_ISFIFO(pipe.stat().st_mode) and len(list(pipe.parent.iterdir())) == 1


def test_a_link_is_written_through(tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "there/file")
    write_text(tmp_path / "link", "text")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "there/file").read_text() == "text"


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path):
    (tmp_path / "file").write_text("old")
    with pytest.raises(RuntimeError), replacing(tmp_path / "file") as new:
        new.write_text("half")
        raise RuntimeError
    assert [path.name for path in tmp_path.iterdir()] == ["file"] and (tmp_path / "file").read_text() == "old"
