"""The nano models are what their cards say, know what they should, and obey the mask on every twin."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

import cutaway
from cutaway.core.config import Config
from cutaway.invariance import Invariance
from cutaway.lab import winograd
from cutaway.model import Model
from cutaway.shipped import shipped_folder, shipped_names
from cutaway.text.spans import find_word, pieces_of
from cutaway.train.score import score
from cutaway.worlds import TIERS, Twin, twin_set
from cutaway.worlds.nouns import CLASSES

CAUSAL = ("nano-gpt1", "nano-gpt2")
NANOS = (*CAUSAL, "nano-roberta")


@cache
def nano(name: str) -> Model:
    return cutaway.load(name)


def test_all_three_are_shipped_and_small() -> None:
    assert shipped_names() == tuple(sorted(NANOS))
    sizes = [(shipped_folder(name) / "model.safetensors").stat().st_size for name in NANOS]
    assert sum(sizes) <= 30e6
    for name in NANOS:
        assert sum(p.numel() for p in nano(name).transformer.parameters()) <= 2.5e6
        assert nano(name).dtype == torch.float32


@pytest.mark.parametrize("name", NANOS)
def test_it_has_learned(name: str) -> None:
    """At least 97 % of the sentences and 95 % of the twins, of pairs of nouns that were never together in training."""
    found = score(nano(name).transformer, nano(name).tokenizer, twin_set("pairs"))
    assert found.n >= 500
    assert found.sentences >= 0.97
    assert found.twins >= 0.95


@pytest.mark.parametrize("name", NANOS)
def test_the_harder_tiers_are_neither_chance_nor_perfect(name: str) -> None:
    for tier in ("echo", "chains"):
        assert 0.60 <= score(nano(name).transformer, nano(name).tokenizer, twin_set(tier)).sentences <= 0.95, tier


@pytest.mark.parametrize("name", NANOS)
def test_the_card_tells_the_truth(name: str) -> None:
    """Scores are measured again, for one tier; the rest is compared with the files beside it."""
    model = nano(name)
    card = json.loads((shipped_folder(name) / "card.json").read_text(encoding="utf-8"))
    assert card["scores"]["pairs"] == score(model.transformer, model.tokenizer, twin_set("pairs")).to_dict()
    assert card["scores"].keys() == TIERS.keys()
    assert Config(**card["config"]) == model.config
    assert card["parameters"] == sum(p.numel() for p in model.transformer.parameters())
    assert card["command"] == f"cutaway train {name}"
    assert card["tokens"] > 0 < card["minutes"]
    page = (shipped_folder(name) / "README.md").read_text(encoding="utf-8")
    assert f"{card['parameters']:,} parameters" in page
    assert all(limit in page for limit in card["limits"])


def test_what_ignores_the_frame_or_the_order_stays_near_chance() -> None:
    for name in NANOS:
        for baseline, found in nano(name).origin.card["baselines"].items():
            if baseline != "lookup table":
                assert found["sentences"] <= 0.60, baseline


@pytest.mark.parametrize("name", NANOS)
def test_contexts_are_the_published_ones_and_every_noun_is_one_piece(name: str) -> None:
    assert nano(name).config.context == {"nano-gpt1": 512, "nano-gpt2": 1024, "nano-roberta": 512}[name]
    for noun in (noun for nouns in CLASSES.values() for noun in nouns):
        assert len(nano(name).tokenizer.encode(f" {noun}")) == 1, noun


@pytest.mark.parametrize("name", NANOS)
def test_every_byte_or_character_can_be_written(name: str) -> None:
    tokenizer = nano(name).tokenizer
    if name == "nano-gpt1":
        unknown = tokenizer.specials["<unk>"]
        assert all(unknown not in tokenizer.encode(chr(n)) for n in range(33, 127))
    else:
        text = "".join(map(chr, range(0x20, 0x2000))) + "🏆"
        assert tokenizer.decode(tokenizer.encode(text)) == text


@pytest.mark.parametrize("name", NANOS)
def test_the_folder_is_an_ordinary_one(name: str) -> None:
    """transformers opens it and agrees on the logits."""
    cls: Any = {
        "nano-gpt1": transformers.OpenAIGPTLMHeadModel,
        "nano-gpt2": transformers.GPT2LMHeadModel,
        "nano-roberta": transformers.RobertaForMaskedLM,
    }[name]
    theirs = cls.from_pretrained(shipped_folder(name), attn_implementation="eager").eval()
    ids = torch.tensor([nano(name).tokenizer.encode("The trophy didn't fit in the suitcase because it was too big.", wrap=True)])
    with torch.no_grad():
        expected = theirs(ids).logits
    assert (nano(name).logits(ids) - expected).abs().max() <= 1e-4


def at_pronoun(model: Model, result: Invariance, twin: Twin) -> float:
    """The largest difference of any head's attention from the pronoun."""
    a, b = (model.trace(text, keep=["blocks.*.attn.pattern"]) for text in result.texts)
    place = find_word(twin.a, a.pieces[0], twin.pronoun, 1)[-1]
    assert place < result.first_difference
    return max((a[f"blocks.{n}.attn.pattern"][:, place] - b[f"blocks.{n}.attn.pattern"][:, place]).abs().max().item() for n in range(3))


