"""Winograd schemas as they are read: spelling in the gap, schemas, shuffled candidates, and the counts of the published sets."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import cutaway
from cutaway.lab import winograd
from cutaway.lab.winograd import Item

CUP = Item("The cup didn't fit in the box because ", "it", " was too big.", ("The cup", "the box"), 0)


def test_a_sentence_and_its_pronoun() -> None:
    assert CUP.sentence == "The cup didn't fit in the box because it was too big."
    assert CUP.sentence[slice(*CUP.span)] == "it"
    assert CUP.referent == "The cup"


@pytest.mark.parametrize(
    ("before", "after", "possessive", "candidate", "spelt"),
    [
        ("They left because ", " was late.", False, "The train", "the train"),  # a determiner is no name
        ("", " was late.", False, "the train", "The train"),  # begins the sentence
        ("It rained. ", " was late.", False, "the train", "The train"),
        ("They left because ", " was late.", False, "Ann", "Ann"),  # a name keeps its capital
        ("Wolves howl because ", " wolves are loud.", False, "Wolves", "wolves"),  # the text has it with a small letter
        ("He broke ", " arm.", True, "Ann", "Ann's"),
        ("He broke ", " arm.", True, "James", "James'"),
    ],
)
def test_a_candidate_in_the_gap(before: str, after: str, possessive: bool, candidate: str, spelt: str) -> None:
    assert Item(before, "it", after, (candidate,), 0, possessive).spelt(candidate) == spelt


def test_shuffling_keeps_the_answer() -> None:
    rng = np.random.default_rng(0)
    shuffled = [CUP.shuffled(rng) for _ in range(200)]
    assert all(item.referent == "The cup" for item in shuffled)
    assert 60 < sum(item.answer for item in shuffled) < 140


def test_the_published_sets(data: Path) -> None:
    """Numbers of items as published, each with its gap, right answers as the files have them."""
    collection, wsc273, pdp60 = winograd.collection(data), winograd.wsc273(data), winograd.pdp60(data)
    assert (len(collection), len(wsc273), len(pdp60)) == (283, 273, 60)
    assert {item.answer for item in wsc273} == {0}  # the right one is listed first in every item
    assert Counter(item.answer for item in collection).keys() == {0, 1}
    assert all(item.sentence[slice(*item.span)] == item.pronoun != "" for item in collection)
    assert max(len(item.candidates) for item in pdp60) == 5
    trophy = next(item for item in collection if "trophy" in item.sentence)
    assert trophy.sentence == "The trophy doesn't fit into the brown suitcase because it is too large."
    assert "trophy" in trophy.referent
    agreeing = sum(a.referent.lower() == b.referent.lower() for a, b in zip(wsc273, collection, strict=False))
    assert agreeing > 260  # two independent publications of the same answers
    assert len(winograd.twins(collection)) == 142


def test_winogrande(data: Path) -> None:
    items = winograd.winogrande(data)
    assert len(items) == 1267
    assert {item.answer for item in items} == {0, 1}


def test_an_absent_set_says_where_it_is_from(tmp_path: Path) -> None:
    with pytest.raises(cutaway.CutawayError, match="wsc.*github.com"):
        winograd.collection(tmp_path)
