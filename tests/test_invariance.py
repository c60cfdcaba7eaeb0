"""What of the past does a later word change? Nothing in a causal model, bit for bit; something in a bidirectional one."""

import pytest
import torch

import cutaway
from cutaway.invariance import compare, largest, taps_of
from tests.conftest import worded

A = "the big cat was in the box because it was too big"
B = "the big cat was in the box because it was too small"
LONGER = B + " for the dog"


@pytest.mark.parametrize("kind", ("gpt1", "gpt2"))
@pytest.mark.parametrize("b", (B, LONGER))
def test_a_causal_model_is_identical_before_the_texts_part(kind: str, b: str) -> None:
    result = cutaway.invariance(worded(kind), A, b)
    assert result.first_difference == 11
    assert result.identical
    assert result.max_abs_diff == 0.0
    assert result.a_a == 0.0
    assert result.equal_length == (b == B)
    assert (result.kernel_noise is None) == (b == B)


def test_a_bidirectional_model_differs() -> None:
    result = cutaway.invariance(worded("roberta"), A, B)
    assert not result.identical
    assert result.at("blocks.0.attn.pattern") > 0
    assert result.at("embed") == 0.0
    assert result.a_a == 0.0
    unequal = cutaway.invariance(worded("roberta"), A, LONGER)
    assert unequal.kernel_noise is None
    assert not unequal.equal_length
    assert "bidirectional" in unequal.note


def test_without_the_mask_a_causal_model_differs_too() -> None:
    """The test can fail: it is the mask that makes the past identical."""
    assert not cutaway.invariance(worded("gpt2").with_config(causal=False), A, B).identical
    assert cutaway.invariance(worded("roberta").with_config(causal=True), A, B).identical


def test_scores_are_compared_only_where_they_may_be_read() -> None:
    """The row of a query holds q·k with hidden keys too, and there it does differ."""
    model = worded("gpt2")
    a, b = (taps_of(model, [piece.id for piece in model.pieces(text)]) for text in (A, B))
    assert (a["blocks.1.attn.scores"][:, :11] - b["blocks.1.attn.scores"][:, :11]).abs().max() > 0
    assert largest([d for d in compare(model, a, b, 11) if d.tap.endswith("scores")]) == 0.0


def test_every_tap_and_head_is_compared() -> None:
    model = worded("gpt2")
    result = cutaway.invariance(model, A, B)
    assert {d.tap for d in result.differences} == set(model.taps)
    assert {d.head for d in result.differences if d.tap == "blocks.0.attn.pattern"} == {0, 1, 2, 3}


def test_one_bit_is_seen() -> None:
    """The comparison is exact: one changed number at one early position is found."""
    model = worded("gpt2")
    ids = [piece.id for piece in model.pieces(A)]
    a, b = taps_of(model, ids), taps_of(model, ids)
    b["blocks.1.mlp.post"] = b["blocks.1.mlp.post"].clone()
    b["blocks.1.mlp.post"][3, 5] = torch.nextafter(b["blocks.1.mlp.post"][3, 5], torch.tensor(10.0))
    assert [d.tap for d in compare(model, a, b, 11) if d.max_abs_diff > 0] == ["blocks.1.mlp.post"]


def test_identical_texts_and_texts_that_part_at_once_are_refused() -> None:
    model = worded("gpt2")
    with pytest.raises(cutaway.CutawayError, match="are the same"):
        cutaway.invariance(model, A, A)
    with pytest.raises(cutaway.CutawayError, match="from their first token"):
        cutaway.invariance(model, "the cat", "small dog")
    with pytest.raises(cutaway.CutawayError, match="are the same"):
        cutaway.invariance(worded("gpt1"), "The CAT was", "the cat was")


def test_invariance_is_the_function_whatever_was_imported_before() -> None:
    import cutaway.invariance
    import cutaway.load

    assert callable(cutaway.invariance)
    assert callable(cutaway.load)


def test_what_is_not_a_number_is_not_called_identical() -> None:
    model = worded("gpt2")
    model.transformer.blocks[0].mlp.down.bias.data[3] = torch.inf  # type: ignore[union-attr,index]
    with pytest.raises(cutaway.CutawayError, match=r"blocks\.0\.mlp\.out .* not finite"):
        cutaway.invariance(model, A, B)


def test_an_edit_that_names_positions_needs_texts_of_one_length() -> None:
    model = worded("gpt2")
    for run in (lambda: cutaway.invariance(model, A, LONGER), lambda: model.trace([A, LONGER])):
        with pytest.raises(cutaway.CutawayError, match="names positions"), model.edit({"embed": cutaway.zero(position=-1)}):
            run()
