"""Merges learned here are those of the tokenizers library's trainer, of a naive recount, and of the shipped models."""

import itertools
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cutaway.errors import TokenizerError
from cutaway.text.bpe import BPE, SYMBOL_TO_BYTE, Pair, rebuilds
from cutaway.text.gpt1 import END, plain_words
from cutaway.text.learn import Merge, merges_of
from cutaway.text.train import LETTERS, learn, train_bpe
from cutaway.worlds import passages

WORD = st.text("aab", min_size=1, max_size=20) | st.text("abcé你#", min_size=1, max_size=6)
WORDS = st.dictionaries(WORD, st.integers(1, 5), max_size=12)


def library(texts: Iterable[str], split: Any, **options: Any) -> list[Pair]:
    """The merges of the tokenizers library, as it writes them."""
    from tokenizers import Tokenizer, models, trainers

    engine = Tokenizer(models.BPE())
    engine.pre_tokenizer = split
    engine.train_from_iterator(texts, trainers.BpeTrainer(**{"vocab_size": 100_000, "show_progress": False, **options}))
    return [(left, right) for left, right in json.loads(engine.to_str())["model"]["merges"]]


def blanks() -> Any:
    from tokenizers.pre_tokenizers import WhitespaceSplit

    return WhitespaceSplit()


def byte_level() -> Any:
    from tokenizers.pre_tokenizers import ByteLevel

    return ByteLevel(add_prefix_space=False)


def recount(words: Mapping[str, int], end: str, least: int) -> list[Merge]:
    """Count all pairs anew after each merge."""
    letters = sorted({letter for word in words for letter in word})
    symbols = [*letters, *(letter + end for letter in letters if end)]
    merges: list[Merge] = []
    while True:
        bpe = BPE([merge.pair for merge in merges], end)
        counts: Counter[Pair] = Counter()
        for word, count in words.items():
            for pair in itertools.pairwise(bpe(word)):
                counts[pair] += count
        if not counts or max(counts.values()) < least:
            return merges
        pair = min(counts, key=lambda pair: (-counts[pair], *map(symbols.index, pair)))
        merges.append(Merge(pair, counts[pair], "".join(pair)))
        symbols.append("".join(pair))


@settings(max_examples=150, deadline=None)
@given(WORDS, st.integers(1, 3))
def test_same_as_the_library(words: dict[str, int], least: int) -> None:
    texts = [f"{word} " * count for word, count in words.items()]
    ours = [merge.pair for merge in merges_of(words, least=least)]
    assert ours == library(texts, blanks(), min_frequency=least)
    assert rebuilds(ours)  # no token is made in two ways


@settings(max_examples=100, deadline=None)
@given(WORDS, st.integers(1, 3))
def test_same_as_the_library_with_word_ends(words: dict[str, int], least: int) -> None:
    texts = [f"{word} " * count for word, count in words.items()]
    letters = sorted(set("".join(words)))
    pinned = [*letters, *(letter + END for letter in letters)]  # as control tokens they are numbered in this order, not by hash
    theirs = library(texts, blanks(), min_frequency=least, end_of_word_suffix=END, special_tokens=pinned)
    assert [merge.pair for merge in merges_of(words, end=END, least=least)] == theirs


@settings(max_examples=60, deadline=None)
@given(WORDS, st.sampled_from(["", END]), st.integers(1, 3))
def test_same_as_counting_anew(words: dict[str, int], end: str, least: int) -> None:
    assert list(merges_of(words, end=end, least=least)) == recount(words, end, least)


def test_ties_go_to_the_smaller_numbers() -> None:
    assert [merge.pair for merge in merges_of({"cd": 2, "ab": 2, "ba": 2})] == [("a", "b"), ("b", "a"), ("c", "d")]
    assert [merge.pair for merge in merges_of({"xab": 2, "ab": 1, "xa": 1})] == [("a", "b"), ("x", "ab")]
    assert next(merges_of({"ab": 2, "aba": 2}, end=END)).pair == ("a", "b")  # b comes before b</w>


def test_a_run_of_equal_letters() -> None:
    assert [(merge.token, merge.count) for merge in merges_of({"aaaaa": 2})] == [("aa", 8), ("aaa", 2), ("aaaaa", 2)]


