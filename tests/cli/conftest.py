"""Folders as `transformers` saves them, with small tokenizers beside the weights, and the command line in this process."""

from collections.abc import Callable
from pathlib import Path
from shutil import copy

import pytest
from typer.testing import CliRunner, Result

from cutaway.cli import output
from cutaway.cli.main import app
from cutaway.shipped import shipped_names
from cutaway.text.train import train_bpe
from tests.conftest import oracle

TEXTS = ["The trophy didn't fit in the suitcase because it was too big. The box is small and large.", " trophy suitcase it box The the"] * 3

Run = Callable[..., Result]


@pytest.fixture
def run() -> Run:
    """`run("next", "text")`: exit code, standard output and standard error of one command."""

    def call(*args: object, **options: object) -> Result:
        output.quiet = False
        return CliRunner().invoke(app, [str(arg) for arg in args], **options)  # type: ignore[arg-type]

    return call


def folder(kind: str, place: Path) -> Path:
    train_bpe(TEXTS, kind, None, place)  # type: ignore[arg-type]
    from cutaway.text import load_tokenizer

    oracle(kind, vocab_size=load_tokenizer(place).vocab_size).save_pretrained(place)
    return place


@pytest.fixture(scope="session")
def gpt2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return folder("gpt2", tmp_path_factory.mktemp("models") / "gpt2-folder")


@pytest.fixture(scope="session")
def roberta(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return folder("roberta", tmp_path_factory.mktemp("models") / "roberta-folder")


@pytest.fixture
def copied(gpt2: Path, tmp_path: Path) -> Path:
    """A copy of the causal folder, to be spoiled."""
    for file in gpt2.iterdir():
        copy(file, tmp_path)
    return tmp_path


@pytest.fixture
def nano() -> None:
    if not {"nano-gpt2", "nano-roberta"} <= set(shipped_names()):
        pytest.skip("the nano models are not in models/: make them with `cutaway train nano-gpt2`")
