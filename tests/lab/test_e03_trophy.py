"""The trophy over a set: its claims hold on the nano models, and fail when the mask is taken away or added."""

from pathlib import Path

import pytest

import cutaway
from cutaway import charts
from cutaway.lab import winograd
from cutaway.lab.e03_trophy import early, measured, of_winograd, of_world, pronoun_at, trophy_sets
from cutaway.lab.experiment import Run
from cutaway.lab.record import Record
from cutaway.text.spans import find_word
from cutaway.worlds import twin_set

EMPTY = Path(__file__).parent  # a folder without data sets, so that the micro-world's twins are all there is


def verdicts(name: str, *, causal: bool | None = None) -> dict[str, str]:
    model = cutaway.load(name)
    claims = trophy_sets.claims_about(model)  # of the model as it is, whatever is then done to its mask
    broken = model if causal is None else model.with_config(causal=causal)
    found = {m.key: m for m in trophy_sets.measure(Run(broken, seed=4, data=EMPTY), twins=12)}
    assert found["measured[set=twins]"].value == 12
    return {claim.measurement: claim.check(found.get(claim.measurement)) for claim in claims}


@pytest.mark.parametrize("name", ("nano-gpt1", "nano-gpt2", "nano-roberta"))
def test_all_claims_hold(name: str) -> None:
    found = verdicts(name)
    assert set(found.values()) == {"holds"}
    assert len(found) == (3 if name == "nano-roberta" else 4)


def test_every_twin_has_its_control() -> None:
    """Nouns are exchanged as whole words: "tin" is no part of "tiny"."""
    model = cutaway.load("nano-gpt2")
    for twin in twin_set("pairs"):
        pair, pieces = of_world(twin), model.pieces(twin.a)
        asked = find_word(twin.a, pieces, twin.pronoun)[-1]
        assert pronoun_at(model, pair.a, pair.spans[0]) == asked
    assert early(model, pair, len(pieces), asked) is not None
    assert early(model, pair, len(pieces), asked + 1) is None  # a pronoun that moved is no control


def test_what_is_left_out_says_why() -> None:
    model = cutaway.load("nano-gpt2")
    late = "The cup didn't fit in the box because it was too big."
    item = winograd.Item("The cup didn't fit in the box because ", "it", " was too big.", ("the cup", "the box"), 0)
    same, at_it = item, winograd.Item(item.before, "this", item.after, item.candidates, 1)
    assert item.sentence == late
    assert "same to this model" in measured(model, of_winograd(item, same))["left_out"]
    assert "at the pronoun" in measured(model, of_winograd(item, at_it))["left_out"]


def test_winograds_twins(data: Path) -> None:
    """The same over all of Winograd's: the nano models read it letter by letter where they know no word, and obey the mask."""
    found = {m.key: m for m in trophy_sets.measure(Run(cutaway.load("nano-gpt2"), data=data), twins=2)}
    assert found["measured[set=winograd]"].n == 142
    assert found["it.max_abs_diff[set=winograd]"].value == 0.0
    assert found["it.max_abs_diff[set=winograd]"].n == found["measured[set=winograd]"].value > 100
    assert found["early.min_abs_diff[set=winograd]"].value > 0  # twins whose pronoun differs, or what stands before it


def test_its_chart_has_a_line_for_each_twin() -> None:
    found = tuple(trophy_sets.measure(Run(cutaway.load("nano-roberta"), data=EMPTY), twins=3))
    record = Record("e03_trophy", 1, {}, {"model": "tiny", "causal": False}, 3, 0.95, found, {})
    assert trophy_sets.charts
    (chart,) = trophy_sets.charts([record]).values()
    assert {row["moved by"] for row in chart["data"]["values"]} == {"the twin, twins", "its neutral twin, twins"}
    assert "<svg" in charts.svg(chart)


def test_without_its_mask_a_causal_model_fails() -> None:
    found = verdicts("nano-gpt2", causal=False)
    assert found == {
        "it.max_abs_diff": "fails", "before.max_abs_diff": "fails", "early.min_abs_diff": "holds", "same.max_abs_diff": "holds"
    }  # fmt: skip


def test_with_a_mask_a_bidirectional_model_fails() -> None:
    assert verdicts("nano-roberta", causal=True)["it.min_abs_diff"] == "fails"
