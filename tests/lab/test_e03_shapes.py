"""The shapes: their claims hold on every kind of model, and fail where a step is made larger or smaller than it is."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

import cutaway
from cutaway import charts
from cutaway.core import transformer
from cutaway.core.config import Config
from cutaway.core.linear import Linear
from cutaway.lab import e03_shapes
from cutaway.lab.experiment import Run
from cutaway.lab.measurement import Measurement
from cutaway.lab.record import Record
from cutaway.model import Model
from tests.conftest import worded


def measured(model: Model) -> dict[str, Measurement]:
    return {m.key: m for m in e03_shapes.shapes.measure(Run(model, seed=3))}


def verdicts(model: Model) -> dict[str, str]:
    found = measured(model)
    return {claim.measurement: claim.check(found.get(claim.measurement)) for claim in e03_shapes.shapes.claims}


@pytest.mark.parametrize("kind", ("gpt1", "gpt2", "roberta", "bert", "llama", "classifier"))
def test_all_claims_hold(kind: str) -> None:
    assert list(verdicts(worded(kind)).values()) == ["holds"] * 6


def test_in_half_the_bytes() -> None:
    whole, half = (measured(worded("gpt2", dtype)) for dtype in (torch.float32, torch.bfloat16))
    assert whole["bytes[step=q,T=8]"].value == 2 * half["bytes[step=q,T=8]"].value  # type: ignore[operator]
    assert half["counts.unlike"].value == 0


def test_of_nano_gpt2_by_hand() -> None:
    found = measured(cutaway.load("nano-gpt2"))  # 192 wide, 6 heads of 32
    expected = {"elements[step=scores,T=8]": 2 * 6 * 8 * 8, "multiplications[step=scores,T=8]": 2 * 6 * 8 * 8 * 32}
    expected |= {"multiplications[step=q,T=8]": 2 * 8 * 192 * 192, "bytes[step=z,T=8]": 4 * 2 * 8 * 192, "parameters": 4 * 192 * 193}
    assert {key: found[key].value for key in expected} == expected


def windowed(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, tap: Any) -> Tensor:
    """Attention to the first eight positions alone: the pattern grows with the text, not with its square."""
    k, v = k[..., :8, :], v[..., :8, :]
    pattern = tap("pattern", tap("scores", q @ k.mT / math.sqrt(q.shape[-1])).softmax(dim=-1))
    z: Tensor = tap("z", pattern @ v)
    return z


def test_attention_to_a_window_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transformer, "attention_in_blocks", windowed)
    found = verdicts(worded("gpt2"))
    assert {name for name, verdict in found.items() if verdict == "fails"} == {"counts.unlike", "growth[step=pattern]"}


class WiderHeads(transformer.Attention):
    """Heads with a width of their own: the more heads, the more parameters."""

    def __init__(self, config: Config, layer: int) -> None:
        super().__init__(config, layer)
        self.q = Linear(config.width, 64 * config.heads, bias=config.bias)


def test_heads_of_a_width_of_their_own_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(e03_shapes, "Attention", WiderHeads)
    assert verdicts(worded("gpt2"))["parameters.kinds"] == "fails"


def test_a_matrix_too_many_fails() -> None:
    model = worded("gpt2")
    model.transformer.blocks[0].attn.another = Linear(48, 48)  # type: ignore[union-attr]
    assert verdicts(model)["parameters.above_formula"] == "fails"


def test_a_layer_of_another_kind_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    real, seen = transformer.attention_in_blocks, [0]

    def every_second(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, tap: Any) -> Tensor:
        seen[0] += 1
        return windowed(q, k, v, mask, tap) if seen[0] % 2 else real(q, k, v, mask, tap)

    monkeypatch.setattr(transformer, "attention_in_blocks", every_second)
    assert verdicts(worded("gpt2"))["layers.unlike"] == "fails"


def test_queries_that_are_asked_twice_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    real = e03_shapes.counted

    def quadratic(*given: Any) -> Any:
        layers = real(*given)
        layers[0]["q"]["elements"] *= given[-1]
        return layers

    monkeypatch.setattr(e03_shapes, "counted", quadratic)
    assert verdicts(worded("gpt2"))["growth[step=q]"] == "fails"


def test_its_chart_is_drawn() -> None:
    record = Record("e03_shapes", 1, {}, {"model": "tiny"}, 3, 0.95, tuple(measured(worded("gpt2")).values()), {})
    assert e03_shapes.shapes.charts
    ((title, chart),) = e03_shapes.shapes.charts([record]).items()
    assert title.endswith("tiny")
    assert "pattern" in charts.svg(chart)
