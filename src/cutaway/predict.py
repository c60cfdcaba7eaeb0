"""What comes next? The likeliest tokens after a text, with their probabilities."""

from dataclasses import asdict, dataclass
from typing import Any

from cutaway.errors import TextError
from cutaway.model import Model


@dataclass(frozen=True)
class Candidate:
    """One possible next token: `logit` in nats up to a constant, `probability` from 0 to 1 over the whole vocabulary."""

    id: int
    token: str
    text: str
    logit: float
    probability: float


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


def named(model: Model, number: int) -> tuple[str, str]:
    """The vocabulary's spelling of an id, and its text. Some files have more rows than their vocabulary has ids."""
    if number >= model.tokenizer.vocab_size:
        return f"row {number}, which has no token", ""
    return model.tokenizer.token(number), model.tokenizer.decode([number])


def next_token(model: Model, text: str, k: int = 10) -> NextToken:
    """The k likeliest next tokens. Raises ModelError for a model without a next-token head, TextError for k below 1."""
    model.require_head("lm", "next")
    if k < 1:
        raise TextError(f"k is {k}", expected="at least 1")
    ids, lengths, pieces = model.batch([text])
    last = model.logits(ids, lengths)[0, -1]  # (V)
    odds = last.float().softmax(dim=-1)
    best = odds.topk(min(k, len(odds)))
    candidates = tuple(Candidate(n, *named(model, n), last[n].item(), odds[n].item()) for n in best.indices.tolist())
    edits = tuple(line for group in model.edits for line in group.listed())
    kernel = "eager" if model.edits else "sdpa"
    return NextToken(text, tuple(p.text for p in pieces[0]), candidates, edits, model.notes_on(text), model.facts() | {"kernel": kernel})
