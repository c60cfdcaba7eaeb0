"""Two traces compared: how far apart each tap is, and where in the run they first part. Traces in memory or from files.

What cannot be compared is named, not passed over: taps that one of them lacks, shapes that do not fit, another model or text.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from cutaway.errors import CutawayError, TextError
from cutaway.trace.files import About, SavedTrace, about
from cutaway.trace.summary import finite, real

if TYPE_CHECKING:
    from cutaway.trace.record import Trace

CHUNK = 2**16  # values at a time: what is computed of them stays in the processor's cache


@dataclass(frozen=True)
class TapDifference:
    """One tap: of `values` compared, how many are not the same bits, and the largest and the mean absolute difference.

    What is not a number is the same as nothing; the differences are then not finite.
    """

    tap: str
    values: int
    unequal: int
    max_abs_diff: float
    mean_abs_diff: float


@dataclass(frozen=True)
class Diff:
    """Two traces, tap by tap in the order of the first one's run, at the positions that both have.

    first: the first tap that departs, None if there is none. `identical`: both hold the same taps, of as many tokens, bit for bit.
    only: the taps that one of them alone holds. unlike: taps of two shapes, which were not compared, with both. notes: what
    else is not the same in both, a sentence each. Scores are compared where the query may read the key.
    """

    names: tuple[str, str]
    taps: tuple[TapDifference, ...]
    first: str | None
    identical: bool
    only: tuple[tuple[str, ...], tuple[str, ...]]
    unlike: dict[str, tuple[tuple[int, ...], tuple[int, ...]]]
    notes: tuple[str, ...]
    facts: tuple[dict[str, Any], dict[str, Any]]

    @property
    def verdict(self) -> str:
        if self.first:
            departing = sum(tap.unequal > 0 for tap in self.taps)
            return f"They part at {self.first}; {departing} of {len(self.taps)} taps differ."
        count = f"{len(self.taps)} tap{'s' * (len(self.taps) != 1)}"
        return f"{count} identical, bit for bit" + ("." if self.identical else "; but not all could be compared.")

    @property
    def lines(self) -> tuple[str, ...]:
        """The notes, and what could not be compared, a sentence each."""
        alone = zip(("one", "the other"), self.only, strict=True)
        return (
            *self.notes,
            *(f"Only {which} holds {', '.join(taps)}." for which, taps in alone if taps),
            *(f"{tap} is {x} in one and {y} in the other; not compared." for tap, (x, y) in self.unlike.items()),
        )

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it: None for a number that is not finite."""
        rows = [{name: finite(value) for name, value in asdict(tap).items()} for tap in self.taps]
        return asdict(self) | {"verdict": self.verdict, "taps": rows}

    def _repr_html_(self) -> str:
        from cutaway import render

        return render.trace_diff(self)


def diff(a: "Trace | SavedTrace", b: "Trace | SavedTrace") -> Diff:
    """Compare two traces, tap by tap.

    Raises TextError if they hold another number of texts, CutawayError if they share no tap.
    """
    one, other = about(a), about(b)
    if len(one.texts) != len(other.texts):
        raise TextError(f"One trace holds {len(one.texts)} texts and the other {len(other.texts)}", expected="as many in both")
    common = [tap for tap in one.taps if tap in b]
    if not common:
        raise CutawayError("The two traces have no tap in common", expected="two traces of at least one same tap")
    taps, unlike = [], {}
    for tap in common:
        x, y = a.whole(tap), b.whole(tap)
        if fixed(tap, x) == fixed(tap, y):
            taps.append(apart(tap, [*pairs(tap, x, y, one, other)]))
        else:
            unlike[tap] = (tuple(x.shape), tuple(y.shape))
    only = tuple(tap for tap in one.taps if tap not in b), tuple(tap for tap in other.taps if tap not in a)
    first = next((tap.tap for tap in taps if tap.unequal), None)
    identical = first is None and not (unlike or any(only)) and one.lengths == other.lengths
    names = name(a), name(b)
    return Diff(names, tuple(taps), first, identical, only, unlike, tuple(notes(one, other)), (one.facts, other.facts))


def name(trace: "Trace | SavedTrace") -> str:
    return str(trace.path) if isinstance(trace, SavedTrace) else trace.model.name


def fixed(tap: str, x: Tensor) -> tuple[int, ...]:
    """The dimensions that do not grow with the text."""
    if x.dim() == 2:
        return tuple(x.shape[1:])
    within = tap.endswith(("attn.scores", "attn.pattern"))
    return (x.dim(), *x.shape[1:-2], *([] if within else x.shape[-1:]))


def pairs(tap: str, x: Tensor, y: Tensor, one: About, other: About) -> Iterator[tuple[Tensor, Tensor]]:
    """What each text has in both, at common positions."""
    causal = one.causal or other.causal
    for p, q, lengths in zip(x, y, zip(one.lengths, other.lengths, strict=True), strict=True):
        common = min(lengths)
        yield real(tap, p, common, common, causal), real(tap, q, common, common, causal)


def apart(tap: str, both: list[tuple[Tensor, Tensor]]) -> TapDifference:
    """Computed in float64, where the difference of two float32 numbers is no further rounded than it is there."""
    unequal, largest, total = 0, torch.zeros((), dtype=torch.float64), torch.zeros((), dtype=torch.float64)
    for x, y in both:
        for p, q in zip(x.cpu().flatten().split(CHUNK), y.cpu().flatten().split(CHUNK), strict=True):
            same = (p == q) & (p.signbit() == q.signbit())  # then the bits are; -0.0 == 0.0, and NaN is never equal
            if same.all():
                continue
            gap = (p.double() - q.double()).abs().masked_fill(same, 0.0)  # of two equal infinities, too
            unequal += int((~same).sum())
            largest, total = torch.maximum(largest, gap.max()), total + gap.sum()  # either keeps NaN
    values = sum(x.numel() for x, _ in both)
    return TapDifference(tap, values, unequal, largest.item(), total.item() / values)


def notes(one: About, other: About) -> Iterator[str]:
    """What else is not the same in both."""
    for fact, value in one.facts.items():
        if value != (there := other.facts[fact]):
            yield f"{fact} is {value} in one and {there} in the other."
    if one.edits != other.edits:
        yield f"Edits in force: {'; '.join(one.edits) or 'none'} in one, {'; '.join(other.edits) or 'none'} in the other."
    if one.causal != other.causal:
        yield "One model is causal and the other is not; scores are compared where both let the query read the key."
    for n, (x, y) in enumerate(zip(one.pieces, other.pieces, strict=True)):
        of_text = f"of text {n} " if len(one.pieces) > 1 else ""
        ids = [[piece.id for piece in row] for row in (x, y)]
        if ids[0][: len(y)] != ids[1][: len(x)]:
            parted = next(n for n, (p, q) in enumerate(zip(*ids, strict=False)) if p != q)
            yield f"The tokens {of_text}differ from token {parted} on: {x[parted].text!r} in one and {y[parted].text!r} in the other."
        if len(x) != len(y):
            common = min(len(x), len(y))
            yield f"The lengths {of_text}are {len(x)} and {len(y)} tokens; the first {common} positions, and {common} keys, are compared."
