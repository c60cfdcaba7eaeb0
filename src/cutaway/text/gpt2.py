"""GPT-2 reads bytes: every text has ids, every id sequence is a text again, and a word's space is part of the word.

Not here: control tokens in a text that did not ask for them, or a begin-of-text token, which GPT-2 was not given.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from cutaway.errors import TokenizerError
from cutaway.text.bpe import BPE, BYTE_TO_SYMBOL, SYMBOL_TO_BYTE, Step, rebuilds, token_bytes
from cutaway.text.vocabulary import BPETokenizer, Format, Piece, Vocabulary, is_control

if TYPE_CHECKING:
    import tiktoken

# OpenAI's split (openai/gpt-2 src/encoder.py): contractions, letters, digits or signs, each with the blank before it; then other
# blanks, of which the last is left for the word that follows. The possessive quantifiers are tiktoken's: same split, no backtracking.
SPLIT = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"


class ByteBPE(BPETokenizer):
    """Byte-level BPE; a model's control tokens and input format are arguments."""

    def __init__(self, vocabulary: Vocabulary, format: Format, *, kind: str, note: str) -> None:  # noqa: A002
        if missing := [byte for byte, symbol in BYTE_TO_SYMBOL.items() if symbol not in vocabulary.ids]:
            raise TokenizerError(
                f"The vocabulary lacks {len(missing)} of the 256 bytes, the first is {missing[0]}",
                expected="a byte-level vocabulary, in which every text can be written",
            )
        super().__init__(vocabulary, format)
        self.kind = kind
        self.description = f"byte-level BPE, {len(vocabulary.merges):,} merges, a word's space belongs to the word; {note}"
        self.bpe = BPE(vocabulary.merges)
        self._merges = vocabulary.merges
        self._bytes = [token.encode() if token in self.specials else token_bytes(token) for token in self._tokens]

    @property
    def fast(self) -> bool:
        """Does tiktoken do the merging? The ids are the same either way."""
        return self._engine is not None

    def _encode(self, text: str) -> list[int]:
        if self._engine is None:
            return [self._ids[piece] for word in self._words(text) for piece in self.bpe(word)]
        ranks = self._engine.encode_ordinary(text)
        return ranks if self._ids_by_rank is None else list(map(self._ids_by_rank.__getitem__, ranks))

    def _decode(self, ids: Sequence[int]) -> str:
        return b"".join([self._bytes[id_] for id_ in ids]).decode("utf-8", "replace")

    def _pieces(self, text: str) -> list[Piece]:
        ids = self._encode(text)
        starts = [i for i, character in enumerate(text) for _ in character.encode()]  # for each byte, its character
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
        import regex  # type: ignore[import-untyped]  # the standard library's re knows no \p{L}

        for match in regex.finditer(SPLIT, text):
            yield "".join(BYTE_TO_SYMBOL[byte] for byte in match.group().encode())

    @cached_property
    def _engine(self) -> "tiktoken.Encoding | None":
        """tiktoken knows tokens, not pairs, so it may only stand in for a list whose every token has a single way to come about."""
        if not rebuilds(self._merges):
            return None
        import tiktoken

        ranks = {self._bytes[self._ids[token]]: rank for rank, token in enumerate(self._by_rank())}
        return tiktoken.Encoding(self.kind, pat_str=SPLIT, mergeable_ranks=ranks, special_tokens={})

    @cached_property
    def _ids_by_rank(self) -> list[int] | None:
        """tiktoken's ids are ranks; None where the vocabulary's are too."""
        ids = [self._ids[token] for token in self._by_rank()]
        return None if ids == list(range(len(ids))) else ids

    def _by_rank(self) -> list[str]:
        return [*SYMBOL_TO_BYTE, *(left + right for left, right in self._merges)]


def gpt2(vocabulary: Vocabulary) -> ByteBPE:
    """GPT-2: nothing around a text, and `<|endoftext|>` between documents."""
    merged = {left + right for left, right in vocabulary.merges}
    specials = [token for token in vocabulary.ids if is_control(token) and token not in merged]
    return ByteBPE(vocabulary, Format(specials), kind="gpt2", note="nothing is put around a text")
