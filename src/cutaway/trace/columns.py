"""A column is what enters each block at one position: everything that later positions can read there.

Swapping one column for that of another text's run asks: does the answer depend on what is held there? What the texts
have in common is read once; a causal model cannot change it, so every run goes on from there, in equal shapes.
"""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from cutaway.core.cache import Cache
from cutaway.core.tap import See, Tap

if TYPE_CHECKING:
    from cutaway.model import Model

Columns = dict[str, Tensor]


@torch.no_grad()
def read(model: "Model", ids: Tensor) -> Cache:
    """The keys and values of the common beginning (B, T) of some texts, which may be empty."""
    beginning = Cache(model.config, len(ids), ids.shape[1], dtype=model.dtype, device=model.device)
    if ids.shape[1]:
        model.transformer(ids, cache=beginning)
    return beginning


@torch.no_grad()
def go_on(model: "Model", beginning: Cache, ids: Tensor, see: See = lambda name, x: x) -> Tensor:
    """Logits (B, T, V) of ids (B, T) after the beginning, which stays as it is; `see` as of a tap."""
    room = beginning.length + ids.shape[1]
    return model.transformer(ids, cache=beginning.fork(room), tap=Tap(see))  # type: ignore[no-any-return]


def columns(model: "Model", beginning: Cache, ids: Tensor) -> Columns:
    """What enters each block (B, T, D), by tap, behind the beginning."""
    held: Columns = {}

    def keep(name: str, x: Tensor) -> Tensor:
        if name.endswith(".resid_pre"):
            held[name] = x
        return x

    go_on(model, beginning, ids, keep)
    return held


def swapped(model: "Model", beginning: Cache, ids: Tensor, donor: Columns, place: int) -> Tensor:
    """Logits (B, T, V) when the column at `place`, counted from the beginning's end, is the donor's instead."""

    def swap(name: str, x: Tensor) -> Tensor:
        if name.endswith(".resid_pre"):
            x = x.clone()
            x[:, place] = donor[name][:, place]
        return x

    return go_on(model, beginning, ids, swap)
