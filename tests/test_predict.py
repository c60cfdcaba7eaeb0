"""The next token's odds are the model's own, and a model without such a head says so."""

import pytest
import torch

import cutaway
from tests.conftest import oracle, tokenizer_folder, worded

TEXT = "the big cat was in the"


def test_the_odds_are_the_logits() -> None:
    model = worded("gpt2")
    result = model.next_token(TEXT, k=5)
    odds = model.trace(TEXT).logits[-1].softmax(-1)
    best = odds.topk(5)
    assert [c.id for c in result.candidates] == best.indices.tolist()
    for candidate, expected in zip(result.candidates, best.values.tolist(), strict=True):
        assert candidate.probability == pytest.approx(expected, abs=1e-6)
        assert candidate.text == model.tokenizer.decode([candidate.id])
    assert result.facts["kernel"] == "sdpa"


def test_k_may_be_more_than_there_is_but_not_less_than_one() -> None:
    model = worded("gpt2")
    assert len(model.next_token(TEXT, k=10**9).candidates) == model.config.vocab_size
    with pytest.raises(cutaway.CutawayError, match="k is 0"):
        model.next_token(TEXT, k=0)


def test_rows_without_a_token_are_named_as_such() -> None:
    tokenizer = cutaway.load_tokenizer(tokenizer_folder("gpt2"))
    model = cutaway.load(oracle("gpt2", vocab_size=tokenizer.vocab_size + 3), tokenizer=tokenizer)
    spare = [c for c in model.next_token(TEXT, k=10**9).candidates if c.id >= tokenizer.vocab_size]
    assert len(spare) == 3
    assert all(c.text == "" and "no token" in c.token for c in spare)


def test_more_ids_than_rows_are_refused() -> None:
    tokenizer = cutaway.load_tokenizer(tokenizer_folder("gpt2"))
    with pytest.raises(cutaway.CutawayError, match="ids and the model"):
        cutaway.load(oracle("gpt2", vocab_size=tokenizer.vocab_size - 1), tokenizer=tokenizer)


@pytest.mark.parametrize("kind", ("roberta", "classifier"))
def test_no_next_token_without_such_a_head(kind: str) -> None:
    with pytest.raises(cutaway.CutawayError, match="no language-model head.*nano-gpt2"):
        worded(kind).next_token(TEXT)


def test_every_verb_reads_the_same_ids() -> None:
    """Pitfall 42: no start token unless it is asked for, in any of them."""
    model = worded("gpt2")
    pieces = model.tokenizer.encode(TEXT)
    assert [piece.id for piece in model.trace(TEXT).pieces[0]] == pieces
    assert model.batch([TEXT])[0].tolist() == [pieces]
    assert len(model.next_token(TEXT).tokens) == len(pieces)
    assert torch.equal(model.batch([TEXT])[1], torch.tensor([len(pieces)]))
