"""GPT-1's publisher repaired and split text with ftfy and spaCy; without them the same vocabulary gives other ids: how many, and where.

Not here: the two ways themselves (see `gpt1`), or a verdict. The model was trained on "spacy"; "plain" is what most people run.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cutaway.errors import TextError, TokenizerError
from cutaway.text.gpt1 import GPT1Tokenizer, Splitter
from cutaway.text.tokenizer import load_tokenizer
from cutaway.text.vocabulary import Piece

_WAYS: tuple[Splitter, ...] = ("plain", "spacy")


@dataclass(frozen=True)
class Reading:
    """A text as one of the two ways reads it: how many words, and each token with its id. `alone` tokens have no equal in the other."""

    splitter: Splitter
    words: int
    ids: tuple[int, ...]
    tokens: tuple[str, ...]
    alone: int


@dataclass(frozen=True)
class Difference:
    """A stretch of the text (characters `span`) whose tokens differ; one of the two may have none."""

    text: str
    span: tuple[int, int]
    plain: tuple[str, ...]
    spacy: tuple[str, ...]


@dataclass(frozen=True)
class Cleaning:
    """One text read both ways. Two tokens are equal if they have the same id and come from the same characters."""

    text: str
    plain: Reading
    spacy: Reading
    differences: tuple[Difference, ...]

    @property
    def share(self) -> float:
        """How much differs, from 0 to 1: tokens without an equal, of both readings, by the tokens of both."""
        tokens = len(self.plain.ids) + len(self.spacy.ids)
        return (self.plain.alone + self.spacy.alone) / tokens if tokens else 0.0

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"share": self.share}


def cleaning(text: str, folder: Path) -> Cleaning:
    """Read `text` both ways with the GPT-1 vocabulary in `folder`.

    Raises TextError for an empty text, TokenizerError if the folder holds no GPT-1 vocabulary or ftfy or spaCy is missing.
    """
    if not text:
        raise TextError("The text is empty", expected="at least one character")
    plain, spacy = (_gpt1(folder, splitter) for splitter in _WAYS)
    a, b = plain.pieces(text), spacy.pieces(text)
    changed = list(_differing(a, b))
    return Cleaning(
        text,
        _reading(plain, text, a, sum(i2 - i1 for i1, i2, _, _ in changed)),
        _reading(spacy, text, b, sum(j2 - j1 for _, _, j1, j2 in changed)),
        tuple(_difference(text, (plain, a[i1:i2]), (spacy, b[j1:j2])) for i1, i2, j1, j2 in changed),
    )


def _differing(a: Sequence[Piece], b: Sequence[Piece]) -> Iterator[tuple[int, int, int, int]]:
    """The stretches a[i1:i2] and b[j1:j2] that differ, in one pass: both are in the order of the text, so that whoever stands further
    left has no equal among what follows in the other."""
    i = j = 0
    equal = 0, 0  # what lies before is settled
    while i < len(a) and j < len(b):
        one, other = a[i], b[j]
        if (one.id, one.span) != (other.id, other.span):
            i += one.span <= other.span
            j += other.span <= one.span
            continue
        if (i, j) != equal:
            yield equal[0], i, equal[1], j
        i, j = equal = i + 1, j + 1
    if equal != (len(a), len(b)):
        yield equal[0], len(a), equal[1], len(b)


def _gpt1(folder: Path, splitter: Splitter) -> GPT1Tokenizer:
    tokenizer = load_tokenizer(folder, kinds=("gpt1",), splitter=splitter)
    if not isinstance(tokenizer, GPT1Tokenizer):
        raise TokenizerError(f"{folder} holds no GPT-1 vocabulary", expected="GPT-1's own, which can be split both ways")
    return tokenizer


def _reading(tokenizer: GPT1Tokenizer, text: str, pieces: Sequence[Piece], alone: int) -> Reading:
    return Reading(tokenizer.splitter, tokenizer.count_words(text), tuple(piece.id for piece in pieces), _tokens(tokenizer, pieces), alone)


def _difference(text: str, *readings: tuple[GPT1Tokenizer, Sequence[Piece]]) -> Difference:
    spans = [piece.span for _, pieces in readings for piece in pieces]
    start, end = min(start for start, _ in spans), max(end for _, end in spans)
    return Difference(text[start:end], (start, end), *(_tokens(*reading) for reading in readings))


def _tokens(tokenizer: GPT1Tokenizer, pieces: Sequence[Piece]) -> tuple[str, ...]:
    return tuple(tokenizer.token(piece.id) for piece in pieces)
