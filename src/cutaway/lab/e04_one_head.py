"""Chapter 4: one wide head instead of several, by training. Equal parameters, each with its own best learning rate.

W_q, W_k, W_v and W_o are as large however many heads share them, so a model of one head has just the parameters of one of several.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from cutaway.core.transformer import Transformer
from cutaway.errors import LabError
from cutaway.lab.claims import Claim
from cutaway.lab.curves import curves, dots
from cutaway.lab.experiment import Run, experiment
from cutaway.lab.measurement import Measurement
from cutaway.lab.training import apart, best_rate, config_of, losses, tokenizer_here, trained
from cutaway.train.score import score
from cutaway.worlds import twin_set

if TYPE_CHECKING:
    from cutaway.charts import Chart
    from cutaway.lab.record import Record


def train_one(run: Run, sizes: tuple[int, int, int], job: tuple[int, float, int]) -> dict[str, Any]:
    """Train one model, unless it was: its loss on held-out passages, its sentences right, and its parameters."""
    (width, layers, steps), (heads, rate, seed) = sizes, job
    model = Transformer(config_of(width, heads, layers))
    trained(run, model, rate=rate, steps=steps, seed=seed)
    right = score(model, tokenizer_here(), twin_set("pairs")).sentences
    parameters = sum(p.numel() for p in model.parameters())
    return {"heads": heads, "rate": rate, "seed": seed, "right": right, "parameters": parameters, **losses(model)}


def charts(records: Sequence["Record"]) -> "Mapping[str, Chart]":
    sweep, best = "Loss by learning rate, one run each", "Loss of one head and of several, each at its best rate"
    rows = {name: [row for record in records for row in record.rows(name)] for name in ("sweep.loss", "loss")}
    return {
        sweep: curves(rows["sweep.loss"], sweep, x="rate", y="nats a token", colour="heads"),
        best: dots(rows["loss"], best, x="heads", y="nats a token", colour="heads"),
    }


@experiment(
    "e04_one_head",
    chapter="04",
    version=2,
    question="Does a model learn better with several heads than with one as wide as all of them together?",
    needs=None,
    trains=True,
    charts=charts,
    not_shown="anything about models of another size, other text, or training to the end",
    claims=(
        Claim(
            sentence="One wide head has as many parameters as several narrow ones",
            measurement="parameters.apart",
            compare="==",
            bound=0,
            reason="the matrices of attention are width × width, however many heads share them",
            fails_if="the number of heads changed the size of a matrix",
        ),
        Claim(
            sentence="With one wide head a small model loses less than a tenth of a nat a token to several, each at its best learning rate",
            measurement="loss.above[heads=1]",
            compare="<",
            bound=0.1,
            reason="a loss was expected (Vaswani et al. 2017, table 3, row A: 0.9 BLEU); a first sweep, of seed 1, found none within 0.03",
            fails_if="a small model needed to read several places at once in each layer",
        ),
    ),
)
def one_head(
    run: Run,
    *,
    width: int = 192,
    layers: int = 3,
    heads: tuple[int, ...] = (1, 6),
    steps: int = 400,
    rates: tuple[float, ...] = (5e-4, 1e-3, 2e-3, 4e-3),
    seeds: int = 4,
) -> Iterator[Measurement]:
    """Sweep the rate of each number of heads with one seed, then train it with others at its best rate. The last number is the standard."""
    if seeds < 2 or not rates or len(heads) < 2:
        given = f"{seeds} seeds, {len(rates)} rates and {len(heads)} numbers of heads"
        raise LabError(given, expected="2 seeds or more, a rate, and two numbers of heads to compare")
    train = partial(train_one, run, (width, layers, steps))
    first = run.seed * 100
    swept = run.units("rates", list(itertools.product(heads, rates, [first])), train)
    for result in swept:
        yield run.exact("sweep.loss", result["loss"], "nats a token", at={"heads": result["heads"], "rate": result["rate"]})
    best = {n: best_rate(swept, heads=n) for n in heads}
    results = run.units("seeds", [(n, best[n], first + seed) for n in heads for seed in range(1, seeds + 1)], train)
    counts = {result["parameters"] for result in results}
    yield run.exact("parameters", max(counts))
    yield run.exact("parameters.apart", max(counts) - min(counts), n=len(results))
    of = {n: [result for result in results if result["heads"] == n] for n in heads}
    for n in heads:
        at = {"heads": n}
        yield run.exact("best_rate", best[n], at=at)
        yield run.mean("loss", [r["loss"] for r in of[n]], "nats a token", at=at)
        yield run.mean("loss.answers", [r["answers"] for r in of[n]], "nats an answer", at=at)
        yield run.mean("right", [r["right"] for r in of[n]], "share", within=(0, 1), at=at)
        if n != heads[-1]:
            yield run.mean("loss.above", apart([r["loss"] for r in of[n]], [r["loss"] for r in of[heads[-1]]]), "nats a token", at=at)
