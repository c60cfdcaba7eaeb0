"""Words of a text among its pieces: matched whole, blanks aside."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from cutaway.errors import TextError

if TYPE_CHECKING:
    from cutaway.text.tokenizer import Piece


def find_word(text: str, pieces: Sequence["Piece"], word: str, occurrence: int | None = None) -> list[int]:
    """The places of the pieces that make up `word` in `text`, counted from 0.

    `occurrence` counts from 1 and must be given if the word stands there more than once. Raises TextError, which lists
    the occurrences, or says what words there are.
    """
    word = word.strip()
    found = [match.span() for match in re.finditer(rf"(?<!\w){re.escape(word)}(?!\w)", text)] if word else []
    if not found:
        words = dict.fromkeys(re.findall(r"\w+", text))
        raise TextError(f"The word {word!r} is not in {text!r}", expected="one of its words: " + ", ".join(words))
    if occurrence is None and len(found) > 1:
        listed = "; ".join(f"{n}: {context(text, *span)}" for n, span in enumerate(found, 1))
        given = f"The word {word!r} occurs {len(found)} times in {text!r}"
        raise TextError(given, expected=f"an occurrence ({listed})", then="name one by its number")
    if occurrence is not None and not 1 <= occurrence <= len(found):
        raise TextError(f"Occurrence {occurrence} of {word!r}", expected=f"1 to {len(found)}, since that is how often it is in {text!r}")
    start, end = found[(occurrence or 1) - 1]
    return pieces_of(pieces, start, end)


def pieces_of(pieces: Sequence["Piece"], start: int, end: int) -> list[int]:
    """The places of the pieces that share a character with text[start:end]."""
    return [n for n, piece in enumerate(pieces) if piece.span[0] < end and piece.span[1] > start]


def context(text: str, start: int, end: int, around: int = 12) -> str:
    before, after = text[max(0, start - around) : start], text[end : end + around]
    return f"…{before}[{text[start:end]}]{after}…"
