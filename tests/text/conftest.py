"""Vocabularies: the publishers' where CUTAWAY_DATA has them, and small ones made by hand."""

import os
from pathlib import Path

import pytest
from handmade import GPT1_LETTERS, GPT1_MERGES, MERGES, ROBERTA_SPECIALS, byte_tokens, write

from cutaway.text import Tokenizer, load_tokenizer


@pytest.fixture
def gpt2_folder(tmp_path: Path) -> Path:
    return write(tmp_path / "gpt2", [*byte_tokens(MERGES), "<|endoftext|>"], MERGES)


@pytest.fixture
def roberta_folder(tmp_path: Path) -> Path:
    return write(tmp_path / "roberta", [*ROBERTA_SPECIALS, *reversed(byte_tokens(MERGES)), "<mask>"], MERGES)


@pytest.fixture
def gpt1_folder(tmp_path: Path) -> Path:
    made = [left + right for left, right in GPT1_MERGES]
    return write(tmp_path / "gpt1", ["<unk>", *GPT1_LETTERS, *(letter + "</w>" for letter in GPT1_LETTERS), *made], GPT1_MERGES)


@pytest.fixture
def small(gpt1_folder: Path, gpt2_folder: Path, roberta_folder: Path) -> dict[str, Tokenizer]:
    return {folder.name: load_tokenizer(folder) for folder in (gpt1_folder, gpt2_folder, roberta_folder)}


@pytest.fixture(scope="session")
def published() -> Path:
    """The folder that holds gpt1/, gpt2/ and roberta/."""
    folder = Path(os.environ.get("CUTAWAY_DATA", ""), "tokenizers")
    if "CUTAWAY_DATA" not in os.environ or not folder.is_dir():
        pytest.skip("needs the publishers' vocabularies: set CUTAWAY_DATA to a folder with tokenizers/gpt1, gpt2 and roberta")
    return folder


@pytest.fixture(scope="session")
def gpt1(published: Path) -> Tokenizer:
    return load_tokenizer(published / "gpt1", kinds=("gpt1",))


@pytest.fixture(scope="session")
def gpt1_spacy(published: Path) -> Tokenizer:
    return load_tokenizer(published / "gpt1", kinds=("gpt1",), splitter="spacy")


@pytest.fixture(scope="session")
def gpt2(published: Path) -> Tokenizer:
    return load_tokenizer(published / "gpt2", kinds=("gpt2",))


@pytest.fixture(scope="session")
def roberta(published: Path) -> Tokenizer:
    return load_tokenizer(published / "roberta", kinds=("roberta",))
