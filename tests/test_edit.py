"""Edits: each kind does what it says at the chosen places and nowhere else, is listed, and leaves nothing behind."""

import pytest
import torch

import cutaway
from tests.conftest import worded

TEXT = "the big cat was in the box"
OTHER = "the small dog was in the box"
Z, RESID = "blocks.0.attn.z", "blocks.0.resid_post"


def edited(change: object, tap: str = Z, text: str = TEXT) -> tuple[torch.Tensor, torch.Tensor]:
    """What the tap holds without and with the edit."""
    model = worded("gpt2")
    before = model.trace(text)[tap]
    with model.edit({tap: change}):  # type: ignore[dict-item]
        return before, model.trace(text)[tap]


def test_zero_one_head_at_two_positions() -> None:
    before, after = edited(cutaway.zero(head=3, position=[1, -1]))
    assert (after[3, [1, 6]] == 0).all()
    after[3, [1, 6]] = before[3, [1, 6]]
    assert torch.equal(after, before)


def test_scale_add_replace_and_a_function() -> None:
    before, after = edited(cutaway.scale(2.0, head=1))
    assert torch.equal(after[1], before[1] * 2)
    assert torch.equal(after[0], before[0])
    vector = torch.arange(48.0)
    before, after = edited(cutaway.add(vector, position=2), RESID)
    assert torch.equal(after[2], before[2] + vector)
    before, after = edited(cutaway.replace(torch.tensor(7.0), position=slice(0, 2)), RESID)
    assert (after[:2] == 7).all()
    assert torch.equal(after[2:], before[2:])
    before, after = edited(lambda x: -x)
    assert torch.equal(after, -before)


def test_mean_over_stated_texts() -> None:
    model = worded("gpt2")
    expected = torch.cat([model.trace(text)[Z] for text in (TEXT, OTHER)], dim=1).mean(dim=1)
    _, after = edited(cutaway.mean([TEXT, OTHER], head=2, position=4))
    assert torch.allclose(after[2, 4], expected[2], atol=1e-6)


def test_resample_and_patch_take_the_other_run() -> None:
    model = worded("gpt2")
    other = model.trace(OTHER)
    for change in (cutaway.resample(OTHER, position=3), cutaway.patch(other, position=3)):
        before, after = edited(change)
        assert torch.equal(after[:, 3], other[Z][:, 3])
        assert torch.equal(after[:, 4], before[:, 4])


def test_patching_everything_gives_the_other_run_and_clean_into_clean_gives_itself() -> None:
    """Pitfall 43."""
    model = worded("gpt2")
    clean, corrupt = model.trace(TEXT), model.trace(OTHER)
    kept = {name: value.clone() for name, value in clean.taps.items()}
    with model.edit({"blocks.0.resid_pre": cutaway.patch(corrupt)}):
        assert (model.trace(TEXT).logits - corrupt.logits).abs().max() <= 1e-5
    with model.edit({"blocks.0.resid_pre": cutaway.patch(clean)}):
        assert torch.equal(model.trace(TEXT).logits, clean.logits)
    assert all(torch.equal(value, kept[name]) for name, value in clean.taps.items())


def test_edits_reach_every_verb_and_are_listed() -> None:
    model = worded("gpt2")
    plain = model.next_token(TEXT)
    with model.edit({"blocks.*.attn.z": cutaway.zero(head=0)}):
        changed = model.next_token(TEXT)
        assert model.trace(TEXT).edits == ("blocks.*.attn.z: zero at head 0",)
    assert changed.edits == ("blocks.*.attn.z: zero at head 0",)
    assert changed.candidates != plain.candidates
    assert model.next_token(TEXT) == plain


def test_edits_nest() -> None:
    model = worded("gpt2")
    with model.edit({RESID: cutaway.replace(torch.tensor(1.0))}), model.edit({RESID: cutaway.scale(3.0)}):
        assert (model.trace(TEXT)[RESID] == 3).all()


@pytest.mark.parametrize("error", (IndexError, KeyboardInterrupt))
def test_nothing_outlives_an_exception(error: type[BaseException]) -> None:
    """Pitfall 41: plain logits afterwards are bit-identical, and no hook is registered anywhere."""
    model = worded("gpt2")
    before = model.trace(TEXT).logits

    def fail(x: torch.Tensor) -> torch.Tensor:
        raise error

    with pytest.raises(error), model.edit({Z: fail}):
        model.trace(TEXT)
    assert torch.equal(model.trace(TEXT).logits, before)
    assert model.edits == ()
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.transformer.modules())


@pytest.mark.parametrize(
    ("tap", "change", "message"),
    (
        ("blocks.9.attn.z", cutaway.zero(), "no tap 'blocks.9.attn.z'"),
        (Z, cutaway.zero(head=4), "head 4 of blocks.0.attn.z. Expected: 0 to 3"),
        (Z, cutaway.zero(position=7), "position 7 of blocks.0.attn.z. Expected: 0 to 6"),
        (Z, cutaway.zero(position=slice(9, 12)), "matches nothing"),
        (RESID, cutaway.zero(head=1), "has no heads"),
        (RESID, cutaway.add(torch.ones(5)), r"A value of shape \(5,\)"),
        (RESID, lambda x: x[:, :2], "The function returned"),
        (RESID, lambda x: None, "The function returned NoneType"),
        ("blocks.0.attn.pattern", cutaway.mean([TEXT]), "no mean over texts"),
        (Z, cutaway.resample("the cat"), "2 positions and this one 7"),
        ("blocks.0.attn.pattern", cutaway.resample("the cat", position=0), "texts of equal length"),
    ),
)
def test_an_edit_that_does_not_fit_is_refused(tap: str, change: object, message: str) -> None:
    with pytest.raises(cutaway.CutawayError, match=message):
        edited(change, tap)


def test_an_edit_that_was_never_met_is_an_error() -> None:
    model = worded("gpt2")
    with pytest.raises(cutaway.CutawayError, match="was never applied"), model.edit({Z: cutaway.zero()}):
        pass


def test_a_classifiers_head_can_be_edited() -> None:
    model = worded("classifier")
    with model.edit({"head.transform": cutaway.zero()}):
        logits = model.trace(TEXT).logits
    assert torch.equal(logits, model.transformer.head.out.bias)  # type: ignore[union-attr]
    with pytest.raises(cutaway.CutawayError, match="has no positions"), model.edit({"head.transform": cutaway.zero(position=0)}):
        model.trace(TEXT)
