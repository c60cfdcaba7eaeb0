"""Chapter 3: why √d, by training. Small models learn the micro-world with their scores scaled in five ways.

The scale is no field of `Config`, since no published family differs in it: q is multiplied on its way, so that the
core's own 1/√d becomes another power of d. Each way gets its own best learning rate before it is judged.
"""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from torch import Tensor

from cutaway.core.config import Config
from cutaway.core.tap import Tap
from cutaway.core.transformer import Transformer
from cutaway.lab.claims import Claim
from cutaway.lab.curves import curves, dots
from cutaway.lab.experiment import Run, experiment
from cutaway.lab.measurement import Measurement
from cutaway.lab.training import apart, best_rate, config_of, losses, trained

if TYPE_CHECKING:
    from cutaway.charts import Chart
    from cutaway.lab.record import Record

# The power of d that divides the scores, and whether W_q starts 1/√d as large.
SCALES = {"d^0": (0.0, False), "d^-1/4": (0.25, False), "d^-1/2": (0.5, False), "d^-1": (1.0, False), "d^0, W_q/√d": (0.0, True)}
Trained = dict[str, Any]


class Scaled(Transformer):
    """A transformer whose scores are q·k / d^power instead of q·k / √d."""

    def __init__(self, config: Config, power: float) -> None:
        super().__init__(config)
        self.factor = config.head_width ** (0.5 - power)

    def forward(self, ids: Tensor, **given: Any) -> Tensor:
        def see(name: str, x: Tensor) -> Tensor:
            return x * self.factor if name.endswith("attn.q") else x

        return super().forward(ids, **given, tap=Tap(see))


def train_one(run: Run, sizes: tuple[int, int, int, int], job: tuple[str, float, int]) -> Trained:
    """Train one model, unless it was; its loss on held-out passages in nats a token, and on their answers alone."""
    (width, heads, layers, steps), (scale, rate, seed) = sizes, job
    power, smaller = SCALES[scale]
    model = Scaled(config_of(width, heads, layers), power)

    def begin() -> None:
        for block in model.blocks if smaller else ():
            block.attn.q.weight.data /= math.sqrt(model.config.head_width)  # type: ignore[union-attr, operator]

    trained(run, model, rate=rate, steps=steps, seed=seed, said=scale, begin=begin, parts=[Scaled])
    return {"scale": scale, "rate": rate, "seed": seed, **losses(model)}


def charts(records: Sequence["Record"]) -> "Mapping[str, Chart]":
    sweep, best = "Loss by learning rate, one run each", "Loss of each way of scaling at its best rate"
    rows = {name: [row for record in records for row in record.rows(name)] for name in ("sweep.loss", "loss")}
    return {
        sweep: curves(rows["sweep.loss"], sweep, x="rate", y="nats a token", colour="scale"),
        best: dots(rows["loss"], best, x="scale", y="nats a token", colour="scale"),
    }


# Sizes and rates were chosen on a pilot with seed 11, two rates and 300 steps; seeds here are others.
@experiment(
    "e03_scale_training",
    chapter="03",
    version=1,
    question="Does a model learn better when its scores are divided by √d, each way of scaling with its own best learning rate?",
    needs=None,
    trains=True,
    charts=charts,
    not_shown="anything about models of another size, other text, or training to the end",
    claims=(
        Claim(
            sentence="Without a scale a model learns worse than with 1/√d, each at its best learning rate",
            measurement="loss.above[scale=d^0]",
            compare=">",
            bound=0,
            reason="Vaswani et al. 2017, section 3.2.1: large scores leave the softmax little gradient; the pilot had 0.5 nats",
            fails_if="scores of variance d were no harder to learn from, or the learning rate made up for it",
        ),
        Claim(
            sentence="So does one with d^-1/4",
            measurement="loss.above[scale=d^-1/4]",
            compare=">",
            bound=0,
            reason="half of the way in the exponent; the pilot had 0.24 nats at its better rate",
            fails_if="only the extreme mattered",
        ),
        Claim(
            sentence="A smaller start makes up for part of it: with W_q initialised 1/√d as large a model without a scale learns better",
            measurement="loss.start_gains",
            compare=">",
            bound=0,
            reason="the product is the same at the start; the pilot had 0.24 nats at its better rate",
            fails_if="what matters is the scale during training, not at its start",
        ),
    ),
)
def scale_training(
    run: Run,
    *,
    width: int = 128,
    heads: int = 2,
    layers: int = 2,
    steps: int = 400,
    rates: tuple[float, ...] = (1e-3, 2e-3, 4e-3, 8e-3),
    seeds: int = 5,
) -> Iterator[Measurement]:
    """Sweep the rate of each way with one seed, then train it with others at its best rate. The same seed reads the same text."""
    train = partial(train_one, run, (width, heads, layers, steps))
    first = run.seed * 100
    swept = run.units("rates", list(itertools.product(SCALES, rates, [first])), train)
    for result in swept:
        yield run.exact("sweep.loss", result["loss"], "nats a token", at={"scale": result["scale"], "rate": result["rate"]})
    best = {scale: best_rate(swept, scale=scale) for scale in SCALES}
    jobs = [(scale, best[scale], first + seed) for scale in SCALES for seed in range(1, seeds + 1)]
    trained = run.units("seeds", jobs, train)
    losses = {scale: [result["loss"] for result in trained if result["scale"] == scale] for scale in SCALES}
    for scale, values in losses.items():
        at = {"scale": scale}
        yield run.exact("best_rate", best[scale], at=at)
        yield run.mean("loss", values, "nats a token", at=at)
        yield run.mean("loss.answers", [r["answers"] for r in trained if r["scale"] == scale], "nats an answer", at=at)
        if scale != "d^-1/2":
            yield run.mean("loss.above", apart(values, losses["d^-1/2"]), "nats a token", at=at)
    yield run.mean("loss.start_gains", apart(losses["d^0"], losses["d^0, W_q/√d"]), "nats a token")
