"""Where it is known: probes that see what is there and nothing else, places that are what they say, claims that can fail."""

from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

import cutaway
from cutaway import charts
from cutaway.core.tap import untapped
from cutaway.errors import ModelError
from cutaway.lab import e03_where
from cutaway.lab.claims import Claim
from cutaway.lab.e03_where import labels, where
from cutaway.lab.e03_where_places import MASK, held, patched, places, read, stream
from cutaway.lab.experiment import Run
from cutaway.lab.measurement import Measurement
from cutaway.lab.probe import Groups, fitted, outputs, right
from cutaway.worlds import Twin, twin_set
from tests.conftest import worded

NANO = ("nano-gpt1", "nano-gpt2", "nano-roberta")
SMALL = {"twins": 36, "folds": 2, "pairs": 4}
RNG = np.random.default_rng


def groups_of(twins: list[Twin]) -> Groups:
    return Groups([twin.frame for twin in twins], [tuple(sorted(twin.nouns)) for twin in twins])


def test_no_frame_and_no_pair_of_nouns_on_both_sides() -> None:
    twins = twin_set("pairs")
    groups, tested = groups_of(twins), []
    for train, test in groups.folds(np.arange(len(twins)), 6, RNG(1)):
        for which in (groups.frames, groups.nouns):
            assert not {which[n] for n in train} & {which[n] for n in test}
        assert len(train) > len(twins) / 2
        tested += test.tolist()
    assert sorted(tested) == list(range(len(twins)))


def test_labels_are_balanced_and_true() -> None:
    """Of each twin one sentence has each label; the role is told by hand for one frame."""
    for tier in ("pairs", "early"):
        twins = twin_set(tier)
        for asks in ("noun", "role"):
            assert sorted(map(tuple, np.unique(labels(twins, asks), axis=0))) == [(0, 1), (1, 0)]
        for twin, roles in zip(twins, labels(twins, "role"), strict=True):
            if twin.frame == "didn't fit in":
                grew = any(phrase in twin.a for phrase in ("too big", "too large", "not small enough", "not tiny enough"))
                assert roles[0] == (0 if grew else 1)  # what did not fit is the frame's first part


def vectors(signal: float, n: int = 120, width: int = 8) -> tuple[Any, Any, Groups]:
    """Twins whose first number says the label, `signal` standard deviations clear."""
    y = RNG(0).permuted(np.tile([0, 1], (n, 1)), axis=1)
    x = RNG(1).normal(size=(n, 2, width))
    x[..., 0] += signal * (2 * y - 1)
    return x, y, Groups([n % 12 for n in range(n)], list(range(n)))


def test_a_probe_finds_what_is_there_and_nothing_else() -> None:
    x, y, groups = vectors(3.0)
    assert right(outputs(x, y, groups, 3, RNG(2)), y).mean() > 0.95
    x, y, groups = vectors(0.0)
    assert 0.35 < right(outputs(x, y, groups, 3, RNG(2)), y).mean() < 0.65


def test_equal_vectors_get_equal_outputs() -> None:
    x, y, groups = vectors(3.0)
    x[:, 1] = x[:, 0]
    said = outputs(x, y, groups, 4, RNG(2))
    assert np.array_equal(said[:, 0], said[:, 1])
    assert right(said, y).mean() == 0.5


def test_the_probe_is_logistic_regression() -> None:
    """Against the definition: half the squared norm of w, plus C times the sum of log(1 + exp(−margin)), minimised by SciPy."""
    x, y, _ = vectors(0.5)
    train, test = np.arange(80), np.arange(80, 120)
    flat = x[train].reshape(-1, x.shape[-1])
    standard = (x - flat.mean(axis=0)) / flat.std(axis=0)
    sign = 2 * y[train].ravel() - 1

    def loss(w: Any) -> Any:
        margins = sign * (standard[train].reshape(len(sign), -1) @ w[:-1] + w[-1])
        return 0.5 * (w[:-1] ** 2).sum() + 1.0 * np.logaddexp(0, -margins).sum()

    w = minimize(loss, np.zeros(x.shape[-1] + 1), tol=1e-10).x
    assert np.abs(fitted(x, y, train, test, 1.0) - (standard[test] @ w[:-1] + w[-1])).max() < 1e-2


@pytest.mark.parametrize("name", NANO)
def test_places_are_what_they_are_called(name: str) -> None:
    model = cutaway.load(name)
    for tier in ("pairs", "early"):
        for twin in twin_set(tier)[::40]:
            for masked in {False, tier == "pairs" and model.config.head == "mlm"}:
                text = read(model, twin, twin.a, masked=masked)
                at = {place: model.pieces(text)[n].text.strip() for place, n in places(model, twin, masked=masked).items()}
                assert (at["first noun"], at["second noun"], at["stop"]) == (*twin.nouns, ".")
                assert at["pronoun"] == (MASK if masked else twin.pronoun)
                assert at["deciding word"] == twin.words[0]
                assert at.get("answer", "The").lower() == "the"
                assert at.get("because") == ("because" if tier == "pairs" else None)
                assert ("answer" in at) == model.config.causal


