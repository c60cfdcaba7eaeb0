"""Chapter 3's main claim over sets of twins: what of the past does a later word change?

One pair of sentences, drawn and told, is `cutaway.trophy`. Here all twins of the micro-world's test set and of the Winograd
Schema Challenge are compared before the place where their two sentences part, and at the pronoun above all. To any model
both sets are just text; whether it knows who is meant is asked in `e03_resolution`.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from torch import Tensor

from cutaway.errors import TextError
from cutaway.invariance import Difference, Taps, compare, largest, parting, taps_of
from cutaway.lab import winograd
from cutaway.lab.claims import BIDIRECTIONAL, CAUSAL, Claim, Needs
from cutaway.lab.e03_trophy_charts import charts
from cutaway.lab.experiment import Run, experiment
from cutaway.lab.measurement import Measurement
from cutaway.model import Model
from cutaway.text.spans import pieces_of
from cutaway.trophy import exchanged
from cutaway.worlds import Twin, twin_set

QUANTILES = (0.05, 0.5, 0.95)
EARLY = "they part at the pronoun or before it"
SAME = "they are the same to this model, or part at once"

Found = dict[str, Any]
Span = tuple[int, int]


@dataclass(frozen=True)
class Pair:
    """Two sentences, where the pronoun stands in each (in characters), and their controls, where there are any.

    `neutral` means what `a` means, in another word; `early` is `a` with its nouns exchanged, so it differs before the pronoun.
    `group`: pairs with the same one are not independent.
    """

    a: str
    b: str
    spans: tuple[Span, Span]
    group: str
    neutral: str | None = None
    early: str | None = None


def of_world(twin: Twin) -> Pair:
    start = twin.a.index(f" {twin.pronoun} was") + 1
    span = (start, start + len(twin.pronoun))
    return Pair(twin.a, twin.b, (span, span), "|".join(sorted(twin.nouns)), twin.neutral, exchanged(twin.a, twin.nouns))


def of_winograd(a: winograd.Item, b: winograd.Item) -> Pair:
    return Pair(a.sentence, b.sentence, (a.span, b.span), a.schema)


def measured(model: Model, pair: Pair) -> Found:
    """One pair: the largest differences, and the pronoun's of each layer and head; or why the pronoun is left out.

    Texts of a causal model are padded to one length, which it cannot see. Those of a bidirectional one run as they are; where
    their lengths are not equal, one more token is itself a difference, and they are counted apart.
    """
    try:
        a, b, parted = parting(model, pair.a, pair.b)
    except TextError:
        return {"left_out": SAME}
    asked = pronoun_at(model, pair.a, pair.spans[0])
    width = max(len(a), len(b)) if model.config.causal else 0
    one, other, again = (taps_of(model, ids, width) for ids in (a, b, a))
    found = {
        "equal": model.config.causal or len(a) == len(b),
        "same": largest(compare(model, one, again, len(a))),
        "taps": by_tap(compare(model, one, other, parted)),
    }
    if asked >= parted:
        stays = found["equal"] and asked == pronoun_at(model, pair.b, pair.spans[1])
        return found | {"left_out": EARLY, "early": float(np.max(heads(model, one, other, asked))) if stays else None}
    neutral = control(model, one, len(a), pair.neutral, asked)
    return found | {"it": heads(model, one, other, asked), "neutral": neutral, "early": early(model, pair, len(a), asked)}


def by_tap(differences: Sequence[Difference]) -> dict[str, float]:
    """The largest difference at each kind of tap, over layers and heads."""
    taps: dict[str, float] = {}
    for one in differences:
        kind = one.tap.split(".", 2)[-1] if one.tap.startswith("blocks.") else one.tap
        taps[kind] = max(taps.get(kind, 0.0), one.max_abs_diff)
    return taps


def pronoun_at(model: Model, text: str, span: Span) -> int:
    """The position that asks: of a pronoun of several pieces the last, which has read them all."""
    return pieces_of(model.pieces(text), *span)[-1]


def heads(model: Model, one: Taps, other: Taps, asked: int) -> list[list[float]]:
    """The largest difference of attention weights from position `asked`, (L, H), over the keys that both have."""

    def apart(x: Tensor, y: Tensor) -> list[float]:  # (H, T, S)
        keys = min(x.shape[-1], y.shape[-1])
        return (x[:, asked, :keys] - y[:, asked, :keys]).abs().amax(dim=-1).tolist()

    names = [f"blocks.{layer}.attn.pattern" for layer in range(model.config.layers)]
    return [apart(one[name], other[name]) for name in names]


def control(model: Model, run: Taps, length: int, neutral: str | None, asked: int) -> list[list[float]] | None:
    """The same for the neutral twin, if it has the first sentence's length and its beginning."""
    ids = [piece.id for piece in model.pieces(neutral)] if neutral else []
    width = next(iter(run.values())).shape[0]
    if len(ids) != length:
        return None
    return heads(model, run, taps_of(model, ids, width), asked)


def early(model: Model, pair: Pair, length: int, asked: int) -> float | None:
    """The pronoun's largest difference to the sentence with its nouns exchanged; None if that moves the pronoun."""
    if pair.early is None or len(model.pieces(pair.early)) != length or pronoun_at(model, pair.early, pair.spans[0]) != asked:
        return None
    one, other = (taps_of(model, [piece.id for piece in model.pieces(text)]) for text in (pair.a, pair.early))
    return float(np.max(heads(model, one, other, asked)))


