"""What comes next? The likeliest tokens after a text, with their probabilities."""

from dataclasses import asdict, dataclass
from typing import Any

from cutaway.model import Model
from cutaway.sample import Candidate, likeliest


@dataclass(frozen=True)
class NextToken:
    """The likeliest next tokens after `text`, the likeliest first."""

    text: str
    tokens: tuple[str, ...]
    candidates: tuple[Candidate, ...]
    edits: tuple[str, ...]
    notes: tuple[str, ...]
    facts: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def _repr_html_(self) -> str:
        from cutaway import render

        return render.next_token(self)


def next_token(model: Model, text: str, k: int = 10) -> NextToken:
    """The k likeliest next tokens. Raises ModelError for a model without a language-model head, TextError for k below 1."""
    model.require_head("lm", "next")
    ids, lengths, pieces = model.batch([text])
    candidates = likeliest(model, model.logits(ids, lengths)[0, -1], k)
    return NextToken(text, tuple(p.text for p in pieces[0]), candidates, model.listed_edits, model.notes_on(text), model.facts_of_run())
