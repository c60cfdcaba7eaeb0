"""The scale in heads: products are what the definition says, claims hold, and each fails when its cause is taken away."""

import math
from typing import Any

import numpy as np
import pytest
import torch

import cutaway
from cutaway import charts
from cutaway.core.transformer import Transformer
from cutaway.lab import e03_scale_heads as lab
from cutaway.lab import texts
from cutaway.lab.experiment import Run
from cutaway.lab.measurement import Measurement
from cutaway.lab.record import Record
from cutaway.model import Model
from cutaway.trace.edit import scale
from tests.conftest import SENTENCES, worded

FEW: dict[str, Any] = {"texts": 3, "twins": 40, "powers": (0.0, 0.5, 1.0)}


@pytest.fixture(scope="module")
def nano() -> Model:
    return cutaway.load("nano-gpt1")


def measured(model: Model, **changes: Any) -> dict[str, Measurement]:
    return {m.key: m for m in lab.scale_heads.measure(Run(model, seed=3), **FEW | changes)}


def verdicts(model: Model, **changes: Any) -> dict[str, str]:
    found = measured(model, **changes)
    return {f"{c.measurement} {c.compare}": c.check(found.get(c.measurement)) for c in lab.scale_heads.claims_about(model)}


def test_all_claims_hold(nano: Model) -> None:
    assert list(verdicts(nano, twins=100, texts=5).values()) == ["holds"] * 6


@pytest.fixture
def sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a tiny tokenizer can read; the passages are cut into many pieces by it."""
    monkeypatch.setattr(lab, "drawn", lambda run, model, count: SENTENCES[:count])


@pytest.mark.usefixtures("sentences")
@pytest.mark.parametrize(("kind", "claims"), [("gpt2", 4), ("roberta", 4), ("llama", 4), ("bert", 4), ("classifier", 3)])
def test_it_runs_on_every_kind(kind: str, claims: int) -> None:
    model = worded(kind)
    found = measured(model)
    assert len(lab.scale_heads.claims_about(model)) == claims
    assert (found["loss[power=0.5]"].value is None) == (kind == "classifier")
    assert found["entropy.first.change[power=0.0]"].value < 0 < found["entropy.first.change[power=1.0]"].value  # type: ignore[operator]
    assert "twins[power=0.5]" not in found


@pytest.mark.parametrize("kind", ("gpt2", "llama", "bert"))
def test_products_are_those_of_q_and_k(kind: str) -> None:
    model = worded(kind, torch.float64)
    trace, config = model.trace(SENTENCES[1]), model.config
    ids = torch.tensor([[piece.id for piece in model.pieces(SENTENCES[1])]])
    found = lab.products(model.transformer, ids, config)
    for layer in range(config.layers):
        q, k = (trace[f"blocks.{layer}.attn.{part}"].numpy() for part in "qk")
        for head in range(config.heads):
            read = k[head * config.key_heads // config.heads]
            every = [row @ key for n, row in enumerate(q[head]) for m, key in enumerate(read) if m <= n or not config.causal]
            assert found["mean"][layer][head] == pytest.approx(np.mean(every) / math.sqrt(config.head_width))
            assert found["variance"][layer][head] == pytest.approx(np.var(every, ddof=1) / config.head_width)


def test_fresh_weights_are_those_of_training(nano: Model) -> None:
    fresh = lab.fresh_of(nano, 1)
    assert fresh.blocks[0].attn.q.weight.std().item() == pytest.approx(0.7 / math.sqrt(nano.config.width), rel=0.05)  # type: ignore[union-attr]


def test_the_loss_is_torchs_and_hides_nothing_that_the_format_added() -> None:
    model = worded("roberta")
    pieces = model.pieces(SENTENCES[1])
    ids, labels = texts.hidden(model, SENTENCES[1], Run(model))
    asked = labels != lab.IGNORE
    assert not asked[:, [0, -1]].any()
    assert asked.any(dim=1).all()
    assert int(asked.sum(dim=0).max()) == 1  # no token is asked for twice
    assert set(ids[asked].tolist()) == {model.tokenizer.specials["<mask>"]}
    assert labels[asked].tolist() == torch.tensor([[piece.id for piece in pieces]]).expand_as(ids)[asked].tolist()
    assert texts.following(torch.tensor([[5, 6, 7]])).tolist() == [[6, 7, lab.IGNORE]]


def test_without_an_edit_no_claim_about_it_holds(nano: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab, "scale", lambda factor: scale(1.0))
    found = verdicts(nano, twins=10)
    edits = ("entropy.first.change[power=0.0] <", "loss.change[power=1.0] >", "twins.change[power=0.0] <")
    assert not any(found[name] == "holds" for name in edits)


@pytest.mark.parametrize(
    ("power", "failing"),
    [(-1.0, "entropy.first.change[power=0.0] <"), (1.0, "loss.change[power=1.0] >"), (0.0, "twins.change[power=0.0] <")],
)
def test_a_model_tuned_for_another_scale_fails(nano: Model, power: float, failing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With power 0 or 1 the model behaves as one that was trained with that; with -1 the scale goes the wrong way."""
    root = nano.config.head_width**0.5
    monkeypatch.setattr(lab, "scale", lambda factor: scale(1 / factor if power < 0 else factor * root ** (2 * power - 1)))
    assert verdicts(nano, texts=12)[failing] == "fails"


def broken(model: Model, times: float, alike: bool) -> Transformer:
    """Fresh weights under a core with another scale, or with W_k equal to W_q."""
    fresh = lab.fresh_of(model, 1)
    for block in fresh.blocks:
        attn: Any = block.attn
        if alike:
            attn.k.weight.data.copy_(attn.q.weight.data)
        attn.register_forward_pre_hook(lambda module, given: (*given[:-1], TimesScores(given[-1], times)))
    return fresh


class TimesScores(lab.Tap):
    """A tap that sees every score so many times as large."""

    def __init__(self, tap: lab.Tap, times: float) -> None:
        super().__init__(lambda name, x: tap.see(name, x * times if name.endswith("scores") else x), tap.place)


@pytest.mark.parametrize(
    ("times", "alike", "failing"),
    [
        (1.0, True, "square.share[weights=fresh] <"),
        (32**0.5, False, "square.share[weights=fresh] <"),
        (0.2, False, "square.share[weights=fresh] >"),
    ],
)
def test_another_scale_or_keys_like_queries_fail(
    nano: Model, times: float, alike: bool, failing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = broken(nano, times, alike)
    monkeypatch.setattr(lab, "fresh_of", lambda model, seed: made)
    assert verdicts(nano, twins=4, powers=(0.5,))[failing] == "fails"


def test_an_untrained_model_has_not_risen(nano: Model) -> None:
    untrained = Model(lab.fresh_of(nano, 7), lambda: nano.tokenizer, nano.origin)
    assert verdicts(untrained, twins=4, powers=(0.5,), texts=6)["square.rise >"] != "holds"


def test_its_charts_are_drawn(nano: Model) -> None:
    record = Record("e03_scale_heads", 1, {}, {"model": "tiny"}, 3, 0.95, tuple(measured(nano, twins=4).values()), {})
    assert lab.scale_heads.charts
    drawn = lab.scale_heads.charts([record])
    assert len(drawn) == 3
    for chart in drawn.values():
        assert "<svg" in charts.svg(chart)
