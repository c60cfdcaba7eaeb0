"""Attention patterns, small enough to be looked at: what `attend` gives, and how each is cut smaller still for what shows it.

Nothing is read from a model here. What the cuts look like is said in `render` and `charts`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from math import isqrt
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from cutaway.render import MOST_CELLS, facts, visible

if TYPE_CHECKING:
    from altair import TopLevelMixin


@dataclass(frozen=True, kw_only=True)
class View:
    """What all the results say. `tokens` are the whole text's; `window` (start, end) are those that are looked at.

    Masked places hold 0 in tensors, and `readable` is false there; in `to_dict` they are None.
    """

    text: str
    tokens: tuple[str, ...]
    window: tuple[int, int]
    edits: tuple[str, ...]
    notes: tuple[str, ...]
    facts: dict[str, Any]

    @property
    def shown(self) -> tuple[str, ...]:
        """The tokens of the window."""
        return self.tokens[slice(*self.window)]

    @property
    def whole(self) -> bool:
        return self.window == (0, len(self.tokens))

    @property
    def left_out(self) -> str:
        """What part of the text this is, in words; empty if it is all of it."""
        first, end = self.window
        return "" if self.whole else f"Tokens {first} to {end - 1} of {len(self.tokens):,} are shown."

    def to_dict(self) -> dict[str, Any]:
        return {field.name: plain(getattr(self, field.name)) for field in fields(self)}

    def page(self) -> str:
        """One self-contained page."""
        from cutaway import render

        return render.attention_page(self._repr_html_())

    def _repr_html_(self) -> str:
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class Thumbnails(View):
    """Every head of every layer. cells (L, H, P, P): the largest weight of `step` × `step` tokens; readable (P, P)."""

    step: int
    cells: Tensor
    readable: Tensor

    @property
    def cell(self) -> str:
        """What a cell is, in words."""
        each = "A cell is one weight" if self.step == 1 else f"A cell is the largest weight of {self.step} × {self.step} tokens"
        return f"{each}; rows ask, columns are read"

    def fitting(self, side: int) -> "Thumbnails":
        """The same with at most `side` cells on a side."""
        by = -(-len(self.readable) // side)
        return replace(self, step=self.step * by, cells=pooled(self.cells, by), readable=pooled(self.readable, by)) if by > 1 else self

    def picture(self) -> "Thumbnails":
        """The same, as fine as a page can bear."""
        return self.fitting(isqrt(MOST_CELLS // self.cells[:, :, 0, 0].numel()) or 1)

    def chart(self) -> "TopLevelMixin":
        small = self.picture()
        layers, across = small.cells.shape[:2]
        names = [f"{layer}.{head}" for layer in range(layers) for head in range(across)]
        pictures = dict(zip(names, listed(small.cells.flatten(0, 1), small.readable), strict=True))
        return charted(small, pictures, across=across, title=small.cell)

    def to_dict(self) -> dict[str, Any]:
        return super().to_dict() | {"cells": listed(self.cells, self.readable)}

    def _repr_html_(self) -> str:
        from cutaway import render

        return render.thumbnails(self)


@dataclass(frozen=True, kw_only=True)
class Heads(View):
    """Heads of one layer. weights (h, W, W): rows ask, columns are read; readable (W, W).

    elsewhere (h, W): the weight that each row gives to tokens outside the window, so that the two sum to 1.
    """

    layer: int
    heads: tuple[int, ...]
    weights: Tensor
    elsewhere: Tensor
    readable: Tensor

    def first(self, count: int) -> "Heads":
        """The same of the first tokens of the window alone."""
        start, end = self.window
        kept = slice(count)
        return replace(
            self,
            window=(start, min(end, start + count)),
            weights=self.weights[:, kept, kept],
            elsewhere=self.elsewhere[:, kept] + self.weights[:, kept, count:].sum(dim=-1),
            readable=self.readable[kept, kept],
        )

    def picture(self) -> "Heads":
        """The same of as many tokens as a page can bear."""
        return self.first(isqrt(MOST_CELLS // len(self.heads)) or 1)

    def chart(self) -> "TopLevelMixin":
        small = self.picture()
        pictures = {
            f"layer {self.layer} head {head}": rows for head, rows in zip(self.heads, listed(small.weights, small.readable), strict=True)
        }
        places = labels(small)
        return charted(small, pictures, across=min(len(pictures), 2), rows=places, columns=places, title="Rows ask, columns are read")

    def to_dict(self) -> dict[str, Any]:
        return super().to_dict() | {"weights": listed(self.weights, self.readable)}

    def _repr_html_(self) -> str:
        from cutaway import render

        return render.heads(self)


@dataclass(frozen=True, kw_only=True)
class Rows(View):
    """Where the token at `position` looks, in n heads. weights, lengths (n, W): see `trace.attention`; readable (W).

    heads: the layer and the head of each row. elsewhere (n): the weight that goes to tokens outside the window.
    """

    query: str
    position: int
    heads: tuple[tuple[int, int], ...]
    weights: Tensor
    lengths: Tensor
    elsewhere: Tensor
    readable: Tensor

    def around(self, count: int) -> "Rows":
        """The same of at most `count` tokens of the window alone, the last of which is the asking one where that can be."""
        start, end = ending(self.position, self.window, count)
        kept = slice(start - self.window[0], end - self.window[0])
        weights = self.weights[:, kept]
        gone = self.weights.sum(dim=-1) - weights.sum(dim=-1) if weights.shape != self.weights.shape else 0
        return replace(
            self,
            window=(start, end),
            weights=weights,
            lengths=self.lengths[:, kept],
            elsewhere=self.elsewhere + gone,
            readable=self.readable[kept],
        )

    def picture(self) -> "Rows":
        """The same of as many tokens as a page can bear, in two pictures."""
        return self.around(MOST_CELLS // (2 * len(self.heads)) or 1)

    def chart(self) -> "TopLevelMixin":
        small = self.picture()
        rows = [f"{layer}.{head}" for layer, head in self.heads]
        title = f"Where token {self.position}, “{self.query}”, looks: a row for each layer.head"
        return charted(small, {"weights": listed(small.weights, small.readable)}, across=1, rows=rows, columns=labels(small), title=title)

    def to_dict(self) -> dict[str, Any]:
        return super().to_dict() | {name: listed(getattr(self, name), self.readable) for name in ("weights", "lengths")}

    def _repr_html_(self) -> str:
        from cutaway import render

        return render.rows(self)


@dataclass(frozen=True)
class Link:
    """One token reads another."""

    position: int
    weight: float


@dataclass(frozen=True, kw_only=True)
class Links(View):
    """The strongest weights of one head. `links` has a tuple for each token of the window: where it looks most, wherever that is."""

    layer: int
    head: int
    links: tuple[tuple[Link, ...], ...]

    def to_dict(self) -> dict[str, Any]:
        return super().to_dict() | {"links": [[vars(link) for link in row] for row in self.links]}

    def _repr_html_(self) -> str:
        from cutaway import render

        return render.links(self)


def ending(position: int, window: tuple[int, int], most: int) -> tuple[int, int]:
    """At most so many tokens of the window, up to `position` and with it, if it does not lie among the first so many."""
    start, end = window
    first = min(max(start, position + 1 - most), max(start, end - most))
    return first, min(end, first + most)


def pooled(x: Tensor, step: int) -> Tensor:
    """The largest of each step × step square: (…, W, W) becomes (…, P, P), P = W / step rounded up."""
    if step == 1:
        return x.clone()
    for side in (-2, -1):  # not by max_pool2d, which takes many times as long and has no half precision or truth values
        x = torch.stack([part.amax(side) for part in x.split(step, side)], side)
    return x


def listed(values: Tensor, readable: Tensor) -> list[Any]:
    """As JSON has it: None where nothing may be read."""
    array = values.double().numpy().astype(object)
    array[~readable.expand_as(values).numpy()] = None
    return array.tolist()  # type: ignore[no-any-return]


def plain(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.tolist()
    return [plain(one) for one in value] if isinstance(value, Sequence) and not isinstance(value, str) else value


def labels(view: View) -> list[str]:
    """The shown tokens with their places, so that no two are alike; without blanks, for which few fonts have a sign."""
    return [f"{n} {visible(token.strip() or token)}" for n, token in enumerate(view.shown, view.window[0])]


def charted(view: View, pictures: Mapping[str, Any], *, title: str, **layout: Any) -> "TopLevelMixin":
    from cutaway import charts

    return charts.heat(pictures, title=title, subtitle=[facts(view.facts), view.left_out or "The whole text."], **layout)
