"""Chapter 2: how narrow is the cone? The mean cosine between what stands at positions of different texts, floor by floor: as it is,
centred, and without the few dimensions that are far larger than the others; beside vectors of independent Gaussians.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from cutaway.errors import LabError
from cutaway.lab.claims import ANY, Claim
from cutaway.lab.curves import DEPTH, curves
from cutaway.lab.e05_floors_read import streams
from cutaway.lab.experiment import Run, experiment
from cutaway.lab.measurement import Measurement
from cutaway.lab.texts import drawn
from cutaway.lab.vocabulary import Numbers, unit

if TYPE_CHECKING:
    from cutaway.charts import Chart
    from cutaway.lab.record import Record

WAYS = ("raw", "centred", "without outliers")


def charts(records: Sequence["Record"]) -> "Mapping[str, Chart]":
    found: dict[str, Chart] = {}
    for way in WAYS:
        title = f"Mean cosine between positions of different texts, {way}"
        rows = [row | {"depth": row["floor"] / last(record)} for record in records for row in record.rows("cosine") if row["rows"] == way]
        found[title] = curves(rows, title, x="depth", across=DEPTH, y="mean cosine", colour="model", log=())
    return found


def last(record: "Record") -> int:
    return max(int(row["floor"]) for row in record.rows("cosine"))


@experiment(
    "e02_geometry",
    chapter="02",
    version=1,
    question="Do all vectors of a model point the same way, and what is left of that when a few dimensions are taken out?",
    needs=ANY,
    charts=charts,
    not_shown="that a common direction is a fault: it tells no two vectors apart, and a norm may take it away",
    claims=(
        Claim(
            sentence="Vectors of independent Gaussians point nowhere: their mean cosine is below 0.02",
            measurement="cosine.gaussian.size",
            compare="<",
            bound=0.02,
            reason="the cosine of two of them has mean 0 and variance 1 / d",
            fails_if="means were taken over pairs of a vector with itself",
        ),
        Claim(
            sentence="The streams' mean cosine is above that of Gaussians at the last floor",
            measurement="cosine.last",
            compare=">",
            bound=0.02,
            reason="Ethayarajh 2019, section 4.1: contextual vectors fill a narrow cone; so in all pilots",
            fails_if="the vectors had no direction in common",
        ),
        Claim(
            sentence="Centring takes the common direction away",
            measurement="cosine.centred_lowers",
            compare=">",
            bound=0,
            reason="a mean that all vectors share is a direction that all share",
            fails_if="the mean of all vectors were no part of each of them",
        ),
    ),
)
def geometry(run: Run, *, texts: int = 40, outliers: int = 3) -> Iterator[Measurement]:
    """`texts` passages of the micro-world, each compared with the next. outliers: how many dimensions are taken out."""
    width = run.model.config.width
    if texts < 3 or not 0 < outliers < width:
        raise LabError(f"texts={texts}, outliers={outliers}", expected=f"3 texts or more, and 1 to {width - 1} dimensions")
    held = [stack(run, text) for text in drawn(run, run.model, texts)]  # of each text (F, T, D)
    named, share = largest(held, outliers)
    yield run.exact("outliers.share", share, "of the squared length", at={"dimensions": " ".join(map(str, named))}, n=width)
    found = run.units("cosines", list(range(len(held[0]))), partial(of_floor, held, named))
    for floor, one in enumerate(found):
        for way in WAYS:
            yield run.mean("cosine", one[way], "cosine", within=(-1, 1), at={"floor": floor, "rows": way})
        yield run.mean("cosine.first", one["first"], "cosine", within=(-1, 1), at={"floor": floor})
    yield run.mean("cosine.last", found[-1]["raw"], "cosine", within=(-1, 1))
    lowers = np.abs(found[-1]["raw"]) - np.abs(found[-1]["centred"])
    yield run.mean("cosine.centred_lowers", lowers, "cosine", within=(-1, 1))
    rng = run.rng("gaussian")
    gaussian = [rng.normal(size=(1, *one.shape[1:])) for one in held]
    sizes = np.abs(of_floor(gaussian, [], 0)["raw"])
    yield run.mean("cosine.gaussian.size", sizes, "cosine", within=(0, 1))


@torch.no_grad()
def stack(run: Run, text: str) -> Numbers:
    """(F, T, D): the stream of one text at every floor."""
    return np.asarray(streams(run.model, run.model.batch([text])[0])[:, 0].double().numpy(force=True))


def largest(held: Sequence[Numbers], count: int) -> tuple[list[int], float]:
    """The dimensions that have most of the squared length behind position 0, over all floors alike, and their share of it."""
    shares = []
    for floor in range(len(held[0])):
        squares = (np.concatenate([one[floor, 1:] for one in held]) ** 2).mean(axis=0)
        shares.append(squares / squares.sum())
    mean = np.mean(shares, axis=0)
    named = np.sort(np.argsort(-mean)[:count])
    return named.tolist(), float(mean[named].sum())


def of_floor(held: Sequence[Numbers], named: Sequence[int], floor: int) -> dict[str, Any]:
    """Of each text and the next: the mean cosine of all pairs of their positions behind 0. `first`: of 0 with the rest of its text."""
    rows = [one[floor, 1:] for one in held]
    mean = np.concatenate(rows).mean(axis=0)
    without = [np.delete(one, list(named), axis=1) for one in rows]
    tables = {"raw": rows, "centred": [one - mean for one in rows], "without outliers": without}
    found: dict[str, Any] = {}
    for way, each in tables.items():
        middles = [unit(one).mean(axis=0) for one in each]  # the mean of all products is the product of the means
        found[way] = [float(a @ b) for a, b in pairwise(middles)]
    found["first"] = [float((unit(one[floor, 1:]) @ unit(one[floor, 0])).mean()) for one in held]
    return found
