"""One text or twin, floor by floor: what the head reads, how long the stream and its parts are, and what is lost without a floor.

A floor is a depth of the residual stream: 0 is what enters the first block, n what the nth block leaves.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cutaway.core.tap import Tap, untapped
from cutaway.errors import TextError
from cutaway.lab import e03_where_places as twins
from cutaway.lab.e04_heads_ablation import losses
from cutaway.lab.texts import Asked
from cutaway.model import Model
from cutaway.trace.edit import editing
from cutaway.trace.odds import LogOdds, single
from cutaway.trace.patch import patch_sweep
from cutaway.worlds import Twin


def streams(model: Model, ids: Tensor) -> Tensor:
    """(F, B, T, D): the stream at every floor."""
    held: list[Tensor] = []
    wanted = set(twins.stream(model))

    def keep(name: str, x: Tensor) -> Tensor:
        if name in wanted:
            held.append(x)
        return x

    model.transformer(ids, tap=Tap(editing(model.edits, keep)))
    return torch.stack(held)


@torch.no_grad()
def readable(model: Model, asked: Asked, rng: np.random.Generator) -> dict[str, Any]:
    """At each place that is asked, by floor: does the head read first what the last floor has first, and KL(last ‖ floor) in nats;
    the same with the head's rows shuffled; and at how many places the last floor does not have first what the model says there.
    """
    ids, labels = asked
    at = labels >= 0
    logits = model.transformer.end(streams(model, ids)[:, at], untapped)  # (F, P, V)
    nats = logits.float().log_softmax(dim=-1)
    last = nats[-1]
    shuffle = torch.from_numpy(rng.permutation(nats.shape[-1])).to(nats.device)
    kl = [(last.exp() * (last - floor)).sum(-1).mean().item() for floor in nats]
    first = [(floor.argmax(-1) == last.argmax(-1)).float().mean().item() for floor in nats]
    shuffled = [(shuffle[floor.argmax(-1)] == last.argmax(-1)).float().mean().item() for floor in nats]
    differs = int((model.logits(ids)[at].argmax(-1) != last.argmax(-1)).sum())
    return {"kl": kl, "first": first, "shuffled": shuffled, "differs": differs, "places": int(at.sum())}


@torch.no_grad()
def lengths(model: Model, ids: Tensor) -> dict[str, list[Any]]:
    """By floor the stream's length at position 0 and the mean behind it; by block, for attention and the MLP, the mean length of
    what is written as a share of what it is added to, and the cosine between the two.
    """
    taps: dict[str, Tensor] = {}

    def keep(name: str, x: Tensor) -> Tensor:
        taps[name] = x[0]
        return x

    model.transformer(ids, tap=Tap(editing(model.edits, keep)))
    stream = [taps[name].norm(dim=-1) for name in twins.stream(model)]  # F of (T)
    found: dict[str, list[Any]] = {"first": [x[0].item() for x in stream], "rest": [x[1:].mean().item() for x in stream]}
    for n in range(model.config.layers):
        under = f"blocks.{n}"
        adds = {"attn": f"{under}.resid_pre", "mlp": f"{under}.{'resid_mid' if model.config.norm_first else 'ln1'}"}
        for part, to in adds.items():
            wrote, base = taps[f"{under}.{part}.out"][1:], taps[to][1:]
            found.setdefault(f"{part}.share", []).append((wrote.norm(dim=-1) / base.norm(dim=-1)).mean().item())
            found.setdefault(f"{part}.cosine", []).append(torch.cosine_similarity(wrote, base, dim=-1).mean().item())
    return found


@torch.no_grad()
def skipping(model: Model, ids: Tensor, block: int | None) -> Tensor:
    """What the last block leaves (B, T, D), if one block leaves the stream as it is, its norms and all."""
    tap = Tap(editing(model.edits)) if model.edits else untapped
    x, mask, turn = model.transformer.begin(ids, None, None, tap)
    for n, one in enumerate(model.transformer.blocks):
        if n != block:
            x = one(x, mask, turn, None, tap.at(f"blocks.{n}"))
    return x


@torch.no_grad()
def skipped(model: Model, ids: Tensor, labels: Tensor | None) -> list[float]:
    """Of each block: how much the loss rises without it, in nats a token. Without labels, the last stream's change as a share of it."""
    whole = skipping(model, ids, None)
    changed = (skipping(model, ids, n) for n in range(model.config.layers))
    if labels is None:
        return [((x - whole).norm(dim=-1) / whole.norm(dim=-1)).mean().item() for x in changed]
    plain, *without = (losses(model.transformer.end(x, untapped), labels).mean().item() for x in (whole, *changed))
    return [loss - plain for loss in without]


@torch.no_grad()
def referent(model: Model, twin: Twin) -> dict[str, Any]:
    """Of a twin: by sentence and floor the odds of the noun that is meant, in nats, where the answer is read; and by floor the effect
    of patching that place alone from the first sentence into the second. Empty where a noun is several pieces,
    the sentences are of unequal length, or their answers too close to patch.
    """
    try:
        nouns = [single(model, noun) for noun in twin.nouns]
    except TextError:
        return {}
    at = twins.places(model, twin, masked=True)["answer" if model.config.head == "lm" else "pronoun"]
    a, b = (twins.read(model, twin, sentence, masked=True) for sentence in (twin.a, twin.b))
    if len(model.pieces(a)) != len(model.pieces(b)):
        return {}
    found = patch_sweep(model, a, b, twins.stream(model), LogOdds(*nouns), positions=[at], both=False, least=twins.LEAST)
    if not found.pairs:
        return {}
    odds = []
    for text, means in zip((a, b), twin.means, strict=True):
        ids = torch.tensor([[piece.id for piece in model.pieces(text)]], device=model.device)
        logits = model.transformer.end(streams(model, ids)[:, :, at], untapped)[:, 0]  # (F, V)
        odds.append((logits[:, nouns[means]] - logits[:, nouns[1 - means]]).tolist())
    return {"odds": odds, "effects": list(found.pairs[0].denoising or ())}


def settled(values: Sequence[bool]) -> int:
    """The first floor from which all are true, the last of them included."""
    return max((n + 1 for n, value in enumerate(values[:-1]) if not value), default=0)
