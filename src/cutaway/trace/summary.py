"""What each tap of a trace holds, in a few numbers; and which part of a tap means anything.

Padding is left out, and so are scores that the mask hides.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from cutaway.trace.files import SavedTrace, about, chosen

if TYPE_CHECKING:
    from cutaway.trace.record import Trace


@dataclass(frozen=True)
class TapSummary:
    """One tap: its shape (without the batch dimension, if there is one text), and over its values their mean, standard
    deviation (of the values themselves, not an estimate) and largest absolute value. Not finite if some value is not.
    """

    tap: str
    shape: tuple[int, ...]
    mean: float
    std: float
    largest: float


@dataclass(frozen=True)
class Summary:
    """The taps of a trace, in the order of the run."""

    texts: tuple[str, ...]
    tokens: tuple[tuple[str, ...], ...]
    edits: tuple[str, ...]
    taps: tuple[TapSummary, ...]
    facts: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it: None for a number that is not finite."""
        rows = [{name: finite(value) for name, value in asdict(tap).items()} for tap in self.taps]
        return asdict(self) | {"taps": rows}

    def _repr_html_(self) -> str:
        from cutaway import render

        return render.trace_summary(self)


def summary(trace: "Trace | SavedTrace", patterns: Sequence[str] = ("*",)) -> Summary:
    """Every tap, or those that the patterns name, each read once. Raises TapError for a pattern that matches none."""
    said = about(trace)
    rows = []
    for tap in chosen(trace, patterns):
        whole = trace.whole(tap)
        parts = [real(tap, x, length, length, said.causal) for x, length in zip(whole, said.lengths, strict=True)]
        rows.append(TapSummary(tap, tuple(whole.shape[len(whole) == 1 :]), *moments(parts)))
    tokens = tuple(tuple(piece.text for piece in row) for row in said.pieces)
    return Summary(said.texts, tokens, said.edits, tuple(rows), said.facts)


def real(tap: str, x: Tensor, positions: int, keys: int, causal: bool) -> Tensor:
    """The part of one text's tap (H, T, ·), (T, ·) or (·) that its first tokens make: `positions` that ask, `keys` that are read.

    Scores hold q·k with every key, later ones too, which a causal mask hides; those are left out: (H, pairs).
    """
    if x.dim() == 1:  # of a classifier: one vector a text
        return x
    x = x[..., :positions, :]
    if tap.endswith(("attn.scores", "attn.pattern")):
        x = x[..., :keys]
    if tap.endswith("attn.scores") and causal:
        x = x[..., torch.ones(x.shape[-2:], dtype=torch.bool, device=x.device).tril()]
    return x


def moments(parts: Sequence[Tensor]) -> tuple[float, float, float]:
    """Mean, standard deviation and largest absolute value of all the values."""
    values = parts[0] if len(parts) == 1 else torch.cat([part.flatten() for part in parts])
    values = values if values.dtype.itemsize >= 4 else values.float()
    std, mean = torch.std_mean(values, correction=0)
    low, high = values.aminmax()
    return mean.item(), std.item(), max(-low.item(), high.item()) + 0.0  # no -0.0


def finite(value: Any) -> Any:
    return value if not isinstance(value, float) or isfinite(value) else None
