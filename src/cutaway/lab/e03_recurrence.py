"""Chapter 3: attention against recurrence. What do attention and an LSTM recall of what was said some way back, at equal parameters and
at equal state, each with its own best learning rate; and how long does each take?
"""

import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import nn

from cutaway.errors import LabError
from cutaway.lab.claims import Claim
from cutaway.lab.curves import curves, dots
from cutaway.lab.e03_recurrence_models import LOOKS, Recurrent, Task, as_large, attention_model, learned, parameters, start, state_bytes
from cutaway.lab.e03_recurrence_times import WORKS, ratios
from cutaway.lab.experiment import Run, experiment
from cutaway.lab.measurement import Measurement
from cutaway.lab.training import apart, best_rate
from cutaway.shipped import shipped_folder

if TYPE_CHECKING:
    from cutaway.charts import Chart
    from cutaway.lab.record import Record

TIMED = (64, 1024)  # tokens


@dataclass(frozen=True)
class System:
    """One model in one variant of the task. `make` builds it untrained."""

    variant: str
    model: str
    task: Task
    make: Callable[[], nn.Module]


def systems(width: int, distances: Sequence[int]) -> list[System]:
    """two layers: a key and its value are two tokens. one layer: they are one token, so that one look is enough. equal state: as one
    layer, with the LSTM so wide that it keeps as many bytes as attention does at the end of the longest text.
    """
    two, one, near = Task(False, tuple(distances)), Task(True, tuple(distances)), Task(True, tuple(distances[:2]))
    large = {layers: parameters(attention_model(width, layers, 2)) for layers in (1, 2)}
    narrow = width // 3
    built: list[tuple[str, str, Task, Callable[[], nn.Module]]] = [
        ("two layers", "attention", two, lambda: attention_model(width, 2, 2)),
        ("two layers", "LSTM", two, lambda: Recurrent(as_large(large[2], 2), 2)),
        ("two layers", "LSTM with attention", two, lambda: Recurrent(as_large(large[2], 2, attends=True), 2, attends=True)),
        ("one layer", "attention", one, lambda: attention_model(width, 1, 2)),
        ("one layer", "LSTM", one, lambda: Recurrent(as_large(large[1], 1), 1)),
        ("equal state", "attention", near, lambda: attention_model(narrow, 1, 2)),
        ("equal state", "LSTM", near, lambda: Recurrent(narrow * near.longest, 1)),
    ]
    return [System(*given) for given in built]


def train_one(run: Run, every: Sequence[System], steps: int, job: tuple[int, float, int]) -> dict[str, Any]:
    """Train one of the systems, unless it was; the shares it recalls at each distance, along the way."""
    which, rate, seed = job
    one = every[which]
    curve = learned(run, one.make, f"{one.variant} {one.model} {parameters(one.make())}", one.task, rate, steps, seed)
    forgotten = 1 - sum(curve[-1]) / len(curve[-1])
    return {"which": which, "rate": rate, "seed": seed, "loss": forgotten, "curve": curve}


def charts(records: Sequence["Record"]) -> "Mapping[str, Chart]":
    recall = "Values recalled, by how far back they were said (two layers)"
    learning = "Values recalled at the greatest distance, by how much of the training is done (two layers)"
    times = "Time of attention by that of an LSTM of equal parameters"
    rows = [row for record in records for row in record.rows("recalled") if row["variant"] == "two layers"]
    way = [row for record in records for row in record.rows("recalled.on_the_way") if row["variant"] == "two layers"]
    ratio = [row | {"tokens": str(row["tokens"])} for record in records for row in record.rows("time.ratio")]
    return {
        recall: curves(
            rows,
            recall,
            x="distance",
            across="fillers between what is told and what is asked",
            y="share of values recalled",
            colour="model",
            log=(),
        ),
        learning: curves(way, learning, x="trained", across="share of the training", y="share of values recalled", colour="model", log=()),
        times: dots(ratio, times, x="work", y="attention / LSTM, median ratio", colour="tokens", log=True),
    }


