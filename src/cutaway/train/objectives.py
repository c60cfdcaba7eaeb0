"""What a model is asked to predict: the next token, or the tokens that were hidden.

An objective turns a batch into what is asked; it computes no loss. Padding is known by length, never by its id, so a
real end-of-text that doubles as padding stays a label (pitfall 54).
"""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from cutaway.train.data import Batch

IGNORE = -100


@dataclass(frozen=True)
class Asked:
    """What one batch asks: inputs (B, T); labels (B, T), IGNORE where nothing is asked; weights (B, T) of each in the loss."""

    inputs: Tensor
    labels: Tensor
    weights: Tensor


class Objective(Protocol):
    def __call__(self, batch: Batch, rng: torch.Generator) -> Asked: ...


def real(batch: Batch) -> Tensor:
    """(B, T), true at tokens, false at padding."""
    return torch.arange(batch.ids.shape[1]) < batch.lengths[:, None]


@dataclass(frozen=True)
class Causal:
    """Each position is asked for the token after it. A passage's answers weigh `salience` times as much as other tokens."""

    salience: float = 1.0

    def __call__(self, batch: Batch, rng: torch.Generator) -> Asked:
        labels = batch.ids.masked_fill(~real(batch), IGNORE)
        weights = torch.where(batch.answers, self.salience, 1.0)
        return Asked(batch.ids[:, :-1], labels[:, 1:], weights[:, 1:])


@dataclass(frozen=True)
class Masked:
    """Positions are chosen at random and asked for their own token; new ones each time (dynamic masking, Liu et al. 2019).

    Of the chosen, 80 % become the mask token, 10 % a random token, 10 % stay (Devlin et al. 2018, section 3.1).
    A passage's answers are chosen with probability `salient`, everything else with `rate`; the masking of what is worth
    asking for is salient span masking (Guu et al. 2020, section 3.4).
    """

    mask: int
    specials: frozenset[int]  # never chosen
    vocab_size: int
    rate: float = 0.15
    salient: float = 0.15

    def __call__(self, batch: Batch, rng: torch.Generator) -> Asked:
        ids, shape = batch.ids, batch.ids.shape
        probability = torch.where(batch.answers, self.salient, self.rate)
        eligible = real(batch) & ~torch.isin(ids, torch.tensor(sorted(self.specials)))
        chosen = (torch.rand(shape, generator=rng) < probability) & eligible
        labels = ids.masked_fill(~chosen, IGNORE)
        fate = torch.rand(shape, generator=rng)
        random = torch.randint(self.vocab_size, shape, generator=rng)
        inputs = torch.where(chosen & (fate < 0.8), self.mask, ids)
        return Asked(torch.where(chosen & (fate >= 0.9), random, inputs), labels, torch.ones(shape))
