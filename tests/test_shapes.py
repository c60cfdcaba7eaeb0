"""The dimensions of attention: each shape against its tap, each number worked out against the definition in NumPy."""

import json
import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

import cutaway
from cutaway.core.tap import Tap, untapped
from cutaway.errors import ModelError, TextError
from cutaway.model import Model
from cutaway.shapes import Shapes, Step, shapes
from tests.conftest import SENTENCES, worded

KINDS = ("gpt1", "gpt2", "roberta", "bert", "llama", "classifier")
TEXT = SENTENCES[1]


@pytest.fixture(scope="module", params=KINDS)
def model(request: pytest.FixtureRequest) -> Model:
    return worded(request.param)


def named(result: Shapes, name: str) -> Step:
    return next(step for step in result.steps if step.name == name)


def test_each_step_is_its_tap(model: Model) -> None:
    result = shapes(model, TEXT, layer=1, head=3)
    trace = model.trace(TEXT, keep="all")
    for step in result.steps:
        assert step.sizes == tuple({letter: count for letter, _, count in result.dimensions}[letter] for letter in step.letters)
        if step.tap:
            x = trace[step.tap]
            assert step.sizes == tuple(x.shape)
            assert step.elements == x.numel()
            x = x if x.dim() == 2 else x[3 * len(x) // model.config.heads]
            assert torch.equal(torch.tensor(step.corner), x[:3, :4])


def test_the_order_is_that_of_the_run(model: Model) -> None:
    """Of the taps, as the model meets them; pre-norm reads the norm, post-norm norms the sum."""
    result = shapes(model, TEXT, layer=1)
    taps = [step.tap for step in result.steps if step.tap]
    assert [model.taps.index(tap) for tap in taps] == sorted(model.taps.index(tap) for tap in taps)
    names = [step.name for step in result.steps]
    assert (names.index("ln1") < names.index("q")) == model.config.norm_first
    assert ("rotation" in names) == (model.config.positions == "rotary")
    assert {(a, b) for a, b in pairwise(names)} >= {("scores", "mask"), ("mask", "pattern"), ("pattern", "z"), ("z", "concat")}


def test_worked_entries_are_the_definition(model: Model) -> None:
    """The score, the weight, z and the sum in NumPy, in float64, from q, k and v; and each equals its tensor."""
    result = shapes(model, TEXT, layer=1, head=3, query="dog")
    trace, config, t, s = model.trace(TEXT), model.config, result.query, result.source
    group = 3 * config.key_heads // config.heads
    q, k, v = (trace[f"blocks.1.attn.{tap}"].double().numpy() for tap in "qkv")
    scores = q[3, t] @ k[group].T / math.sqrt(config.head_width)
    powers = np.exp(scores - scores.max()) * (np.arange(len(scores)) <= t if config.causal else 1)
    weights = powers / powers.sum()
    assert weights.argmax() == s
    for name, expected in (("scores", scores[s]), ("pattern", weights[s]), ("z", weights @ v[group][:, 0])):
        check = named(result, name).checks[0]
        assert check.worked_out == pytest.approx(expected, abs=1e-5)
        assert check.in_tensor == pytest.approx(expected, abs=1e-5)
    assert named(result, "scores").checks[0].in_tensor == trace["blocks.1.attn.scores"][3, t, s].item()
    assert named(result, "pattern").checks[1].in_tensor == pytest.approx(1, abs=1e-6)
    out = named(result, "out").checks[0]
    assert out.in_tensor == trace["blocks.1.attn.out"][t, 0].item()
    assert named(result, "resid_mid").checks[0].in_tensor == trace["blocks.1.resid_mid"][t, 0].item()
    for step in result.steps:
        for check in step.checks:
            assert abs(check.difference) < 1e-5, check


def test_multiplications_are_what_torch_counts(model: Model) -> None:
    ids, lengths, _ = model.batch([TEXT])
    x, mask, turn = model.transformer.begin(ids, lengths, None, untapped)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model.transformer.blocks[0].attn(x, mask, turn, None, Tap(lambda name, x: x))  # type: ignore[operator, union-attr]
    assert 2 * shapes(model, TEXT).multiplications == counter.get_total_flops()


def test_the_mask_is_shown(model: Model) -> None:
    corner = np.array(named(shapes(model, TEXT), "mask").corner)
    assert np.array_equal(corner, np.tril(np.ones((3, 4))) if model.config.causal else np.ones((3, 4)))


def test_grouped_heads_have_their_letter() -> None:
    result = shapes(worded("llama"), TEXT)
    assert {name: named(result, name).letters[0] for name in "qkv"} == {"q": "H", "k": "G", "v": "G"}
    assert ("G", 2) in {(letter, count) for letter, _, count in result.dimensions}


def test_float64_is_exact_to_its_rounding() -> None:
    for step in shapes(worded("llama", torch.float64), TEXT, layer=1, head=1).steps:
        for check in step.checks:
            assert abs(check.difference) < 1e-13


def test_an_edit_shows_as_a_difference() -> None:
    model = worded("gpt2")
    with model.edit({"blocks.0.attn.scores": cutaway.scale(2.0, head=0)}):
        result = shapes(model, TEXT)
    check = named(result, "scores").checks[0]
    assert check.in_tensor == pytest.approx(2 * check.worked_out, abs=1e-5)
    assert result.edits == ("blocks.0.attn.scores: scale by 2.0 at head 0",)


def test_faces(model: Model) -> None:
    result = shapes(model, TEXT)
    said = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert [step["name"] for step in said["steps"]] == [step.name for step in result.steps]
    assert said["facts"]["kernel"] == "eager"
    page = result.page()
    for step in result.steps:
        assert f">{step.name}</th>" in page
    assert "difference" in page


def test_bad_input() -> None:
    model = worded("gpt2")
    with pytest.raises(ModelError, match=r"has no layer 7\. Expected: 0 to 1"):
        shapes(model, TEXT, layer=7)
    with pytest.raises(ModelError, match=r"has no head -1\. Expected: 0 to 3"):
        shapes(model, TEXT, head=-1)
    with pytest.raises(TextError, match="'zebra' is not in"):
        shapes(model, TEXT, query="zebra")
