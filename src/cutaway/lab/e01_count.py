"""Chapter 1: what is counted in the parts of a text under one tokenizer, before anything is divided by anything.

Not here: ratios and intervals (`e01_cost`).
"""

from dataclasses import dataclass
from math import nan
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutaway.lab.e01_articles import Translation
from cutaway.text import Tokenizer
from cutaway.tokens import UNKNOWN, words_of


class Sums(NamedTuple):
    """What is counted, over all parts of a text: a number each, or an array with one for each resample.

    words and single (those of them that are one token) are NaN in a script without blanks; unknown: tokens that stand for no sign.
    """

    tokens: Any
    bytes: Any
    characters: Any
    words: Any
    single: Any
    unknown: Any


@dataclass(frozen=True)
class Cut:
    """Parts of a text, and the words of each; None in a script without blanks."""

    parts: tuple[str, ...]
    words: tuple[list[str], ...] | None

    @classmethod
    def of(cls, *parts: str) -> "Cut":
        without = words_of("\n".join(parts)) is None
        return cls(parts, None if without else tuple(words_of(part) or [] for part in parts))


@dataclass(frozen=True)
class Text:
    """A language's text as a whole, and in parts if they stand beside the reference's."""

    whole: Cut
    parts: Cut | None

    @classmethod
    def of(cls, one: Translation, preamble: bool) -> "Text":
        parts = [one.preamble, *one.articles] if preamble and one.preamble else one.articles
        return cls(Cut.of(one.text), Cut.of(*parts) if one.aligned else None)


class Tally:
    """Counts texts under one tokenizer, and remembers of each word whether it is one token."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.unknown = {tokenizer.id(name) for name in UNKNOWN if name in tokenizer.specials}
        self._single: dict[str, bool] = {}

    def table(self, cut: Cut) -> NDArray[np.float64]:
        """(parts, Sums). NaN for words where there are none to count."""
        words: list[list[float]] = [[nan, nan]] * len(cut.parts)
        if cut.words is not None:
            words = [[len(row), sum(map(self.single, row))] for row in cut.words]
        rows = []
        for part, of_words in zip(cut.parts, words, strict=True):
            ids = self.tokenizer.encode(part)
            rows.append([len(ids), len(part.encode()), len(part), *of_words, sum(id_ in self.unknown for id_ in ids)])
        return np.array(rows, dtype=np.float64)

    def single(self, word: str) -> bool:
        """Is the word one token, and a known one, in mid-sentence: with its blank, where that belongs to the word?"""
        if word not in self._single:
            # A foreign tokenizer may set the blank itself.
            forms = (f" {word}", word) if self.tokenizer.kind == "tokenizers" else (f" {word}",)
            encoded = [self.tokenizer.encode(form) for form in forms]
            self._single[word] = any(len(ids) == 1 and ids[0] not in self.unknown for ids in encoded)
        return self._single[word]