@pytest.mark.parametrize("name", NANO)
def test_what_is_held_is_the_stream(name: str) -> None:
    model = cutaway.load(name)
    twins = twin_set("pairs")[::50]
    found = held(model, twins)
    for n, twin in enumerate(twins):
        for side, sentence in enumerate((twin.a, twin.b)):
            trace, at = model.trace(read(model, twin, sentence)), places(model, twin)
            for depth, tap in enumerate(stream(model)):
                for place, x in found.items():
                    assert np.abs(x[depth, n, side] - trace[tap][at[place]].numpy()).max() < 1e-4
    same = np.array_equal(found["pronoun"][:, :, 0], found["pronoun"][:, :, 1])
    assert same == model.config.causal


CELLS = [("late", "noun", "pronoun"), ("late", "noun", "answer"), ("early", "role", "pronoun")]  # those that claims are about


def measure(run: Run, cells: list[tuple[str, str, str]]) -> dict[str, Measurement]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(e03_where, "ASKED", cells)
        return {one.key: one for one in where.measure(run, **SMALL)}


@pytest.mark.parametrize("name", NANO)
def test_the_stream_ends_where_the_head_reads(name: str) -> None:
    model = cutaway.load(name)
    trace = model.trace(twin_set("pairs")[0].a)
    left = trace.whole(stream(model)[-1])
    normed = left if model.transformer.ln_f is None else model.transformer.ln_f(left)
    assert len(stream(model)) == model.config.layers + 1
    assert torch.allclose(model.transformer.head(normed, untapped), trace.whole("logits"), atol=1e-5)  # type: ignore[misc]


@cache
def measured() -> tuple[Run, dict[str, Measurement]]:
    run = Run(cutaway.load("nano-gpt2"), seed=5)
    return run, measure(run, CELLS)


def claim(measurement: str) -> Claim:
    return next(one for one in where.claims if one.measurement == measurement)


EXACT = ("pronoun.outputs_apart", "pronoun.accuracy", "patch.before")


def test_the_exact_claims_hold() -> None:
    _, found = measured()
    assert [claim(name).check(found[name]) for name in EXACT] == ["holds"] * 3
    assert found["patch.itself"].value is True
    assert found["patch.whole"].value == 0
    answer = found["probe.accuracy[tier=late,asks=noun,place=answer,depth=2]"]
    assert answer.value > 0.75  # type: ignore[operator]
    assert answer.n == 36


def test_every_claim_is_about_something_measured() -> None:
    _, found = measured()
    assert {one.measurement for one in where.claims_about(cutaway.load("nano-gpt2"))} <= found.keys()
    assert len(where.claims) == 6
    assert set(CELLS) <= set(e03_where.ASKED)


def test_without_the_mask_the_exact_claims_fail() -> None:
    """The same weights, and each position may read what comes after it."""
    model = cutaway.load("nano-gpt2").with_config(causal=False)
    found = measure(Run(model, seed=5), CELLS[:1])
    assert [claim(name).check(found[name]) for name in EXACT] == ["fails"] * 3


def test_a_stopped_run_goes_on() -> None:
    run, found = measured()
    again = Run(run.model, seed=5, done=dict(run.done))
    assert measure(again, CELLS) == found


def test_a_masked_model_is_patched_at_its_mask() -> None:
    """What the deciding word's embedding moves is everything, and the neutral twin's next to nothing."""
    found = patched(cutaway.load("nano-roberta"), twin_set("pairs")[0])
    assert found["places"] == ["first noun", "second noun", "because", "pronoun", "deciding word", "stop"]
    assert found["denoising"][4] == found["whole"] == 1.0
    assert abs(found["neutral"][4]) < 0.5
    assert found["before"] > 0


def test_charts_can_be_drawn() -> None:
    _, found = measured()

    class Known:  # of a record, what charts read
        def rows(self, name: str) -> list[dict[str, Any]]:
            ends = ("low", "high")
            taken = [one for one in found.values() if one.name == name]
            return [{"model": "m", "value": one.value, **dict(zip(ends, one.interval or (), strict=True)), **one.at} for one in taken]

    assert where.charts is not None
    drawn = where.charts([Known()])  # type: ignore[list-item]
    assert len(drawn) == 3
    for title, chart in drawn.items():
        picture = charts.svg(chart)
        assert title.split(" ", 1)[0] in picture
        assert "deciding word" in picture


def test_a_model_of_another_world_is_refused() -> None:
    with pytest.raises(ModelError, match="nano model"):
        list(where.measure(Run(worded("gpt2"))))


@pytest.mark.long
@pytest.mark.parametrize("name", NANO)
def test_all_claims_hold(name: str) -> None:
    torch.set_num_threads(1)
    model = cutaway.load(name)
    found = {one.key: one for one in where.measure(Run(model, seed=7, level=0.99))}
    verdicts = {one.measurement: one.check(found[one.measurement]) for one in where.claims_about(model)}
    assert verdicts
    assert set(verdicts.values()) == {"holds"}, verdicts
