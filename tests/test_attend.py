"""Attention made small: against NumPy, against the trace itself, and bounded however long the text."""

import json
import math
import re
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import torch

import cutaway
from cutaway import attend, charts
from cutaway.errors import ModelError, TextError
from cutaway.model import Model
from tests.conftest import SENTENCES, worded

KINDS = ("gpt1", "gpt2", "roberta", "bert", "llama", "classifier")
TEXT = SENTENCES[1]


@pytest.fixture(scope="module", params=KINDS)
def model(request: pytest.FixtureRequest) -> Model:
    return worded(request.param)


@pytest.fixture(scope="module")
def long() -> tuple[Model, str]:
    """A model that reads 1,024 tokens, and a text that has them all but one."""
    model = worded("gpt2", n_positions=1024)
    text = " ".join(["the big cat"] * 341)
    assert len(model.pieces(text)) == 1023
    return model, text


def patterns(model: Model, text: str = TEXT) -> np.ndarray[Any, Any]:
    """(L, H, T, T), kept in one run."""
    trace = model.trace(text, keep="all")
    return np.stack([trace[f"blocks.{layer}.attn.pattern"].numpy() for layer in range(model.config.layers)])


def pooled_by_hand(pattern: np.ndarray[Any, Any], step: int) -> np.ndarray[Any, Any]:
    cells = math.ceil(pattern.shape[-1] / step)
    blocks = [
        [pattern[..., y * step : (y + 1) * step, x * step : (x + 1) * step].max((-2, -1)) for x in range(cells)] for y in range(cells)
    ]
    return np.moveaxis(np.array(blocks), (0, 1), (-2, -1))


def test_a_short_text_is_not_pooled(model: Model) -> None:
    small = attend.thumbnails(model, TEXT)
    assert small.step == 1
    assert np.array_equal(small.cells.numpy(), patterns(model))
    allowed = np.tril(np.ones(small.readable.shape, bool)) if model.config.causal else np.ones(small.readable.shape, bool)
    assert np.array_equal(small.readable.numpy(), allowed)


@pytest.mark.parametrize("side", (1, 2, 3, 4, 7))
def test_thumbnails_are_a_max_pool(model: Model, side: int) -> None:
    small = attend.thumbnails(model, TEXT).fitting(side)
    assert len(small.readable) <= side
    assert np.array_equal(small.cells.numpy(), pooled_by_hand(patterns(model), small.step))


def test_long_thumbnails_are_a_max_pool(long: tuple[Model, str]) -> None:
    small = attend.thumbnails(*long)
    assert (small.step, len(small.readable)) == (32, 32)
    assert np.array_equal(small.cells.numpy(), pooled_by_hand(patterns(*long), 32))
    again = small.fitting(11)
    assert np.array_equal(again.cells.numpy(), pooled_by_hand(patterns(*long), again.step))


def test_a_cell_is_masked_only_if_all_of_it_is(long: tuple[Model, str]) -> None:
    cells = attend.thumbnails(*long).to_dict()["cells"]
    assert all((cells[1][2][t][s] is None) == (s > t) for t in range(32) for s in range(32))


def test_rows_of_a_window_and_the_rest_sum_to_one(model: Model) -> None:
    for window in ((None, None), (2, 5), (0, 3), (4, None)):
        found = attend.heads(model, TEXT, 1, window=window)
        assert torch.allclose(found.weights.sum(-1) + found.elsewhere, torch.ones(1), atol=1e-6)
        cut = found.first(2)
        assert torch.allclose(cut.weights.sum(-1) + cut.elsewhere, torch.ones(1), atol=1e-6)
        assert cut.shown == found.shown[:2]


def test_a_window_is_a_part_of_the_pattern(model: Model) -> None:
    found = attend.heads(model, TEXT, 1, 2, window=(2, 6))
    assert found.heads == (2,)
    assert np.array_equal(found.weights[0].numpy(), patterns(model)[1, 2, 2:6, 2:6])
    assert found.left_out == f"Tokens 2 to 5 of {len(found.tokens)} are shown."