def test_least() -> None:
    assert [merge.count for merge in merges_of({"ab": 3, "cd": 2, "ef": 1}, least=2)] == [3, 2]
    assert [merge.count for merge in learn(["ab"] * 3, "gpt2", least=4)] == []
    assert list(merges_of({}, alphabet="ab")) == list(merges_of({"": 3, "a": 9})) == []


@pytest.mark.parametrize("files", ["text/alice.txt", "multilingual/udhr/[dhj]*.txt"])
def test_real_texts_in_bytes(data: Path, files: str) -> None:
    texts = [path.read_text("utf-8") for path in sorted(data.glob(files))]
    theirs = library(texts, byte_level(), vocab_size=2000, min_frequency=2, initial_alphabet=list(SYMBOL_TO_BYTE))
    assert [merge.pair for merge in learn(texts, "gpt2", 2000)] == theirs
    assert len(theirs) == 2000 - 256


def test_a_real_text_in_words(data: Path) -> None:
    text = (data / "text/alice.txt").read_text("utf-8")
    words = " ".join(word for word in plain_words(text) if word.isascii())
    pinned = [*sorted(LETTERS), *(letter + END for letter in sorted(LETTERS))]
    theirs = library([words], blanks(), vocab_size=1000, min_frequency=2, special_tokens=pinned, end_of_word_suffix=END)
    assert [merge.pair for merge in learn([text], "gpt1", 1000)] == theirs


@pytest.mark.long
def test_all_texts_to_ten_thousand_pieces(data: Path) -> None:
    texts = [path.read_text("utf-8") for path in sorted((data / "text").glob("*.txt"))]
    theirs = library(texts, byte_level(), vocab_size=10_000, min_frequency=2, initial_alphabet=list(SYMBOL_TO_BYTE))
    assert [merge.pair for merge in learn(texts, "roberta", 10_000)] == theirs


@pytest.mark.long
@pytest.mark.parametrize("kind", ["gpt1", "gpt2", "roberta"])
def test_the_shipped_vocabularies(tmp_path: Path, kind: Any) -> None:
    train_bpe((passage.text for passage in itertools.islice(passages(1), 20_000)), kind, None, tmp_path)
    shipped = Path(__file__).parents[2] / "models" / f"nano-{kind}"
    for name in ("vocab.json", "merges.txt"):
        assert (tmp_path / name).read_bytes() == (shipped / name).read_bytes()


def test_the_hash_seed_does_not_matter() -> None:
    code = """if True:
        from cutaway.text.train import learn
        texts = ["the cat sat on the mat", "a dog and a hog; the cog and the log"] * 2
        print([merge for kind in ("gpt1", "gpt2") for merge in learn(texts, kind)])
    """
    runs = {
        subprocess.run([sys.executable, "-c", code], env=os.environ | {"PYTHONHASHSEED": seed}, capture_output=True, check=True).stdout
        for seed in ("0", "1", "2")
    }
    assert len(runs) == 1 and b"Merge(pair=" in runs.pop()


def test_merges_come_one_by_one() -> None:
    found = learn(["low low low lower new newer"], "gpt2")
    assert next(found) == Merge(("l", "o"), 4, "lo")
    assert next(found) == Merge(("lo", "w"), 4, "low")


def test_half_a_surrogate_pair_is_no_obstacle() -> None:
    assert [merge.token for merge in learn(["\ud83d\ud83d"] * 2, "gpt2")][:1] == ["¿½"]


@pytest.mark.parametrize(
    ("kind", "size", "message"),
    [("gpt2", 255, "vocab_size=255.*at least its 256"), ("gpt1", 135, "at least its"), ("gpt3", None, "gpt1 or gpt2 or roberta")],
)
def test_refused_before_anything_is_read(kind: Any, size: int | None, message: str) -> None:
    with pytest.raises(TokenizerError, match=message):
        learn(["a"], kind, size)


def test_too_few_pieces_are_known_at_the_end() -> None:
    found = learn(["abc"] * 2, "gpt2", 260)
    assert [merge.token for merge in itertools.islice(found, 2)] == ["ab", "abc"]
    with pytest.raises(TokenizerError, match="give 258 pieces, 256 of them single symbols. Expected: vocab_size=260"):
        next(found)
    assert list(learn([], "gpt2", 256)) == []
