"""Merges are learned by counting: the pair of neighbours that occurs most often becomes one token, and so on.

Not here: how a text is cut into words, and files.

By hand, with  low low low lower new newer  (each `·` is a border between tokens):

    l·o·w ×3   l·o·w·e·r   n·e·w   n·e·w·e·r        l o and o w: 4 each, w e: 2, e r: 2, n e: 2, e w: 2
    lo·w  ×3   lo·w·e·r    n·e·w   n·e·w·e·r        lo w: 4
    low   ×3   low·e·r     n·e·w   n·e·w·e·r        e r, e w, n e: 2 each, and low e: 1

>>> for merge in merges_of({"low": 3, "lower": 1, "new": 1, "newer": 1}):
...     print(*merge.pair, "→", merge.token, merge.count)
l o → lo 4
lo w → low 4
e r → er 2
e w → ew 2
n ew → new 2

Equal counts are settled by the symbols' numbers, smaller first: letters in the order of their code points (e before n), then the
same letters with the mark of a word's end, then tokens in the order in which they were made.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import pairwise

from cutaway.text.bpe import Pair

Numbers = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Merge:
    """Two neighbours become one token; `count` says how often they stood side by side at that moment."""

    pair: Pair
    count: int
    token: str


def merges_of(words: Mapping[str, int], *, alphabet: Iterable[str] = (), end: str = "", least: int = 2) -> Iterator[Merge]:
    """The merges that words and their counts teach, the most frequent pair first, until no pair occurs `least` times.

    `alphabet` are letters to number even if no word has them; `end` is put on each word's last letter, and no word holds it otherwise.
    These are the merges of `BpeTrainer` in the tokenizers library, with one thing settled that it leaves to its hash tables: the
    numbers of letters with `end`. No token is made in two ways: merges keep to the borders that earlier ones left.
    """
    letters = sorted({*alphabet, *(letter for word in words for letter in word)})
    symbols = [*letters, *(letter + end for letter in letters if end)]
    number = {symbol: n for n, symbol in enumerate(symbols)}
    rows = [[number[letter] for letter in [*word[:-1], word[-1] + end]] for word in words if word]
    counts = [count for word, count in words.items() if word]
    tally, places = _count(rows, counts)
    heap = [(-count, pair) for pair, count in tally.items()]
    heapify(heap)
    while heap:
        negative, pair = heappop(heap)
        count = tally[pair]
        if count != -negative:  # other merges have taken some of them meanwhile
            heappush(heap, (-count, pair))
            continue
        if count < least:
            return
        left, right = symbols[pair[0]], symbols[pair[1]]
        symbols.append(left + right)
        yield Merge((left, right), count, left + right)
        for grown in _join_everywhere(pair, len(symbols) - 1, rows, counts, tally, places):
            heappush(heap, (-tally[grown], grown))


def _count(rows: list[list[int]], counts: list[int]) -> tuple[Counter[Numbers], dict[Numbers, set[int]]]:
    """How often each pair occurs, and in which rows."""
    tally: Counter[Numbers] = Counter()
    places: dict[Numbers, set[int]] = defaultdict(set)
    for place, row in enumerate(rows):
        for pair in pairwise(row):
            tally[pair] += counts[place]
            places[pair].add(place)
    return tally, places


def _join_everywhere(
    pair: Numbers, new: int, rows: list[list[int]], counts: list[int], tally: Counter[Numbers], places: dict[Numbers, set[int]]
) -> set[Numbers]:
    """Join the pair in its rows and keep the counts right; returns the pairs that this brings about."""
    grown = set()
    for place in places.pop(pair):
        for near, change in _join(rows[place], pair, new):
            tally[near] += change * counts[place]
            if change > 0:
                places[near].add(place)
                grown.add(near)
    return grown


def _join(row: list[int], pair: Numbers, new: int) -> list[tuple[Numbers, int]]:
    """Join the pair in one row, from the left; returns which pairs came and went."""
    left, right = pair
    changes: list[tuple[Numbers, int]] = []
    i = -1
    while left in row[i + 1 : -1]:
        i = row.index(left, i + 1)
        if row[i + 1] != right:
            continue
        if i > 0:
            changes += [((row[i - 1], left), -1), ((row[i - 1], new), 1)]
        row[i : i + 2] = [new]
        if i + 1 < len(row):
            changes += [((right, row[i + 1]), -1), ((new, row[i + 1]), 1)]
    return changes
