"""The theory of the scale: its claims hold, and fail where the division does not undo the growth."""

import numpy as np
import pytest
import torch

from cutaway.lab import e03_scale
from cutaway.lab.experiment import Run


def verdicts() -> dict[str, str]:
    found = {m.key: m for m in e03_scale.scale.measure(Run(seed=3), widths=(64, 1024), rows=500)}
    return {f"{claim.measurement} {claim.compare}": claim.check(found[claim.measurement]) for claim in e03_scale.scale.claims}


def test_all_claims_hold() -> None:
    assert list(verdicts().values()) == ["holds"] * 5


def test_a_softmax_that_loses_its_scale_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    real = e03_scale.softmax
    monkeypatch.setattr(e03_scale, "softmax", lambda scores: real(scores * 4))
    assert verdicts()["largest[d=1024,scaled=True] <"] == "fails"


def test_the_jacobian_is_what_autograd_says() -> None:
    scores = torch.randn(7, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    whole = torch.autograd.functional.jacobian(lambda x: x.softmax(dim=0), scores)
    ours = e03_scale.jacobian(e03_scale.softmax(scores.numpy()[None]))
    assert np.allclose(ours, whole.norm().item(), atol=1e-14)
