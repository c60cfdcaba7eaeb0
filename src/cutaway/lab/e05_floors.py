"""Chapter 5: a model floor by floor. What its head reads there, how long the stream is, what is lost without a floor, and from which
floor a pronoun's referent is readable, and carried, where the answer is read.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from cutaway.errors import LabError
from cutaway.lab.claims import ANY, Claim, Needs
from cutaway.lab.e03_where_places import drawn as twins_of
from cutaway.lab.e05_floors_charts import charts
from cutaway.lab.e05_floors_read import lengths, readable, referent, settled, skipped
from cutaway.lab.experiment import Run, experiment
from cutaway.lab.measurement import Measurement
from cutaway.lab.texts import asked_of, drawn
from cutaway.worlds import Twin

READS, OWN = Needs(heads=("lm", "mlm")), Needs(heads=("lm", "mlm"), own_world=True)
LEAST_PAIRS = 10  # fewer twins say nothing of a median


@experiment(
    "e05_floors",
    chapter="05",
    version=1,
    question="What does each floor of a model add: to what its head can read, to the stream's length, and to the answer?",
    needs=ANY,
    charts=charts,
    not_shown="where a model settles anything: what the head can read at a floor need not be what later floors use",
    claims=(
        Claim(
            sentence="At the last floor the head has first what the model says, at every place",
            measurement="last.differs",
            compare="==",
            bound=0,
            reason="what is read there is the model's own answer",
            fails_if="the stream was read in the wrong place, or through another head than the model's",
            of=READS,
        ),
        Claim(
            sentence="What the head reads comes nearer to the model's answer from the first floor to the last but one",
            measurement="kl.falls",
            compare=">",
            bound=0,
            reason="each block adds to one stream, and the head reads that stream (nostalgebraist 2020); pilots fell in all models",
            fails_if="the head's reading of the embedding were as near as that of any block",
            of=READS,
        ),
        Claim(
            sentence="In a nano model some floor cannot be missed: without it the loss rises by more than half a nat",
            measurement="skip.rise.most",
            compare=">",
            bound=0.5,
            reason="three blocks have little to spare; pilots had more than 1 nat",
            fails_if="a skipped block ran all the same, or the model did its work without it",
            of=OWN,
        ),
        Claim(
            sentence="Where the answer is read, the embedding does not carry the referent: its patch moves nothing",
            measurement="patch.embed.largest",
            compare="==",
            bound=0,
            reason="the token there is the same in both sentences, so what is written is what stood there",
            fails_if="the place that was patched were one at which the sentences differ",
            of=OWN,
        ),
        Claim(
            sentence="A nano language model carries it there before its head can read it",
            measurement="floor.apart",
            compare="<",
            bound=0,
            reason="what a block has read for those above it need not yet be what the head looks for; pilots had half a floor and more",
            fails_if="a floor could carry no more than what the head reads there",
            of=Needs(causal=True, heads=("lm",), own_world=True),
        ),
    ),
)
def floors(run: Run, *, texts: int = 16, twins: int = 100, tier: str = "pairs") -> Iterator[Measurement]:
    """`texts` passages of the micro-world, and `twins` twins of this part of its test set."""
    if texts < 2 or twins < 1:
        raise LabError(f"texts={texts}, twins={twins}", expected="2 texts or more, and a twin")
    model = run.model
    read = drawn(run, model, texts)
    yield from of_lengths(run, run.units("lengths", read, lambda text: lengths(model, model.batch([text])[0])))
    yield from of_skips(run, run.units("skipped", read, partial(without, run)))
    if model.config.head not in READS.heads:
        for name in ("kl", "floor.readable"):
            yield run.absent(name, f"{model.name} has no head that predicts words")
        return
    yield from of_lens(run, run.units("lens", read, partial(through, run)))
    asked = twins_of(run, tier, twins)
    yield from of_referents(run, asked, run.units("referents", asked, partial(referent, model)))


def through(run: Run, text: str) -> dict[str, Any]:
    asked = asked_of(run.model, text, run)
    assert asked is not None
    return readable(run.model, asked, run.rng(f"shuffle {text}"))


def without(run: Run, text: str) -> list[float]:
    asked = asked_of(run.model, text, run)
    return skipped(run.model, *(asked or (run.model.batch([text])[0], None)))


def of_lens(run: Run, each: Sequence[Mapping[str, Any]]) -> Iterator[Measurement]:
    """By floor, means over texts; what is read at all places of one text is one number."""
    places = sum(one["places"] for one in each)
    yield run.exact("last.differs", sum(one["differs"] for one in each), "places", n=places)
    for name, key, unit in (("kl", "kl", "nats"), ("first", "first", "share"), ("first.shuffled", "shuffled", "share")):
        for floor, values in enumerate(np.array([one[key] for one in each]).T):
            yield run.mean(name, values, unit, within=(0, 1) if unit == "share" else None, at={"floor": floor})
    yield run.mean("kl.falls", [one["kl"][0] - one["kl"][-2] for one in each], "nats")


def of_lengths(run: Run, each: Sequence[Mapping[str, Any]]) -> Iterator[Measurement]:
    for where in ("first", "rest"):
        for floor, values in enumerate(np.array([one[where] for one in each]).T):
            at = {"floor": floor, "position": "0" if where == "first" else "behind it"}
            if where == "first" and np.ptp(values) == 0:
                yield run.exact("length", float(values[0]), at=at, n=len(values))  # one token, one length
            else:
                yield run.mean("length", values, at=at)
    for part in ("attn", "mlp"):
        for what, unit in (("share", "of what it is added to"), ("cosine", "")):
            for block, values in enumerate(np.array([one[f"{part}.{what}"] for one in each]).T):
                yield run.mean(f"wrote.{what}", values, unit, at={"part": part, "block": block})


def of_skips(run: Run, each: Sequence[Sequence[float]]) -> Iterator[Measurement]:
    """By block; and the block that is missed most."""
    by_block = np.array(each).T  # (blocks, texts)
    reads = run.model.config.head in READS.heads
    name, unit = ("skip.rise", "nats a token") if reads else ("skip.change", "of the last stream's length")
    for block, values in enumerate(by_block):
        yield run.mean(name, values, unit, at={"block": block})
    yield run.mean(f"{name}.most", by_block[by_block.mean(axis=1).argmax()], unit)


def of_referents(run: Run, asked: Sequence[Twin], each: Sequence[Mapping[str, Any]]) -> Iterator[Measurement]:
    """The first floor from which the sign of the referent's odds stays what it is at last, and from which a patch of that place
    alone moves more than half of the answer; medians over twins in which the model means the right noun both times.
    """
    kept = [(twin, one) for twin, one in zip(asked, each, strict=True) if one and all(row[-1] > 0 for row in one["odds"])]
    yield run.exact("twins.kept", len(kept), "twins", n=len(asked))
    if len(kept) < LEAST_PAIRS:
        why = f"{len(kept)} of {len(asked)} twins have nouns of one piece, sentences of one length and both right"
        yield run.absent("floor.readable", f"{why}; at least {LEAST_PAIRS} are needed")
        return
    groups = [tuple(sorted(twin.nouns)) for twin, _ in kept]
    reads = [max(settled([odds > 0 for odds in row]) for row in one["odds"]) for _, one in kept]
    carries = [settled([effect > 0.5 for effect in one["effects"]]) for _, one in kept]
    yield run.median("floor.readable", reads, "floor", groups=groups)
    yield run.median("floor.carried", carries, "floor", groups=groups)
    yield run.mean("floor.apart", np.subtract(carries, reads), "floors", groups=groups)
    yield run.exact("patch.embed.largest", max(abs(one["effects"][0]) for _, one in kept), n=len(kept))
    for floor in range(len(kept[0][1]["effects"])):
        right = [float(np.mean([row[floor] > 0 for row in one["odds"]])) for _, one in kept]
        yield run.mean("referent", right, "share", groups=groups, within=(0, 1), at={"floor": floor, "by": "head"})
        moved = [one["effects"][floor] for _, one in kept]
        yield run.mean("referent", moved, "share", groups=groups, at={"floor": floor, "by": "patch"})
