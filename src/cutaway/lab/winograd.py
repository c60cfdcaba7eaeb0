"""Winograd schemas: sentences with a pronoun, what it may stand for, and what it does stand for; read from their data sets.

Not here: what a model makes of them (`e03_resolution`), or where the files come from (`data`).
"""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from cutaway.lab import data

POSSESSIVE = ("his", "her", "its", "their")  # "her" is a possessive wherever the schemas have it
# PDP-60 comes without its pronouns. These numbers are the items whose gap a possessive fills ("[MASK] boss", "[MASK] shoulder").
PDP_POSSESSIVE = (3, 6, 10, 12, 25, 27, 30, 32, 33, 39, 45, 49, 54, 59)
# A candidate that begins with one of these is no name, whatever its first letter.
DETERMINERS = ("the", "a", "an", "this", "that", "these", "those", "my", "your", "his", "her", "its", "our", "their")
OPENING = 4  # items whose first so many words are the same are about the same passage


@dataclass(frozen=True)
class Item:
    """One question: what fills the gap between `before` and `after`?

    `pronoun` stands in the gap, and is empty where the data set does not tell it. `candidates` are spelt as the set spells
    them, and candidates[answer] is right. `schema` is common to neighbours about the same candidates or passage: they are
    not independent, so they are resampled together.
    """

    before: str
    pronoun: str
    after: str
    candidates: tuple[str, ...]
    answer: int
    possessive: bool = False
    schema: str = ""

    @property
    def sentence(self) -> str:
        return self.before + self.pronoun + self.after

    @property
    def span(self) -> tuple[int, int]:
        """Where the pronoun stands in `sentence`, in characters."""
        return len(self.before), len(self.before) + len(self.pronoun)

    @property
    def referent(self) -> str:
        return self.candidates[self.answer]

    def spelt(self, candidate: str) -> str:
        """A candidate as it has to stand in the gap.

        Its first letter is a capital where the gap begins a sentence. Elsewhere it is a small one if the first word is a
        determiner, or if the sentence has that word with a small letter; all else may be a name and stays as it is. Where
        the pronoun is a possessive it gets an 's, or after an s the apostrophe alone.
        """
        first = candidate.split()[0]
        if not self.before.strip() or re.search(r"[.!?][\"']?\s*$", self.before):
            candidate = candidate[0].upper() + candidate[1:]
        elif first.lower() in DETERMINERS or re.search(rf"(?<!\w){re.escape(first.lower())}(?!\w)", self.before + self.after):
            candidate = candidate[0].lower() + candidate[1:]
        return candidate + ("'" if candidate.endswith("s") else "'s") * self.possessive

    def shuffled(self, rng: np.random.Generator) -> "Item":
        """The same question with its candidates in a random order: some sets list the right one first in every item."""
        order = rng.permutation(len(self.candidates)).tolist()
        return replace(self, candidates=tuple(self.candidates[n] for n in order), answer=order.index(self.answer))


def same_candidates(a: Item, b: Item) -> bool:
    return set(a.candidates) == set(b.candidates)


def twins(items: Sequence[Item]) -> list[tuple[Item, Item]]:
    """Consecutive items with the same candidates, another text, and a common first word: before it nothing could be compared."""
    pairs = [(a, b) for a, b in pairwise(items) if same_candidates(a, b) and a.sentence != b.sentence]
    return [(a, b) for a, b in pairs if a.sentence.split()[0] == b.sentence.split()[0]]


def opposites(items: Sequence[Item]) -> list[tuple[Item, Item]]:
    """Twins of opposite answers, each item in one at most: of three alike in a row the first two."""
    found: list[tuple[Item, Item]] = []
    for a, b in twins(items):
        if a.referent != b.referent and not (found and a is found[-1][1]):
            found.append((a, b))
    return found


def collection(root: Path | None = None) -> list[Item]:
    """The Winograd Schema Challenge's 283 items, candidates in the order in which the sentence mentions them.

    Raises TextError, as all readers here, if the data set is not here.
    """
    return named("wsc", [item_of(s["txt1"] + " ", s["pron"], " " + s["txt2"], s["answers"], s["correct"]) for s in read("wsc", root)])


def wsc273(root: Path | None = None) -> list[Item]:
    """WSC273 as it is supplied: the right candidate first. Which pronoun stood in the gap, the collection tells."""
    pronouns = [item.pronoun for item in collection(root)]
    return named("wsc273", [cloze(s, "[MASK]", pronoun) for s, pronoun in zip(read("wsc273", root), pronouns, strict=False)])


def pdp60(root: Path | None = None) -> list[Item]:
    """PDP-60, with two to five candidates an item, and no pronoun told."""
    items = [cloze(s, "[MASK]", "") for s in read("pdp60", root)]
    return named("pdp60", [replace(item, possessive=n in PDP_POSSESSIVE) for n, item in enumerate(items)])


def winogrande(root: Path | None = None) -> list[Item]:
    """WinoGrande's development set. It has a gap for a noun, never a pronoun."""
    rows = read("winogrande-dev", root)
    told = [
        {"sentence": row["sentence"], "candidates": [row["option1"], row["option2"]], "correct": int(row["answer"]) - 1} for row in rows
    ]
    return named("winogrande-dev", [cloze(row, "_", "") for row in told])


READERS: dict[str, Callable[[Path | None], list[Item]]] = {"wsc273": wsc273, "pdp60": pdp60, "winogrande-dev": winogrande}


def read(name: str, root: Path | None) -> Any:
    text = data.find(name, root)[0].read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()] if name == "winogrande-dev" else json.loads(text)


def cloze(schema: Any, gap: str, pronoun: str) -> Item:
    before, after = schema["sentence"].split(gap)
    return item_of(before, pronoun, after, schema["candidates"], schema["correct"])


def item_of(before: str, pronoun: str, after: str, candidates: Sequence[str], answer: int) -> Item:
    """The sets part a stop from the gap by a blank, which is no part of the sentence."""
    tight = re.sub(r"^ +(?=[.,;:!?])", "", after)
    return Item(before, pronoun, tight, tuple(candidates), answer, possessive=pronoun.lower() in POSSESSIVE)


def named(name: str, items: Sequence[Item]) -> list[Item]:
    """The items with their schemas."""
    found: list[Item] = []
    for n, item in enumerate(items):
        related = n > 0 and (same_candidates(item, items[n - 1]) or opening(item) == opening(items[n - 1]))
        found.append(replace(item, schema=found[-1].schema if related else f"{name}/{n}"))
    return found


def opening(item: Item) -> list[str]:
    return item.sentence.split()[:OPENING]
