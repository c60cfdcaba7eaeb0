"""Edits: what a tap holds is replaced on its way, at chosen heads and positions, for as long as a `with` block lasts.

Weights are never touched. An edit that meets no tap, head or position is an error.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from cutaway.core.tap import See, tap_names
from cutaway.errors import EditError, TapError

if TYPE_CHECKING:
    from cutaway.model import Model
    from cutaway.trace.record import Trace

PER_HEAD = ("attn.q", "attn.k", "attn.v", "attn.scores", "attn.pattern", "attn.z")
NO_POSITIONS = ("pooled", "head.transform")  # of a classifier: one vector a text

Index = tuple[slice | Tensor, ...]
Change = Callable[[Tensor, Index], Tensor]  # what to write at x[index]
Places = int | slice | Sequence[int] | None


@dataclass(frozen=True)
class Edit:
    """One change: `prepare(model, tap)` gives the function that computes what is written at the chosen places."""

    what: str
    prepare: Callable[["Model", str], Change]
    head: Places = None
    position: Places = None

    def __str__(self) -> str:
        where = [f"{name} {places}" for name, places in (("head", self.head), ("position", self.position)) if places is not None]
        return " at ".join([self.what, ", ".join(where)]) if where else self.what


def zero(*, head: Places = None, position: Places = None) -> Edit:
    """Write zeros."""
    return Edit("zero", lambda model, tap: lambda x, at: torch.zeros_like(x[at]), head, position)


def scale(factor: float, *, head: Places = None, position: Places = None) -> Edit:
    """Multiply by a number."""
    return Edit(f"scale by {factor}", lambda model, tap: lambda x, at: x[at] * factor, head, position)


def add(value: Tensor | float, *, head: Places = None, position: Places = None) -> Edit:
    """Add a number, or a tensor that broadcasts to the chosen places."""
    vector = torch.as_tensor(value).clone()
    return Edit(f"add {shape(vector)}", lambda model, tap: lambda x, at: x[at] + fitted(vector, x[at]), head, position)


def replace(value: Tensor | float, *, head: Places = None, position: Places = None) -> Edit:
    """Write a number, or a tensor that broadcasts to the chosen places."""
    tensor = torch.as_tensor(value).clone()
    return Edit(f"replace by {shape(tensor)}", lambda model, tap: lambda x, at: fitted(tensor, x[at]), head, position)


def mean(over: Sequence[str], *, head: Places = None, position: Places = None) -> Edit:
    """Write the tap's mean over all positions of the texts in `over`."""
    texts = [over] if isinstance(over, str) else list(over)
    if not texts:
        raise EditError("The mean is over no text", expected="at least one")

    def prepare(model: "Model", tap: str) -> Change:
        if tap.endswith(("attn.scores", "attn.pattern")):
            raise EditError(f"{tap} has a column for each position of its own text, so it has no mean over texts", then="use zero or scale")
        positions = [model.trace(text).whole(tap).movedim(-2, 0) for text in texts]  # (T, 1, …, ·) each
        average = torch.cat(positions).mean(dim=0).unsqueeze(-2)  # (1, …, 1, ·)
        return lambda x, at: average.to(x).expand_as(x)[at]

    return Edit(f"mean over {len(texts)} text{'s' * (len(texts) > 1)}", prepare, head, position)


def resample(text: str, *, head: Places = None, position: Places = None) -> Edit:
    """Write what the tap holds in another text, at the same positions."""
    return Edit(f"resample from {text!r}", lambda model, tap: taken(model.trace(text), tap), head, position)


def patch(trace: "Trace", *, head: Places = None, position: Places = None) -> Edit:
    """Write what the tap held in a recorded run, at the same positions."""
    return Edit(f"patch from {trace.texts[0]!r}", lambda model, tap: taken(trace, tap), head, position)


def function(change: Callable[[Tensor], Tensor], *, head: Places = None, position: Places = None) -> Edit:
    """Write what a Python function makes of the whole tensor, at the chosen places."""
    if not callable(change):
        raise EditError(f"An edit is {change!r}", expected="zero, mean, resample, scale, add, replace, patch or a function")

    def call(x: Tensor, at: Index) -> Tensor:
        made = change(x.clone())  # a copy, so that a function which writes in place changes nothing else
        if not isinstance(made, Tensor) or made.shape != x.shape:
            got = shape(made) if isinstance(made, Tensor) else type(made).__name__
            raise EditError(f"The function returned {got}", expected=f"a tensor of the tap's shape {shape(x)}")
        return made[at]

    return Edit(f"function {getattr(change, '__name__', 'given')}", lambda model, tap: call, head, position)


def taken(trace: "Trace", tap: str) -> Change:
    """What `trace` holds at the chosen places."""
    held = trace.whole(tap)

    def take(x: Tensor, at: Index) -> Tensor:
        if held.shape[1:] != x.shape[1:] and tap.endswith(("attn.scores", "attn.pattern")):
            raise EditError(f"{tap} is {shape(held)} in the recorded run and {shape(x)} here", expected="texts of equal length")
        try:
            return fitted(held[at], x[at])
        except IndexError:
            raise EditError(
                f"The recorded run has {held.shape[-2]} positions and this one {x.shape[-2]}", then="name positions that both have"
            ) from None

    return take


