"""From logits to tokens: which are the likeliest, and how likely each is."""

from dataclasses import dataclass

from torch import Tensor

from cutaway.errors import TextError
from cutaway.model import Model
from cutaway.text.tokenizer import named


@dataclass(frozen=True)
class Candidate:
    """One possible token: `logit` in nats up to a constant, `probability` from 0 to 1 over the whole vocabulary."""

    id: int
    token: str
    text: str
    logit: float
    probability: float


def likeliest(model: Model, logits: Tensor, k: int) -> tuple[Candidate, ...]:
    """The k likeliest tokens by logits (V), the likeliest first. Raises TextError for k below 1."""
    if k < 1:
        raise TextError(f"k is {k}", expected="at least 1")
    odds = logits.float().softmax(dim=-1)
    best = odds.topk(min(k, len(odds)))
    return tuple(Candidate(n, *named(model.tokenizer, n), logits[n].item(), odds[n].item()) for n in best.indices.tolist())