@experiment(
    "e03_trophy",
    chapter="03",
    version=1,
    question="In which models does a later word change the attention of a pronoun, over all twins of the test set and of Winograd's?",
    needs=Needs(),
    data=("wsc",),
    charts=charts,
    not_shown="that a model whose attention differs knows which noun is meant: a neutral twin moves it too",
    claims=(
        Claim(
            sentence="The pronoun's attention is identical in both sentences of every twin, bit for bit, in every layer and head",
            measurement="it.max_abs_diff",
            compare="==",
            bound=0,
            reason="the causal mask: the sentences are the same up to the pronoun and beyond it",
            fails_if="a position could read a later one, or the two runs had other shapes or kernels",
            of=CAUSAL,
        ),
        Claim(
            sentence="So is every tap at every position before the sentences part",
            measurement="before.max_abs_diff",
            compare="==",
            bound=0,
            reason="the same, for whatever is computed there",
            fails_if="a position could read a later one, or the two runs had other shapes or kernels",
            of=CAUSAL,
        ),
        Claim(
            sentence="A difference before the pronoun does change its attention, in every twin",
            measurement="early.min_abs_diff",
            compare=">",
            bound=0,
            reason="the control: were this 0 too, equality would say nothing",
            fails_if="the comparison looked at the wrong place, or at nothing",
        ),
        Claim(
            sentence="In a bidirectional model a later word changes the pronoun's attention, in every twin",
            measurement="it.min_abs_diff",
            compare=">",
            bound=0,
            reason="every position reads every other, from the first block on",
            fails_if="a causal mask hid what comes later",
            of=BIDIRECTIONAL,
        ),
        Claim(
            sentence="The same text twice gives the same numbers",
            measurement="same.max_abs_diff",
            compare="==",
            bound=0,
            reason="equal shapes, kernels and threads",
            fails_if="a kernel summed in an order that changes from run to run",
        ),
    ),
)
def trophy_sets(run: Run, *, twins: int = 552) -> Iterator[Measurement]:
    """Compare up to `twins` twins of the test set, and all of Winograd's; differences of attention weights are shares of 1."""
    every = [of_world(twin) for twin in twin_set("pairs")]
    sets = {"twins": [every[n] for n in sorted(run.rng("twins").permutation(len(every))[:twins])]}
    try:
        sets["winograd"] = [of_winograd(a, b) for a, b in winograd.twins(winograd.collection(run.data))]
    except TextError as missing:
        yield run.absent("it.max_abs_diff", str(missing), at={"set": "winograd"})
    found = {name: run.units(name, pairs, partial(measured, run.model)) for name, pairs in sets.items()}
    yield from extremes(run, [one for results in found.values() for one in results], {})
    for name, results in found.items():
        yield from extremes(run, results, {"set": name})
        yield from spread(run, name, results)
    yield from above_neutral(run, sets["twins"], found["twins"])


def extremes(run: Run, found: Sequence[Found], at: dict[str, Any]) -> Iterator[Measurement]:
    """The largest and the smallest differences, and how many pairs they are of. Bidirectional pairs of unequal length stand apart."""
    yield run.exact("measured", sum("it" in one for one in found), "pairs", n=len(found), at=at)
    for why, count in Counter(one["left_out"] for one in found if "left_out" in one).items():
        yield run.exact("left_out", count, "pairs", n=len(found), at={**at, "why": why})
    ran = [one for one in found if "taps" in one]
    for suffix, group in (("", [one for one in ran if one["equal"]]), (".unequal", [one for one in ran if not one["equal"]])):
        if before := [max(one["taps"].values()) for one in group]:
            yield run.exact(f"before.max_abs_diff{suffix}", max(before), n=len(before), at=at)
        if most := [float(np.max(one["it"])) for one in group if "it" in one]:  # of each pair
            yield run.exact(f"it.max_abs_diff{suffix}", max(most), n=len(most), at=at)
            yield run.exact(f"it.min_abs_diff{suffix}", min(most), n=len(most), at=at)
        elif not suffix:
            yield run.absent("it.max_abs_diff", "no pair has the lengths that this needs under this model's tokenizer", at=at)
    if ran:
        yield run.exact("same.max_abs_diff", max(one["same"] for one in ran), n=len(ran), at=at)
    if moved := [one["early"] for one in ran if one["early"] is not None]:
        yield run.exact("early.min_abs_diff", min(moved), n=len(moved), at=at)


def spread(run: Run, name: str, found: Sequence[Found]) -> Iterator[Measurement]:
    """Of each tap the largest difference before the sentences part; of each layer the pronoun's quantiles over pairs and heads.

    Pairs of unequal length are left out of a bidirectional model's, and neutral twins are those of the test set.
    """
    kept = [one for one in found if one.get("equal")]
    for tap in kept[0]["taps"] if kept else ():
        yield run.exact("before.tap_abs_diff", max(one["taps"][tap] for one in kept), n=len(kept), at={"set": name, "tap": tap})
    for which in ("it", "neutral"):
        values = np.array([one[which] for one in kept if one.get(which) is not None])  # (N, L, H)
        for layer in range(values.shape[1] if len(values) else 0):
            for q in QUANTILES:
                at = {"set": name, "twin": which, "layer": layer, "quantile": q}
                yield run.exact("it.abs_diff", float(np.quantile(values[:, layer], q)), at=at, n=values[:, layer].size)


def above_neutral(run: Run, pairs: Sequence[Pair], found: Sequence[Found]) -> Iterator[Measurement]:
    """In how many twins is the pronoun's largest difference above its neutral twin's? Of a causal model both are 0."""
    if run.model.config.causal:
        yield run.absent("it.above_neutral", "a causal model's differences are all 0")
        return
    both = [(pair, one) for pair, one in zip(pairs, found, strict=True) if one.get("equal") and one.get("neutral") is not None]
    if both:
        above = [float(np.max(one["it"]) > np.max(one["neutral"])) for _, one in both]
        yield run.mean("it.above_neutral", above, "share", groups=[pair.group for pair, _ in both], within=(0, 1))
