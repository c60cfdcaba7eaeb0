"""What a language costs: alignment that never goes wrong in silence, counts against tiktoken alone, and figures by hand."""

import json
import random
import unicodedata
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cache
from math import sqrt
from pathlib import Path
from statistics import covariance, variance

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cutaway.errors import ModelError, TextError
from cutaway.lab import data as named
from cutaway.lab.e01_articles import Translation, align, heading, translation
from cutaway.lab.e01_cost import KINDS, Cost, cost
from cutaway.text import load_tokenizer
from cutaway.tokens import Opened
from tests.conftest import tokenizer_folder


@cache
def tiny(kind: str = "gpt2") -> Opened:
    folder = tokenizer_folder(kind)
    return Opened("tiny", load_tokenizer(folder), folder)


def document(articles: list[str], word: str = "Article {}", preamble: str = "Preamble") -> str:
    numbered = (f"   {word.format(n)}\n  {text}\n \n" for n, text in enumerate(articles, 1))
    return f"The title\n\n{preamble}\n  Whereas the box was big,\n\n" + "\n".join(numbered)


ENGLISH = ["the box was big", "the cat was in the box", "the dog", "it was too small for it", "it was the big dog", "the cat was small"]
PORTUGUESE = ["a caixa era grande", "o gato estava na caixa", "o cão", "era pequena de mais para ele", "era o cão grande"]
PORTUGUESE += ["o gato era pequeno"]


def two(english: str | None = None, portuguese: str | None = None) -> list[Translation]:
    texts = {"eng": english or document(ENGLISH), "por_PT": portuguese or document(PORTUGUESE, "Artigo {}.º", "Preâmbulo")}
    return [translation(language, text) for language, text in texts.items()]


# Alignment


@cache
def udhr(root: Path) -> tuple[Translation, ...]:
    return tuple(translation(path.stem, path.read_text(encoding="utf-8")) for path in named.find("udhr", root))


def test_all_17_texts_stand_side_by_side(data: Path) -> None:
    """Against an alignment that was made apart from this code and lies beside the texts."""
    parallel = json.loads((data / "multilingual/udhr-parallel.json").read_text(encoding="utf-8"))
    _, texts = align(udhr(data), "eng")
    assert len(texts) == 17
    for text in texts:
        assert text.problem is None
        assert len(text.articles) == 30
        assert text.preamble
        if text.language in parallel["languages"]:
            theirs = [unicodedata.normalize("NFC", article[text.language]) for article in parallel["articles"]]
            assert list(text.articles) == theirs
            whole = unicodedata.normalize("NFC", parallel["preamble"][text.language])
            assert whole.endswith(text.preamble)
    assert len(parallel["languages"]) == 16


@pytest.mark.parametrize(
    ("line", "number"),
    [
        ("Article 1", 1), ("Artigo 12.º", 12), ("Artigo XXVIII.", 28), ("Artigo IV.", 4), ("Artículo primero", 1), ("Article premier", 1),
        ("1. artikla.", 1), ("第二十条", 20), ("第十九條", 19), ("第１条", 1), ("제 30 조", 30), ("अनुच्छेद १२.", 12), ("المادة 7", 7),
        ("10 May 1948", None), ("Preamble", None), ("Article", None), ("no one", None), ("its number is 1, and so on", None), ("…", None),
    ],
)  # fmt: skip
def test_headings(line: str, number: int | None) -> None:
    found = heading(line)
    assert (found and found[0]) == number


