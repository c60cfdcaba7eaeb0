"""Who reads whom in a text, however long the text and large the model: four ways to look at its attention patterns.

Every head as a thumbnail, heads of one layer whole, one word's row in every head, and the strongest weights of one head.
One layer's pattern is held at a time, and no result grows with the square of the text.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import isqrt
from typing import Any

import torch
from torch import Tensor

from cutaway.core.attention import make_mask
from cutaway.core.tap import Tap
from cutaway.errors import ModelError, TextError
from cutaway.model import Model
from cutaway.patterns import Heads, Link, Links, Rows, Thumbnails, ending, pooled
from cutaway.text.spans import find_word
from cutaway.text.tokenizer import Piece
from cutaway.trace.edit import editing
from cutaway.trace.lazy import stage_of
from cutaway.trace.record import Trace

MOST_NUMBERS = 200_000  # of one result: at 1,024 tokens the patterns of GPT-2's smallest would be 151 million
MOST_TOKENS = 128  # on a side of a whole pattern
SIDE = 32  # cells on a side of a thumbnail

Window = tuple[int | None, int | None]  # START, END in tokens, as of a slice; None: the text's


@dataclass(frozen=True)
class Read:
    """A text before a model: its tokens, its patterns, and the window that is cut out of them."""

    model: Model
    text: str
    window: Window

    @cached_property
    def pieces(self) -> list[Piece]:
        return self.model.pieces(self.text)

    @cached_property
    def trace(self) -> Trace:
        return self.model.trace(self.text)

    @cached_property
    def readable(self) -> Tensor:
        """Who may read whom (T, T)."""
        places = torch.arange(len(self.pieces))
        return make_mask(places, places, self.model.config.causal).readable[0, 0]

    def pattern(self, layer: int) -> Tensor:
        """(H, T, T), not copied, 0 where nothing may be read."""
        return self.trace.whole(f"blocks.{layer}.attn.pattern")[0].cpu()

    @torch.no_grad()
    def each(self, see: Callable[[Tensor], Tensor]) -> list[Tensor]:
        """What `see` makes of every layer's pattern, in one run: a trace would compute each layer again."""
        made = []

        def look(name: str, x: Tensor) -> Tensor:
            if name.endswith(".attn.pattern"):
                made.append(see(x[0].cpu()))
            return x

        ids, lengths, _ = self.model.batch([self.text])
        model, edited = self.model.transformer, {name for group in self.model.edits for name in group.changes}
        tap = Tap(editing(self.model.edits, look), only=edited | {name for name in self.model.taps if name.endswith(".attn.pattern")})
        x, mask, turn = model.begin(ids, lengths, None, tap)
        for layer, block in enumerate(model.blocks):
            x = block(x, mask, turn, None, tap.at(f"blocks.{layer}"))
        if any(stage_of(name) == "end" for name in edited):
            model.end(x, tap)
        return made

    def span(self, most: int) -> tuple[int, int]:
        """The window's start and end; of one that was not given, at most so many tokens. Raises TextError for one outside the text."""
        size = len(self.pieces)
        start, end = self.window
        given = 0 if start is None else start, size if end is None else end
        if not 0 <= given[0] < given[1] <= size:
            said = ":".join("" if place is None else str(place) for place in self.window)
            raise TextError(f"The window {said} of a text of {size} tokens", expected=f"START:END within 0:{size}, START before END")
        return given[0], min(given[1], given[0] + most)

    def said(self, window: tuple[int, int]) -> dict[str, Any]:
        """The fields of `View`."""
        tokens, facts = tuple(piece.text for piece in self.pieces), self.model.facts() | {"kernel": "eager"}
        said = {"edits": self.model.listed_edits, "notes": self.model.notes_on(self.text), "facts": facts}
        return {"text": self.text, "tokens": tokens, "window": window, **said}


