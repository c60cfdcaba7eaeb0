"""What a model loses without a head: its z made zero, made its mean, or taken from another text. The rest of the model runs on as it is."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from cutaway.core.tap import Tap
from cutaway.lab.texts import Asked
from cutaway.model import Model
from cutaway.trace.edit import editing
from cutaway.train.objectives import IGNORE

HOWS = ("zero", "mean", "resample")
Instead = dict[str, Callable[[int], Tensor]]  # by way: of a layer, what is written in the place of z, broadcasting to (N, H, T, K)


@dataclass(frozen=True)
class Clean:
    """One run as it is: what enters each layer (L of (N, T, D)), each layer's z (L of (N, H, T, K)), and the losses (N) in nats a token."""

    entering: list[Tensor]
    z: list[Tensor]
    losses: Tensor


@torch.no_grad()
def clean(model: Model, ids: Tensor, labels: Tensor) -> Clean:
    entering: list[Tensor] = []
    z: list[Tensor] = []

    def see(name: str, x: Tensor) -> Tensor:
        if name.endswith("attn.z"):
            z.append(x)
        elif name.startswith("blocks.") and name.endswith("resid_pre"):
            entering.append(x)
        return x

    logits = model.transformer(ids, tap=Tap(editing(model.edits, see)))
    return Clean(entering, z, losses(logits, labels))


def losses(logits: Tensor, labels: Tensor) -> Tensor:
    """(N): of each row the mean over what is asked, in nats a token."""
    each = F.cross_entropy(logits.flatten(0, 1).double(), labels.flatten(), ignore_index=IGNORE, reduction="none").view_as(labels)
    return each.sum(dim=1) / (labels != IGNORE).sum(dim=1).clamp(min=1)


@torch.no_grad()
def without(model: Model, ids: Tensor, labels: Tensor, run: Clean, layer: int, head: int, z: Tensor) -> Tensor:
    """The losses (N) if one head's z is replaced by that head of `z`. The layers before it are not run again."""

    def see(name: str, x: Tensor) -> Tensor:
        if name != f"blocks.{layer}.attn.z":
            return x
        x = x.clone()
        x[:, head] = z.expand_as(x)[:, head]
        return x

    tap, transformer = Tap(editing(model.edits, see)), model.transformer
    _, mask, turn = transformer.begin(ids, None, None, Tap(editing(model.edits)))
    x = run.entering[layer]
    for n, block in enumerate(transformer.blocks[layer:], start=layer):
        x = block(x, mask, turn, None, tap.at(f"blocks.{n}"))
    return losses(transformer.end(x, tap), labels)


@torch.no_grad()
def without_any(model: Model, ids: Tensor, labels: Tensor, means: Sequence[Tensor]) -> Tensor:
    """The losses (N) if every head writes its mean, `means` being (H, K) of each layer: no position then reads another."""

    def see(name: str, x: Tensor) -> Tensor:
        return means[int(name.split(".")[1])][:, None].expand_as(x) if name.endswith("attn.z") else x

    return losses(model.transformer(ids, tap=Tap(editing(model.edits, see))), labels)


def rises(model: Model, ids: Tensor, labels: Tensor, run: Clean, instead: Instead) -> NDArray[np.float64]:
    """(ways, L, H, N): how much each row's loss rises, in nats a token."""
    config = model.config
    found = np.empty((len(instead), config.layers, config.heads, len(ids)))
    for layer in range(config.layers):
        for way, z_of in enumerate(instead.values()):
            z = z_of(layer)
            for head in range(config.heads):
                found[way, layer, head] = (without(model, ids, labels, run, layer, head, z) - run.losses).numpy(force=True)
    return found


def of_batch(model: Model, ids: Tensor, labels: Tensor) -> NDArray[np.float64]:
    """Rows of one length: the mean is that of all of them, and another row's z stands in at the same position."""
    run = clean(model, ids, labels)
    instead: Instead = {
        "zero": lambda layer: torch.zeros(()),
        "mean": lambda layer: run.z[layer].mean(dim=(0, 2))[:, None],
        "resample": lambda layer: run.z[layer].roll(1, dims=0),
    }
    return rises(model, ids, labels, run, instead)


@dataclass(frozen=True)
class OfText:
    """How much one text's loss rises, in nats a token: without each head (ways, L, H), and with the mean in the place of all of them."""

    each: NDArray[np.float64]
    every: float


def of_texts(model: Model, asked: Sequence[Asked]) -> Callable[[int], OfText]:
    """What measures the nth text, rows of it together. Another text's z stands in, from its start again if it is short."""
    runs = [clean(model, ids, labels) for ids, labels in asked]
    means = [torch.cat([run.z[n].transpose(0, 1).flatten(1, 2) for run in runs], dim=1).mean(dim=1) for n in range(model.config.layers)]

    def of_text(place: int) -> OfText:
        (ids, labels), run, other = asked[place], runs[place], runs[place - 1]

        def resampled(layer: int) -> Tensor:
            z = other.z[layer][:1]
            return z[:, :, torch.arange(ids.shape[1]) % z.shape[2]]

        instead: Instead = {"zero": lambda layer: torch.zeros(()), "mean": lambda layer: means[layer][:, None], "resample": resampled}
        each = rises(model, ids, labels, run, instead).mean(axis=-1)
        return OfText(each, float((without_any(model, ids, labels, means) - run.losses).mean()))

    return of_text


def second_copy(ids: Tensor, front: int, length: int) -> Tensor:
    """Labels (N, T): the tokens of the second copy but for its first, each asked for at the token before it."""
    labels = torch.full_like(ids, IGNORE)
    asked = slice(front + length, front + 2 * length - 1)
    labels[:, asked] = ids[:, asked.start + 1 : asked.stop + 1]
    return labels
