"""Chapter 3: where does a causal model find out which noun a pronoun means?

At the pronoun it cannot know. So each later position's column is swapped for that of the twin's run, and the answer is
read where the text goes on to reveal it: how far does log p(first noun) − log p(second noun) move?
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import groupby

import torch
from torch import Tensor

from cutaway.core.tap import Tap
from cutaway.model import Model
from cutaway.trace.columns import columns, swapped
from cutaway.worlds import Twin, twin_set

REVEAL = " The"  # the continuation that has to name one of the two


@dataclass(frozen=True)
class Later:
    """One position after the pronoun; effects in nats.

    `effect`: how far swapping its column for the twin's moves the log odds towards the second noun, which the twin means.
    `neutral`: how far the neutral twin's column moves them, either way; None without a neutral twin.
    `threshold`: what 95 % of neutral swaps over the model's test set stay below; None if it has no test set.
    """

    position: int
    token: tuple[str, str]
    effect: float
    neutral: float | None
    threshold: float | None

    @property
    def found_out(self) -> bool | None:
        """Does the effect exceed what neutral swaps do? None if that was not measured."""
        return None if self.threshold is None else self.effect > self.threshold


@dataclass(frozen=True)
class FindingOut:
    """`odds` (nats): log p(first) − log p(second) at the revealing continuation of either sentence; `n` neutral swaps were made."""

    odds: tuple[float, float]
    n: int
    later: tuple[Later, ...]


@torch.no_grad()
def finding_out(model: Model, a: str, b: str, neutral: str | None, nouns: tuple[str, str], after: int) -> FindingOut | None:
    """Swap each column behind position `after` of `a`, which means the first noun, for that of `b`, which means the second.

    None if a and b have unequal lengths, so that their columns do not pair up.
    """
    one, two = prompt(model, a), prompt(model, b)
    if one.shape != two.shape:
        return None
    first, second = (spelling(model, noun) for noun in nouns)
    base, other = (log_odds(partial(eager, model), ids, first, second) for ids in (one, two))
    places = range(after + 1, one.shape[1])
    effects = (base - swaps(model, one, two, places, first, second))[:, 0]
    three = prompt(model, neutral) if neutral else None
    plain: list[float] | list[None] = [None] * len(places)
    if three is not None and three.shape == one.shape:
        plain = (swaps(model, one, three, places, first, second) - base)[:, 0].abs().tolist()
    threshold, n = neutral_threshold(model) if model.origin.card else (None, 0)
    tokens = [[piece.text for piece in model.pieces(text + REVEAL)] for text in (a, b)]
    later = tuple(
        Later(place, (tokens[0][place], tokens[1][place]), effect, same, threshold)
        for place, effect, same in zip(places, effects.tolist(), plain, strict=True)
    )
    return FindingOut((base.item(), other.item()), n, later)


def prompt(model: Model, text: str) -> Tensor:
    """ids (1, T) of the text and the beginning of what reveals the answer."""
    return torch.tensor([[piece.id for piece in model.pieces(text + REVEAL)]], device=model.device)


def swaps(model: Model, ids: Tensor, donor: Tensor, places: range, first: Tensor, second: Tensor) -> Tensor:
    """Log odds (places, B) with one column of the donor's run at each place."""
    held = columns(model, donor)
    return torch.stack([log_odds(lambda ids, p=place: swapped(model, ids, held, p), ids, first, second) for place in places])  # type: ignore[misc]


def eager(model: Model, ids: Tensor) -> Tensor:
    """Logits through the kernel that swaps go through, so that a swap which changes nothing has the effect 0."""
    return model.transformer(ids, tap=Tap(lambda name, x: x))  # type: ignore[no-any-return]


def log_odds(run: Callable[[Tensor], Tensor], ids: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """log p(first) − log p(second) (B) after ids (B, T), for words of one or several pieces (B, N)."""

    def logits(word: Tensor) -> Tensor:
        return run(torch.cat([ids, word[:, :-1].expand(len(ids), -1)], dim=1))

    def spoken(logits: Tensor, word: Tensor) -> Tensor:
        at_word = logits[:, ids.shape[1] - 1 :].log_softmax(dim=-1)  # (B, N, V)
        return at_word.gather(2, word.expand(len(ids), -1)[..., None]).sum(dim=(1, 2))

    one = logits(first)
    two = one if second.shape[1] == 1 else logits(second)  # a single piece is predicted at the same place
    return spoken(one, first) - spoken(two, second)


@torch.no_grad()
def neutral_threshold(model: Model) -> tuple[float, int]:
    """What 95 % of neutral swaps over the test set stay below (nats), each swap at its strongest position; and how many.

    Twins whose neutral sentence has another length do not pair up and are left out.
    """
    strongest: list[Tensor] = []
    shaped = sorted(((shape_of(model, twin), twin) for twin in twin_set("pairs")), key=lambda pair: pair[0])
    for (length, neutral_length, *_), group in groupby(shaped, key=lambda pair: pair[0]):
        if length != neutral_length:
            continue
        batch = [twin for _, twin in group]
        one, three = (torch.cat([prompt(model, text) for text in texts]) for texts in ([t.a for t in batch], [t.neutral for t in batch]))
        first, second = (torch.cat([spelling(model, twin.nouns[n]) for twin in batch]) for n in (0, 1))
        base = log_odds(partial(eager, model), one, first, second)
        parted = int((one != three).any(dim=0).nonzero()[0])  # of the earliest; a column before its own twin's changes nothing
        moved = swaps(model, one, three, range(parted, one.shape[1]), first, second) - base
        strongest.append(moved.abs().amax(dim=0))
    swapped_twins = torch.cat(strongest)
    return swapped_twins.quantile(0.95).item(), len(swapped_twins)


def shape_of(model: Model, twin: Twin) -> tuple[int, ...]:
    """Tokens of the sentence, of its neutral twin, and of either noun."""
    return tuple(len(model.tokenizer.encode(text)) for text in (twin.a, twin.neutral, *(f" {noun}" for noun in twin.nouns)))


def spelling(model: Model, noun: str) -> Tensor:
    """ids (1, N) of a noun within a text."""
    return torch.tensor([model.tokenizer.encode(f" {noun}")], device=model.device)
