"""Chapter 1: translations of one document, cut into articles that stand side by side; a text that does not fit is found out.

Not here: what an article costs (`e01_cost`).

A heading is a short line with one number and the same words each time: "Article 1", "Artigo XXVIII.", "第二十条", "1. artikla.".
The headings must count 1, 2, 3 … without a gap, come to as many as the reference's, and each article must be about as long, against
the reference's, as the others of its file. Two neighbours of equal length that changed places under their headings pass unseen.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import exp, log
from statistics import median

from cutaway.errors import TextError
from cutaway.registry import nearest

LONGEST = 24  # characters of a heading
FACTOR = 2.0  # how far an article's length may be from what the file's others lead one to expect; 1.42 is the most in the UDHR
FEWEST = 5  # articles: resampling fewer says nothing

ROMAN = {"X": 10, "IX": 9, "V": 5, "IV": 4, "I": 1}
CHINESE = "〇一二三四五六七八九"
FIRST = ("premier", "première", "primero", "primeiro", "primo", "first", "erster")
# How these texts call the part before the first article; blanks and signs are left out.
PREAMBLES = frozenset(
    "preamble preâmbulo préambule preámbulo präambel preambuła preambolo преамбула προοιμιο προοίμιο johdanto önsöz "
    "الديباجة प्रस्तावना 序言 前文 전문".split()
)


@dataclass(frozen=True)
class Translation:
    """One language's text: the whole, and its parts if they stand beside the reference's; `problem` says why they do not.

    The text is NFC; white space at the ends of lines and empty lines are layout and left out.
    """

    language: str
    text: str
    preamble: str | None = None
    articles: tuple[str, ...] = ()
    problem: str | None = None

    @property
    def aligned(self) -> bool:
        return self.problem is None


def translation(language: str, text: str) -> Translation:
    """Cut a text at its headings. What stands before the preamble (title, note of adoption) belongs to no part."""
    lines = [line for raw in unicodedata.normalize("NFC", text).splitlines() if (line := raw.strip())]
    whole = "\n".join(lines)
    if not whole:
        raise TextError(f"The text of {language} is empty", expected="at least one line")
    heads = _headings(lines)
    if (problem := _gap([number for _, number in heads])) is not None:
        return Translation(language, whole, problem=problem)
    borders = [place for place, _ in heads] + [len(lines)]
    articles = tuple("\n".join(lines[start + 1 : end]) for start, end in pairwise(borders))
    if "" in articles:
        return Translation(language, whole, problem=f"article {articles.index('') + 1} is empty")
    named = next((n for n, line in enumerate(lines[: borders[0]]) if _bare(line) in PREAMBLES), None)
    preamble = None if named is None else "\n".join(lines[named + 1 : borders[0]])
    return Translation(language, whole, preamble or None, articles)


def align(translations: Sequence[Translation], reference: str) -> tuple[Translation, list[Translation]]:
    """Check each text against the reference's; the reference, and all of them with the problems found.

    Raises TextError if there are fewer than two, two of one language, or none of the reference's.
    """
    languages = [one.language for one in translations]
    if len(languages) < 2:
        raise TextError(f"{len(languages) or 'No'} text was given", expected="the same text in two languages at least, a file each")
    if twice := next((language for language, n in Counter(languages).items() if n > 1), None):
        raise TextError(f"Two files are named for the language {twice}", expected="one file a language, such as eng.txt and por_PT.txt")
    if reference not in languages:
        near = nearest(reference, languages)
        raise TextError(
            f"The reference language {reference} is not among the files",
            expected=f"a file {reference}.txt, or one of {', '.join(languages)} as the reference",
            then=f"did you mean {near}?" if near else "",
        )
    basis = translations[languages.index(reference)]
    return basis, [one if one is basis else _checked(one, basis) for one in translations]


def _checked(one: Translation, basis: Translation) -> Translation:
    if not one.aligned:
        return one
    if not basis.aligned:
        return replace(one, problem=f"the reference, {basis.language}, has no articles: {basis.problem}")
    if len(one.articles) != len(basis.articles):
        return replace(one, problem=f"it has {len(one.articles)} articles and {basis.language} has {len(basis.articles)}")
    ratios = [log(len(mine) / len(its)) for mine, its in zip(one.articles, basis.articles, strict=True)]
    usual = median(ratios)
    worst = max(range(len(ratios)), key=lambda n: abs(ratios[n] - usual))
    off = exp(ratios[worst] - usual)
    if not 1 / FACTOR <= off <= FACTOR:
        than = f"{off:.1f} times as long as" if off > 1 else f"{exp(-abs(log(off))):.2f} of the length that"
        expected = "the file's other articles lead one to expect"
        return replace(one, problem=f"article {worst + 1} is {than} {expected}, so it may not be {basis.language}'s article {worst + 1}")
    return one


def _headings(lines: Sequence[str]) -> list[tuple[int, int]]:
    """Line and number of each line that looks like the heading of an article: those whose words are the most common, but for a letter."""
    found = [(n, number, words) for n, line in enumerate(lines) if (read := heading(line)) for number, words in [read]]
    if not found:
        return []
    usual = Counter(words for *_, words in found).most_common(1)[0][0]
    return [(n, number) for n, number, words in found if _alike(words, usual)]


def heading(line: str) -> tuple[int, str] | None:
    """The number and the words of a short line with exactly one number; None for any other line.

    >>> heading("Artigo 1.º"), heading("Artigo XXIX."), heading("第二十八条"), heading("Article premier"), heading("10 May 1948")
    ((1, 'artigoº'), (29, 'artigo'), (28, '第条'), (1, 'article'), None)
    """
    if len(line) > LONGEST:
        return None
    numbers = re.findall(r"\d+", line)
    if len(numbers) == 1:
        return int(numbers[0]), _bare(re.sub(r"\d+", "", line))
    if numbers:
        return None
    if chinese := re.fullmatch(rf"(.)([{CHINESE}十]+)(.)", line):
        return _chinese(chinese[2]), chinese[1] + chinese[3]
    *words, last = line.split()
    if not words:
        return None
    if re.fullmatch(r"X{0,4}(IX|IV|V?I{0,3})", numeral := last.rstrip(".")) and numeral:
        return sum(ROMAN[part] for part in re.findall("IX|IV|X|V|I", numeral)), _bare(" ".join(words))
    return (1, _bare(" ".join(words))) if _bare(last) in FIRST else None


def _chinese(numeral: str) -> int:
    """Up to 99.

    >>> [_chinese(numeral) for numeral in ("七", "十", "十二", "二十", "三十一")]
    [7, 10, 12, 20, 31]
    """
    tens, ten, ones = numeral.rpartition("十")
    digit = {sign: n for n, sign in enumerate(CHINESE)}
    return (digit.get(tens, 1) * 10 if ten else 0) + digit.get(ones, 0)


def _bare(line: str) -> str:
    """Without blanks, signs and case."""
    return "".join(character for character in line.casefold() if unicodedata.category(character)[0] not in "ZPC")


def _alike(a: str, b: str) -> bool:
    """The same but for one letter: the Japanese text has 弟23条 once, for 第23条."""
    return len(a) == len(b) and sum(x != y for x, y in zip(a, b, strict=True)) <= 1


def _gap(numbers: Sequence[int]) -> str | None:
    """Why these are not 1, 2, 3 …; None if they are."""
    wrong = next((n for n, number in enumerate(numbers) if number != n + 1), None)
    if wrong is not None:
        before = f"after {numbers[wrong - 1]} " if wrong else "first "
        return f"its headings do not count 1, 2, 3 …: {before}comes {numbers[wrong]}"
    if len(numbers) < FEWEST:
        return f"it has {len(numbers) or 'no'} headings that count 1, 2, 3 …, and {FEWEST} are the least"
    return None
