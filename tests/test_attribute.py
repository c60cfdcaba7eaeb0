"""Attribution: terms that add up, effects against edits made by hand, gradients against finite differences; and refusals."""

from itertools import pairwise

import pytest
import torch

import cutaway
from cutaway.model import Model
from cutaway.trace.attribute import Attribution, attribute
from cutaway.trace.lens import masked_id
from tests.conftest import oracle, worded

TEXT = "the big cat was in the"
KINDS = ("gpt1", "gpt2", "llama", "roberta")


def asked(kind: str, method: str, dtype: torch.dtype = torch.float32) -> tuple[Model, str, Attribution]:
    model = worded(kind, dtype)
    text = TEXT + (" <mask>" if kind == "roberta" else "")
    return model, text, attribute(model, text, "box", "dog", method=method)


def answer(model: Model, text: str, found: Attribution) -> float:
    """The number that is attributed, by the library's own forward pass."""
    logits = model.trace(text).whole("logits")[0, found.position]
    one, two = (model.tokenizer.encode(f" {word}")[0] for word in ("box", "dog"))
    return (logits[one] - logits[two]).item()


@pytest.mark.parametrize("kind", ("gpt2", "llama"))
@pytest.mark.parametrize("dtype", (torch.float32, torch.float64))
def test_direct_terms_add_up(kind: str, dtype: torch.dtype) -> None:
    model, text, found = asked(kind, "direct", dtype)
    assert found.whole == pytest.approx(answer(model, text, found), abs=1e-6)
    assert abs(sum(term.value for term in found.terms) - found.whole) < (1e-4 if dtype == torch.float32 else 1e-9)
    assert found.left == pytest.approx(found.whole - sum(term.value for term in found.terms))
    heads = [(term.layer, term.head) for term in found.terms if term.head is not None]
    assert heads == [(layer, head) for layer in range(2) for head in range(4)]
    names = {term.name for term in found.terms}
    assert ("final norm's bias" in names) == (kind == "gpt2") == ("pos_embed" in names)


def test_a_head_that_writes_nothing_has_no_share() -> None:
    model = worded("gpt2")
    with model.edit({"blocks.1.attn.z": cutaway.zero(head=2)}):
        found = attribute(model, TEXT, "box", "dog")
    assert next(term.value for term in found.terms if (term.layer, term.head) == (1, 2)) == 0.0
    assert abs(found.left or 0) < 1e-4
    assert found.edits


def test_direct_in_a_trained_model_adds_up() -> None:
    found = attribute(cutaway.load("nano-gpt2"), "The trophy didn't fit in the suitcase because it was too big. The", "trophy", "suitcase")
    assert found.whole > 5
    assert abs(found.left or 0) < 1e-4


@pytest.mark.parametrize("kind", ("gpt1", "roberta"))
def test_direct_is_refused_where_the_stream_is_normed_after_each_sum(kind: str) -> None:
    with pytest.raises(cutaway.CutawayError, match="norms the stream after each sum.*ablation"):
        asked(kind, "direct")


@pytest.mark.parametrize("tap", ("blocks.0.resid_mid", "blocks.1.attn.out", "embed", "ln_f"))
def test_direct_is_refused_where_the_stream_is_edited(tap: str) -> None:
    model = worded("gpt2")
    with pytest.raises(cutaway.CutawayError, match=f"edit of {tap} is in force"), model.edit({tap: cutaway.scale(1.5)}):
        model.trace(TEXT)
        attribute(model, TEXT, "box", "dog")


@pytest.mark.parametrize("kind", KINDS)
def test_ablation_is_what_edits_do(kind: str) -> None:
    model, text, found = asked(kind, "ablation", torch.float64)
    assert len(found.terms) == 2 * 5
    whole = answer(model, text, found)
    for term in found.terms:
        tap = f"blocks.{term.layer}." + ("mlp.out" if term.head is None else "attn.z")
        with model.edit({tap: cutaway.zero(head=term.head)}):
            assert term.value == pytest.approx(whole - answer(model, text, found), abs=1e-5), term.name