def fitted(value: Tensor, place: Tensor) -> Tensor:
    try:
        return value.to(place).expand_as(place)
    except RuntimeError:
        raise EditError(f"A value of shape {shape(value)}", expected=f"one that broadcasts to the chosen places, {shape(place)}") from None


def shape(x: Tensor) -> str:
    return str(tuple(x.shape))


def places(tap: str, edit: Edit, x: Tensor) -> Index:
    """The index of the chosen heads and positions in x: (B, H, T, ·) at taps within a head, else (B, T, ·)."""
    per_head = tap.endswith(PER_HEAD)
    if edit.head is not None and not per_head:
        raise EditError(f"{tap} has no heads", expected="one of the taps within a head: " + ", ".join(PER_HEAD))
    if x.dim() == 2:
        if edit.position is not None:
            raise EditError(f"{tap} has no positions", expected="an edit without `position`")
        return (slice(None),)
    positions = chosen(edit.position, x.shape[-2], "position", tap)
    if not per_head:
        return (slice(None), positions)
    return (slice(None), chosen(edit.head, x.shape[1], "head", tap)[:, None], positions)


def chosen(which: Places, size: int, kind: str, tap: str) -> Tensor:
    every = range(size)
    if not (which is None or isinstance(which, slice) or all(type(n) is int for n in listed(which))):
        raise EditError(f"{kind} {which!r}", expected="whole numbers: one, a list, or a slice")
    try:
        picked = every if which is None else every[which] if isinstance(which, slice) else [every[n] for n in listed(which)]
    except IndexError:
        raise EditError(f"{kind} {which} of {tap}", expected=f"0 to {size - 1}") from None
    if not len(picked):
        raise EditError(f"{kind} {which} of {tap} matches nothing", expected=f"some of 0 to {size - 1}")
    return torch.tensor(list(picked))


def listed(which: int | Sequence[int]) -> Sequence[int]:
    return which if isinstance(which, Sequence) and not isinstance(which, str) else [which]


@dataclass
class Edits:
    """The edits in force: what was asked for, and at which taps it has been applied."""

    named: Mapping[str, Edit]
    changes: dict[str, list[tuple[Edit, Change]]]
    met: set[str] = field(default_factory=set)

    @classmethod
    def prepare(cls, model: "Model", named: Mapping[str, Edit | Callable[[Tensor], Tensor]]) -> "Edits":
        """Match each name (`*` stands for anything) with the model's taps. Raises TapError if it matches none."""
        taps = tap_names(model.config)
        edits = {name: edit if isinstance(edit, Edit) else function(edit) for name, edit in named.items()}
        changes: dict[str, list[tuple[Edit, Change]]] = {}
        for name, edit in edits.items():
            matching = [tap for tap in taps if fnmatchcase(tap, name)]
            if not matching:
                raise no_such_tap(name, taps)
            for tap in matching:
                changes.setdefault(tap, []).append((edit, edit.prepare(model, tap)))
        return cls(edits, changes)

    def apply(self, tap: str, x: Tensor) -> Tensor:
        for edit, change in self.changes.get(tap, ()):
            at = places(tap, edit, x)
            value = change(x, at)
            x = x.clone()
            x[at] = value
            self.met.add(tap)
        return x

    def check_met(self) -> None:
        """Raise EditError if some edit was never applied."""
        missed = [tap for tap in self.changes if tap not in self.met]
        if missed:
            given = f"The edit of {', '.join(missed)} was never applied: no run inside the `with` block came past"
            raise EditError(given, then="run the model inside it")

    def require_one_length(self, lengths: Sequence[int]) -> None:
        """Raise EditError if texts of several lengths would have their padding counted as positions."""
        if len(set(lengths)) > 1 and any(edit.position is not None for edit in self.named.values()):
            given = f"An edit names positions, and the texts have {' and '.join(map(str, sorted(set(lengths))))} tokens"
            raise EditError(given, expected="texts of one length", then="run them one by one")

    def listed(self) -> tuple[str, ...]:
        return tuple(f"{name}: {edit}" for name, edit in self.named.items())


def no_such_tap(name: str, taps: Sequence[str]) -> TapError:
    first_block = [tap for tap in taps if not tap.startswith("blocks.") or tap.startswith("blocks.0.")]
    last = max((int(tap.split(".")[1]) for tap in taps if tap.startswith("blocks.")), default=0)
    return TapError(
        f"This model has no tap {name!r}", expected=f"one of {', '.join(first_block)} (blocks.0 to blocks.{last})"
    )


def editing(edits: Sequence[Edits], see: See | None = None) -> See:
    """A tap's view under edits, the outermost first; `see` gets what comes out."""

    def look(name: str, x: Tensor) -> Tensor:
        for group in edits:
            x = group.apply(name, x)
        return see(name, x) if see else x

    return look