def test_masked_is_none_and_never_zero(model: Model) -> None:
    weights = attend.heads(model, TEXT, 0).to_dict()["weights"]
    for t, row in enumerate(weights[1]):
        assert [value is None for value in row] == [model.config.causal and s > t for s in range(len(row))]


def test_rows_are_the_traces(model: Model) -> None:
    """Every row is what `trace.attention` says of that head."""
    found = attend.rows(model, TEXT, "dog")
    assert len(found.heads) == model.config.layers * model.config.heads
    trace = model.trace(TEXT)
    for n, (layer, head) in enumerate(found.heads):
        one = trace.attention(layer=layer, head=head, query="dog")
        assert one.position == found.position
        assert torch.equal(found.weights[n], one.weights)
        assert torch.equal(found.lengths[n], one.lengths)
    assert attend.rows(model, TEXT, "dog", layer=1, head=3).weights.equal(found.weights[-1:])
    assert found.around(len(found.tokens)).to_dict() == found.to_dict()


def test_a_row_cut_short_keeps_the_asking_token(long: tuple[Model, str]) -> None:
    found = attend.rows(*long, "cat", occurrence=300)
    assert len(found.shown) == attend.MOST_TOKENS
    assert found.window[1] == found.position + 1
    few = found.around(10)
    assert few.window == (found.position - 9, found.position + 1)
    for cut in (found, few):
        assert torch.allclose(cut.weights.sum(-1) + cut.elsewhere, torch.ones(1), atol=1e-5)


def test_links_are_the_largest_that_may_be_read(model: Model) -> None:
    found = attend.links(model, TEXT, 1, 2, top=3)
    pattern = patterns(model)[1, 2]
    for t, row in enumerate(found.links):
        readable = pattern[t, : t + 1] if model.config.causal else pattern[t]
        assert [link.weight for link in row] == sorted(readable.tolist(), reverse=True)[:3]
        assert [pattern[t, link.position] for link in row] == [link.weight for link in row]


def test_json_of_a_long_text_is_bounded(long: tuple[Model, str]) -> None:
    """All of it would be millions of numbers; each result stays below a few megabytes and says what is left out."""
    assert patterns(*long).size > 8_000_000
    every = (
        attend.thumbnails(*long),
        attend.heads(*long, 0),
        attend.rows(*long, "cat", occurrence=300),
        attend.links(*long, 0, 0, top=3),
    )
    for result in every:
        said = json.dumps(result.to_dict(), allow_nan=False)
        assert len(re.findall(r"[\d.e-]+|null", said)) < attend.MOST_NUMBERS * 1.2
    heads = every[1]
    assert heads.window == (0, attend.MOST_TOKENS)
    assert "of 1,023 are shown" in heads.left_out


def test_very_many_heads_make_smaller_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attend, "MOST_NUMBERS", 8 * 9)
    small = attend.thumbnails(worded("gpt2"), TEXT)
    assert small.cells.numel() <= 8 * 9
    assert len(attend.heads(worded("gpt2"), TEXT, 0).shown) == 4


def test_edits_are_in_force_and_said() -> None:
    model = worded("gpt2")
    with model.edit({"blocks.0.attn.pattern": cutaway.zero(head=1)}):
        found = attend.heads(model, TEXT, 0)
    assert not found.weights[1].any()
    assert found.weights[0].any()
    assert found.edits == ("blocks.0.attn.pattern: zero at head 1",)
    assert "Edit in force" in found.page()