@pytest.mark.parametrize("kind", KINDS)
def test_occlusion_is_what_edits_do(kind: str) -> None:
    model, text, found = asked(kind, "occlusion", torch.float64)
    table, mask = model.transformer.embed.token.weight, masked_id(model)
    instead = table.mean(0) if mask is None else table[mask]
    whole = answer(model, text, found)
    assert [term.position for term in found.terms] == list(range(len(model.pieces(text))))
    for term in found.terms:
        with model.edit({"tok_embed": cutaway.replace(instead, position=term.position)}):
            assert term.value == pytest.approx(whole - answer(model, text, found), abs=1e-5), term.position
    if mask is not None:
        assert found.terms[found.position].value == 0.0  # a mask hidden by a mask: equal shapes, so exactly nothing


@pytest.mark.parametrize("kind", KINDS)
def test_gradient_against_finite_differences(kind: str) -> None:
    model, text, found = asked(kind, "gradient", torch.float64)
    for term in found.terms:
        values = []
        for factor in (1 + 1e-5, 1 - 1e-5):
            with model.edit({"tok_embed": cutaway.scale(factor, position=term.position)}):
                values.append(answer(model, text, found))
        assert (values[0] - values[1]) / 2e-5 == pytest.approx(term.value, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_integrated_gradients_are_complete_and_sum_the_slopes(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The terms add up to the change along the way, the better the more steps there are."""
    left = []
    for steps in (8, 64, 512):
        monkeypatch.setattr("cutaway.trace.gradients.STEPS", steps)
        monkeypatch.setattr("cutaway.trace.gradients.MOST", steps)
        _, _, found = asked(kind, "integrated", torch.float64)
        left.append(abs(found.left or 0))
    assert all(few > many for few, many in pairwise(left))
    assert left[-1] < 1e-3


@pytest.mark.parametrize("kind", KINDS)
def test_integrated_gradients_take_more_steps_while_too_much_is_left(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Thrice as many are the middles of parts a third as long, those of before among them: as if there had been no fewer."""
    monkeypatch.setattr("cutaway.trace.gradients.ENOUGH", 0.0)
    monkeypatch.setattr("cutaway.trace.gradients.STEPS", 4)
    monkeypatch.setattr("cutaway.trace.gradients.MOST", 36)
    _, _, more = asked(kind, "integrated", torch.float64)
    monkeypatch.setattr("cutaway.trace.gradients.STEPS", 36)
    _, _, at_once = asked(kind, "integrated", torch.float64)
    assert [term.value for term in more.terms] == pytest.approx([term.value for term in at_once.terms], rel=1e-9)
    assert "36 steps" in more.how and any("too few" in note for note in more.notes)


def test_a_long_text_goes_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    _, _, whole = asked("gpt2", "occlusion")
    monkeypatch.setattr("cutaway.trace.attribute.TOKENS", 13)
    _, _, parts = asked("gpt2", "occlusion")
    assert [term.value for term in parts.terms] == pytest.approx([term.value for term in whole.terms], abs=1e-5)


def test_without_another_answer_it_is_the_likeliest_other() -> None:
    model = worded("gpt2")
    ids, _, _ = model.batch([TEXT])
    best, second = model.logits(ids)[0, -1].topk(2).indices.tolist()
    assert attribute(model, TEXT, best).second == model.tokenizer.decode([second])
    assert attribute(model, TEXT, second).second == model.tokenizer.decode([best])


def test_bad_questions() -> None:
    model = worded("gpt2")
    for given, match in (
        ({"first": "zebra", "second": "dog"}, "'zebra' is . pieces .*one piece"),
        ({"first": "dog", "second": "dog"}, "same to"),
        ({"first": "dog", "second": "box", "method": "guess"}, "no method 'guess'.*direct, ablation"),
        ({"first": "dog", "second": "box", "position": 9}, "position 9"),
    ):
        with pytest.raises(cutaway.CutawayError, match=match):
            attribute(model, TEXT, **given)  # type: ignore[arg-type]
    with pytest.raises(cutaway.CutawayError, match="no head that predicts words"):
        attribute(cutaway.load(oracle("bert-body")), TEXT, "dog", "box")
    with pytest.raises(cutaway.CutawayError, match="0 masks"):
        attribute(worded("roberta"), TEXT, "dog", "box", method="ablation")


def test_a_result_is_json_and_html() -> None:
    _, _, found = asked("gpt2", "direct")
    assert found.to_dict()["terms"][0].keys() == {"name", "value", "layer", "head", "position"}
    assert "scale is frozen" in found._repr_html_()
