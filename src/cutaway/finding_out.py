"""Chapter 3: where does a causal model find out which noun a pronoun means?

At the pronoun it cannot know. So each later position's column is swapped for that of the twin's run, and the answer is
read where the text goes on to reveal it: how far does log p(first noun) − log p(second noun) move?

Two columns move it by construction: the deciding word's own, which is the word, and the last one, where the answer is
read. What is to be learned stands between and beside them: which other columns carry it, and which do not.
"""

from dataclasses import dataclass
from functools import partial
from itertools import groupby

import torch
from torch import Tensor

from cutaway.model import Model
from cutaway.trace.columns import columns, go_on, read, swapped
from cutaway.trace.odds import log_odds, spelling
from cutaway.worlds import Twin, twin_set
from cutaway.worlds.twins import REVEAL


@dataclass(frozen=True)
class Later:
    """One position after the pronoun; effects in nats.

    `effect`: how far swapping its column for the twin's moves the log odds towards the second noun, which the twin means.
    `neutral`: how far the neutral twin's column moves them, either way; None without a neutral twin.
    `threshold`: what 95 % of neutral swaps over the model's test set stay below; None if it has no test set, or the texts
    are outside its world.
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
    start = after + 1
    base, effects = swaps(model, one, two, start, first, second)
    other, _ = swaps(model, two, two, start, first, second)
    three = prompt(model, neutral) if neutral else None
    plain: list[float] | list[None] = [None] * len(effects)
    if three is not None and three.shape == one.shape:
        plain = swaps(model, one, three, start, first, second)[1][:, 0].abs().tolist()
    in_world = bool(model.origin.card) and not any(model.outside(text) for text in (a, b, neutral or ""))
    threshold, n = neutral_threshold(model) if in_world else (None, 0)
    tokens = [[piece.text for piece in model.pieces(text + REVEAL)] for text in (a, b)]
    later = tuple(
        Later(place, (tokens[0][place], tokens[1][place]), effect, same, threshold)
        for place, effect, same in zip(range(start, one.shape[1]), effects[:, 0].tolist(), plain, strict=True)
    )
    return FindingOut((base.item(), other.item()), n, later)


def prompt(model: Model, text: str) -> Tensor:
    """ids (1, T) of the text and the beginning of what reveals the answer."""
    return torch.tensor([[piece.id for piece in model.pieces(text + REVEAL)]], device=model.device)


def swaps(model: Model, ids: Tensor, donor: Tensor, start: int, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """Log odds (B), and how far they move towards the second noun (places, B) with the donor's column at each place from `start` on.

    ids and donor (B, T) are the same up to there. Every run goes on from there in equal shapes through the eager kernel, so
    a swap that changes nothing moves them by exactly 0.
    """
    beginning, rest = read(model, ids[:, :start]), ids[:, start:]
    held = columns(model, beginning, donor[:, start:])
    base = log_odds(partial(go_on, model, beginning), rest, first, second)
    moved = [
        base - log_odds(lambda ids, at=place: swapped(model, beginning, ids, held, at), rest, first, second)  # type: ignore[misc]
        for place in range(rest.shape[1])
    ]
    return base, torch.stack(moved)


@torch.no_grad()
def neutral_threshold(model: Model) -> tuple[float, int]:
    """What 95 % of neutral swaps over the test set stay below (nats), each swap at its strongest position; and how many.

    Twins whose neutral sentence has another length do not pair up and are left out.
    """
    strongest: list[Tensor] = []
    shaped = sorted(((shape_of(model, twin), twin) for twin in twin_set("pairs")), key=lambda pair: pair[0])
    for (length, neutral_length, parted, *_), group in groupby(shaped, key=lambda pair: pair[0]):
        if length == neutral_length:
            batch = [twin for _, twin in group]
            one, three = (torch.cat([prompt(model, getattr(twin, which)) for twin in batch]) for which in ("a", "neutral"))
            first, second = (torch.cat([spelling(model, twin.nouns[n]) for twin in batch]) for n in (0, 1))
            strongest.append(swaps(model, one, three, parted, first, second)[1].abs().amax(dim=0))
    found = torch.cat(strongest)
    return found.quantile(0.95).item(), len(found)


def shape_of(model: Model, twin: Twin) -> tuple[int, ...]:
    """Tokens of the sentence and of its neutral twin, the place where the two part, and tokens of either noun."""
    a, neutral = (model.tokenizer.encode(text) for text in (twin.a, twin.neutral))
    parted = next(n for n, (x, y) in enumerate(zip(a, neutral, strict=False)) if x != y)
    return len(a), len(neutral), parted, *(spelling(model, noun).shape[1] for noun in twin.nouns)
