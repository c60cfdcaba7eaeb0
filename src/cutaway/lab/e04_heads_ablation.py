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
def without(model: Model, asked: Asked, run: Clean, layer: int, heads: Sequence[int], z: Tensor) -> Tensor:
    """(h, N): the losses if one of these heads writes that head of `z`, each of the h heads in rows of its own.

    The layers before it are not run again.
    """
    ids, labels = (rows.repeat(len(heads), 1) for rows in asked)

    def see(name: str, x: Tensor) -> Tensor:
        if name != f"blocks.{layer}.attn.z":
            return x
        x = x.unflatten(0, (len(heads), -1)).clone()  # (h, N, H, T, K)
        for place, head in enumerate(heads):
            x[place, :, head] = z.expand_as(x[place])[:, head]
        return x.flatten(0, 1)

    tap, transformer = Tap(editing(model.edits, see)), model.transformer
    _, mask, turn = transformer.begin(ids, None, None, Tap(editing(model.edits)))
    x = run.entering[layer].repeat(len(heads), 1, 1)
    for n, block in enumerate(transformer.blocks[layer:], start=layer):
        x = block(x, mask, turn, None, tap.at(f"blocks.{n}"))
    return losses(transformer.end(x, tap), labels).view(len(heads), -1)


@torch.no_grad()
def without_any(model: Model, ids: Tensor, labels: Tensor, means: Sequence[Tensor]) -> Tensor:
    """The losses (N) if every head writes its mean, `means` being (H, K) of each layer: no position then reads another."""

    def see(name: str, x: Tensor) -> Tensor:
        return means[int(name.split(".")[1])][:, None].expand_as(x) if name.endswith("attn.z") else x

    return losses(model.transformer(ids, tap=Tap(editing(model.edits, see))), labels)


def rises(model: Model, asked: Asked, run: Clean, instead: Instead, chosen: NDArray[np.bool_]) -> NDArray[np.float64]:
    """(ways, L, H): how much the loss rises without each chosen head (L, H), in nats a token, over all rows; NaN for the others."""
    found = np.full((len(instead), *chosen.shape), np.nan)
    for layer, here in enumerate(chosen):
        heads = np.flatnonzero(here).tolist()
        for way, z_of in enumerate(instead.values() if heads else ()):
            found[way, layer, heads] = (without(model, asked, run, layer, heads, z_of(layer)) - run.losses).mean(dim=1).numpy(force=True)
    return found


class Ablation:
    """Texts, run once as they are, to be measured one by one. The mean is that of all their positions."""

    def __init__(self, model: Model, asked: Sequence[Asked]) -> None:
        self.model, self.asked = model, asked
        self.runs = [clean(model, ids, labels) for ids, labels in asked]
        whole = [[run.z[layer].transpose(0, 1).flatten(1, 2) for run in self.runs] for layer in range(model.config.layers)]
        self.means = [torch.cat(each, dim=1).mean(dim=1) for each in whole]  # L of (H, K)

    def of_each(self, text: int, hows: Sequence[str] = HOWS, chosen: NDArray[np.bool_] | None = None) -> NDArray[np.float64]:
        """(ways, L, H): how much this text's loss rises without each chosen head, all if none are named."""
        if chosen is None:
            chosen = np.ones((self.model.config.layers, self.model.config.heads), dtype=bool)
        ways: Instead = {
            "zero": lambda layer: torch.zeros((), device=self.model.device),
            "mean": lambda layer: self.means[layer][:, None],
            "resample": lambda layer: self.resampled(text, layer),
        }
        return rises(self.model, self.asked[text], self.runs[text], {how: ways[how] for how in hows}, chosen)

    def of_all(self, text: int) -> float:
        """How much this text's loss rises with the mean in the place of every head."""
        return float((without_any(self.model, *self.asked[text], self.means) - self.runs[text].losses).mean())

    def resampled(self, text: int, layer: int) -> Tensor:
        """(1, H, T, K): what stood at the same position of the text before this one, from its start again if it is short."""
        z, tokens = self.runs[text - 1].z[layer][:1], self.asked[text][0].shape[1]
        return z[:, :, torch.arange(tokens, device=z.device) % z.shape[2]]


def second_copy(ids: Tensor, front: int, length: int) -> Tensor:
    """Labels (N, T): the tokens of the second copy but for its first, each asked for at the token before it."""
    labels = torch.full_like(ids, IGNORE)
    asked = slice(front + length, front + 2 * length - 1)
    labels[:, asked] = ids[:, asked.start + 1 : asked.stop + 1]
    return labels
