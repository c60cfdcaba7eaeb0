"""Chapter 4: what each head looks at, and what the model loses without it.

Types are stated places; a head is of a type if it looks there more than at places drawn at random (`e04_heads_types`). Losing it is
another question (`e04_heads_ablation`): a head may look at a place and not matter, or matter and look at no place that has a name.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutaway.core.transformer import Transformer
from cutaway.errors import LabError
from cutaway.lab import e04_heads_types as types
from cutaway.lab.claims import ANY, Claim, Needs
from cutaway.lab.e04_heads_ablation import HOWS, Ablation, clean, second_copy, without
from cutaway.lab.e04_heads_charts import charts
from cutaway.lab.experiment import Run, experiment
from cutaway.lab.measurement import Measurement
from cutaway.lab.texts import asked_of, drawn
from cutaway.model import Model
from cutaway.train.loop import initialise

READS, LM = Needs(heads=("lm", "mlm")), Needs(causal=True, heads=("lm",))
PERCENTILE = 99.0
LEVEL = 0.95  # of what is said of all heads together
NO_START = "this tokenizer has no token that a text begins with"


@experiment(
    "e04_heads",
    chapter="04",
    version=1,
    question="What do a model's heads look at, and what does the model lose without each of them?",
    needs=ANY,
    claims=(
        Claim(
            sentence="Some head looks at the token before, in ordinary text",
            measurement="typed.certain[on=text,type=previous]",
            compare=">",
            bound=0,
            reason="neighbours say most of each other; BERT has such heads (Clark et al. 2019, section 3.1), and the pilots had",
            fails_if="heads looked at places without regard to where they are",
        ),
        Claim(
            sentence="Of heads whose weights were just drawn few look at what followed the token before",
            measurement="fresh.share[type=induction]",
            compare="<",
            bound=0.3,
            reason="nothing ties a fresh head to it; one in a hundred passes by chance, and in pilots up to one in seven in a deep stack",
            fails_if="the threshold were too low, or the places that are drawn were not those that can be read",
            of=LM,
        ),
        Claim(
            sentence="With its mean in the place of every head a model predicts worse by more than a tenth of a nat",
            measurement="rise.all[on=text,how=mean]",
            compare=">",
            bound=0.1,
            reason="no position then reads another, and what is predicted depends on more than one word; pilots had more than 1 nat",
            fails_if="the model did not use its heads, or what is written in their place said as much",
            of=READS,
        ),
        Claim(
            sentence="A head replaced by itself changes nothing, bit for bit",
            measurement="control.itself",
            compare="==",
            bound=0,
            reason="the layers before are not run again, and what is written is what stood there",
            fails_if="the ablated run differed from the plain one in anything else",
            of=READS,
        ),
    ),
    charts=charts,
    not_shown="what a head is for: a weight is not what it moves, and heads stand in for each other",
)
def heads(
    run: Run,
    *,
    sequences: int = 100,
    length: int = 24,
    texts: int = 16,
    draws: int = 1000,
    ablated: int = 32,
    shown: int = 6,
) -> Iterator[Measurement]:
    """`sequences` random sequences of `length` tokens, each twice, and `texts` passages of the micro-world.

    draws: places at random for each query. ablated: sequences that are read without each induction head. shown: heads of a kind.
    """
    if min(sequences, length - 2, texts - 1, draws - 99, ablated - 1, shown) < 1:
        given = f"sequences={sequences}, length={length}, texts={texts}, draws={draws}, ablated={ablated}, shown={shown}"
        raise LabError(given, expected="at least 1, 3, 2, 100, 2 and 1")
    model, read = run.model, drawn(run, run.model, texts)
    found = {on: typed(run, on, readings, draws) for on, readings in materials(run, read, sequences, length).items() if readings}
    if "repeats after a start" not in found and model.config.causal:
        yield run.absent("typed", NO_START, at={"on": "repeats after a start"})
    for on, one in found.items():
        yield from of_types(run, on, one, shown)
    yield from fresh(run, sequences, length, draws)
    if model.config.head not in READS.heads:
        yield run.absent("missed", f"{model.name} has no head that predicts words, so it has no loss")
        return
    each, every = on_texts(run, read)
    yield run.mean("rise.all", every, "nats a token", at={"on": "text", "how": "mean"})
    yield from of_rises(run, each, shown)
    if model.config.causal:
        yield from copying(run, np.array(found["repeats"]["induction"]["typed"]), ablated, length, shown)
    yield run.exact("control.itself", itself(model, read[0], run), "nats a token")


def materials(run: Run, read: Sequence[str], sequences: int, length: int) -> dict[str, list[types.Reading]]:
    model, start = run.model, types.start_of(run.model) if run.model.config.causal else None

    def repeats(start: int | None) -> types.Reading:
        return types.repeated(model, run.rng("repeats"), sequences, length, start=start)  # the same sequences each time

    return {
        "repeats": [repeats(None)],
        "repeats after a start": [repeats(start)] if start is not None else [],
        "text": [types.written(model, text) for text in read],
    }


def typed(run: Run, on: str, readings: Sequence[types.Reading], draws: int) -> Mapping[str, Any]:
    """By type: the mean weights and which heads are of the type (L, H), as lists, and n queries."""

    def look(readings: Sequence[types.Reading]) -> dict[str, Any]:
        found = types.scores(run.model.transformer, readings, draws, run.rng(f"draws {on}"))
        looked = {kind: sum(len(reading.ids) * len(reading.places[kind][0]) for reading in readings) for kind in found.mean}
        return {
            kind: {
                "weight": found.mean[kind].tolist(),
                "chance": found.drawn[kind].mean(axis=-1).tolist(),
                "typed": found.typed(kind, PERCENTILE).tolist(),
                "certain": int(found.certain(kind, LEVEL).sum()),
                "n": n,
            }
            for kind, n in looked.items()
            if n
        }

    (found,) = run.units(f"types {on}", [readings], look)
    return dict(found)


def of_types(run: Run, on: str, found: Mapping[str, Any], shown: int) -> Iterator[Measurement]:
    """How many heads are of each type, and those of them that look there most."""
    for kind, one in found.items():
        weight, of_type, chance = (np.array(one[part]) for part in ("weight", "typed", "chance"))
        yield run.exact("typed", int(of_type.sum()), "heads", at={"on": on, "type": kind}, n=of_type.size)
        yield run.exact("typed.certain", one["certain"], "heads", at={"on": on, "type": kind}, n=of_type.size)
        for layer, head in strongest(np.where(of_type, weight, -1.0), min(shown, int(of_type.sum()))):
            at = {"on": on, "type": kind, "layer": layer, "head": head}
            yield run.exact("weight", float(weight[layer, head]), "of 1", at=at, n=one["n"])
            yield run.exact("weight.by_chance", float(chance[layer, head]), "of 1", at=at, n=one["n"])


def strongest(values: NDArray[np.float64], count: int) -> list[tuple[int, int]]:
    order = np.argsort(-values, axis=None, kind="stable")[:count]
    return [(int(place // values.shape[1]), int(place % values.shape[1])) for place in order]


def fresh(run: Run, sequences: int, length: int, draws: int) -> Iterator[Measurement]:
    """The control: the same of a model whose weights were just drawn."""

    def look(reading: types.Reading) -> dict[str, Any]:
        made = Transformer(run.model.config)
        initialise(made, run.seed)
        found = types.scores(made.to(run.model.device), [reading], draws, run.rng("draws fresh"))
        return {kind: found.typed(kind, PERCENTILE).mean() for kind in found.mean}

    (shares,) = run.units("fresh", [types.repeated(run.model, run.rng("fresh"), sequences, length)], look)
    for kind, share in shares.items():
        yield run.exact("fresh.share", share, "of heads", at={"type": kind}, n=run.model.config.layers * run.model.config.heads)


def on_texts(run: Run, read: Sequence[str]) -> tuple[NDArray[np.float64], list[float]]:
    """The rise of the loss on each text: without each head (N, ways, L, H), and with the mean in the place of all (N)."""
    model = run.model

    @cache
    def ablation() -> Ablation:
        return Ablation(model, [asked for text in read if (asked := asked_of(model, text, run))])

    def measure(place: int) -> dict[str, Any]:
        return {"each": ablation().of_each(place).tolist(), "every": ablation().of_all(place)}

    found = run.units("ablation text", range(len(read)), measure)
    return np.array([one["each"] for one in found]), [one["every"] for one in found]


def of_rises(run: Run, rises: NDArray[np.float64], shown: int) -> Iterator[Measurement]:
    """Which heads are missed for certain: the interval of the mean at LEVEL, corrected over heads, is above 0."""
    for way, how in enumerate(HOWS):
        low, at = lower(rises[:, way]), {"on": "text", "how": how}
        yield run.exact("missed", int((low > 0).sum()), "heads", at=at, n=low.size)
        yield run.exact("rise.middle", float(np.median(rises[:, way].mean(axis=0))), "nats a token", at=at, n=low.size)
    for layer, head in strongest(rises[:, HOWS.index("mean")].mean(axis=0), min(shown, rises[0, 0].size)):
        for way, how in enumerate(HOWS):
            where = {"on": "text", "how": how, "layer": layer, "head": head}
            yield run.mean("rise", rises[:, way, layer, head], "nats a token", at=where)


def lower(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """(L, H): the lower end of Student's interval of the mean over texts (N, L, H), at a level corrected over all heads."""
    from scipy.stats import t

    n, heads = len(values), values[0].size
    reach = t.ppf(1 - (1 - LEVEL) / 2 / heads, n - 1) * values.std(axis=0, ddof=1) / np.sqrt(n)
    return np.asarray(values.mean(axis=0) - reach)


