"""Which referent is preferred: scores against torch by hand, scorers that must get one half, and models broken on purpose."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import cutaway
from cutaway import charts
from cutaway.lab import e03_resolution as lab
from cutaway.lab import winograd
from cutaway.lab.e03_resolution_scores import credit, scores
from cutaway.lab.experiment import Run
from cutaway.lab.record import Record
from cutaway.model import Model
from tests.conftest import worded

ITEM = winograd.Item("the cat was in the box because ", "it", " was small", ("the cat", "the box"), 0)


def verdicts(model: Model, of: Model | None = None, **changes: Any) -> dict[str, str]:
    found = {m.key: m for m in lab.resolution.measure(Run(model, seed=3), **{"twins": 40, "sets": ("twins",)} | changes)}
    return {claim.measurement: claim.check(found.get(claim.measurement)) for claim in lab.resolution.claims_about(of or model)}


@pytest.mark.parametrize("name", ("nano-gpt1", "nano-gpt2", "nano-roberta"))
def test_all_claims_hold(name: str) -> None:
    assert set(verdicts(cutaway.load(name)).values()) == {"holds"}


def test_with_a_mask_a_bidirectional_model_fails() -> None:
    model = cutaway.load("nano-roberta")
    assert verdicts(model.with_config(causal=True), model)["both[set=twins,method=fill,per=text]"] == "fails"


def test_a_model_without_its_scale_or_heads_fails() -> None:
    """Attention turned off: nothing but each token itself is read, and no twin is right."""
    model = cutaway.load("nano-gpt2")
    for block in model.transformer.blocks:
        block.attn.out.weight.data.zero_()  # type: ignore[union-attr, operator]
    assert verdicts(model)["both[set=twins,method=reveal]"] == "fails"


def test_a_score_that_reads_behind_the_gap_fails_its_control(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were the answer known to the scorer, the sentence without its deciding clause would show it."""
    monkeypatch.setattr(lab, "scores", lambda model, item, whole=True: {"full": [(float(n == item.answer), 1) for n in (0, 1)]})
    assert verdicts(cutaway.load("nano-gpt2"))["control.without_clause"] == "fails"


def test_a_tie_that_goes_to_the_first_fails_its_control(monkeypatch: pytest.MonkeyPatch) -> None:
    """On shuffled candidates one half to within chance, which is not one half."""
    monkeypatch.setattr(lab, "credit", lambda values, answer: float(np.argmax(values) == answer))
    found = verdicts(cutaway.load("nano-gpt2"), twins=37)
    assert found["control.constant"] == "fails"


def test_constant_and_biased_scorers_get_one_half(data: Path) -> None:
    """WSC273 lists the right candidate first in every item. Shuffled with a seed, who always takes the first is right by chance."""
    supplied = winograd.wsc273(data)
    assert sum(credit([1.0, 0.0], item.answer) for item in supplied) == len(supplied)
    questions = lab.of_set(Run(worded("gpt2"), data=data, seed=5), "wsc273")
    constant = [credit([0.0, 0.0], item.answer) for item in questions.items]
    first = [credit([1.0, 0.0], item.answer) for item in questions.items]
    assert np.mean(constant) == 0.5
    assert abs(np.mean(first) - 0.5) < 0.12
    assert len(questions.twins) > 100
    assert all(a.referent != b.referent for a, b in questions.twins)


def test_full_and_partial_by_hand() -> None:
    model = worded("gpt2", torch.float64)
    found = scores(model, ITEM)
    for n, candidate in enumerate(ITEM.candidates):
        ids, _, _ = model.batch([ITEM.before + candidate + ITEM.after])
        nats = model.logits(ids)[0].log_softmax(-1)
        each = [nats[place, ids[0, place + 1]].item() for place in range(ids.shape[1] - 1)]
        assert found["full"][n] == (pytest.approx(sum(each), abs=1e-4), ids.shape[1] - 1)
        assert found["partial"][n] == (pytest.approx(sum(each[-2:]), abs=1e-4), 2)


def test_fill_and_pseudo_likelihood_by_hand() -> None:
    model = worded("roberta", torch.float64)
    found, mask = scores(model, ITEM), model.tokenizer.specials["<mask>"]
    for n, candidate in enumerate(ITEM.candidates):
        ids, _, _ = model.batch([ITEM.before + candidate + ITEM.after])

        def hidden(places: list[int], ids: torch.Tensor = ids) -> float:
            row = ids.clone()
            row[0, places] = mask
            nats = model.logits(row)[0].log_softmax(-1)
            return sum(nats[place, ids[0, place]].item() for place in places)

        words = range(1, ids.shape[1] - 1)
        assert found["fill"][n] == (pytest.approx(hidden([8, 9]), abs=1e-4), 2)
        assert found["pll"][n] == (pytest.approx(sum(hidden([place]) for place in words), abs=1e-4), len(words))


def test_what_is_outside_the_world_and_what_is_absent_is_not_measured() -> None:
    here = Path(__file__).parent  # a folder without data sets
    nano = [m for m in lab.resolution.measure(Run(cutaway.load("nano-gpt2"), data=here), twins=2) if m.value is None]
    assert {m.at["set"] for m in nano} == {"wsc273", "pdp60"}
    assert all("outside this model's world" in m.note for m in nano)
    other = [m for m in lab.resolution.measure(Run(worded("gpt2"), data=here), twins=2) if m.value is None]
    assert any("CUTAWAY_DATA" in m.note for m in other)


def test_too_long_for_the_context_is_left_out() -> None:
    found = {m.key: m for m in lab.resolution.measure(Run(worded("gpt2", n_positions=20)), twins=3, sets=("twins",))}
    left_out = found["left_out[set=twins,why=longer than the context]"]
    assert left_out.value == left_out.n == 6  # a vocabulary of a few words reads these letter by letter
    assert not any(key.startswith("accuracy") for key in found)


def test_its_charts_are_drawn() -> None:
    found = tuple(lab.resolution.measure(Run(cutaway.load("nano-gpt2")), twins=4, sets=("twins",)))
    record = Record("e03_resolution", 1, {}, {"model": "tiny"}, 3, 0.95, found, {})
    assert lab.resolution.charts
    drawn = lab.resolution.charts([record])
    assert set(drawn) == {"Items right", "Twins with both right"}
    assert all("<svg" in charts.svg(chart) for chart in drawn.values())