@experiment(
    "e03_recurrence",
    chapter="03",
    version=1,
    question="What does attention recall of what was said some way back, and what does an LSTM, at equal parameters and at equal state?",
    needs=None,
    trains=True,
    charts=charts,
    not_shown="that an LSTM cannot recall: with a larger budget it may, and has only taken longer",
    claims=(
        Claim(
            sentence="Two layers of attention learn sooner to recall from far back than two of an LSTM of equal parameters",
            measurement="recalled.above[variant=two layers,model=LSTM]",
            compare=">",
            bound=0,
            reason="attention finds a key however far back it stands; an LSTM has to learn to carry it through every step; so in pilots",
            fails_if="the LSTM learned to carry what it was told as soon",
        ),
        Claim(
            sentence="An LSTM that may look back at its own states learns it sooner than one that may not",
            measurement="recalled.attention_helps",
            compare=">",
            bound=0,
            reason="Bahdanau et al. 2014 added attention for what one state could not hold; so in pilots",
            fails_if="what an LSTM lacks were not the way back",
        ),
        Claim(
            sentence="The models that are compared have equal parameters, within 2 %",
            measurement="parameters.apart",
            compare="<",
            bound=0.02,
            reason="the LSTM's width is chosen so",
            fails_if="one of them were larger, and better for that",
        ),
        Claim(
            sentence="An LSTM's state stays as large as it is, attention's grows with each token",
            measurement="state.growth[model=LSTM]",
            compare="==",
            bound=1,
            reason="h and c are all that it keeps",
            fails_if="the LSTM kept what it read",
        ),
    ),
)
def recurrence(
    run: Run,
    *,
    width: int = 48,
    steps: int = 1200,
    rates: tuple[float, ...] = (1e-3, 3e-3, 1e-2),
    seeds: int = 5,
    distances: tuple[int, ...] = (0, 4, 16, 64),
    repeats: int = 20,
) -> Iterator[Measurement]:
    """Sweep the rate of each system with one seed, then train it with others at its best rate; all on one budget of steps."""
    if seeds < 2 or not rates or len(distances) < 2 or repeats < 10 or width % 6 or steps < LOOKS:
        given = f"{seeds} seeds, {len(rates)} rates, {len(distances)} distances, {repeats} repeats, width {width}, {steps} steps"
        raise LabError(given, expected=f"2 seeds or more, a rate, 2 distances, 10 repeats, a width that 6 divides, {LOOKS} steps")
    every = systems(width, distances)
    yield from sizes(every)
    train = partial(train_one, run, every, steps)
    first = run.seed * 100
    swept = run.units("rates", list(itertools.product(range(len(every)), rates, [first])), train)
    best = [best_rate(swept, which=n) for n in range(len(every))]
    jobs = [(n, best[n], first + seed) for n in range(len(every)) for seed in range(1, seeds + 1)]
    results = run.units("seeds", jobs, train)
    yield from recalls(run, every, best, results)
    yield from timings(run, every[0].make(), every[1].make(), repeats)
    yield from language_model(run)


def sizes(every: Sequence[System]) -> Iterator[Measurement]:
    """Parameters of each, and the bytes that each keeps between two tokens at the end of its longest text."""
    counts = [parameters(one.make()) for one in every]
    for one, count in zip(every, counts, strict=True):
        at = {"variant": one.variant, "model": one.model}
        yield Measurement("parameters", count, at=at)
        yield Measurement("state", state_bytes(one.make(), one.task.longest), "bytes", at=at)
    largest = {one.variant: count for one, count in zip(every, counts, strict=True) if one.model == "attention"}
    alike = [abs(count / largest[one.variant] - 1) for one, count in zip(every, counts, strict=True) if one.variant != "equal state"]
    yield Measurement("parameters.apart", max(alike), "share", n=len(alike))
    for one in every[:2]:
        model = one.make()
        yield Measurement("state.growth", state_bytes(model, 2000) / state_bytes(model, 1000), at={"model": one.model})


def recalls(run: Run, every: Sequence[System], best: Sequence[float], results: Sequence[Mapping[str, Any]]) -> Iterator[Measurement]:
    """By distance the share recalled at last; at the greatest on the way, and how far attention is above each of the others, all looks on
    the way together: who learns sooner is ahead. Differences are taken in pairs of one seed.
    """
    farthest: dict[tuple[str, str], list[float]] = {}
    for n, one in enumerate(every):
        at = {"variant": one.variant, "model": one.model}
        yield run.exact("best_rate", best[n], at=at)
        curves = np.array([result["curve"] for result in results if result["which"] == n])  # (seeds, looks, distances)
        for place, distance in enumerate(one.task.distances):
            yield run.mean("recalled", curves[:, -1, place], "share", within=(0, 1), at=at | {"distance": distance})
        for look in range(LOOKS):
            done = at | {"trained": (look + 1) / LOOKS}
            yield run.mean("recalled.on_the_way", curves[:, look, -1], "share", within=(0, 1), at=done)
        farthest[one.variant, one.model] = curves[:, :, -1].mean(axis=1).tolist()
    for (variant, model), shares in farthest.items():
        if model != "attention":
            above = apart(farthest[variant, "attention"], shares)
            yield run.mean("recalled.above", above, "share", within=(-1, 1), at={"variant": variant, "model": model})
    helped = apart(farthest["two layers", "LSTM with attention"], farthest["two layers", "LSTM"])
    yield run.mean("recalled.attention_helps", helped, "share", within=(-1, 1))


def timings(run: Run, one: nn.Module, other: nn.Module, repeats: int) -> Iterator[Measurement]:
    """Median ratios of alternating pairs. Nothing of what they learned matters here, so fresh weights do."""
    for model in (one, other):
        start(model, 1)
    for work, made in WORKS.items():
        for tokens in TIMED:
            pairs = list(ratios(made(one, tokens), made(other, tokens), repeats))
            yield run.ratio("time.ratio", pairs, "attention / LSTM", at={"work": work, "tokens": tokens})
    for model, name in ((one, "attention"), (other, "LSTM")):
        short, long = (WORKS["decode"](model, tokens) for tokens in TIMED)
        at = {"model": name, "tokens": f"{TIMED[1]} / {TIMED[0]}"}
        yield run.ratio("decode.growth", list(ratios(long, short, repeats)), "long / short", at=at)


def language_model(run: Run) -> Iterator[Measurement]:
    """What the cards say of nano-gpt2 and of an LSTM of equal parameters and tokens, on twins of new pairs of nouns."""
    for name in ("nano-gpt2", "lstm"):
        card = json.loads((shipped_folder(name) / "card.json").read_text(encoding="utf-8"))
        scores = card["scores"]["pairs"]
        yield run.exact("card.parameters", card["parameters"], at={"model": name})
        yield run.exact("card.twins", scores["twins"], "share", at={"model": name}, n=scores["n"])
