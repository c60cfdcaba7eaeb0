"""A trace: every tap of one run, kept.

Reading gives copies, so that nothing done to them can change what was recorded.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from cutaway.core.tap import Tap
from cutaway.errors import TapError, TextError
from cutaway.text.spans import find_word
from cutaway.trace.edit import editing, no_such_tap

if TYPE_CHECKING:
    from cutaway.model import Model
    from cutaway.text.tokenizer import Piece


@dataclass(frozen=True)
class Attention:
    """Where one position looks: the weight of each source, and how long the vector is that it contributes.

    weights (S): the row of `attn.pattern`. lengths (S): of weight · value · output matrix, the part of `attn.out` that
    comes from each source, in units of the residual stream (Kobayashi et al. 2020, "Attention is Not Only a Weight").
    """

    layer: int
    head: int
    position: int
    pieces: tuple[str, ...]
    weights: Tensor
    lengths: Tensor

    def to_dict(self) -> dict[str, Any]:
        return {
            "layer": self.layer,
            "head": self.head,
            "position": self.position,
            "pieces": list(self.pieces),
            "weights": self.weights.tolist(),
            "lengths": self.lengths.tolist(),
        }

    def _repr_html_(self) -> str:
        from cutaway import render

        return render.attention(self)


@dataclass(frozen=True)
class Trace(Mapping[str, Tensor]):
    """Every tap of one run of one or several texts, by name, in the order in which the run met them.

    `trace["blocks.5.attn.pattern"]` is (H, T, T) for one text, (B, H, T, T) for several; `lengths` says how many
    positions of each are real. `edits` lists the edits in force. The run used the eager kernel.
    """

    model: "Model"
    texts: tuple[str, ...]
    pieces: tuple[tuple["Piece", ...], ...]
    edits: tuple[str, ...]
    taps: Mapping[str, Tensor]

    @property
    def lengths(self) -> tuple[int, ...]:
        return tuple(len(pieces) for pieces in self.pieces)

    @property
    def logits(self) -> Tensor:
        return self["logits"]

    def whole(self, tap: str) -> Tensor:
        """The tap with its batch dimension, not copied. Raises TapError with the taps that there are."""
        if tap not in self.taps:
            raise no_such_tap(tap, list(self.taps))
        return self.taps[tap]

    def __getitem__(self, tap: str) -> Tensor:
        value = self.whole(tap).clone()
        return value[0] if len(self.texts) == 1 else value

    def __contains__(self, tap: object) -> bool:
        return tap in self.taps

    def __iter__(self) -> Iterator[str]:
        return iter(self.taps)

    def __len__(self) -> int:
        return len(self.taps)

    def _repr_html_(self) -> str:
        from cutaway import render

        return render.trace(self)

    def attention(self, *, layer: int, head: int, query: str | int, occurrence: int | None = None, text: int = 0) -> Attention:
        """Where `query` looks, a word of the text or a position, in one head."""
        position = query if isinstance(query, int) else find_word(self.texts[text], self.pieces[text], query, occurrence)[-1]
        position += self.lengths[text] if position < 0 else 0
        config = self.model.config
        asked = {"layer": (layer, config.layers), "head": (head, config.heads), "position": (position, self.lengths[text])}
        for name, (number, size) in asked.items():
            if not 0 <= number < size:
                raise TextError(f"{name} {number}", expected=f"0 to {size - 1}")
        real = self.lengths[text]
        weights = self.taps[f"blocks.{layer}.attn.pattern"][text, head, position, :real].clone()
        shared = config.heads // config.key_heads
        values = self.taps[f"blocks.{layer}.attn.v"][text, head // shared, :real]  # (S, K)
        out = self.model.transformer.blocks[layer].attn.out.weight  # type: ignore[union-attr]  # (D, D)
        of_head = out.unflatten(1, (config.heads, -1))[:, head]  # type: ignore[operator]  # (D, K)
        lengths = weights * (values @ of_head.T).norm(dim=-1)
        return Attention(layer, head, position, tuple(piece.text for piece in self.pieces[text]), weights, lengths.detach())


@torch.no_grad()
def record(model: "Model", texts: Sequence[str]) -> Trace:
    """Run the texts, padded on the right to one length, and keep every tap. Raises TextError for an empty or too long text."""
    ids, lengths, pieces = model.batch(texts)
    taps: dict[str, Tensor] = {}

    def keep(name: str, x: Tensor) -> Tensor:
        taps[name] = x
        return x

    edits = model.edits
    for group in edits:
        group.require_one_length(lengths.tolist())
    model.transformer(ids, lengths=lengths, tap=Tap(editing(edits, keep)))
    listed = tuple(line for group in edits for line in group.listed())
    return Trace(model, tuple(texts), tuple(map(tuple, pieces)), listed, taps)


__all__ = ["Attention", "TapError", "Trace", "record"]
