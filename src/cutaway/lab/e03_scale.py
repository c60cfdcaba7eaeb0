"""Chapter 3: why scores are divided by √d. The theory, on independent unit Gaussians; models are measured elsewhere."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from cutaway.lab.claims import Claim
from cutaway.lab.curves import curves
from cutaway.lab.experiment import Run, experiment
from cutaway.lab.measurement import Measurement
from cutaway.lab.statistics import Numbers

if TYPE_CHECKING:
    from cutaway.charts import Chart
    from cutaway.lab.record import Record

DRAWN = {
    "largest": ("The largest of the weights of unit Gaussians", "largest weight"),
    "entropy": ("The entropy of their softmax", "nats"),
    "jacobian": ("How much gradient that softmax passes on", "norm of the Jacobian"),
}


def charts(records: Sequence["Record"]) -> "Mapping[str, Chart]":
    found = {}
    for name, (title, axis) in DRAWN.items():
        rows = [row | {"scores": "q·k / √d" if row["scaled"] else "q·k"} for record in records for row in record.rows(name)]
        found[title] = curves(rows, title, x="d", y=axis, colour="scores")
    return found


@experiment(
    "e03_scale",
    chapter="03",
    version=1,
    question="What happens to a softmax over q·k as the width d grows, with and without the division by √d?",
    needs=None,
    charts=charts,
    not_shown="that models train better for the division, or that their own q and k are independent",
    claims=(
        Claim(
            sentence="The variance of q·k is d: divided by d it is not below 0.9 at d = 64",
            measurement="variance.share[d=64]",
            compare=">",
            bound=0.9,
            reason="a sum of d independent products, each of variance 1 (Vaswani et al. 2017, footnote 4)",
            fails_if="q and k were not independent, or not of unit variance",
        ),
        Claim(
            sentence="Nor above 1.1",
            measurement="variance.share[d=64]",
            compare="<",
            bound=1.1,
            reason="the same",
            fails_if="q and k were not independent, or not of unit variance",
        ),
        Claim(
            sentence="Without the division the largest of 64 weights takes more than half of all at d = 1024",
            measurement="largest[d=1024,scaled=False]",
            compare=">",
            bound=0.5,
            reason="scores of spread 32: the largest of 64 is far ahead of the next",
            fails_if="scores did not grow with d",
        ),
        Claim(
            sentence="With it no weight takes a quarter",
            measurement="largest[d=1024,scaled=True]",
            compare="<",
            bound=0.25,
            reason="scores of spread 1, whatever d: the largest of 64 is about e^2.4 of a sum of 64 e^0.5, a tenth",
            fails_if="the division did not undo the growth",
        ),
        Claim(
            sentence="Without it most of the softmax's gradient is gone at d = 1024, against what is left with it",
            measurement="jacobian.ratio[d=1024]",
            compare="<",
            bound=0.9,
            reason="the Jacobian diag(p) − p pᵀ vanishes where one weight takes all",
            fails_if="a saturated softmax kept its gradient",
        ),
    ),
)
def scale(run: Run, *, widths: tuple[int, ...] = (1, 4, 16, 64, 256, 1024), keys: int = 64, rows: int = 4000) -> Iterator[Measurement]:
    """`rows` queries, each with `keys` keys of its own. Entropy in nats; the Jacobian's Frobenius norm, without units."""
    for d in widths:
        rng = run.rng(f"gaussians {d}")
        scores = np.stack([rng.standard_normal((keys, d)) @ rng.standard_normal(d) for _ in range(rows)])  # (rows, keys)
        yield run.mean("variance.share", (scores**2).mean(axis=1) / d, "share", at={"d": d})
        norms = {}
        for scaled in (False, True):
            p = softmax(scores / math.sqrt(d) if scaled else scores)
            at = {"d": d, "scaled": scaled}
            yield run.mean("entropy", -(p * np.log(np.maximum(p, 1e-300))).sum(axis=1), "nats", at=at)
            yield run.mean("largest", p.max(axis=1), "share", at=at)
            norms[scaled] = jacobian(p)
            yield run.mean("jacobian", norms[scaled], at=at)
        yield run.mean("jacobian.ratio", norms[False] / norms[True], at={"d": d})


def softmax(scores: Numbers) -> Numbers:
    e = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(e / e.sum(axis=1, keepdims=True))


def jacobian(p: Numbers) -> Numbers:
    """The Frobenius norm of diag(p) − p pᵀ for each row: √(Σ p² − 2 Σ p³ + (Σ p²)²)."""
    squares = (p**2).sum(axis=1)
    return np.asarray(np.sqrt(np.maximum(0, squares - 2 * (p**3).sum(axis=1) + squares**2)))
