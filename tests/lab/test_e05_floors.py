"""Floor by floor: against models with a block taken out, NumPy and edits; each claim fails where its cause is taken away."""

from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

import cutaway
from cutaway import charts
from cutaway.core.transformer import Transformer, hold
from cutaway.lab import e05_floors as lab
from cutaway.lab import e05_floors_read as floor
from cutaway.lab.experiment import Run
from cutaway.lab.measurement import Measurement
from cutaway.lab.record import Record
from cutaway.lab.texts import asked_of, following
from cutaway.model import Model
from cutaway.trace.lens import lens
from cutaway.worlds import twin_set
from tests.conftest import SENTENCES, worded

FEW: dict[str, Any] = {"texts": 3, "twins": 14}


@cache
def nano(name: str) -> Model:
    return cutaway.load(name)


def measured(model: Model, **changes: Any) -> dict[str, Measurement]:
    return {m.key: m for m in lab.floors.measure(Run(model, seed=3), **FEW | changes)}


def verdicts(model: Model, **changes: Any) -> dict[str, str]:
    found = measured(model, **changes)
    return {c.measurement: c.check(found.get(c.measurement)) for c in lab.floors.claims_about(model)}


@pytest.mark.parametrize("name", ("nano-gpt1", "nano-gpt2", "nano-roberta"))
def test_all_claims_hold(name: str) -> None:
    found = verdicts(nano(name), twins=30)
    assert set(found.values()) == {"holds"}
    assert len(found) == (4 if name == "nano-roberta" else 5)


@pytest.mark.parametrize("kind", ("gpt1", "gpt2", "roberta", "bert", "llama", "classifier"))
def test_it_runs_on_every_kind(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab, "drawn", lambda run, model, count: SENTENCES[:count])
    monkeypatch.setattr(lab, "twins_of", lambda run, tier, count: [])
    model = worded(kind)
    found = measured(model)
    assert found["length[floor=0,position=0]"].n == 3
    assert "floor.readable" in found  # absent, and it says why
    assert ("kl" in found) == (kind == "classifier")


@pytest.mark.parametrize("kind", ("gpt1", "gpt2", "roberta", "llama"))
def test_a_skipped_block_is_one_that_is_not_there(kind: str) -> None:
    model = worded(kind, torch.float64)
    ids = model.batch([SENTENCES[1]])[0]
    for block in range(model.config.layers):
        rest = [n for n in range(model.config.layers) if n != block]
        weights = {}
        for name, value in model.transformer.state_dict(keep_vars=True).items():
            if not name.startswith("blocks."):
                weights[name] = value
            elif (layer := int(name.split(".")[1])) in rest:
                weights[name.replace(f"blocks.{layer}.", f"blocks.{rest.index(layer)}.", 1)] = value
        if model.config.tied:
            weights.pop("head.unembed.weight", None)
        short = hold(Transformer(model.config.with_(layers=len(rest))), weights)
        assert torch.allclose(model.transformer.end(floor.skipping(model, ids, block), floor.untapped), short(ids), atol=1e-9)


@pytest.mark.parametrize("kind", ("gpt1", "gpt2", "roberta"))
def test_what_is_readable_is_what_the_lens_reads(kind: str) -> None:
    model = worded(kind)
    text = SENTENCES[1]
    asked = asked_of(model, text, Run(model))
    assert asked is not None
    if kind == "roberta":
        where = int((asked[1][0] >= 0).nonzero()[0])
        text = model.tokenizer.decode(asked[0][0, 1:-1].tolist())
        one = (asked[0][:1], torch.where(torch.arange(asked[1].shape[1]) == where, asked[1][:1], -100))
    else:
        where = 2
        one = (asked[0], torch.where(torch.arange(asked[1].shape[1]) == where, asked[1], -100))
    found = floor.readable(model, one, np.random.default_rng(1))
    read = lens(model, text, positions=where).columns[0]
    assert found["kl"] == pytest.approx([f.answer.kl for f in read.floors], abs=1e-5)
    assert found["first"] == [float(f.answer.rank == 1) for f in read.floors]
    assert found["places"] == 1
    assert found["differs"] == 0


