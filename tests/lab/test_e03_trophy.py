"""The trophy over a set: its claims hold on the nano models, and fail when the mask is taken away or added."""

import pytest

import cutaway
from cutaway.lab.e03_trophy import trophy_sets
from cutaway.lab.experiment import Run


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


def test_without_its_mask_a_causal_model_fails() -> None:
    found = verdicts("nano-gpt2", causal=False)
    assert found == {
        "it.max_abs_diff": "fails", "before.max_abs_diff": "fails", "early.min_abs_diff": "holds", "same.max_abs_diff": "holds"
    }  # fmt: skip


def test_with_a_mask_a_bidirectional_model_fails() -> None:
    assert verdicts("nano-roberta", causal=True)["it.min_abs_diff"] == "fails"
