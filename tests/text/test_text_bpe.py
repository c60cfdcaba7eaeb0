"""The merging itself, by hand and against brute force."""

import random
import time
from itertools import pairwise

import pytest

from cutaway.text.bpe import BPE, BYTE_TO_SYMBOL, CACHED_LENGTH, CACHED_WORDS, SYMBOL_TO_BYTE, Pair, rebuilds


def brute_force(word: str, merges: list[Pair]) -> tuple[str, ...]:
    """Look for the best pair anew each time: slow, and too simple to be wrong."""
    pieces = list(word)
    while found := [(merges.index(pair), i) for i, pair in enumerate(pairwise(pieces)) if pair in merges]:
        _, i = min(found)
        pieces[i : i + 2] = [pieces[i] + pieces[i + 1]]
    return tuple(pieces)


def random_merges(rng: random.Random) -> list[Pair]:
    known, merges = ["a", "b", "c"], []
    for _ in range(rng.randint(1, 8)):
        pair = rng.choice(known), rng.choice(known)
        if pair not in merges:
            merges.append(pair)
            known.append("".join(pair))
    return merges


def test_every_step_of_a_word() -> None:
    steps = list(BPE([("l", "o"), ("lo", "w"), ("e", "r")]).steps("lower"))
    assert [(step.pair, step.rank) for step in steps] == [(None, None), (("l", "o"), 0), (("lo", "w"), 1), (("e", "r"), 2)]
    assert steps[-1].pieces == ("low", "er")


def test_the_end_mark_belongs_to_the_last_letter() -> None:
    bpe = BPE([("o", "w</w>"), ("l", "ow</w>")], "</w>")
    assert bpe("low") == ("low</w>",)
    assert bpe("lows") == ("l", "o", "w", "s</w>")
    assert bpe("") == ()


def test_equal_neighbours_join_from_the_left() -> None:
    assert BPE([("a", "a")])("aaaaa") == ("aa", "aa", "a")


def test_same_as_brute_force() -> None:
    rng = random.Random(0)
    for _ in range(2000):
        merges = random_merges(rng)
        word = "".join(rng.choices("abc", k=rng.randint(0, 12)))
        bpe = BPE(merges)
        assert bpe(word) == brute_force(word, merges) == list(bpe.steps(word))[-1].pieces, (merges, word)


def test_rebuilds_is_what_merging_each_token_says() -> None:
    rng, seen = random.Random(1), set()
    for _ in range(3000):
        merges = random_merges(rng)
        bpe, results = BPE(merges), [left + right for left, right in merges]
        expected = len(set(results)) == len(results) and all(bpe(token) == (token,) for token in results)
        assert rebuilds(merges) == expected, merges
        seen.add(expected)
    assert seen == {True, False}


@pytest.mark.parametrize("length", [100_000, 400_000])
def test_a_long_run_takes_time_in_proportion(length: int) -> None:
    start = time.process_time()
    assert len(BPE([("a", "a"), ("aa", "aa")])("a" * length)) == length // 4
    assert time.process_time() - start < length / 20_000  # a few seconds; looking for the best pair anew would take hours


def test_the_cache_is_bounded_in_number_and_length() -> None:
    bpe = BPE([])
    for i in range(CACHED_WORDS + 10):
        bpe(str(i))
    assert len(bpe._cache) <= CACHED_WORDS
    bpe("x" * (CACHED_LENGTH + 1))
    assert "x" * (CACHED_LENGTH + 1) not in bpe._cache


def test_the_byte_letters() -> None:
    assert len(SYMBOL_TO_BYTE) == 256
    assert [BYTE_TO_SYMBOL[byte] for byte in b" \n\x00\xadA"] == ["Ġ", "Ċ", "Ā", "Ń", "A"]
    assert "".join(SYMBOL_TO_BYTE)[:3] == '!"#'
    assert all(symbol.isprintable() and not symbol.isspace() for symbol in SYMBOL_TO_BYTE)
