"""What stood there? The likeliest tokens behind each mask in a text, with their probabilities.

One token a mask: a word of several pieces is not put together.
"""

from dataclasses import asdict, dataclass
from typing import Any

from cutaway.errors import TextError
from cutaway.model import Model
from cutaway.sample import Candidate, likeliest

MASKS = ("<mask>", "[MASK]")  # RoBERTa's and BERT's


@dataclass(frozen=True)
class Filled:
    """One mask: its place among the tokens, and the likeliest tokens there."""

    position: int
    candidates: tuple[Candidate, ...]


@dataclass(frozen=True)
class Fill:
    """Every mask of `text`, each read on its own: what is likely at one does not wait for what is chosen at another."""

    text: str
    tokens: tuple[str, ...]
    masks: tuple[Filled, ...]
    edits: tuple[str, ...]
    notes: tuple[str, ...]
    facts: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def _repr_html_(self) -> str:
        from cutaway import render

        return render.fill(self)


def fill(model: Model, text: str, k: int = 5) -> Fill:
    """The k likeliest tokens at each mask.

    Raises ModelError for a model without a masked-word head, TextError for a text without a mask or k below 1.
    """
    model.require_head("mlm", "fill")
    ids, lengths, pieces = model.batch([text])
    mask = next((name for name in MASKS if name in model.tokenizer.specials), MASKS[0])
    places = [n for n, piece in enumerate(pieces[0]) if piece.id == model.tokenizer.specials.get(mask)]
    if not places:
        raise TextError(f"The text has no {mask}: {text!r}", expected=f"a text with {mask} where a word is sought")
    logits = model.logits(ids, lengths)[0]  # (T, V)
    masks = tuple(Filled(place, likeliest(model, logits[place], k)) for place in places)
    return Fill(text, tuple(p.text for p in pieces[0]), masks, model.listed_edits, model.notes_on(text), model.facts_of_run())
