"""GPT-2 reads bytes: every text has ids, every id sequence is a text again, and a word's space is part of the word.

Not here: control tokens in a text that did not ask for them, or a begin-of-text token, which GPT-2 was not given.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import accumulate, pairwise
from operator import itemgetter
from typing import TYPE_CHECKING

from cutaway.errors import TokenizerError
from cutaway.text.bpe import BPE, BYTE_TO_SYMBOL, SYMBOL_TO_BYTE, Step, rebuilds, token_bytes
from cutaway.text.vocabulary import BPETokenizer, Format, Piece, Vocabulary, is_control

if TYPE_CHECKING:
    import tiktoken

# OpenAI's split (openai/gpt-2 src/encoder.py): contractions, letters, digits or signs, each with the blank before it; then other
# blanks, of which the last is left for the word that follows. The possessive quantifiers are tiktoken's: same split, no backtracking.
SPLIT = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"

SLICE = 1 << 16


def split(text: str, pattern: str = SPLIT) -> list[str]:
    """The words of a text, each with the blank before it.

    >>> split("It isn't 12,  no")
    ['It', ' isn', "'t", ' 12', ',', ' ', ' no']
    """
    import regex  # type: ignore[import-untyped]  # the standard library's re knows no \p{L}

    return regex.findall(pattern, text)  # type: ignore[no-any-return]


def byte_letters(word: str) -> str:
    """A word's bytes, each written as its letter: "Ġlow" for " low"."""
    return "".join([BYTE_TO_SYMBOL[byte] for byte in word.encode()])


class ByteBPE(BPETokenizer):
    """Byte-level BPE; a model's control tokens, its input format and how it cuts words are arguments.

    pattern: of a word; it must mean the same to tiktoken and to the regex library.
    partial: the vocabulary may lack bytes, which are then left out of a text, as the tokenizers library does.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        format: Format,  # noqa: A002
        *,
        kind: str,
        note: str,
        pattern: str = SPLIT,
        partial: bool = False,
    ) -> None:
        missing = [byte for byte, symbol in BYTE_TO_SYMBOL.items() if symbol not in vocabulary.ids]
        if missing and not partial:
            raise TokenizerError(
                f"The vocabulary lacks {len(missing)} of the 256 bytes, the first is {missing[0]}",
                expected="a byte-level vocabulary, in which every text can be written",
            )
        super().__init__(vocabulary, format)
        self.kind = kind
        self.description = f"byte-level BPE, {len(vocabulary.merges):,} merges, a word's space belongs to the word; {note}"
        self.bpe = BPE(vocabulary.merges)
        self._pattern = pattern
        self._missing = frozenset(missing)
        self._merges = vocabulary.merges
        self._bytes = [token.encode() if token in self.specials else token_bytes(token) for token in self._tokens]

    @property
    def fast(self) -> bool:
        """Does tiktoken do the merging? The ids are the same either way."""
        return self._engine is not None

    def _encode(self, text: str) -> list[int]:
        if self._engine is None or (self._missing and not self._missing.isdisjoint(text.encode())):
            return [self._ids[piece] for word in self._words(text) for piece in self.bpe(word)]
        ids = self._engine.encode_ordinary(text)
        if (table := self._ids_by_rank) is not None:
            # In place and by the slice, so that all stays in the processor's cache. itemgetter is the fastest look-up in a list, NumPy's
            # included; given one place alone it would return no tuple.
            for i in range(0, len(ids), SLICE):
                ids[i : i + SLICE] = itemgetter(0, *ids[i : i + SLICE])(table)[1:]
        return ids

    def _decode(self, ids: Sequence[int]) -> str:
        return b"".join([self._bytes[id_] for id_ in ids]).decode("utf-8", "replace")

    def _pieces(self, text: str) -> list[Piece]:
        ids = self._encode(text)
        # For each byte, its character.
        starts = [i for i, character in enumerate(text) for byte in character.encode() if byte not in self._missing]
        pieces = []
        for id_, (start, end) in zip(ids, pairwise(accumulate((len(self._bytes[id_]) for id_ in ids), initial=0)), strict=True):
            raw, first, last = self._bytes[id_], starts[start], starts[end - 1]
            part = first == last and len(text[first].encode()) > len(raw)
            pieces.append(Piece(id_, "\ufffd" if part else raw.decode("utf-8", "replace"), raw, (first, last + 1)))
        return pieces

    def _steps(self, text: str) -> Iterator[Step]:
        for word in self._words(text):
            yield from self.bpe.steps(word)

    def _words(self, text: str) -> Iterator[str]:
        without = dict.fromkeys(ord(BYTE_TO_SYMBOL[byte]) for byte in self._missing)
        return (byte_letters(word).translate(without) for word in split(text, self._pattern))

    @cached_property
    def _engine(self) -> "tiktoken.Encoding | None":
        """tiktoken knows tokens, not pairs, so it may only stand in for a list whose every token has a single way to come about."""
        if not rebuilds(self._merges):
            return None
        import tiktoken

        ranks = {token_bytes(token): rank for rank, token in enumerate(self._by_rank())}
        return tiktoken.Encoding(self.kind, pat_str=self._pattern, mergeable_ranks=ranks, special_tokens={})

    @cached_property
    def _ids_by_rank(self) -> list[int] | None:
        """tiktoken's ids are ranks; None where the vocabulary's are too. A byte that is missing has none, and never gets there."""
        ids = [self._ids.get(token, -1) for token in self._by_rank()]
        return None if ids == list(range(len(ids))) else ids

    def _by_rank(self) -> list[str]:
        return [*SYMBOL_TO_BYTE, *(left + right for left, right in self._merges)]


def gpt2(vocabulary: Vocabulary) -> ByteBPE:
    """GPT-2: nothing around a text, and `<|endoftext|>` between documents."""
    merged = {left + right for left, right in vocabulary.merges}
    specials = [token for token in vocabulary.ids if is_control(token) and token not in merged]
    return ByteBPE(vocabulary, Format(specials), kind="gpt2", note="nothing is put around a text")