def test_thumbnails_are_run_under_edits_too() -> None:
    """Those of the head as well, which nothing here reads: an edit that was never met would be an error."""
    model = worded("gpt2")
    before = attend.thumbnails(model, TEXT).cells
    edits = {"blocks.0.attn.scores": cutaway.scale(9.0, head=1), "logits": cutaway.zero()}
    with model.edit(edits):
        cells = attend.thumbnails(model, TEXT).cells
    with model.edit(edits):
        assert np.array_equal(cells.numpy(), patterns(model))
    assert torch.equal(cells[0, 0], before[0, 0])
    assert not torch.equal(cells[0, 1], before[0, 1])


@pytest.mark.parametrize("dtype", (torch.bfloat16, torch.float64))
def test_other_dtypes(dtype: torch.dtype) -> None:
    model = worded("gpt2", dtype)
    for result in (attend.thumbnails(model, TEXT).fitting(3), attend.heads(model, TEXT, 0), attend.rows(model, TEXT, "dog")):
        assert result.facts["dtype"] == str(dtype).removeprefix("torch.")
        json.dumps(result.to_dict(), allow_nan=False)


@pytest.mark.parametrize("window", ((0, 99), (5, 5), (6, 2), (-1, 3)))
def test_a_window_outside_the_text(window: tuple[int, int]) -> None:
    with pytest.raises(TextError, match=r"The window .* of a text of .* tokens.*START:END within"):
        attend.thumbnails(worded("gpt2"), TEXT, window=window)


def test_bad_input() -> None:
    model = worded("gpt2")
    with pytest.raises(ModelError, match=r"has no layer 2\. Expected: 0 to 1"):
        attend.heads(model, TEXT, 2)
    with pytest.raises(ModelError, match=r"has no head 4\. Expected: 0 to 3"):
        attend.rows(model, TEXT, "dog", head=4)
    with pytest.raises(TextError, match="The strongest 0"):
        attend.links(model, TEXT, 0, 0, top=0)
    with pytest.raises(TextError, match="occurs 2 times"):
        attend.rows(model, "the cat was the cat", "cat")
    with pytest.raises(TextError, match="empty"):
        attend.thumbnails(model, "")


class Cells(HTMLParser):
    """Every cell of the heat maps: what it is called, or None where it is masked."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[str | None] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        said = dict(attrs)
        if tag == "td" and ("--v" in (said.get("style") or "") or said.get("class") == "m"):
            self.found.append(None if said.get("class") == "m" else said["title"])


def test_a_page_names_every_cell(model: Model) -> None:
    found = attend.heads(model, TEXT, 1, 2)
    cells = Cells(found.page()).found
    size = len(found.tokens)
    assert len(cells) == size * size
    for n, said in enumerate(cells):
        t, s = divmod(n, size)
        if model.config.causal and s > t:
            assert said is None
        else:
            assert said == f"blocks.1.attn.pattern[2, {t}, {s}] = {found.weights[0, t, s]:.4g}"


def test_pages_of_long_texts_are_bounded(long: tuple[Model, str]) -> None:
    said = ((attend.thumbnails(*long), "largest weight of 32 × 32 tokens"), (attend.heads(*long, 0), "of 1,023 are shown"))
    for result, part in said:
        page = result.page()
        assert 0 < len(Cells(page).found) <= 24_000
        assert "http" not in page
        assert part in page


def test_a_chart_has_a_square_for_each_weight_and_a_dot_for_each_masked_cell() -> None:
    found = attend.heads(worded("gpt2"), TEXT, 0, 1)
    size = len(found.tokens)
    drawn = ElementTree.fromstring(charts.svg(found.chart()))
    marks = [group.get("class", "") for group in drawn.iter() if "role-mark" in group.get("class", "")]
    paths = dict.fromkeys(("mark-rect", "mark-symbol"), 0)
    for group in drawn.iter():
        for kind in paths:
            if kind in group.get("class", "") and "layer" in group.get("class", ""):
                paths[kind] += len(list(group))
    assert marks
    assert paths == {"mark-rect": size * (size + 1) // 2, "mark-symbol": size * (size - 1) // 2}
