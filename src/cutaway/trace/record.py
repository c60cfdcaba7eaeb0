"""A trace: every tap of one run, to be read by name.

Reading gives copies, so that nothing done to them can change what was recorded. What is kept and what is computed again:
see `cutaway.trace.lazy`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import Tensor

from cutaway.errors import ModelError, TapError, TextError
from cutaway.text.spans import find_word
from cutaway.trace.edit import no_such_tap
from cutaway.trace.lazy import Inputs, Keep, Metric, Taps, run, run_with_gradients

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
    taps: Taps
    gradients: Mapping[str, Tensor] | None = None

    @property
    def lengths(self) -> tuple[int, ...]:
        return tuple(len(pieces) for pieces in self.pieces)

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """The shape of every tap, with its batch dimension; none is computed."""
        return self.taps.shapes

    @property
    def logits(self) -> Tensor:
        return self["logits"]

    def whole(self, tap: str) -> Tensor:
        """The tap with its batch dimension, not copied.

        Raises TapError with the taps that there are; ModelError if it was not kept and the weights have changed since.
        """
        if tap not in self.taps:
            raise no_such_tap(tap, list(self.taps))
        return self.taps[tap]

    def __getitem__(self, tap: str) -> Tensor:
        return self.alone(self.whole(tap))

    def grad(self, tap: str) -> Tensor:
        """The gradient of the metric that the trace was made with, in the tap's shape. Raises ModelError without one."""
        if self.gradients is None:
            raise ModelError("This trace was made without gradients", then="make it with grad=METRIC, a function of the logits")
        if tap not in self.gradients:
            raise no_such_tap(tap, list(self.gradients))
        return self.alone(self.gradients[tap])

    def alone(self, x: Tensor) -> Tensor:
        """A copy; without the batch dimension, if there is one text."""
        return x[0].clone() if len(self.texts) == 1 else x.clone()

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


def record(model: "Model", texts: Sequence[str], keep: Keep = None, grad: Metric | None = None) -> Trace:
    """Run the texts, padded on the right to one length.

    Raises TextError for an empty or too long text, TapError if `keep` names no tap.
    """
    ids, lengths, pieces = model.batch(texts)
    for group in model.edits:
        group.require_one_length(lengths.tolist())
    inputs = Inputs(ids, lengths)
    taps, gradients = run_with_gradients(model, inputs, grad) if grad else (run(model, inputs, keep), None)
    return Trace(model, tuple(texts), tuple(map(tuple, pieces)), model.listed_edits, taps, gradients)


__all__ = ["Attention", "TapError", "Trace", "record"]
