"""A column is what enters each block at one position: everything that later positions can read there.

Swapping one column for that of another text's run asks: does the answer depend on what is held there?
"""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from cutaway.core.tap import Tap

if TYPE_CHECKING:
    from cutaway.model import Model

Columns = dict[str, Tensor]


@torch.no_grad()
def columns(model: "Model", ids: Tensor) -> Columns:
    """What enters each block (B, T, D), by tap, of texts of one length."""
    held: Columns = {}

    def keep(name: str, x: Tensor) -> Tensor:
        if name.endswith(".resid_pre"):
            held[name] = x
        return x

    model.transformer(ids, tap=Tap(keep))
    return held


@torch.no_grad()
def swapped(model: "Model", ids: Tensor, donor: Columns, position: int) -> Tensor:
    """Logits (B, T, V) when the column at `position` is the donor's instead."""

    def swap(name: str, x: Tensor) -> Tensor:
        if name.endswith(".resid_pre"):
            x = x.clone()
            x[:, position] = donor[name][:, position]
        return x

    return model.transformer(ids, tap=Tap(swap))  # type: ignore[no-any-return]
