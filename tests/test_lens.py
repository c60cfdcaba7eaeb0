"""The lens: the model's own head at every floor, against transformers' head and by hand; controls, places and refusals."""

import math

import pytest
import torch

import cutaway
from cutaway.model import Model
from cutaway.trace.lens import Lens, lens
from tests.conftest import oracle, worded

TEXT = "the big cat was in the"


def with_mask(kind: str) -> tuple[Model, str]:
    model = worded(kind)
    return model, TEXT + (" <mask>" if model.config.head == "mlm" else "")


@pytest.mark.parametrize("kind", ("gpt1", "gpt2", "llama", "roberta"))
def test_the_last_floor_is_the_model(kind: str) -> None:
    model, text = with_mask(kind)
    found = lens(model, text, k=3)
    (column,) = found.columns
    ids, lengths, _ = model.batch([text])
    odds = model.logits(ids, lengths)[0, column.position].softmax(-1)
    last = column.floors[-1]
    assert [one.id for one in last.top] == odds.topk(3).indices.tolist()
    assert [one.probability for one in last.top] == pytest.approx(odds.topk(3).values.tolist(), rel=1e-4)
    assert column.answer.id == last.top[0].id
    assert (last.answer.rank, last.answer.kl) == (1, 0.0)
    assert [floor.name for floor in column.floors] == ["embed", "block 0", "block 1"]


@pytest.mark.parametrize("kind", ("gpt1", "gpt2", "roberta"))
def test_floors_against_transformers(kind: str) -> None:
    """transformers' own head on its own hidden states: GPT-2's norm and output matrix, GPT-1's matrix alone, RoBERTa's whole head."""
    model, text = with_mask(kind)
    theirs = oracle(kind, vocab_size=model.config.vocab_size)
    ids, _, _ = model.batch([text])
    with torch.no_grad():
        states = theirs(ids, output_hidden_states=True).hidden_states
        head = {
            "gpt1": lambda x: theirs.lm_head(x),
            "gpt2": lambda x: theirs.lm_head(theirs.transformer.ln_f(x)),
            "roberta": lambda x: theirs.lm_head(x),
        }[kind]
        (column,) = lens(model, text, k=4).columns
        answer = column.answer.id
        final = theirs(ids).logits[0, column.position].log_softmax(-1)
        for floor, state in zip(column.floors[:2], states, strict=False):  # the last of GPT-2's is behind ln_f
            nats = head(state)[0, column.position].log_softmax(-1)
            assert [one.id for one in floor.top] == nats.topk(4).indices.tolist(), floor.name
            assert floor.answer.probability == pytest.approx(nats[answer].exp().item(), rel=1e-4)
            assert floor.answer.rank == 1 + sum(one > nats[answer] for one in nats)
            assert floor.answer.kl == pytest.approx(sum(p.exp() * (p - q) for p, q in zip(final, nats, strict=True)).item(), abs=1e-4)


def test_the_control_reads_another_row() -> None:
    model, text = with_mask("gpt2")
    one, same, other = (lens(model, text, seed=seed).columns[0] for seed in (1, 1, 2))
    assert one == same != other
    assert [f.answer for f in one.floors] == [f.answer for f in other.floors]
    assert one.floors[-1].shuffled.kl > 0.1
    assert {f.shuffled.rank for f in one.floors} != {1}
    assert one.floors[-1].shuffled.probability == pytest.approx(1 / model.config.vocab_size, abs=0.1)  # what any token would get


def test_places() -> None:
    model = worded("gpt2")
    assert [c.position for c in lens(model, TEXT).columns] == [5]
    assert [c.position for c in lens(model, TEXT, positions="cat").columns] == [2]
    assert [c.position for c in lens(model, TEXT, positions=[0, -1]).columns] == [0, 5]
    with pytest.raises(cutaway.CutawayError, match="position 6. Expected: 0 to 5"):
        lens(model, TEXT, positions=6)
    with pytest.raises(cutaway.CutawayError, match="'dog' is not in"):
        lens(model, TEXT, positions="dog")
    with pytest.raises(cutaway.CutawayError, match="k is 0"):
        lens(model, TEXT, k=0)


def test_a_masked_word_model_is_read_at_its_mask_and_copies_elsewhere() -> None:
    model = worded("roberta")
    found = lens(model, "the <mask> was <mask>")
    assert [c.position for c in found.columns] == [2, 4]
    assert not any(c.copying for c in found.columns)
    assert lens(model, "the <mask> was", positions="was").columns[0].copying
    with pytest.raises(cutaway.CutawayError, match="no <mask>.*put the mask"):
        lens(model, TEXT)


def test_an_answer_of_ones_own_is_one_piece() -> None:
    model = worded("gpt2")
    found = lens(model, TEXT, answer="dog")
    assert found.columns[0].answer.text == " dog"
    with pytest.raises(cutaway.CutawayError, match="'zebra' is . pieces .*one piece"):
        lens(model, TEXT, answer="zebra")


@pytest.mark.parametrize("kind", ("classifier", "bert-body"))
def test_without_a_head_that_predicts_words_it_is_refused(kind: str) -> None:
    model = worded("classifier") if kind == "classifier" else cutaway.load(oracle(kind))
    with pytest.raises(cutaway.CutawayError, match="has no head that predicts words.*nano-gpt2"):
        lens(model, TEXT)


def test_edits_are_seen_and_those_behind_the_blocks_refused() -> None:
    model = worded("gpt2")
    plain = lens(model, TEXT).columns[0]
    with model.edit({"blocks.1.mlp.out": cutaway.zero()}):
        found = lens(model, TEXT)
    assert found.edits == ("blocks.1.mlp.out: zero",)
    assert found.columns[0].floors[1].top == plain.floors[1].top
    assert found.columns[0].floors[2].answer != plain.floors[2].answer
    with pytest.raises(cutaway.CutawayError, match="edit of ln_f is in force"), model.edit({"ln_f": cutaway.scale(2.0)}):
        model.trace(TEXT)
        lens(model, TEXT)


def test_a_result_is_json_and_html() -> None:
    found = lens(worded("gpt2"), TEXT)
    assert isinstance(found, Lens)
    assert found.to_dict()["columns"][0]["floors"][0]["answer"]["rank"] >= 1
    page = found._repr_html_()
    assert "readable by the language-model head" in page
    assert "decided" not in page and "knows" not in page
    assert all(math.isfinite(f.answer.kl) for f in found.columns[0].floors)