def copying(run: Run, of_type: NDArray[np.bool_], count: int, length: int, shown: int) -> Iterator[Measurement]:
    """Induction heads look at what followed the token before, and are missed on the second copy when their mean stands in."""
    rises = on_repeats(run, of_type, count, length)  # (N, h)
    missed, at = lower(rises) > 0 if of_type.any() else np.zeros(0), {"on": "repeats", "how": "mean"}
    yield run.exact("induction", int(missed.sum()), "heads", n=of_type.size)
    where = np.argwhere(of_type).tolist()
    for _, place in strongest(rises.mean(axis=0)[None], min(shown, len(where))):
        layer, head = where[place]
        yield run.mean("rise", rises[:, place], "nats a token", at=at | {"layer": layer, "head": head})


def on_repeats(run: Run, of_type: NDArray[np.bool_], count: int, length: int) -> NDArray[np.float64]:
    """(N, h): the rise on the second copy of each sequence without each of the h heads of this type."""

    @cache
    def ablation() -> Ablation:
        rows = types.repeated(run.model, run.rng("ablated"), count, length).ids.split(1)
        return Ablation(run.model, [(ids, second_copy(ids, 0, length)) for ids in rows])

    def measure(place: int) -> Any:
        return ablation().of_each(place, ("mean",), of_type)[0][of_type].tolist() if of_type.any() else []

    return np.array(run.units("ablation repeats", range(count), measure))


def itself(model: Model, text: str, run: Run) -> float:
    """The control: the own z of one head of each layer in its place. The largest change of a loss."""
    asked = asked_of(model, text, run)
    assert asked is not None
    plain = clean(model, *asked)
    one_each = [(layer, layer % model.config.heads) for layer in range(model.config.layers)]
    return max(float((without(model, asked, plain, n, [head], plain.z[n]) - plain.losses).abs().max()) for n, head in one_each)
