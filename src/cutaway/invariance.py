"""What of the past does a later word change? Two texts are run and compared before the place where they part.

In a causal model nothing may differ there, bit for bit; in a bidirectional one it does. Bit-identity needs equal shapes
and equal kernels, so every comparison comes with its controls.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from cutaway.core.tap import Tap
from cutaway.errors import ModelError, TextError
from cutaway.model import Model, pad
from cutaway.trace.edit import NO_POSITIONS, PER_HEAD, editing

Taps = dict[str, Tensor]


@dataclass(frozen=True)
class Difference:
    """The largest absolute difference at one tap (and head) over all positions before the texts part."""

    tap: str
    head: int | None
    max_abs_diff: float


@dataclass(frozen=True)
class Invariance:
    """What two texts' runs have in common before they part.

    `identical` is true only if every tap is bit-equal at every position before `first_difference` (scores: where the
    query may read the key). `kernel_noise` is the largest difference when the texts are not padded to one length; None
    where they have one length, or where no padding was done. `a_a` is the first text against itself.
    """

    texts: tuple[str, str]
    tokens: tuple[tuple[str, ...], tuple[str, ...]]
    first_difference: int
    equal_length: bool
    identical: bool
    max_abs_diff: float
    differences: tuple[Difference, ...]
    kernel_noise: float | None
    a_a: float
    note: str
    facts: dict[str, Any]

    def at(self, tap: str) -> float:
        """The largest difference of all heads at one tap."""
        return max(d.max_abs_diff for d in self.differences if d.tap == tap)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def _repr_html_(self) -> str:
        from cutaway import render

        return render.invariance(self)


def invariance(model: Model, a: str, b: str) -> Invariance:
    """Compare the runs of two texts before the place where they part.

    Texts of unequal length are padded on the right to one length for a causal model, where padding cannot be seen, and
    run as they are through a bidirectional one. Raises TextError for identical texts, or texts that part at once.
    """
    ids_a, ids_b, parted = parting(model, a, b)
    for edits in model.edits:
        edits.require_one_length((len(ids_a), len(ids_b)))
    equal = len(ids_a) == len(ids_b)
    width = max(len(ids_a), len(ids_b)) if model.config.causal else 0
    run_a, run_b = taps_of(model, ids_a, width), taps_of(model, ids_b, width)
    again = taps_of(model, ids_a, width)
    differences = compare(model, run_a, run_b, parted)
    noise = None
    if not equal and model.config.causal:
        noise = largest(compare(model, taps_of(model, ids_a), taps_of(model, ids_b), parted))
    return Invariance(
        texts=(a, b),
        tokens=(tuple(p.text for p in model.pieces(a)), tuple(p.text for p in model.pieces(b))),
        first_difference=parted,
        equal_length=equal,
        identical=largest(differences) == 0.0,
        max_abs_diff=largest(differences),
        differences=tuple(differences),
        kernel_noise=noise,
        a_a=largest(compare(model, run_a, again, len(ids_a))),
        note=note(model, len(ids_a), len(ids_b)),
        facts=model.facts() | {"kernel": "eager", "edits": [line for group in model.edits for line in group.listed()]},
    )


def parting(model: Model, a: str, b: str) -> tuple[list[int], list[int], int]:
    """The ids of both texts, and the first place where they differ."""
    ids_a, ids_b = ([piece.id for piece in model.pieces(text)] for text in (a, b))
    if ids_a == ids_b:
        raise TextError(f"The two texts are the same to {model.name}: {a!r}", expected="two texts that differ in at least one token")
    common = min(len(ids_a), len(ids_b))
    parted = next((n for n in range(common) if ids_a[n] != ids_b[n]), common)
    if parted == 0:
        raise TextError("The two texts differ from their first token on", expected="texts with a common beginning")
    return ids_a, ids_b, parted


def note(model: Model, length_a: int, length_b: int) -> str:
    if length_a == length_b:
        return "Both texts have as many tokens, so both ran in equal shapes through the same kernels."
    if model.config.causal:
        return (
            "The texts have unequal lengths; the shorter was padded on the right, which a causal model cannot see. "
            "kernel_noise is what differs without the padding: kernels of another shape sum in another order."
        )
    return (
        "The texts have unequal lengths. A bidirectional model reads the whole text at every position, so one more token "
        "is itself a difference that every position can see; small parts of it may be rounding."
    )


@torch.no_grad()
def taps_of(model: Model, ids: Sequence[int], width: int = 0) -> Taps:
    """Every tap that has positions, of one text padded on the right to `width`; without the batch dimension."""
    padded, lengths = pad([ids], width)
    taps: Taps = {}

    def keep(name: str, x: Tensor) -> Tensor:
        if not x.isfinite().all():
            given = f"{name} of {model.name} holds values that are not finite, in {model.dtype}"
            raise ModelError(given, then="what is not a number cannot be compared; check the weights, or load them as float32")
        if not (name.endswith(NO_POSITIONS) or x.dim() == 2):
            taps[name] = x[0]
        return x

    tap = Tap(editing(model.edits, keep))
    model.transformer(padded.to(model.device), lengths=lengths.to(model.device), tap=tap)
    return taps


def compare(model: Model, a: Taps, b: Taps, before: int) -> list[Difference]:
    """The largest difference at each tap and head over the positions before `before`.

    Scores hold q·k with every key, those to the right too, which the mask hides; they are compared where the query may
    read the key. Of two bidirectional texts of unequal length the keys that both have are compared.
    """
    found = []
    for name in a:
        x, y = a[name], b[name]
        keys = min(x.shape[-1], y.shape[-1])
        apart = (x[..., :before, :keys] - y[..., :before, :keys]).abs()  # (H, T, ·) or (T, ·)
        if name.endswith("attn.scores") and model.config.causal:
            apart = apart.tril()
        if name.endswith(PER_HEAD):
            found += [Difference(name, head, value) for head, value in enumerate(apart.amax(dim=(1, 2)).tolist())]
        else:
            found.append(Difference(name, None, apart.max().item()))
    return found


def largest(differences: Sequence[Difference]) -> float:
    return max(difference.max_abs_diff for difference in differences)
