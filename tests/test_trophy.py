"""The main job: both sentences through both kinds of model, with controls, and a verdict that claims no more than was measured."""

import json
from functools import cache

import pytest
import torch

import cutaway
from cutaway.finding_out import finding_out, log_odds, neutral_threshold, prompt
from cutaway.trace.columns import columns, go_on, read
from cutaway.trophy import NEUTRAL, WATCH, A, B, Trophy, trophy
from tests.conftest import worded


@cache
def measured() -> Trophy:
    return trophy(cutaway.load("nano-gpt2"), cutaway.load("nano-roberta"))


def test_the_claim() -> None:
    causal, bidirectional = measured().causal, measured().bidirectional
    assert causal.identical
    assert causal.max_abs_diff == 0.0
    assert not bidirectional.identical
    assert bidirectional.max_abs_diff > 0.0


def test_the_controls_behave() -> None:
    causal, bidirectional = measured().causal, measured().bidirectional
    assert causal.controls["a_a"] == bidirectional.controls["a_a"] == 0.0
    assert causal.controls["neutral"] == 0.0
    assert causal.controls["before"] > 0 < bidirectional.controls["before"]  # type: ignore[operator]
    assert bidirectional.controls["neutral"] > 0  # type: ignore[operator]


def test_the_causal_model_finds_out_behind_the_pronoun() -> None:
    """Right in both sentences, and the deciding word's column moves the answer beyond what neutral swaps do."""
    causal = measured().causal
    assert causal.odds is not None
    assert causal.odds[0] > 0 > causal.odds[1]
    before = [later for later in causal.later if later["position"] < causal.first_difference]
    assert before
    assert all(later["effect"] == 0.0 for later in before)
    assert any(later["found_out"] for later in causal.later)
    assert all(later["found_out"] == (later["effect"] > later["threshold"]) for later in causal.later)
    assert measured().bidirectional.later == ()


def test_the_json_has_the_promised_keys() -> None:
    told = json.loads(json.dumps(measured().to_dict(), allow_nan=False))
    assert told["sentences"] == [A, B]
    assert told["query"] == "it"
    for reading in (told["causal"], told["bidirectional"]):
        assert reading.keys() >= {
            "model", "weights_sha256", "tokens", "first_difference", "query_position", "equal_length", "max_abs_diff", "identical",
            "kernel_noise", "controls", "heads", "later", "dtype", "device", "threads",
        }  # fmt: skip
        assert reading["controls"].keys() == {"a_a", "neutral", "before"}
        assert len(reading["heads"]) == 18
        for head in reading["heads"]:
            assert head.keys() >= {"layer", "head", "max_abs_diff", "to"}
            assert {word: len(pair) for word, pair in head["to"].items()} == {"trophy": 2, "suitcase": 2}


def test_the_numbers_are_the_tensors() -> None:
    """Each head's attention is the traced pattern's own value, and the largest difference is that of the patterns."""
    model = cutaway.load("nano-roberta")
    a, b = model.trace(A), model.trace(B)
    reading, words = measured().bidirectional, [piece.text.strip() for piece in a.pieces[0]]
    largest = 0.0
    for head in reading.heads:
        rows = [run[f"blocks.{head.layer}.attn.pattern"][head.head, reading.query_position] for run in (a, b)]
        largest = max(largest, (rows[0] - rows[1]).abs().max().item())
        for word in WATCH:
            assert head.to[word] == tuple(row[words.index(word)].item() for row in rows)
    assert reading.max_abs_diff == largest


def test_swapping_every_later_column_gives_the_twins_own_answer() -> None:
    """The measure is complete: with all columns of the twin, the odds are the twin's."""
    model = cutaway.load("nano-gpt2")
    found = finding_out(model, A, B, NEUTRAL, WATCH, 10)
    assert found is not None
    one, two = prompt(model, A), prompt(model, B)
    beginning = read(model, one[:, :11])
    donor = columns(model, beginning, two[:, 11:])

    def all_swapped(ids: torch.Tensor) -> torch.Tensor:
        return go_on(model, beginning, ids, lambda name, x: donor.get(name, x))

    first, second = (torch.tensor([model.tokenizer.encode(f" {word}")]) for word in WATCH)
    assert log_odds(all_swapped, one[:, 11:], first, second).item() == pytest.approx(found.odds[1], abs=1e-4)


