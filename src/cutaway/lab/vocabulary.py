"""The words of a model's vocabulary: tokens that stand for a whole word, and their rows of the embedding."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from cutaway.model import Model

Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """The token table (V, D), and the words that are one token within a sentence: their ids, by their spelling."""

    model: Model

    @cached_property
    def rows(self) -> Numbers:
        """(V, D)."""
        return self.model.transformer.embed.token.weight.detach().double().numpy(force=True)

    @cached_property
    def words(self) -> dict[str, int]:
        """Tokens of ASCII letters that a sentence has behind a blank, or behind whatever else parts words."""
        tokenizer = self.model.tokenizer
        specials = set(tokenizer.specials.values())
        found: dict[str, int] = {}
        for n in range(tokenizer.vocab_size):
            word = "" if n in specials else tokenizer.decode([n]).strip()
            if word.isalpha() and word.isascii() and tokenizer.encode(f" {word}") == [n]:
                found[word] = n
        return found

    def of(self, word: str) -> int | None:
        """The id of a word that is one token within a sentence; in small letters where the tokenizer knows no others."""
        return self.words.get(word, self.words.get(word.lower()))


def unit(rows: Numbers) -> Numbers:
    """Each row at length 1; one without length stays 0."""
    lengths = np.linalg.norm(rows, axis=-1, keepdims=True)
    return np.asarray(rows / np.where(lengths == 0, 1.0, lengths))