def thumbnails(model: Model, text: str, *, window: Window = (None, None)) -> Thumbnails:
    """Every head of every layer, at most SIDE cells on a side, fewer where there are very many heads.

    Raises TextError for an empty or too long text, or a window outside it.
    """
    read = Read(model, text, window)
    start, end = read.span(len(read.pieces))
    seen = slice(start, end)
    side = min(SIDE, isqrt(MOST_NUMBERS // (model.config.layers * model.config.heads)) or 1)
    step = -(-(end - start) // side)
    cells = torch.stack(read.each(lambda pattern: pooled(pattern[:, seen, seen], step)))
    return Thumbnails(step=step, cells=cells, readable=pooled(read.readable[seen, seen], step), **read.said((start, end)))


def heads(model: Model, text: str, layer: int, head: int | None = None, *, window: Window = (None, None)) -> Heads:
    """All heads of a layer, or one, over at most MOST_TOKENS tokens, fewer where there are very many heads.

    Raises ModelError for a layer or head that there is not, TextError as `thumbnails` does.
    """
    places = places_of(model, layer, head)
    read = Read(model, text, window)
    start, end = read.span(min(MOST_TOKENS, isqrt(MOST_NUMBERS // len(places)) or 1))
    seen = slice(start, end)
    chosen = tuple(head for _, head in places)
    asked = read.pattern(layer)[list(chosen), seen]  # (h, W, T)
    outside = asked[..., :start].sum(dim=-1) + asked[..., end:].sum(dim=-1)
    cut: dict[str, Any] = {"weights": asked[..., seen].clone(), "elsewhere": outside, "readable": read.readable[seen, seen]}
    return Heads(layer=layer, heads=chosen, **cut, **read.said((start, end)))


def rows(
    model: Model,
    text: str,
    query: str,
    *,
    occurrence: int | None = None,
    layer: int | None = None,
    head: int | None = None,
    window: Window = (None, None),
) -> Rows:
    """Where a word looks (its last piece), in every head, or those of one layer, or one.

    The sources are the window's; of one that was not given, at most MOST_TOKENS, up to the asking one if need be.
    Raises TextError also for a word that is absent or ambiguous; ModelError as `heads` does.
    """
    places = places_of(model, layer, head)
    read = Read(model, text, window)
    position = find_word(text, read.pieces, query, occurrence)[-1]
    most = min(MOST_TOKENS, MOST_NUMBERS // (2 * len(places)) or 1)
    start, end = ending(position, read.span(len(read.pieces)), most)
    found = [read.trace.attention(layer=layer, head=head, query=position) for layer, head in places]
    weights, lengths = (torch.stack([getattr(one, name) for one in found]).cpu() for name in ("weights", "lengths"))  # (n, T)
    outside = weights[:, :start].sum(dim=-1) + weights[:, end:].sum(dim=-1)
    seen = slice(start, end)
    cut: dict[str, Any] = {"weights": weights[:, seen], "lengths": lengths[:, seen], "readable": read.readable[position, seen]}
    return Rows(query=query, position=position, heads=tuple(places), elsewhere=outside, **cut, **read.said((start, end)))


def links(model: Model, text: str, layer: int, head: int, top: int = 3, *, window: Window = (None, None)) -> Links:
    """The `top` tokens that each token of the window looks at most, the strongest first; of those that it may read.

    Raises TextError for `top` below 1 or too large for the window; else as `heads`.
    """
    places_of(model, layer, head)
    read = Read(model, text, window)
    start, end = read.span(len(read.pieces))
    most = max(1, MOST_NUMBERS // (end - start))
    if not 1 <= top <= most:
        raise TextError(f"The strongest {top} of {end - start} tokens", expected=f"1 to {most:,}")
    hidden = ~read.readable[start:end]
    weights, sources = read.pattern(layer)[head, start:end].masked_fill(hidden, -1).topk(min(top, len(read.pieces)))  # (W, top)
    pairs = (zip(*row, strict=True) for row in zip(sources.tolist(), weights.tolist(), strict=True))
    found = tuple(tuple(Link(source, weight) for source, weight in row if weight >= 0) for row in pairs)
    return Links(layer=layer, head=head, links=found, **read.said((start, end)))


def places_of(model: Model, layer: int | None, head: int | None) -> list[tuple[int, int]]:
    """The layers and heads that are meant; None: every one. Raises ModelError for one that there is not."""
    every = {"layer": (layer, model.config.layers), "head": (head, model.config.heads)}
    for kind, (number, count) in every.items():
        if number is not None and not 0 <= number < count:
            raise ModelError(f"{model.name} has no {kind} {number}", expected=f"0 to {count - 1}")
    layers, heads = (range(count) if number is None else [number] for number, count in every.values())
    return [(layer, head) for layer in layers for head in heads]