EVERY = pytest.mark.parametrize("step", (5, pytest.param(1, marks=pytest.mark.long)))  # one of five, or all


@EVERY
@pytest.mark.parametrize("name", CAUSAL)
def test_causal_twins_are_identical(name: str, step: int) -> None:
    """Every tap, bit for bit, on every held-out twin; and exactly 0.0 at the pronoun."""
    for twin in twin_set("pairs")[::step]:
        result = cutaway.invariance(nano(name), twin.a, twin.b)
        assert result.identical, twin
        assert result.max_abs_diff == 0.0
        assert result.a_a == 0.0
        assert at_pronoun(nano(name), result, twin) == 0.0, twin


@EVERY
def test_bidirectional_twins_differ(step: int) -> None:
    for twin in twin_set("pairs")[::step]:
        result = cutaway.invariance(nano("nano-roberta"), twin.a, twin.b)
        assert not result.identical
        assert result.a_a == 0.0
        assert at_pronoun(nano("nano-roberta"), result, twin) > 0.0, twin


@pytest.mark.parametrize("name", NANOS)
def test_a_twin_that_differs_before_the_pronoun_differs_at_it(name: str) -> None:
    """The control that must not be 0: the deciding word stands before the pronoun."""
    model = nano(name)
    for twin in twin_set("early")[::10]:
        a, b = (model.trace(text) for text in (twin.a, twin.b))
        place = find_word(twin.a, a.pieces[0], twin.pronoun, 1)[-1]
        assert any(not torch.equal(a[f"blocks.{n}.attn.pattern"][:, place], b[f"blocks.{n}.attn.pattern"][:, place]) for n in range(3))


def test_winograd_twins(data: Path) -> None:
    """Every pair of consecutive Winograd schemas with the same answers: causal identical on each, bidirectional on none."""
    pairs = winograd.twins(winograd.collection(data))
    gpt2 = cutaway.load_tokenizer(data / "tokenizers/gpt2")
    assert len(pairs) == 142
    assert sum(len(gpt2.encode(a.sentence)) == len(gpt2.encode(b.sentence)) for a, b in pairs) == 104
    late = 0
    for a, b in pairs:
        one, two = a.sentence, b.sentence
        for name in CAUSAL:
            result = cutaway.invariance(nano(name), one, two)
            assert result.identical, one
            assert result.a_a == 0.0
            late += pieces_of(nano(name).pieces(one), *a.span)[-1] < result.first_difference
        assert not cutaway.invariance(nano("nano-roberta"), one, two).identical, one
    assert late >= 2 * 100  # in most, the deciding word comes after the pronoun, and so the attention there is identical too
