"""Bad input: one clear message, exit code 2, no traceback."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Run


def refused(run: Run, *args: object, **options: object) -> str:
    done = run(*args, **options)
    assert done.exit_code == 2, done.output
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    lines: list[str] = done.stderr.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("Error: ")
    return lines[0]


TROPHY = {
    "absent": (("--query", "cup"), ("'cup' is not in", "trophy, didn")),
    "ambiguous": (("--a", "it saw it. The box", "--b", "it saw it. The trophy", "--watch", "saw,it"), ("occurs 2 times", "1:", "2:")),
    "same": (("--a", "The box", "--b", "The box", "--watch", "The,box"), ("are the same",)),
    "empty": (("--a", "", "--b", "The box", "--watch", "The,box"), ("empty",)),
    "no watch": (("--a", "The box"), ("--watch FIRST,SECOND",)),
    "one watched": (("--watch", "trophy"), ("two different words",)),
    "query too late": (("--a", "The big box, it", "--b", "The small box, it", "--watch", "The,box"), ("part at token 1",)),
    "too long": (("--a", "The box " * 60 + "it", "--b", "The big " * 60 + "it", "--watch", "The,box"), ("at most 64", "nothing was cut")),
}  # fmt: skip


@pytest.mark.parametrize("case", TROPHY)
def test_trophy(run: Run, gpt2: Path, roberta: Path, case: str) -> None:
    options, expected = TROPHY[case]
    message = refused(run, "trophy", "--causal", gpt2, "--bidirectional", roberta, *options)
    for part in expected:
        assert part in message


def test_two_models_of_one_kind_or_the_wrong_way_round(run: Run, gpt2: Path, roberta: Path) -> None:
    assert "both causal" in refused(run, "trophy", "--causal", gpt2, "--bidirectional", gpt2)
    assert "exchange" in refused(run, "trophy", "--causal", roberta, "--bidirectional", gpt2)


def test_model_names(run: Run, gpt2: Path, roberta: Path) -> None:
    assert "did you mean gpt2?" in refused(run, "next", "hi", "--model", "gpt22")
    assert "did you mean roberta-base?" in refused(run, "tokens", "hi", "--model", "robert-base")
    assert "no file or folder" in refused(run, "next", "hi", "--model", "./nowhere")
    assert "nano-gpt2 is shipped" in refused(run, "next", "hi", "--model", "gpt2-xl", "--offline", env={"HF_HUB_CACHE": "nowhere"})
    assert "no language-model head" in refused(run, "next", "hi", "--model", roberta)
    assert "did you mean float32?" in refused(run, "next", "hi", "--model", gpt2, "--dtype", "float23")


SPOILED: dict[str, tuple[Callable[[Path], object], str]] = {
    "no config": (lambda folder: (folder / "config.json").unlink(), "no config.json"),
    "no weights": (lambda folder: (folder / "model.safetensors").unlink(), "holds no weights"),
    "no tokenizer": (lambda folder: (folder / "vocab.json").unlink(), "merges.txt without vocab.json"),
    "cut": (lambda folder: (folder / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes()[:-100]), "cut short"),
    "pickle": (lambda folder: (folder / "model.safetensors").rename(folder / "pytorch_model.bin"), "a whole PyTorch file"),
}


@pytest.mark.parametrize("case", SPOILED)
def test_spoiled_folders(run: Run, copied: Path, case: str) -> None:
    spoil, expected = SPOILED[case]
    spoil(copied)
    assert expected in refused(run, "next", "The box", "--model", copied)


def test_texts(run: Run, gpt2: Path, tmp_path: Path) -> None:
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9")
    (tmp_path / "empty.txt").write_bytes(b"\n")
    assert "No text was given" in refused(run, "next", "--model", gpt2)
    assert "empty" in refused(run, "tokens", "", "--model", gpt2)
    assert "empty" in refused(run, "next", "--file", tmp_path / "empty.txt", "--model", gpt2)
    assert "empty" in refused(run, "next", "-", "--model", gpt2, input=b"")
    assert "both given" in refused(run, "next", "hi", "--file", tmp_path / "latin.txt", "--model", gpt2)
    assert "There is no file" in refused(run, "next", "--file", tmp_path / "none.txt", "--model", gpt2)
    assert "not UTF-8 (byte 3)" in refused(run, "next", "--file", tmp_path / "latin.txt", "--model", gpt2)
    assert "cannot be read" in refused(run, "next", "--file", tmp_path, "--model", gpt2)
    assert "at most 64" in refused(run, "next", "the " * 65, "--model", gpt2)
    assert "k is 0" in refused(run, "next", "the", "-k", "0", "--model", gpt2)


def test_a_file_that_cannot_be_written(run: Run, gpt2: Path, tmp_path: Path) -> None:
    assert "cannot be written" in refused(run, "next", "The", "--model", gpt2, "--out", tmp_path / "none" / "x.json")


def test_debug_shows_where(run: Run) -> None:
    for args in (("--debug", "next", "hi", "--model", "gpt22"), ("next", "hi", "--model", "gpt22", "--debug")):
        done = run(*args)
        assert done.exit_code == 2
        assert "Traceback" in done.stderr


def test_a_mistake_of_ours_is_said_to_be_one(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cutaway.catalog.catalog", lambda: 1 / 0)
    done = run("models")
    assert done.exit_code == 1
    assert done.stderr.startswith("Error: ZeroDivisionError")


def test_interrupted(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("cutaway.catalog.catalog", stop)
    done = run("models")
    assert (done.exit_code, done.stderr) == (130, "Error: stopped\n")