@pytest.mark.parametrize("kind", ("gpt2", "roberta"))
def test_lengths_are_those_of_the_trace(kind: str) -> None:
    model = worded(kind)
    trace = model.trace(SENTENCES[1])
    found = floor.lengths(model, model.batch([SENTENCES[1]])[0])
    stream = trace["blocks.1.resid_pre"].numpy()
    assert found["first"][1] == pytest.approx(np.linalg.norm(stream[0]), rel=1e-5)
    assert found["rest"][1] == pytest.approx(np.linalg.norm(stream[1:], axis=1).mean(), rel=1e-5)
    wrote = trace["blocks.1.mlp.out"].numpy()[1:]
    base = trace[f"blocks.1.{'resid_mid' if kind == 'gpt2' else 'ln1'}"].numpy()[1:]
    assert np.allclose(base + wrote, trace["blocks.1.resid_post"].numpy()[1:], atol=1e-5)  # it is what the MLP adds to
    cosine = (wrote * base).sum(1) / np.linalg.norm(wrote, axis=1) / np.linalg.norm(base, axis=1)
    assert found["mlp.cosine"][1] == pytest.approx(cosine.mean(), abs=1e-5)


def test_a_referents_odds_are_the_models_at_last() -> None:
    model, twin = nano("nano-gpt2"), twin_set("pairs")[0]
    found = floor.referent(model, twin)
    for sentence, means, row in zip((twin.a, twin.b), twin.means, found["odds"], strict=True):
        odds = model.transformer(model.batch([f"{sentence} The"])[0])[0, -1]
        first, second = (odds[model.tokenizer.encode(f" {noun}")[0]] for noun in twin.nouns)
        assert row[-1] == pytest.approx((first - second).item() * (1 - 2 * means), abs=1e-4)
    assert found["effects"][0] == 0
    assert found["effects"][-1] == pytest.approx(1)


def test_from_where_it_stays() -> None:
    assert floor.settled([True, True, True]) == 0
    assert floor.settled([True, False, True]) == 2
    assert floor.settled([False, True, True]) == 1


class TestClaimsFail:
    """Each where its cause is taken away."""

    def test_with_another_stream(self, monkeypatch: pytest.MonkeyPatch) -> None:
        real = floor.streams
        monkeypatch.setattr(floor, "streams", lambda model, ids: real(model, ids).flip(0))
        assert verdicts(nano("nano-gpt1"))["last.differs"] == "fails"

    def test_with_a_stream_that_no_block_changes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        real = floor.streams
        monkeypatch.setattr(floor, "streams", lambda model, ids: torch.stack([real(model, ids)[-1]] * (model.config.layers + 1)))
        assert verdicts(nano("nano-gpt2"))["kl.falls"] != "holds"

    def test_with_blocks_that_are_not_skipped(self, monkeypatch: pytest.MonkeyPatch) -> None:
        real = floor.skipping
        monkeypatch.setattr(floor, "skipping", lambda model, ids, block: real(model, ids, None))
        assert verdicts(nano("nano-gpt2"))["skip.rise.most"] == "fails"

    def test_with_another_place(self, monkeypatch: pytest.MonkeyPatch) -> None:
        real = floor.twins.places

        def elsewhere(*given: Any, **named: Any) -> dict[str, int]:
            found = real(*given, **named)
            return found | {"answer": found["deciding word"]}

        monkeypatch.setattr(floor.twins, "places", elsewhere)
        monkeypatch.setattr(lab, "LEAST_PAIRS", 1)
        found = verdicts(nano("nano-gpt2"))
        assert found["patch.embed.largest"] in ("fails", "not measured here")
        assert found["floor.apart"] != "holds"


def test_the_next_token_is_asked_for_without_its_last() -> None:
    assert following(torch.tensor([[1, 2]])).tolist() == [[2, -100]]


def test_parameters_that_make_no_sense() -> None:
    with pytest.raises(cutaway.CutawayError, match="texts=1.*2 texts or more"):
        measured(nano("nano-gpt1"), texts=1)


def test_its_charts_are_drawn() -> None:
    record = Record("e05_floors", 1, {}, {"model": "tiny"}, 3, 0.95, tuple(measured(nano("nano-gpt2")).values()), {})
    drawn = lab.charts([record])
    assert len(drawn) == 3
    for chart in drawn.values():
        assert "<svg" in charts.svg(chart)
