"""Chapter 3: attention as a database. Keys are stored with values; a query that resembles a key gets its value back, softly.

The soft lookup is the core's own `attention`; what it is held against, the largest product and its theory, is computed apart.
"""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from cutaway.core import attention as core
from cutaway.lab.claims import Claim
from cutaway.lab.curves import curves
from cutaway.lab.experiment import Run, experiment
from cutaway.lab.measurement import Measurement

if TYPE_CHECKING:
    from cutaway.charts import Chart
    from cutaway.lab.record import Record

SYMBOLS = 64  # different values; each key holds one of them
TOGETHER = 1 << 20  # numbers of keys that are drawn at once
HARD = 4096.0  # a sharpness at which only the largest score is left

# Pilots had seed 11.


def charts(records: Sequence["Record"]) -> "Mapping[str, Chart]":
    found = {name: [row for record in records for row in record.rows(name)] for name in ("recall", "recall.theory", "distance")}
    recall, distance = "What a sharp lookup recalls; dashed: theory", "How far a soft lookup is from the hard one"
    return {
        recall: curves(found["recall"], recall, x="keys", y="values recalled", colour="d", dashed=found["recall.theory"]),
        distance: curves(found["distance"], distance, x="sharpness", y="distance, a share", colour="d"),
    }


@experiment(
    "e03_lookup",
    chapter="03",
    version=2,
    question="In what sense is attention a database: how near is its soft lookup to a hard one, and how much can be stored?",
    needs=None,
    claims=(
        Claim(
            sentence="Sharpened, the soft lookup is the hard one: at 512 times the scores it is less than 0.02 away",
            measurement="distance[d=64,sharpness=512.0]",
            compare="<",
            bound=0.02,
            reason="the weights of the best key and the next differ by e to the power of sharpness times their gap",
            fails_if="the weights were not a softmax of the scores over the keys",
        ),
        Claim(
            sentence="Dulled to an eighth, it is mostly a mean of all values",
            measurement="distance[d=64,sharpness=0.125]",
            compare=">",
            bound=0.8,
            reason="a matching key of width 64 scores about 8 when divided by √d, so about 1 then: e against the 63 others",
            fails_if="scores were not divided by √d",
        ),
        Claim(
            sentence="At the sharpness that 1/√d gives, a match among 64 keys of width 64 is nearly looked up",
            measurement="distance[d=64,sharpness=1.0]",
            compare="<",
            bound=0.3,
            reason="the match scores √d = 8 and the others about 1.4 either way: e^8 against 63 e^1",
            fails_if="the division took more than √d",
        ),
        Claim(
            sentence="A sharp lookup recalls what theory says: no less, within 0.15, with 64 keys of width 16",
            measurement="recall.above_theory[keys=64,d=16]",
            compare=">",
            bound=-0.15,
            reason="given the query, its products with the other keys are independent Gaussians: Φ(its own)^(n − 1), exactly",
            fails_if="attention took another key than the one with the largest product",
        ),
        Claim(
            sentence="The largest of 4096 products stays below √(2 ln n), in units of their spread",
            measurement="largest.share[keys=4096,d=64]",
            compare="<",
            bound=1,
            reason="the maximum of n Gaussians has at most this mean (Boucheron et al. 2013, theorem 2.5)",
            fails_if="the keys were not independent Gaussians",
        ),
        Claim(
            sentence="Where all keys are equal all weights are, bit for bit",
            measurement="equal.apart",
            compare="==",
            bound=0,
            reason="equal scores; the softmax tells nothing apart that the scores do not",
            fails_if="a place had an advantage of its own",
        ),
    ),
    charts=charts,
    not_shown="that a model uses attention so: its keys are learned, and these are random",
)
def lookup(
    run: Run,
    *,
    counts: tuple[int, ...] = (8, 64, 512, 4096),
    widths: tuple[int, ...] = (4, 16, 64, 256),
    sharpness: tuple[float, ...] = (0.125, 0.5, 1.0, 2.0, 8.0, 64.0, 512.0),
    keys: int = 64,
    noise: float = 1.0,
    asked: int = 400,
) -> Iterator[Measurement]:
    """`asked` queries, each of keys of its own. noise: its spread, in units of the keys'; `keys`: how many where sharpness varies."""
    cells = list(itertools.product(widths, counts))
    for (d, n), one in zip(cells, run.units("recall", cells, partial(recalled, run, noise, asked)), strict=True):
        at = {"keys": n, "d": d}
        yield run.share("recall", sum(one["right"]), asked, at=at)
        yield run.exact("recall.theory", float(np.mean(one["theory"])), "share", at=at, n=asked)
        yield run.mean("recall.above_theory", np.subtract(one["right"], one["theory"]), "share", within=(-1, 1), at=at)
        yield run.mean("largest.share", one["largest"], "of √(2 ln n)", at=at)
    softened = run.units("sharpness", list(widths), partial(distances, run, noise, asked, keys, sharpness))
    for d, of_width in zip(widths, softened, strict=True):
        for beta, apart in zip(sharpness, of_width, strict=True):
            yield run.mean("distance", apart, "share", at={"d": d, "sharpness": beta})
    yield run.exact("equal.apart", equal_keys(keys))