BROKEN: dict[str, tuple[Callable[[list[str]], str], str]] = {
    "a heading is missing": (lambda a: document(a).replace("Article 3\n", ""), "after 2 comes 4"),
    "a heading comes twice": (lambda a: document(a).replace("Article 3\n", "Article 2\n"), "after 2 comes 2"),
    "the first is missing": (lambda a: document(a).replace("Article 1\n", ""), "first comes 2"),
    "two changed places": (lambda a: document(a).replace("Article 3\n", "Article 9\n"), "after 2 comes 9"),
    "an article is missing": (lambda a: document(a[:-1]), "it has 5 articles and eng has 6"),
    "an article is empty": (lambda a: document([*a[:2], "", *a[3:]]), "article 3 is empty"),
    "two texts changed places": (lambda a: document([a[0], a[2], a[1], *a[3:]]), "may not be eng's article"),
    "all moved by one": (lambda a: document([*a[1:], a[0]]), "may not be eng's article"),
    "two became one": (lambda a: document([f"{a[0]} {a[1]} {a[2]}", *a[1:]]), "times as long as the file's other articles"),
    "no headings": (lambda a: "\n".join(a), "no headings"),
    "too few": (lambda a: document(a[:4]), "4 headings"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_alignment_is_caught(case: str) -> None:
    """It is named, has no interval, and is compared as a whole; the others keep theirs."""
    broken, said = BROKEN[case]
    texts = [*two(), translation("bad", broken(list(ENGLISH)))]
    result = cost(texts, [tiny()])
    assert said in result.not_aligned["bad"]
    assert any("bad is not aligned" in note for note in result.notes)
    row = result.tokenizers[0].row("bad")
    assert not row.aligned
    assert row.n == 1
    assert all(value.low is value.high is None for value in row.values.values())
    tokens = [len(tiny().tokenizer.encode(one.text)) for one in (texts[2], texts[0])]
    assert row.values["tokens_ratio"].value == tokens[0] / tokens[1]
    assert result.tokenizers[0].row("por_PT").values == cost(two(), [tiny()]).tokenizers[0].row("por_PT").values


def test_a_reference_without_articles_leaves_no_interval() -> None:
    result = cost(two(english="\n".join(ENGLISH)), [tiny()])
    assert result.articles == 0
    assert result.not_aligned.keys() == {"eng", "por_PT"}
    assert "the reference, eng, has no articles" in result.not_aligned["por_PT"]
    assert result.tokenizers[0].row("eng").values["tokens_ratio"].value == 1


def test_a_lacking_preamble_is_left_out_of_all() -> None:
    result = cost(two(portuguese=document(PORTUGUESE, "Artigo {}", "No such word")), [tiny()])
    assert not result.preamble
    assert [row.n for row in result.tokenizers[0].rows] == [6, 6]
    assert "No preamble was found in por_PT" in " ".join(result.notes)
    assert cost(two(), [tiny()]).tokenizers[0].row("eng").n == 7


@pytest.mark.parametrize(
    ("texts", "reference", "said"),
    [
        (two()[:1], "eng", "1 text was given"),
        ([], "eng", "No text was given"),
        (two(), "en", "did you mean eng?"),
        ([*two(), two()[0]], "eng", "Two files are named for the language eng"),
    ],
)
def test_refused(texts: list[Translation], reference: str, said: str) -> None:
    with pytest.raises(TextError, match=said.replace("?", r"\?")):
        cost(texts, [tiny()], reference=reference)


# Figures


def test_by_hand() -> None:
    """RoBERTa's or GPT-2's tokens counted by the tokenizer, the rest by hand: 6 articles and no preamble."""
    texts = [replace(one, preamble=None) for one in two()]
    one = tiny()
    row = cost(texts, [one]).tokenizers[0].row("por_PT")
    tokens, english = (sum(len(one.tokenizer.encode(article)) for article in articles) for articles in (PORTUGUESE, ENGLISH))
    # In characters 18 + 22 + 5 + 28 + 16 + 18; each of the two ã is a byte more.
    assert row.counts == {"tokens": tokens, "bytes": 109, "characters": 107, "words": 25, "single": 0, "unknown": 0}
    values = {name: value.value for name, value in row.values.items()}
    assert sum(map(len, ENGLISH)) == 15 + 22 + 7 + 23 + 18 + 17 == 102
    assert values["translation_part"] == 109 / 102
    assert values["tokens_per_byte"] == tokens / 109
    assert values["tokenizer_part"] == pytest.approx((tokens / 109) / (english / 102), rel=1e-12)
    assert values["tokens_ratio"] == values["price_ratio"] == tokens / english
    assert values["tokens_per_word"] == tokens / 25
    assert values["context_words"] == 1024 * 25 / tokens
    assert values["context_ratio"] == english / tokens
    own = cost(texts, [one]).tokenizers[0].row("eng")
    assert own.counts["words"] == own.counts["single"] == 4 + 6 + 2 + 6 + 5 + 4
    assert own.values["one_token_words"].value == 1


def test_against_tiktoken_alone(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenAI's own library and files; articles as they lie in udhr-parallel.json; no code of ours but the last division."""
    import tiktoken
    from tiktoken.load import data_gym_to_mergeable_bpe_ranks
    from tiktoken_ext.openai_public import r50k_pat_str

    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "")
    folder = data / "tokenizers/gpt2"
    ranks = data_gym_to_mergeable_bpe_ranks(str(folder / "vocab.bpe"), str(folder / "encoder.json"))
    theirs = tiktoken.Encoding("gpt2", pat_str=r50k_pat_str, mergeable_ranks=ranks, special_tokens={})
    parallel = json.loads((data / "multilingual/udhr-parallel.json").read_text(encoding="utf-8"))
    result = cost([replace(text, preamble=None) for text in udhr(data)], [Opened("gpt2", load_tokenizer(folder), folder)], resamples=100)
    sums = {}
    for language in parallel["languages"]:
        articles = [unicodedata.normalize("NFC", article[language]) for article in parallel["articles"]]
        sums[language] = tuple(sum(map(len, row)) for row in (map(theirs.encode, articles), map(str.encode, articles), articles))
    for language, (tokens, size, characters) in sums.items():
        row = result.tokenizers[0].row(language)
        assert (row.counts["tokens"], row.counts["bytes"], row.counts["characters"]) == (tokens, size, characters)
        assert row.values["tokens_ratio"].value == tokens / sums["eng"][0]
        assert row.values["translation_part"].value == size / sums["eng"][1]


def measured(root: Path, seed: int = 0) -> Cost:
    folder = root / "tokenizers/gpt2"
    return cost(udhr(root), [Opened("gpt2", load_tokenizer(folder), folder)], seed=seed)


def test_the_declaration(data: Path) -> None:
    result = measured(data)
    rows = result.tokenizers[0].rows
    assert (result.articles, result.preamble, result.not_aligned) == (30, True, {})
    assert {row.n for row in rows} == {31}
    assert {row.language for row in rows[:2]} == {"por_PT", "por_BR"}
    ratios = [row.values["tokens_ratio"].value for row in rows[2:]]
    assert ratios == sorted(ratios)
    assert result.without_words == ("cmn_hans", "cmn_hant", "jpn")
    for row in rows:
        assert (row.language in result.without_words) == (row.counts["words"] is None) == ("tokens_per_word" not in row.values)
        for value in row.values.values():
            assert value.low is not None
            assert value.high is not None
            assert value.low <= value.value <= value.high
    assert 1.9 < result.tokenizers[0].row("por_PT").values["tokens_ratio"].value < 2.2
    pairs = {(pair.one, pair.other): pair.values for pair in result.tokenizers[0].pairs}
    assert pairs.keys() == {("por_PT", "por_BR"), ("cmn_hant", "cmn_hans")}
    brazil, portugal = (result.tokenizers[0].row(name).counts["bytes"] for name in ("por_BR", "por_PT"))
    assert brazil is not None
    assert portugal is not None
    assert pairs["por_PT", "por_BR"]["translation_part"].value == brazil / portugal


def test_the_intervals_are_those_of_theory(data: Path) -> None:
    """The width of a ratio's interval is nearly 2 × 1.96 standard errors, by the textbook's formula for a ratio of two sums."""
    result, names = measured(data), ("por_PT", "hin", "jpn")
    texts = {text.language: text for text in udhr(data)}
    encode = load_tokenizer(data / "tokenizers/gpt2").encode
    x, *others = ([len(encode(part)) for part in (texts[name].preamble or "", *texts[name].articles)] for name in ("eng", *names))
    for name, y in zip(names, others, strict=True):
        ratio = sum(y) / sum(x)
        error = sqrt((variance(y) - 2 * ratio * covariance(x, y) + ratio**2 * variance(x)) / len(x)) / (sum(x) / len(x))
        value = result.tokenizers[0].row(name).values["tokens_ratio"]
        assert value.low is not None
        assert value.high is not None
        assert (value.high - value.low) / (2 * 1.96 * error) == pytest.approx(1, abs=0.15)


words = st.lists(st.sampled_from("the big cat éa 中中 😀😀 box, dog".split()), min_size=5, max_size=6).map(" ".join)


@settings(max_examples=25, deadline=None, database=None)
@given(st.lists(st.tuples(words, words), min_size=5, max_size=8), st.integers(0, 2**32))
def test_properties(pairs: list[tuple[str, str]], seed: int) -> None:
    """The factors' product is the tokens ratio, English is exactly 1, and one seed gives one result."""
    texts = [translation(name, document([pair[side] for pair in pairs])) for side, name in enumerate(("eng", "por"))]
    result = cost(texts, [tiny()], seed=seed, resamples=100)
    assume(not result.not_aligned)
    (priced,) = result.tokenizers
    counts, own = priced.row("por").counts, priced.row("eng").counts
    bytes_, tokens, its_bytes, its_tokens = counts["bytes"] or 0, counts["tokens"] or 0, own["bytes"] or 0, own["tokens"] or 0
    exact = Fraction(tokens, its_tokens)
    assert Fraction(tokens * its_bytes, bytes_ * its_tokens) * Fraction(bytes_, its_bytes) == exact
    values = priced.row("por").values
    assert values["tokens_ratio"].value == float(exact)
    assert values["tokenizer_part"].value * values["translation_part"].value == pytest.approx(float(exact), rel=1e-14)
    for name, kind in KINDS.items():
        value = priced.row("eng").values[name]
        if "{ref}" in kind.unit:
            assert value.value == value.low == value.high == 1
    assert cost(texts, [tiny()], seed=seed, resamples=100) == result
    json.dumps(result.to_dict(), allow_nan=False)


def test_the_seed_decides() -> None:
    one, same, other = (cost(two(), [tiny()], seed=seed).tokenizers[0].row("por_PT").values["tokens_ratio"] for seed in (1, 1, 2))
    assert one == same
    assert one.value == other.value
    assert (one.low, one.high) != (other.low, other.high)


def test_a_resample_takes_the_same_articles_of_all_languages() -> None:
    """Where each article costs twice as much as in English, so does every resample: the interval is a point."""
    long = [f"{article} {article}" for article in ENGLISH]
    texts = [replace(one, preamble=None) for one in two(portuguese=document(long, "Artigo {}"))]
    values = cost(texts, [tiny()]).tokenizers[0].row("por_PT").values
    assert values["context_words_ratio"].low == pytest.approx(values["context_words_ratio"].high)
    sizes = np.array([[len(a) for a in ENGLISH], [2 * len(a) + 1 for a in ENGLISH]])
    assert values["translation_part"].value == sizes[1].sum() / sizes[0].sum()
    assert values["translation_part"].low == pytest.approx(values["translation_part"].high, abs=0.05)


def test_text_is_nfc_and_layout_is_left_out() -> None:
    decomposed = [unicodedata.normalize("NFD", article) for article in PORTUGUESE]
    one, other = (cost(two(portuguese=document(texts, "Artigo {}.º", "Preâmbulo")), [tiny()]) for texts in (PORTUGUESE, decomposed))
    assert decomposed != PORTUGUESE
    assert one == other


def test_unknown_tokens_are_named() -> None:
    result = cost(two(), [tiny("gpt1")])
    assert not any("unknown token" in note for note in result.notes)  # the plain cleaning drops the accents
    russian = translation("rus", document(["я " * (len(article) // 2) for article in ENGLISH], "Статья {}"))
    result = cost([replace(one, preamble=None) for one in (*two(), russian)], [tiny("gpt1"), tiny("gpt2")])
    assert ["rus" in note for note in result.notes if "cannot write" in note] == [True]
    assert result.tokenizers[0].row("rus").values["unknown_tokens"].value == 1
    assert result.tokenizers[0].row("rus").values["one_token_words"].value == 0
    assert result.tokenizers[1].row("rus").values["unknown_tokens"].value == 0


def test_the_result_says_what_it_is() -> None:
    told = json.loads(json.dumps(cost(two(), [tiny()], seed=3).to_dict(), allow_nan=False))
    assert (told["experiment"], told["chapter"], told["version"]) == ("e01_cost", 1, 1)
    assert (told["seed"], told["resamples"], told["level"], told["reference"]) == (3, 2000, 0.95, "eng")
    (one,) = told["tokenizers"]
    assert one.keys() >= {"tokenizer", "kind", "description", "vocab_size", "rows", "pairs"}
    assert one["rows"][0]["language"] == "por_PT"
    assert one["rows"][0]["values"]["tokens_per_byte"].keys() == {"value", "unit", "low", "high"}


# The data set, and the chart


def test_data_that_is_not_here_or_not_what_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ModelError, match="did you mean udhr"):
        named.find("uhdr")
    with pytest.raises(TextError, match="there is no file"):
        named.find("udhr", tmp_path)
    monkeypatch.delenv("CUTAWAY_DATA", raising=False)
    with pytest.raises(TextError, match="CUTAWAY_DATA is not set"):
        named.find("udhr")
    folder = tmp_path / named.UDHR.folder
    folder.mkdir(parents=True)
    for name in named.UDHR.files:
        (folder / name).write_text("Article 1", encoding="utf-8")
    with pytest.raises(TextError, match="is not the file that was published"):
        named.find("udhr", tmp_path)


def test_the_chart_draws_the_values() -> None:
    from cutaway.lab.e01_chart import PANELS, chart

    texts = [*two(), translation("bad", "\n".join(ENGLISH))]
    result = cost(texts, [tiny(), replace(tiny("gpt1"), name="other")])
    spec = chart(result).to_dict()
    for priced, row in zip(result.tokenizers, spec["vconcat"], strict=True):
        for key, panel in zip(PANELS, row["hconcat"], strict=True):
            drawn = spec["datasets"][panel["data"]["name"]]
            expected = [(one.language, one.values[key].value, one.values[key].low, one.values[key].high) for one in priced.rows]
            assert [(one["language"], one["value"], one["low"], one["high"]) for one in drawn] == expected


def test_no_torch_is_needed() -> None:
    import subprocess
    import sys

    code = "import cutaway.lab.e01_cost, cutaway.lab.e01_chart, cutaway.lab.data, sys; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "False"


def test_the_order_of_files_does_not_matter() -> None:
    texts = [*two(), translation("spa", document(ENGLISH, "Artículo {}"))]
    shuffled = random.Random(0).sample(texts, len(texts))
    assert cost(texts, [tiny()]).tokenizers == cost(shuffled, [tiny()]).tokenizers
