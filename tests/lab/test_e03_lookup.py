"""The lookup: its claims hold, and each fails when attention, or what is stored, is broken in its way."""

import math
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor

from cutaway import charts
from cutaway.core import attention as core
from cutaway.lab import e03_lookup
from cutaway.lab.experiment import Run
from cutaway.lab.measurement import Measurement
from cutaway.lab.record import Record


def measured() -> dict[str, Measurement]:
    given = {"counts": (64, 4096), "widths": (16, 64), "sharpness": (0.125, 1.0, 512.0), "asked": 100}
    return {m.key: m for m in e03_lookup.lookup.measure(Run(seed=3), **given)}


whole = cache(measured)


def verdicts(found: dict[str, Measurement]) -> dict[str, str]:
    return {claim.measurement: claim.check(found.get(claim.measurement)) for claim in e03_lookup.lookup.claims}


def test_all_claims_hold() -> None:
    assert list(verdicts(whole()).values()) == ["holds"] * 6


def broken(*, times: float = 1.0, over: int = -1, favour: float = 0.0) -> Callable[..., Tensor]:
    """Attention with its scores multiplied, its softmax over another axis, or later places favoured."""

    def attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, tap: Any = None) -> Tensor:
        scores = times * q @ k.mT / math.sqrt(q.shape[-1]) + favour * torch.arange(k.shape[-2])
        return scores.masked_fill(~mask, torch.finfo(q.dtype).min).softmax(dim=over) @ v

    return attention


@pytest.mark.parametrize(
    ("attention", "failing"),
    [
        (broken(over=-2), "distance[d=64,sharpness=512.0]"),
        (broken(times=8.0), "distance[d=64,sharpness=0.125]"),
        (broken(times=0.125), "distance[d=64,sharpness=1.0]"),
        (broken(times=-1.0), "recall.above_theory[keys=64,d=16]"),
        (broken(favour=1e-3), "equal.apart"),
    ],
)
def test_a_broken_attention_fails(attention: Callable[..., Tensor], failing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core, "attention", attention)
    assert verdicts(measured())[failing] == "fails"


def test_keys_of_another_spread_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    real = e03_lookup.stored

    def wide(*given: Any) -> Iterator[tuple[Tensor, ...]]:
        return ((q, 2 * k, symbols) for q, k, symbols in real(*given))

    monkeypatch.setattr(e03_lookup, "stored", wide)
    assert verdicts(measured())["largest.share[keys=4096,d=64]"] == "fails"


def test_the_hard_lookup_is_what_a_dictionary_gives() -> None:
    keys = torch.eye(3)
    given = {tuple(key.tolist()): symbol for key, symbol in zip(keys, (5, 0, 63), strict=True)}
    for key, symbol in given.items():
        weights = e03_lookup.looked_up(torch.tensor([key]), keys[None], torch.tensor([list(given.values())]), e03_lookup.HARD)
        assert weights[0].tolist() == [float(n == symbol) for n in range(e03_lookup.SYMBOLS)]


def test_its_charts_are_drawn() -> None:
    record = Record("e03_lookup", 1, {}, None, 3, 0.95, tuple(whole().values()), {})
    assert e03_lookup.lookup.charts
    for title, chart in e03_lookup.lookup.charts([record]).items():
        assert title.split(",")[0] in charts.svg(chart)
