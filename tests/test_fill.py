"""fill: the likeliest tokens behind a mask (pitfall 5), against the model's own logits."""

import pytest
import torch

import cutaway
from cutaway.errors import ModelError, TextError
from cutaway.fill import fill
from tests.conftest import oracle, worded


def test_each_mask_has_the_oracles_odds() -> None:
    model = worded("roberta")
    theirs = oracle("roberta", vocab_size=model.config.vocab_size)
    result = fill(model, "the <mask> cat was in the<mask>", k=3)
    ids = torch.tensor([[piece.id for piece in model.pieces(result.text)]])
    with torch.no_grad():
        odds = theirs(ids).logits[0].softmax(-1)
    assert [mask.position for mask in result.masks] == (ids[0] == model.tokenizer.specials["<mask>"]).nonzero().flatten().tolist()
    for mask in result.masks:
        best = odds[mask.position].topk(3)
        assert [one.id for one in mask.candidates] == best.indices.tolist()
        assert [one.probability for one in mask.candidates] == pytest.approx(best.values.tolist(), abs=1e-6)
        assert [one.text for one in mask.candidates] == [model.tokenizer.decode([one.id]) for one in mask.candidates]


def test_a_nano_model_fills_in_its_world() -> None:
    result = fill(cutaway.load("nano-roberta"), "The trophy didn't fit in the suitcase because it was too big. The <mask> was too big.")
    assert result.masks[0].candidates[0].text == " trophy"
    assert "<table" in result._repr_html_()


@pytest.mark.parametrize("kind", ("gpt2", "classifier", "llama"))
def test_other_heads_are_refused(kind: str) -> None:
    with pytest.raises(ModelError, match="has no masked-word head, which 'fill' needs"):
        fill(worded(kind), "the cat")


def test_a_body_says_what_it_lacks() -> None:
    body = cutaway.load(oracle("bert-body"))
    for verb, head in (("next", "lm"), ("fill", "mlm")):
        with pytest.raises(ModelError, match=f"has no .* head, which '{verb}' needs"):
            body.require_head(head, verb)


def test_a_text_without_a_mask_is_refused() -> None:
    with pytest.raises(TextError, match="no <mask>"):
        fill(worded("roberta"), "the cat")
