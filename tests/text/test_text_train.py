"""Vocabularies learned here open like published ones."""

from pathlib import Path
from typing import Any

import pytest

from cutaway.errors import TokenizerError
from cutaway.text import load_tokenizer
from cutaway.text.train import train_bpe
from cutaway.text.vocabulary import read_merges

TEXTS = [
    "The trophy did not fit in the suitcase because it was too big.",
    "The suitcase didn't hold the trophy; it was too small, Zoë said.",
] * 3


@pytest.mark.parametrize(("kind", "size"), [("gpt1", 160), ("gpt2", 300), ("roberta", 300)])
def test_a_learned_vocabulary_opens(tmp_path: Path, kind: Any, size: int) -> None:
    train_bpe(TEXTS, kind, size, tmp_path)
    tokenizer = load_tokenizer(tmp_path, kinds=(kind,))
    assert tokenizer.vocab_size == size + len(tokenizer.specials)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["merges.txt", "vocab.json"]
    assert b"\r" not in (tmp_path / "merges.txt").read_bytes()
    text = "The trophy isn't {here}."
    assert tokenizer.specials.get("<unk>", -1) not in tokenizer.encode(text)
    if kind != "gpt1":
        assert tokenizer.decode(tokenizer.encode("Ünknown 😀")) == "Ünknown 😀"
    assert len(tokenizer.encode("the suitcase")) < len("the suitcase")


def test_gpt2_and_roberta_learn_the_same_merges(tmp_path: Path) -> None:
    for kind in ("gpt2", "roberta"):
        train_bpe(iter(TEXTS), kind, 300, tmp_path / kind)
    assert read_merges(tmp_path / "gpt2" / "merges.txt") == read_merges(tmp_path / "roberta" / "merges.txt")


def test_learning_twice_gives_the_same_files(tmp_path: Path) -> None:
    for run in ("one", "two"):
        train_bpe(TEXTS, "gpt1", 160, tmp_path / run)
    for name in ("vocab.json", "merges.txt"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


@pytest.mark.parametrize("size", [100, 5000])
def test_a_size_that_the_texts_cannot_give(tmp_path: Path, size: int) -> None:
    with pytest.raises(TokenizerError, match=f"vocab_size={size}"):
        train_bpe(TEXTS, "gpt2", size, tmp_path)
    assert not list(tmp_path.iterdir())


def test_without_a_size_every_word_that_comes_twice_is_one_piece(tmp_path: Path) -> None:
    train_bpe(TEXTS, "gpt2", None, tmp_path)
    tokenizer = load_tokenizer(tmp_path)
    assert [tokenizer.token(id_) for id_ in tokenizer.encode("The trophy fit the suitcase")] == [
        "The",
        "Ġtrophy",
        "Ġfit",
        "Ġthe",
        "Ġsuitcase",
    ]
