"""On every text of the test data, and on many that were made up: the publishers' ids, by their own code or the tokenizers library.

The library's side is put together here from the vocabulary files, part by part, and GPT-1's publisher's code is written out again.
"""

import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_text_published import TEXT

from cutaway.text import Tokenizer
from cutaway.text.vocabulary import read_merges, read_table

MADE_UP = st.lists(TEXT | st.sampled_from(["don't", " it's", "\\ \\\\", "a+b", "\n \n", "(x)", "½", "  "]), max_size=4).map("".join)
MANY = settings(max_examples=5000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
FEW = settings(max_examples=200, deadline=None)


def texts(data: Path) -> Iterator[str]:
    """All of them: books, declarations, Winograd sentences, and each string in the detector's files."""
    for path in [*sorted((data / "text").glob("*.txt")), *sorted((data / "multilingual/udhr").glob("*.txt"))]:
        yield path.read_text("utf-8")
    yield (data / "winograd/WSCollection.xml").read_text("iso-8859-1")
    for path in sorted(itertools.chain((data / "winograd").glob("*.json*"), (data / "detector").rglob("*.json"))):
        content = path.read_text("utf-8")
        values = map(json.loads, content.splitlines()) if path.suffix == ".jsonl" else [json.loads(content)]
        yield from dict.fromkeys(string for value in values for string in strings(value))


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from strings(part)


@pytest.fixture(scope="session")
def library(published: Path) -> dict[str, Any]:
    """The tokenizers library, told by hand what each model does."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

    files = {
        "gpt1": ("encoder_bpe_40000.json", "vocab_40000.bpe"),
        "gpt2": ("encoder.json", "vocab.bpe"),
        "roberta": ("vocab.json", "merges.txt"),
    }
    engines = {}
    for kind, (vocab, merges) in files.items():
        parts = read_table(published / kind / vocab), read_merges(published / kind / merges)
        ends = {"end_of_word_suffix": "</w>", "unk_token": "<unk>"} if kind == "gpt1" else {}
        engines[kind] = Tokenizer(models.BPE(*parts, **ends))
        engines[kind].pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    engines["gpt1"].normalizer = normalizers.BertNormalizer()
    engines["gpt1"].pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return engines


class Publisher:
    """openai/finetune-transformer-lm text_utils.py, with the merging done by looking for the best pair anew each time."""

    def __init__(self, folder: Path) -> None:
        from spacy.lang.en import English

        self.nlp = English(max_length=10**8)
        self.encoder = read_table(folder / "encoder_bpe_40000.json")
        self.ranks = {pair: rank for rank, pair in enumerate(read_merges(folder / "vocab_40000.bpe"))}
        self.cache: dict[str, list[str]] = {}

    def standardize(self, text: str) -> str:
        for old, new in (("—", "-"), ("–", "-"), ("―", "-"), ("…", "..."), ("´", "'")):
            text = text.replace(old, new)
        # Each branch as Python read it there: the string was not a raw one.
        branches = r"""-+ ~+ !+ "+ ;+ \?+ \++ ,+ \)+ \(+ \+ \/+ \*+ \[+ \]+ }+ {+ \|+ _+""".split()
        text = re.sub(f"({'|'.join(branches)})", r" \1 ", text)
        text = re.sub(r"\s*\n\s*", " \n ", text)
        return re.sub(r"[^\S\n]+", " ", text).strip()

    def bpe(self, token: str) -> list[str]:
        if token not in self.cache:
            word = [*token[:-1], token[-1] + "</w>"]
            while pairs := [pair for pair in itertools.pairwise(word) if pair in self.ranks]:
                first, second = min(pairs, key=self.ranks.__getitem__)
                i = 0
                while i < len(word) - 1:
                    if (word[i], word[i + 1]) == (first, second):
                        word[i : i + 2] = [first + second]
                    i += 1
            self.cache[token] = ["\n</w>"] if word == ["\n", " </w>"] else word
        return self.cache[token]

    def encode(self, text: str) -> list[int]:
        import ftfy

        document = self.nlp(self.standardize(ftfy.fix_text(text)))
        return [self.encoder.get(piece, 0) for token in document for piece in self.bpe(token.text.lower())]


@pytest.fixture(scope="session")
def publisher(published: Path) -> Publisher:
    return Publisher(published / "gpt1")


def check_all(corpus: Iterator[str], ours: Tokenizer, theirs: Any, exact: bool) -> None:
    for text in corpus:
        ids = ours.encode(text)
        assert ids == theirs.encode(text).ids, text[:80]
        assert not exact or ours.decode(ids) == text


@pytest.mark.long
@pytest.mark.parametrize("kind", ["gpt1", "gpt2", "roberta"])
def test_all_texts_as_the_library(request: pytest.FixtureRequest, library: dict[str, Any], data: Path, kind: str) -> None:
    check_all(texts(data), request.getfixturevalue(kind), library[kind], exact=kind != "gpt1")


@pytest.mark.parametrize("kind", ["gpt1", "gpt2", "roberta"])
def test_the_beginnings_of_all_texts_as_the_library(request: Any, library: dict[str, Any], data: Path, kind: str) -> None:
    corpus = itertools.islice((text[:5000] for text in texts(data)), 200)
    check_all(corpus, request.getfixturevalue(kind), library[kind], exact=kind != "gpt1")


@pytest.mark.long
def test_all_texts_as_gpt1s_publisher(gpt1_spacy: Tokenizer, publisher: Publisher, data: Path) -> None:
    for text in texts(data):
        assert gpt1_spacy.encode(text) == publisher.encode(text), text[:80]


def test_the_beginnings_of_all_texts_as_gpt1s_publisher(gpt1_spacy: Tokenizer, publisher: Publisher, data: Path) -> None:
    for text in itertools.islice((text[:1500] for text in texts(data)), 60):
        assert gpt1_spacy.encode(text) == publisher.encode(text), text[:80]


def test_the_publisher_left_backslashes_alone(gpt1_spacy: Tokenizer, publisher: Publisher) -> None:
    assert publisher.standardize("a\\b c+d") == "a\\b c + d"
    assert gpt1_spacy.encode("back\\slash \\ + x\\\\") == publisher.encode("back\\slash \\ + x\\\\")


def check_made_up(text: str, ours: dict[str, Tokenizer], library: dict[str, Any], publisher: Publisher) -> None:
    for kind in ("gpt2", "roberta"):
        ids = ours[kind].encode(text)
        assert ids == library[kind].encode(text).ids
        assert ours[kind].decode(ids) == text
    assert ours["spacy"].encode(text) == publisher.encode(text)
    if all(ord(character) < 0x250 for character in text):  # beyond, the library's tables of accents and signs are older than Python's
        assert ours["gpt1"].encode(text) == library["gpt1"].encode(text).ids


@pytest.fixture(scope="session")
def ours(gpt1: Tokenizer, gpt1_spacy: Tokenizer, gpt2: Tokenizer, roberta: Tokenizer) -> dict[str, Tokenizer]:
    return {"gpt1": gpt1, "spacy": gpt1_spacy, "gpt2": gpt2, "roberta": roberta}


@FEW
@given(MADE_UP)
def test_made_up_texts(ours: dict[str, Tokenizer], library: dict[str, Any], publisher: Publisher, text: str) -> None:
    check_made_up(text, ours, library, publisher)


@pytest.mark.long
@MANY
@given(MADE_UP)
def test_many_made_up_texts(ours: dict[str, Tokenizer], library: dict[str, Any], publisher: Publisher, text: str) -> None:
    check_made_up(text, ours, library, publisher)


@pytest.mark.parametrize("tokens", [0, 1, 2, 1 << 16, (1 << 16) + 1, (1 << 17) + 1])
def test_roberta_looks_up_every_slice(gpt2: Tokenizer, roberta: Any, tokens: int) -> None:
    text = " the cat" * (tokens // 2) + " a" * (tokens % 2)
    ids = roberta.encode(text)
    assert type(ids) is list and len(ids) == tokens and all(type(id_) is int for id_ in ids[:3])
    assert [roberta.token(id_) for id_ in ids] == [gpt2.token(id_) for id_ in gpt2.encode(text)]
