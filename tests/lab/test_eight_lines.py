"""The eight lines' experiment: its claims hold, and fail when attention is broken."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from cutaway.core import attention as core
from cutaway.lab.e03_eight_lines import eight_lines, statement_lines
from cutaway.lab.experiment import Run


def verdicts() -> dict[str, str]:
    found = {m.key: m for m in eight_lines.measure(Run(seed=3), shapes=6)}
    return {claim.measurement: claim.check(found.get(claim.measurement)) for claim in eight_lines.claims}


def test_all_claims_hold() -> None:
    assert set(verdicts().values()) == {"holds"}
    assert len(verdicts()) == 6


def late_scale(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, tap: Any = None) -> Tensor:
    return ((q @ k.mT) / math.sqrt(q.shape[-1])).masked_fill(~mask, torch.finfo(q.dtype).min).softmax(dim=-1) @ v


def no_mask(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, tap: Any = None) -> Tensor:
    return (q / math.sqrt(q.shape[-1]) @ k.mT).softmax(dim=-1) @ v


def no_scale(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, tap: Any = None) -> Tensor:
    return (q @ k.mT).masked_fill(~mask, torch.finfo(q.dtype).min).softmax(dim=-1) @ v


@pytest.mark.parametrize(
    ("broken", "failing"), [(late_scale, {"half.max_abs_diff"}), (no_mask, {"peer=sdpa"}), (no_scale, {"peer=sdpa", "half.max_abs_diff"})]
)
def test_a_broken_attention_fails(broken: Callable[..., Tensor], failing: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core, "attention", broken)
    failed = " ".join(name for name, verdict in verdicts().items() if verdict == "fails")
    assert all(part in failed for part in failing), failed


def test_lines_are_counted_and_not_typed() -> None:
    def three(x: int) -> int:
        """Not counted."""
        x += 1
        return x

    assert statement_lines(three) == 3
