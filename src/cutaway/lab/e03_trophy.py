"""Chapter 3's main claim over sets of twins: what of the past does a later word change?

One pair of sentences, drawn and told, is `cutaway.trophy`. Here every twin of the test set is compared before the place where
its two sentences part, and at the pronoun above all; with the neutral twin beside it, and a twin that parts before the pronoun.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from cutaway.errors import TextError
from cutaway.invariance import compare, largest, parting, taps_of
from cutaway.lab.claims import BIDIRECTIONAL, CAUSAL, Claim, Needs
from cutaway.lab.experiment import Run, experiment
from cutaway.lab.measurement import Measurement
from cutaway.model import Model
from cutaway.text.spans import find_word
from cutaway.trophy import exchanged
from cutaway.worlds import Twin, twin_set

QUANTILES = (0.05, 0.5, 0.95)


def measured(model: Model, twin: Twin) -> dict[str, Any] | None:
    """One twin: the largest differences, and of each layer and head the pronoun's; None if its sentences part too early.

    Texts of a causal model are padded to one length, which it cannot see; those of a bidirectional one must have it already.
    """
    try:
        a, b, parted = parting(model, twin.a, twin.b)
        _, neutral, parted_too = parting(model, twin.a, twin.neutral)
        asked = find_word(twin.a, model.pieces(twin.a), twin.pronoun)[-1]
        early = early_twin(model, twin, asked, len(a))
    except TextError:
        return None
    lengths = {len(a), len(b), len(neutral)}
    if asked >= min(parted, parted_too) or (len(lengths) > 1 and not model.config.causal):
        return None
    width = max(lengths)
    runs = [taps_of(model, ids, width) for ids in (a, b, neutral, a)]
    before = compare(model, runs[0], runs[1], parted)
    at = [pronoun(model, runs[0], run, asked) for run in runs[1:3]]
    return {
        "before": largest(before),
        "same": largest(compare(model, runs[0], runs[3], len(a))),
        "it": at[0],
        "neutral": at[1],
        "early": float(np.max(pronoun(model, runs[0], taps_of(model, early, width), asked))) if early else None,
    }


def pronoun(model: Model, one: dict[str, Any], other: dict[str, Any], asked: int) -> list[list[float]]:
    """The largest difference of attention weights from the pronoun, (L, H)."""
    names = [f"blocks.{layer}.attn.pattern" for layer in range(model.config.layers)]
    return [(one[name][:, asked] - other[name][:, asked]).abs().amax(dim=-1).tolist() for name in names]


def early_twin(model: Model, twin: Twin, asked: int, length: int) -> list[int] | None:
    """The first sentence with its nouns exchanged, which differs before the pronoun; None if that moves the pronoun."""
    text = exchanged(twin.a, twin.nouns)
    pieces = model.pieces(text)
    same = find_word(text, pieces, twin.pronoun)[-1] == asked
    ids = [piece.id for piece in pieces]
    return ids if len(ids) == length and same else None


@experiment(
    "e03_trophy",
    chapter="03",
    version=1,
    question="In which models does a later word change the attention of a pronoun, over all twins of the test set?",
    needs=Needs(),
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
    """Compare up to `twins` twins of the test set; differences of attention weights are shares of 1."""
    every = twin_set("pairs")
    picked = [every[n] for n in sorted(run.rng("twins").permutation(len(every))[:twins])]
    found = run.units("twins", picked, partial(measured, run.model))
    kept = [(twin, one) for twin, one in zip(picked, found, strict=True) if one]
    yield run.exact("left_out", len(picked) - len(kept), "twins", n=len(picked))
    if not kept:
        yield run.absent("it.max_abs_diff", "no twin's sentences have the lengths that this needs under this model's tokenizer")
        return
    each = {name: np.array([one[name] for _, one in kept]) for name in ("it", "neutral")}  # (N, L, H)
    most = each["it"].max(axis=(1, 2))  # of each twin
    yield run.exact("it.max_abs_diff", float(most.max()), n=len(kept))
    yield run.exact("it.min_abs_diff", float(most.min()), n=len(kept))
    for name in ("before", "same"):
        yield run.exact(f"{name}.max_abs_diff", max(one[name] for _, one in kept), n=len(kept))
    early = [one["early"] for _, one in kept if one["early"] is not None]
    yield run.exact("early.min_abs_diff", min(early), n=len(early)) if early else run.absent("early.min_abs_diff", "no such twin")
    yield from spread(run, each)
    moved = most > each["neutral"].max(axis=(1, 2))
    nouns = [tuple(sorted(twin.nouns)) for twin, _ in kept]
    yield run.mean("it.above_neutral", moved.astype(float).tolist(), "share", groups=nouns)


def spread(run: Run, each: dict[str, Any]) -> Iterator[Measurement]:
    """Quantiles over twins and heads of each layer, of the twin and of its neutral twin."""
    for name, values in each.items():
        for layer in range(values.shape[1]):
            for q in QUANTILES:
                at = {"twin": name, "layer": layer, "quantile": q}
                yield run.exact("it.abs_diff", float(np.quantile(values[:, layer], q)), at=at, n=values[:, layer].size)
