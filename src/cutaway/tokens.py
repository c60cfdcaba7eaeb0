"""Neither letters nor words: the pieces in which a model reads a text, under one or several tokenizers.

Needs a tokenizer's files alone; no weights are opened and no torch is loaded.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from cutaway.errors import TextError
from cutaway.locate import locate
from cutaway.text import Piece, Step, Tokenizer, load_tokenizer


@dataclass(frozen=True)
class Tokenized:
    """A text under one tokenizer, as its model reads it. `tokens` are the vocabulary's own spellings of `pieces`."""

    tokenizer: str
    kind: str
    description: str
    vocab_size: int
    pieces: tuple[Piece, ...]
    tokens: tuple[str, ...]
    steps: tuple[Step, ...] | None  # each word begins with a step that has no pair

    def to_dict(self) -> dict[str, Any]:
        """As JSON knows no bytes, a piece's are a list of numbers."""
        both = zip(self.pieces, self.tokens, strict=True)
        pieces = [asdict(piece) | {"token": token, "bytes": list(piece.bytes)} for piece, token in both]
        about = {"tokenizer": self.tokenizer, "kind": self.kind, "description": self.description, "vocab_size": self.vocab_size}
        return about | {"pieces": pieces, "steps": None if self.steps is None else [asdict(step) for step in self.steps]}


@dataclass(frozen=True)
class Tokens:
    """One text, cut by each tokenizer."""

    text: str
    tokenizers: tuple[Tokenized, ...]
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        return {"text": self.text, "tokenizers": [one.to_dict() for one in self.tokenizers], "notes": list(self.notes)}


def tokens(text: str, sources: Sequence[str], *, steps: bool = False, offline: bool = False) -> Tokens:
    """Cut `text` as each model in `sources` does: a known name, or a folder of tokenizer files. `steps` keeps every merge.

    Raises TextError for an empty text, ModelError or TokenizerError for a source that cannot be used.
    """
    if not text:
        raise TextError("The text is empty", expected="at least one character")
    found = [locate(source, offline=offline) for source in sources]
    cut = (tokenized(name, load_tokenizer(path if path.is_dir() else path.parent), text, steps) for name, path, _ in found)
    return Tokens(text, tuple(cut), tuple(note for *_, notes in found for note in notes))


def tokenized(name: str, tokenizer: Tokenizer, text: str, steps: bool = False) -> Tokenized:
    pieces = tokenizer.pieces(text, wrap=True, allow_special=tokenizer.kind == "roberta")
    return Tokenized(
        tokenizer=name,
        kind=tokenizer.kind,
        description=tokenizer.description,
        vocab_size=tokenizer.vocab_size,
        pieces=tuple(pieces),
        tokens=tuple(tokenizer.token(piece.id) for piece in pieces),
        steps=tuple(tokenizer.steps(text)) if steps else None,
    )

