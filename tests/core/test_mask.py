"""One line decides who may read whom: changing a token changes no earlier logit, if and only if the model is causal."""

import pytest
import torch

import cutaway
from tests.conftest import oracle


@pytest.mark.parametrize("kind", ("gpt1", "gpt2", "roberta"))
@pytest.mark.parametrize("causal", (True, False))
@pytest.mark.parametrize("changed", (1, 6, 11))
def test_the_future_leaks_only_without_the_line(kind: str, causal: bool, changed: int) -> None:
    model = cutaway.load(oracle(kind)).with_config(causal=causal)
    a = torch.randint(5, 97, (1, 12), generator=torch.Generator().manual_seed(3))
    b = a.clone()
    b[0, changed] = (a[0, changed] + 1) % 90 + 5
    before = (model.logits(a) - model.logits(b))[0, :changed].abs().max()
    assert (before == 0) == causal
    assert (model.logits(a) - model.logits(b))[0, changed:].abs().max() > 0


def test_with_config_shares_the_weights_and_leaves_the_model_as_it_was() -> None:
    model = cutaway.load(oracle("gpt2"))
    x = torch.arange(5, 15)[None]
    before = model.logits(x)
    other = model.with_config(causal=False)
    assert other.transformer.embed.token.weight is model.transformer.embed.token.weight
    assert not torch.equal(other.logits(x), before)
    assert torch.equal(model.logits(x), before)
    assert "causal=False" in other.name


def test_an_unknown_field_is_refused_with_a_suggestion() -> None:
    with pytest.raises(cutaway.CutawayError, match="did you mean 'causal'"):
        cutaway.load(oracle("gpt2")).with_config(causl=False)
