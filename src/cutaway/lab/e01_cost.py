"""Chapter 1: what a language costs. The same articles in several languages, in tokens, against English.

Two factors, and their product: tokens a byte is the tokenizer's part, bytes against English the translation's (with what UTF-8 takes
for its script). No model runs and no torch is loaded. Not here: whether a model understands the language.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutaway.errors import TextError
from cutaway.lab.e01_articles import Translation, align
from cutaway.lab.e01_count import Sums, Tally, Text
from cutaway.tokens import Opened

EXPERIMENT, CHAPTER, VERSION = "e01_cost", 1, 1
CONTEXT = 1024  # tokens: GPT-2's
RESAMPLES = 2000
LEVEL = 0.95
FIRST = ("por", "pt")  # languages that come first


@dataclass(frozen=True)
class Kind:
    """A value that is computed from two texts' sums: `of` takes the text's and the reference's. `{ref}` is the reference's name."""

    unit: str
    of: Callable[[Sums, Sums], Any]
    of_words: bool = False  # has no meaning in a script without blanks between words


KINDS: Mapping[str, Kind] = {
    "tokenizer_part": Kind("× {ref}, tokens a byte", lambda s, r: (s.tokens * r.bytes) / (s.bytes * r.tokens)),
    "translation_part": Kind("× {ref}, bytes", lambda s, r: s.bytes / r.bytes),
    "tokens_ratio": Kind("× {ref}, tokens", lambda s, r: s.tokens / r.tokens),
    "tokens_per_byte": Kind("tokens/byte", lambda s, r: s.tokens / s.bytes),
    "bytes_per_character": Kind("bytes/character", lambda s, r: s.bytes / s.characters),
    "tokens_per_character": Kind("tokens/character", lambda s, r: s.tokens / s.characters),
    "tokens_per_word": Kind("tokens/word", lambda s, r: s.tokens / s.words, of_words=True),
    "one_token_words": Kind("share of words", lambda s, r: s.single / s.words, of_words=True),
    "unknown_tokens": Kind("share of tokens", lambda s, r: s.unknown / s.tokens),
    "context_characters": Kind("characters in the context", lambda s, r: CONTEXT * s.characters / s.tokens),
    "context_words": Kind("words in the context", lambda s, r: CONTEXT * s.words / s.tokens, of_words=True),
    "context_characters_ratio": Kind("× {ref}, characters in the context", lambda s, r: s.characters * r.tokens / s.tokens / r.characters),
    "context_words_ratio": Kind("× {ref}, words in the context", lambda s, r: s.words * r.tokens / s.tokens / r.words, of_words=True),
    "context_ratio": Kind("× {ref}, of the same text in the context", lambda s, r: r.tokens / s.tokens),
    "price_ratio": Kind("× {ref}, price of the same text where tokens are billed", lambda s, r: s.tokens / r.tokens),
}


@dataclass(frozen=True)
class Value:
    """A measured value; low and high bound its interval, None where the text is not aligned and there is none."""

    value: float
    unit: str
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Row:
    """One language under one tokenizer. `n`: parts that stand beside the reference's; 1 for a text that is taken as a whole."""

    language: str
    n: int
    aligned: bool
    counts: dict[str, int | None]  # by name in Sums; words and single are None in a script without blanks
    values: dict[str, Value]


@dataclass(frozen=True)
class Pair:
    """Two texts of one language: what `other` has for each of `one`'s. What lies between two translators is no language's cost."""

    one: str
    other: str
    values: dict[str, Value]


@dataclass(frozen=True)
class Priced:
    """All languages under one tokenizer: Portuguese first, then the cheapest."""

    tokenizer: str
    kind: str
    description: str
    vocab_size: int
    rows: tuple[Row, ...]
    pairs: tuple[Pair, ...]

    def row(self, language: str) -> Row:
        return next(row for row in self.rows if row.language == language)


@dataclass(frozen=True)
class Cost:
    """What was measured, on what, and how."""

    reference: str
    articles: int  # of the reference; 0 if it has none
    preamble: bool  # is it counted as one more part?
    context: int
    seed: int
    resamples: int
    level: float
    sha256: dict[str, str]  # by language, of the text as it is counted: NFC, without layout
    not_aligned: dict[str, str]  # by language, why
    without_words: tuple[str, ...]
    tokenizers: tuple[Priced, ...]
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        return {"experiment": EXPERIMENT, "chapter": CHAPTER, "version": VERSION} | asdict(self)


