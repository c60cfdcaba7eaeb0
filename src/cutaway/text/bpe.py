"""A word becomes tokens by joining, again and again, the neighbours that the merge list ranks first.

Not here: how a text is cut into words, and which number a token has.

The list is learned once from text and then only read. By hand, with the merges  1: l o   2: lo w   3: e r,

    l o w e r  →  lo w e r  →  low e r  →  low er

>>> bpe = BPE([("l", "o"), ("lo", "w"), ("e", "r")])
>>> for step in bpe.steps("lower"):
...     step.rank, " ".join(step.pieces)
(None, 'l o w e r')
(0, 'lo w e r')
(1, 'low e r')
(2, 'low er')
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import pairwise

Pair = tuple[str, str]

CACHED_WORDS = 1 << 16
CACHED_LENGTH = 64  # longer words seldom come twice, and would make a bound on their number no bound on memory


@dataclass(frozen=True, slots=True)
class Step:
    """One merge in one word: the pair that was joined, its rank, and the word's pieces afterwards.

    The first step of each word has no pair: it shows the symbols before any merge.
    """

    pair: Pair | None
    rank: int | None
    pieces: tuple[str, ...]


class BPE:
    """The merges of one vocabulary, in order. A word's last letter carries the mark `end`, where the vocabulary has one."""

    def __init__(self, merges: Iterable[Pair], end: str = "") -> None:
        self.ranks: dict[Pair, int] = {pair: rank for rank, pair in enumerate(merges)}
        self.end = end
        self._cache: dict[str, tuple[str, ...]] = {}

    def __call__(self, word: str) -> tuple[str, ...]:
        """The pieces of a word, after the last merge."""
        if (pieces := self._cache.get(word)) is not None:
            return pieces
        row = self._symbols(word)
        for _ in self._merge(row):
            pass
        pieces = tuple(filter(None, row))
        if len(word) <= CACHED_LENGTH:
            if len(self._cache) >= CACHED_WORDS:
                self._cache.clear()  # the common words are back within a page
            self._cache[word] = pieces
        return pieces

    def steps(self, word: str) -> Iterator[Step]:
        """The word before any merge, then after each one."""
        row = self._symbols(word)
        yield Step(None, None, tuple(row))
        for rank, pair in self._merge(row):
            yield Step(pair, rank, tuple(filter(None, row)))

    def _symbols(self, word: str) -> list[str]:
        return [*word[:-1], word[-1] + self.end] if word else []

    def _merge(self, row: list[str]) -> Iterator[tuple[int, Pair]]:
        """Join neighbours in place, lowest rank first and leftmost among equals; a joined piece leaves "" on its right.

        A heap of candidates over a linked list: n log n, where looking for the best pair anew each time would be n².
        """
        ranks, end = self.ranks, len(row)
        before, after = list(range(-1, end - 1)), list(range(1, end + 1))
        heap = [(ranks[pair], i) for i, pair in enumerate(pairwise(row)) if pair in ranks]
        heapify(heap)
        while heap:
            rank, i = heappop(heap)
            j = after[i]
            if j == end or ranks.get(pair := (row[i], row[j])) != rank:
                continue  # one of the two has meanwhile been joined to something else
            row[i], row[j] = row[i] + row[j], ""
            after[i] = k = after[j]
            if k < end:
                before[k] = i
            for left, right in ((before[i], i), (i, k)):
                if left >= 0 and right < end and (new := ranks.get((row[left], row[right]))) is not None:
                    heappush(heap, (new, left))
            yield rank, pair


def rebuilds(merges: Sequence[Pair]) -> bool:
    """Does each merge's result, cut into its symbols again, come back as one piece through this very merge?

    Only then may an engine that knows tokens but not pairs (it joins whatever two neighbours make a token, lowest rank first)
    stand in for this list. In  b c, a b, ab c  the third can never happen: b c comes first, and a bc is no pair.

    >>> rebuilds([("a", "b"), ("ab", "c")]), rebuilds([("b", "c"), ("a", "b"), ("ab", "c")])
    (True, False)
    """
    ranks = {pair: rank for rank, pair in enumerate(merges)}
    made = {left + right: (rank, left, right) for rank, (left, right) in enumerate(merges)}
    never, symbol = len(merges), (-1, "", "")
    for left, right in merges:
        # Undo the merges along the border of the two halves, latest first: no pair across it may have had an earlier turn.
        lefts, rights = made.get(left, symbol), made.get(right, symbol)
        while lefts is not symbol or rights is not symbol:
            if lefts[0] > rights[0]:
                turn, _, left = lefts
                lefts = made.get(left, symbol)
            else:
                turn, right, _ = rights
                turn += 1  # among equals the leftmost goes first, and the border is left of the right half's inside
                rights = made.get(right, symbol)
            if ranks.get((left, right), never) < turn:
                return False
    return True


def _byte_symbols() -> dict[int, str]:
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in printable]
    return {byte: chr(byte) for byte in printable} | {byte: chr(256 + i) for i, byte in enumerate(others)}


# GPT-2 writes each byte as one visible character, so that its files hold no blanks or control codes: 32 becomes "Ġ", 10 becomes "Ċ".
# The order is that of the publisher's ids 0 to 255.
BYTE_TO_SYMBOL = _byte_symbols()
SYMBOL_TO_BYTE = {symbol: byte for byte, symbol in BYTE_TO_SYMBOL.items()}


def token_bytes(token: str) -> bytes:
    """The bytes that a token stands for; a name that is not written in GPT-2's byte letters stands for itself."""
    try:
        return bytes([SYMBOL_TO_BYTE[symbol] for symbol in token])
    except KeyError:
        return token.encode()
