"""GPT-1's text read both ways: what differs, and where."""

import json
import sys
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

import pytest

from cutaway.errors import TextError, TokenizerError
from cutaway.text.cleaning import cleaning

TEXT = "Hello—“Don’t panic”, it's Zoë…\n\nschÃ¶n ok"


def test_nothing_differs_in_plain_words(gpt1_folder: Path) -> None:
    found = cleaning("Lower low, low.", gpt1_folder)
    assert found.plain.ids == found.spacy.ids and found.differences == () and found.share == 0
    assert (found.plain.splitter, found.plain.words, found.spacy.splitter, found.spacy.words) == ("plain", 5, "spacy", 5)


def test_a_contraction(published: Path) -> None:
    found = cleaning("I don't know", published / "gpt1")
    assert (found.plain.ids[1:4], found.spacy.ids[1:3]) == ((2310, 256, 241), (587, 538))
    [difference] = found.differences
    assert (difference.text, difference.span) == ("don't", (2, 7))
    assert difference.plain == ("don</w>", "'</w>", "t</w>") and difference.spacy == ("do</w>", "n't</w>")
    assert (found.plain.words, found.spacy.words, found.plain.alone, found.spacy.alone) == (5, 4, 3, 2)
    assert found.share == 5 / 9


def test_every_token_is_equal_or_in_a_difference(published: Path) -> None:
    found = cleaning(TEXT, published / "gpt1")
    for reading, side in ((found.plain, "plain"), (found.spacy, "spacy")):
        stretches = [getattr(difference, side) for difference in found.differences]
        assert reading.alone == sum(map(len, stretches)) <= len(reading.ids) == len(reading.tokens)
    assert len(found.plain.ids) - found.plain.alone == len(found.spacy.ids) - found.spacy.alone == 6
    assert [difference.text for difference in found.differences] == ["—“Don’t", "”", "'s Zoë…\n\nschÃ¶"]
    assert all(difference.text == TEXT[slice(*difference.span)] for difference in found.differences)


def test_as_many_as_difflib_finds(published: Path, gpt1: Any, gpt1_spacy: Any, data: Path) -> None:
    text = (data / "text/alice.txt").read_text("utf-8")[:10_000]
    found = cleaning(text, published / "gpt1")
    keys = [[(piece.id, piece.span) for piece in tokenizer.pieces(text)] for tokenizer in (gpt1, gpt1_spacy)]
    blocks = SequenceMatcher(None, *keys, autojunk=False).get_matching_blocks()
    assert sum(block.size for block in blocks) == len(found.plain.ids) - found.plain.alone == len(found.spacy.ids) - found.spacy.alone
    assert 0 < found.share < 0.5


def test_to_dict_is_json(gpt1_folder: Path) -> None:
    found = json.loads(json.dumps(cleaning("low's", gpt1_folder).to_dict()))
    assert found["share"] > 0 and found["plain"]["words"] == 3 and found["spacy"]["words"] == 2
    assert found["differences"][0]["span"] == [3, 4]


def test_refused(gpt1_folder: Path, gpt2_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TextError, match="empty"):
        cleaning("", gpt1_folder)
    with pytest.raises(TokenizerError, match="holds a gpt2 tokenizer"):
        cleaning("low", gpt2_folder)
    monkeypatch.setitem(sys.modules, "ftfy", None)
    with pytest.raises(TokenizerError, match=r"needs ftfy and spaCy, and ftfy is not installed.*cutaway\[gpt1\]"):
        cleaning("low", gpt1_folder)