def cost(
    translations: Sequence[Translation], tokenizers: Sequence[Opened], *, reference: str = "eng", seed: int = 0, resamples: int = RESAMPLES
) -> Cost:
    """Count every article under every tokenizer, each article by itself and without what a model puts around a text.

    The intervals are percentiles of a bootstrap by article; each resample takes the same articles of all languages. Raises TextError
    for texts that cannot be compared at all; one that is not aligned is taken as a whole, has no interval, and is named.
    """
    if resamples < 100:
        raise TextError(f"{resamples} resamples", expected="100 at least: the interval's ends are its 2.5 % and 97.5 % points")
    basis, texts = align(translations, reference)
    preamble = basis.aligned and all(one.preamble for one in texts if one.aligned)
    n = len(basis.articles) + preamble if basis.aligned else 0
    weights = np.random.default_rng(seed).multinomial(n, [1 / n] * n, size=resamples) if n else None
    cut = {one.language: Text.of(one, preamble) for one in texts}
    priced = tuple(_priced(one, cut, reference, weights) for one in tokenizers)
    return Cost(
        reference=reference,
        articles=len(basis.articles),
        preamble=preamble,
        context=CONTEXT,
        seed=seed,
        resamples=resamples,
        level=LEVEL,
        sha256={one.language: sha256(one.text.encode()).hexdigest() for one in texts},
        not_aligned={one.language: one.problem for one in texts if one.problem},
        without_words=tuple(name for name, text in cut.items() if text.whole.words is None),
        tokenizers=priced,
        notes=(*_notes(texts, basis, preamble, n, resamples, seed), *_lost(priced)),
    )


def _priced(one: Opened, texts: Mapping[str, Text], reference: str, weights: NDArray[np.int64] | None) -> Priced:
    tally = Tally(one.tokenizer)

    @cache
    def table(language: str, whole: bool) -> NDArray[np.float64]:
        text = texts[language]
        return tally.table(text.whole if whole or text.parts is None else text.parts)

    def values(language: str, against: str) -> dict[str, Value]:
        whole = texts[language].parts is None or texts[against].parts is None
        return measured(table(language, whole), table(against, whole), against, None if whole else weights)

    rows = [_row(name, table(name, False), texts[name].parts is not None, values(name, reference)) for name in texts]
    rows.sort(key=lambda row: (not row.language.startswith(FIRST), row.values["tokens_ratio"].value, row.language))
    pairs = tuple(Pair(a, b, values(b, a)) for a, b in _pairs([row.language for row in rows]))
    return Priced(one.name, one.tokenizer.kind, one.tokenizer.description, one.tokenizer.vocab_size, tuple(rows), pairs)


def _row(language: str, table: NDArray[np.float64], aligned: bool, values: dict[str, Value]) -> Row:
    sums = table.sum(axis=0).tolist()
    counts = {name: None if np.isnan(total) else int(total) for name, total in zip(Sums._fields, sums, strict=True)}
    return Row(language, len(table), aligned, counts, values)


def measured(table: NDArray[np.float64], basis: NDArray[np.float64], name: str, weights: NDArray[np.int64] | None) -> dict[str, Value]:
    """Every value of KINDS, from the counts of a text's parts and the reference's: arrays (parts, Sums).

    weights: (resamples, parts), how often each part is in each resample; None for no interval.
    """
    point, its = (Sums(*one.sum(axis=0)) for one in (table, basis))
    drawn = None if weights is None else tuple(Sums(*(weights @ one).T) for one in (table, basis))
    values = {}
    for key, kind in KINDS.items():
        if kind.of_words and np.isnan(kind.of(point, its)):
            continue
        ends: list[float] | list[None] = [None, None]
        if drawn is not None:
            ends = np.quantile(kind.of(*drawn), [(1 - LEVEL) / 2, (1 + LEVEL) / 2]).tolist()
        values[key] = Value(float(kind.of(point, its)), kind.unit.format(ref=name), *ends)
    return values


def _pairs(languages: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Those whose names agree before the underscore: por_PT and por_BR."""
    seen: dict[str, str] = {}
    for language in sorted(languages, reverse=True):
        code = language.partition("_")[0]
        if code in seen:
            yield seen[code], language
        seen.setdefault(code, language)


def _notes(texts: Sequence[Translation], basis: Translation, preamble: bool, n: int, resamples: int, seed: int) -> Iterator[str]:
    ref = basis.language
    if n:
        parts = f"{len(basis.articles)} articles{' and the preamble' if preamble else ''}"
        yield (
            f"Intervals: 95 %, from {resamples:,} bootstrap resamples of {parts} (n = {n}), seed {seed}. They are about articles of this "
            "one document, of one register; nothing is said about other texts."
        )
    if n and not preamble and (lacking := [one.language for one in texts if one.aligned and not one.preamble]):
        yield f"No preamble was found in {', '.join(lacking)}, so it is left out of all."
    for one in texts:
        if one.problem:
            yield f"{one.language} is not aligned: {one.problem}. It is taken as a whole against the whole of {ref}, without an interval."
    yield (
        "Each part is cut by itself, without the tokens that a model puts around a text. Characters are code points after NFC, bytes "
        f"are UTF-8. Bytes against {ref} are the translation's words and the script's bytes a character, which are given beside them."
    )
    yield (
        "Words stand between blanks, and one is counted as one token if it is that in mid-sentence. Chinese, Japanese and Thai "
        "put no blanks between words, so they have no such figures."
    )


def _lost(tokenizers: Sequence[Priced]) -> Iterator[str]:
    for one in tokenizers:
        if lost := [row.language for row in one.rows if row.counts["unknown"]]:
            yield (
                f"{one.tokenizer} cannot write all of {', '.join(lost)}: what it has no token for becomes the unknown token "
                "and is lost, so their figures are no price of the same text."
            )