def test_the_odds_are_those_of_the_whole_text() -> None:
    """Going on from a common beginning gives what one plain run gives."""
    model = cutaway.load("nano-gpt2")
    for text, odds in zip((A, B), measured().causal.odds or (), strict=True):
        last = model.logits(prompt(model, text))[0, -1].log_softmax(-1)
        first, second = (model.tokenizer.encode(f" {word}")[0] for word in WATCH)
        assert (last[first] - last[second]).item() == pytest.approx(odds, abs=1e-4)


def test_the_threshold_is_of_the_whole_test_set() -> None:
    threshold, n = neutral_threshold(cutaway.load("nano-gpt2"))
    assert n == 552
    assert threshold == measured().causal.later[0]["threshold"] > 0


def test_verdicts_claim_what_was_measured() -> None:
    said = " ".join(measured().verdict)
    assert "identical in both sentences, bit for bit, in all 18 heads" in said
    assert "nano-roberta: the attention of 'it' differs" in said
    assert "nano-gpt2 finds out" in said


SMALL = {"a": "the big cat was in the box because it was too big", "b": "the big cat was in the box because it was too small"}


def test_without_a_test_set_nothing_is_said_to_know() -> None:
    result = trophy(worded("gpt2"), worded("roberta"), **SMALL, neutral=None, watch=("cat", "box"))
    assert result.causal.identical
    assert result.causal.controls["neutral"] is None
    assert all(later["found_out"] is None for later in result.causal.later)
    assert not any("finds out" in line or "knows." in line for line in result.verdict if line.startswith("GPT2"))


def test_the_mask_is_what_makes_it() -> None:
    """The claim can fail: without its mask the same model is not identical."""
    masked, free = worded("roberta").with_config(causal=True), worded("gpt2").with_config(causal=False)
    result = trophy(masked, free, **SMALL, neutral=None, watch=("cat", "box"))
    assert result.causal.identical
    assert not result.bidirectional.identical


@pytest.mark.parametrize(
    ("changes", "message"),
    (
        ({"query": "trophy"}, "'trophy' is not in"),
        ({"query": "was"}, "occurs 2 times.*1: .*2: "),
        ({"query": "was", "occurrence": 3}, "Occurrence 3 of 'was'. Expected: 1 to 2"),
        ({"b": SMALL["a"]}, "are the same"),
        ({"a": ""}, "text is empty"),
        ({"watch": ("cat", "dog")}, "'dog' is not in"),
        ({"query": "small", "a": SMALL["b"], "b": SMALL["a"]}, "before the first difference"),
        ({"a": " ".join(["the"] * 65)}, "65 tokens"),
        ({"query": "90:95"}, "holds no token"),
    ),
)
def test_bad_input_is_one_clear_message(changes: dict[str, object], message: str) -> None:
    arguments = {**SMALL, "neutral": None, "watch": ("cat", "box"), **changes}
    with pytest.raises(cutaway.CutawayError, match=message):
        trophy(worded("gpt2"), worded("roberta"), **arguments)  # type: ignore[arg-type]


def test_two_models_of_one_kind_are_refused() -> None:
    with pytest.raises(cutaway.CutawayError, match="both causal"):
        trophy(worded("gpt2"), worded("gpt1"))


def test_edits_and_early_neutral_twins_are_refused() -> None:
    model = worded("gpt2")
    with pytest.raises(cutaway.CutawayError, match="Edits are in force"), model.edit({"embed": cutaway.scale(2.0)}):
        trophy(model, worded("roberta"), **SMALL, neutral=None, watch=("cat", "box"))
    early = "the big dog was in the box because it was too big"
    with pytest.raises(cutaway.CutawayError, match="neutral twin parts"):
        trophy(model, worded("roberta"), **SMALL, neutral=early, watch=("cat", "box"))


def test_a_model_that_means_the_other_noun_is_not_said_to_find_out() -> None:
    turned = trophy(cutaway.load("nano-gpt2"), cutaway.load("nano-roberta"), watch=("suitcase", "trophy"))
    assert not any("finds out" in line for line in turned.verdict)
    assert any("does not mean suitcase in the first sentence" in line for line in turned.verdict)


def test_outside_its_world_a_nano_model_is_not_held_against_its_test_set() -> None:
    a = "The cat fled from the dog because it was scared."
    result = trophy(cutaway.load("nano-gpt2"), cutaway.load("nano-roberta"), a, a.replace("scared", "fierce"), None, watch=("cat", "dog"))
    assert all(later["threshold"] is None for later in result.causal.later)
    assert any("small English world" in note for note in result.causal.notes)