def stored(rng: np.random.Generator, d: int, n: int, noise: float, asked: int) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Portions of B queries: q (B, d), each of them its first key with noise; k (B, n, d); the keys' symbols (B, n)."""
    portion = max(1, TOGETHER // (n * d))
    normal = partial(torch.randn, generator=torch.Generator().manual_seed(int(rng.integers(1 << 62))))  # several times as fast as NumPy's
    for start in range(0, asked, portion):
        size = min(portion, asked - start)
        k = normal(size, n, d)
        q = k[:, 0] + noise * normal(size, d)
        yield q, k, torch.from_numpy(rng.integers(0, SYMBOLS, (size, n)))


def looked_up(q: Tensor, k: Tensor, symbols: Tensor, sharpness: float) -> Tensor:
    """What attention gives: the weight of each symbol (B, SYMBOLS)."""
    v = torch.eye(SYMBOLS)[symbols]  # (B, n, SYMBOLS)
    mask = torch.ones(1, 1, 1, k.shape[1], dtype=torch.bool)
    return core.attention(sharpness * q[:, None, None], k[:, None], v[:, None], mask)[:, 0, 0]


def recalled(run: Run, noise: float, asked: int, cell: tuple[int, int]) -> dict[str, list[float]]:
    """Of each query: was its symbol recalled, how likely was that, and how large was the largest product with another key."""
    from scipy.special import log_ndtr

    d, n = cell
    found: dict[str, list[float]] = {"right": [], "theory": [], "largest": []}
    for q, k, symbols in stored(run.rng(f"recall {cell}"), d, n, noise, asked):
        found["right"] += (looked_up(q, k, symbols, HARD).argmax(dim=-1) == symbols[:, 0]).double().tolist()
        products = torch.einsum("bnd,bd->bn", k, q / q.norm(dim=-1, keepdim=True)).double()  # with other keys: unit Gaussians
        key_wins = np.exp((n - 1) * log_ndtr(products[:, 0].numpy()))
        found["theory"] += (key_wins + (1 - key_wins) / SYMBOLS).tolist()  # another key may hold the same symbol
        found["largest"] += (products[:, 1:].amax(dim=1) / math.sqrt(2 * math.log(n - 1))).tolist()
    return found


def distances(run: Run, noise: float, asked: int, n: int, sharpness: Sequence[float], d: int) -> list[list[float]]:
    """For each sharpness, of each query: half the sum of |soft − hard| over symbols. 0: the same, 1: nothing in common."""
    found: list[list[float]] = [[] for _ in sharpness]
    for q, k, symbols in stored(run.rng(f"sharpness {d}"), d, n, noise, asked):
        best = torch.einsum("bnd,bd->bn", k, q).argmax(dim=1, keepdim=True)
        hard = torch.eye(SYMBOLS)[symbols.gather(1, best)[:, 0]]
        for apart, beta in zip(found, sharpness, strict=True):
            apart += ((looked_up(q, k, symbols, beta) - hard).abs().sum(dim=-1) / 2).tolist()
    return found


def equal_keys(n: int) -> float:
    """How far weights are apart where all keys are equal. Small whole numbers: no order of their sums rounds."""
    q, k = torch.arange(64.0)[None, None, None], torch.ones(1, 1, n, 64)
    weights = core.attention(q, k, torch.eye(n)[None, None], torch.ones(1, 1, 1, n, dtype=torch.bool))
    return float(weights.max() - weights.min())
