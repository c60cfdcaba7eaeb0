"""The trophy over a set: its claims hold on the nano models, and fail when the mask is taken away or added."""

import pytest

import cutaway
from cutaway.lab.e03_trophy import early_twin, trophy_sets
from cutaway.lab.experiment import Run
from cutaway.text.spans import find_word
from cutaway.worlds import twin_set


def verdicts(name: str, *, causal: bool | None = None) -> dict[str, str]:
    model = cutaway.load(name)
    claims = trophy_sets.claims_about(model)  # of the model as it is, whatever is then done to its mask
    broken = model if causal is None else model.with_config(causal=causal)
    found = {m.key: m for m in trophy_sets.measure(Run(broken, seed=4), twins=12)}
    assert found["left_out"].value == 0
    return {claim.measurement: claim.check(found.get(claim.measurement)) for claim in claims}


@pytest.mark.parametrize("name", ("nano-gpt1", "nano-gpt2", "nano-roberta"))
def test_all_claims_hold(name: str) -> None:
    found = verdicts(name)
    assert set(found.values()) == {"holds"}
    assert len(found) == (3 if name == "nano-roberta" else 4)


def test_every_twin_has_its_control() -> None:
    """Nouns are exchanged as whole words: "tin" is no part of "tiny"."""
    model = cutaway.load("nano-gpt2")
    twins = twin_set("pairs")
    length = {twin: model.pieces(twin.a) for twin in twins}
    asked = {twin: find_word(twin.a, length[twin], twin.pronoun)[-1] for twin in twins}
    assert all(early_twin(model, twin, asked[twin], len(length[twin])) for twin in twins)
    assert early_twin(model, twins[0], asked[twins[0]] + 1, len(length[twins[0]])) is None  # a pronoun that moved is no control


def test_without_its_mask_a_causal_model_fails() -> None:
    found = verdicts("nano-gpt2", causal=False)
    assert found == {
        "it.max_abs_diff": "fails", "before.max_abs_diff": "fails", "early.min_abs_diff": "holds", "same.max_abs_diff": "holds"
    }  # fmt: skip


def test_with_a_mask_a_bidirectional_model_fails() -> None:
    assert verdicts("nano-roberta", causal=True)["it.min_abs_diff"] == "fails"
