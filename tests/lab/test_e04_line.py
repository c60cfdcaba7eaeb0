"""The line deleted and added: its claims hold, and each fails when the mask, or what is measured, is another."""

from typing import Any

import pytest
import torch
from torch.nn import functional as F

import cutaway
from cutaway import charts
from cutaway.lab import e04_line as lab
from cutaway.lab.experiment import Run
from cutaway.lab.measurement import Measurement
from cutaway.lab.record import Record
from cutaway.model import Model
from tests.conftest import SENTENCES, worded

FEW: dict[str, Any] = {"texts": 4, "looked_at": 2, "words": 3}


@pytest.fixture(scope="module", params=("nano-gpt1", "nano-gpt2", "nano-roberta"))
def nano(request: pytest.FixtureRequest) -> Model:
    return cutaway.load(request.param)


def measured(model: Model, **changes: Any) -> dict[str, Measurement]:
    return {m.key: m for m in lab.line.measure(Run(model, seed=3), **FEW | changes)}


def verdicts(model: Model, **changes: Any) -> list[str]:
    found = measured(model, **changes)
    return [claim.check(found.get(claim.measurement)) for claim in lab.line.claims_about(model)]


def test_all_claims_hold(nano: Model) -> None:
    assert verdicts(nano, texts=8) == ["holds"] * 3


@pytest.mark.parametrize(("both", "expected"), [(True, ["holds", "fails"]), (False, ["fails", "holds"])])
def test_with_one_mask_for_both_a_claim_fails(nano: Model, both: bool, expected: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    real = lab.other
    monkeypatch.setattr(lab, "other", lambda model, *, causal: real(model, causal=both))
    found = verdicts(nano)
    assert found[:2] == expected
    assert found[2] != "holds"  # and no loss is changed


@pytest.fixture
def sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab, "drawn", lambda run, model, count: SENTENCES[:count])


@pytest.mark.usefixtures("sentences")
@pytest.mark.parametrize("kind", ("gpt1", "gpt2", "roberta", "bert", "llama", "classifier"))
def test_it_runs_on_every_kind(kind: str) -> None:
    found = measured(worded(kind), texts=3)
    assert found["before.changed[mask=causal]"].value == 0
    assert found["before.share[mask=none]"].value == 1
    assert found["after.share[mask=causal]"].value == 1
    assert ("loss" in found) == (kind == "classifier")


def test_the_change_is_that_of_one_word(monkeypatch: pytest.MonkeyPatch) -> None:
    """By hand: the changed word's own position is neither before nor after it, and the rest is the stream's difference."""
    model = worded("roberta", torch.float64)
    calls: list[torch.Tensor] = []
    real = lab.last_stream

    def see(given: Model, ids: torch.Tensor) -> torch.Tensor:
        calls.append(ids.clone())
        return real(given, ids)

    monkeypatch.setattr(lab, "last_stream", see)
    found = lab.influence(Run(model, seed=1), model, 1, SENTENCES[1])
    whole, changed = calls
    (place,) = (whole != changed)[0].nonzero().flatten().tolist()
    tap = f"blocks.{model.config.layers - 1}.resid_post"
    with model.edit({"tok_embed": lambda x: model.transformer.embed.token(changed)}):
        other = model.trace(SENTENCES[1])[tap]
    apart = (other - model.trace(SENTENCES[1])[tap]).abs().amax(dim=-1)
    assert found["before"] == pytest.approx(apart[:place].tolist(), abs=1e-12)
    assert found["after"] == pytest.approx(apart[place + 1 :].tolist(), abs=1e-12)


def test_the_loss_is_torchs(nano: Model) -> None:
    if nano.config.causal:
        text = "The trophy didn't fit in the suitcase because it was too big."
        ids = torch.tensor([[piece.id for piece in nano.pieces(text)]])
        expected = F.cross_entropy(nano.transformer(ids)[0, :-1], ids[0, 1:]).item()
        assert lab.loss(Run(nano), nano, text) == pytest.approx(expected, abs=1e-5)


def test_parameters_that_make_no_sense(nano: Model) -> None:
    with pytest.raises(cutaway.CutawayError, match="texts=1.*2 texts or more"):
        measured(nano, texts=1)


def test_its_charts_are_drawn(nano: Model) -> None:
    record = Record("e04_line", 1, {}, {"model": "tiny"}, 3, 0.95, tuple(measured(nano).values()), {})
    drawn = lab.charts([record])
    assert len(drawn) == 2
    for chart in drawn.values():
        assert "<svg" in charts.svg(chart)
