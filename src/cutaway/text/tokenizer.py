"""A model is handed numbers; which numbers a text becomes is settled by the files that were published with the model.

Not here: a guess. A folder whose files are missing or contradict each other is refused.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from cutaway.errors import TokenizerError
from cutaway.text.bpe import Step
from cutaway.text.foreign import ForeignTokenizer, known_vocabulary
from cutaway.text.gpt1 import END, GPT1Tokenizer, Splitter
from cutaway.text.gpt2 import ByteBPE, gpt2
from cutaway.text.roberta import FORMAT, read_fairseq, roberta
from cutaway.text.vocabulary import Piece as Piece
from cutaway.text.vocabulary import Vocabulary


class Tokenizer(Protocol):
    """What every tokenizer here can do. Nothing is added to a text, and no control token read from it, unless asked for."""

    @property
    def kind(self) -> str: ...  # "gpt1", "gpt2", "roberta", or "tokenizers" for any other

    @property
    def description(self) -> str: ...  # one sentence: what shapes the ids

    @property
    def vocab_size(self) -> int: ...

    @property
    def specials(self) -> Mapping[str, int]: ...

    def encode(self, text: str, *, wrap: bool = False, allow_special: bool = False) -> list[int]: ...
    def encode_pair(self, a: str, b: str) -> list[int]: ...
    def encode_words(self, words: Sequence[str]) -> list[int]: ...
    def decode(self, ids: Sequence[int], *, keep_special: bool = True) -> str: ...
    def token(self, id: int) -> str: ...  # noqa: A002
    def id(self, token: str) -> int | None: ...
    def pieces(self, text: str, *, wrap: bool = False, allow_special: bool = False) -> list[Piece]: ...
    def steps(self, text: str) -> Iterator[Step]: ...


# Where a publisher's vocabulary and merges stand, in the order in which a folder is searched.
PAIRS = (
    ("vocab.json", "merges.txt"),
    ("encoder_bpe_40000.json", "vocab_40000.bpe"),
    ("encoder.json", "vocab.bpe"),
)


def load_tokenizer(folder: Path, *, kind: str | None = None, splitter: Splitter = "plain") -> Tokenizer:
    """The tokenizer whose files lie in a folder.

    `kind` is what the model needs: a folder that holds another kind is refused, for its ids would be fluent nonsense.
    `splitter` is GPT-1's: "spacy" cuts words as the publisher did.
    """
    tokenizer = _open(Path(folder), kind, splitter)
    if kind is not None and tokenizer.kind != kind:
        raise TokenizerError(f"{folder} holds a {tokenizer.kind} tokenizer", expected=f"one for {kind}, whose ids are others")
    return tokenizer


def _open(folder: Path, kind: str | None, splitter: Splitter) -> Tokenizer:
    has = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    pair = next((pair for pair in PAIRS if has.issuperset(pair)), None)
    if pair == PAIRS[2] and (kind == "roberta" or "dict.txt" in has):
        if "dict.txt" not in has:
            raise TokenizerError(
                f"{folder} has no dict.txt",
                expected="fairseq's dictionary beside encoder.json and vocab.bpe: RoBERTa's ids are not GPT-2's",
                then="get dict.txt from the model's archive, or vocab.json and merges.txt of roberta-base",
            )
        return roberta(read_fairseq(folder))
    if pair is not None:
        return _known(Vocabulary.read(folder / pair[0], folder / pair[1]), splitter)
    if "tokenizer.json" in has:
        return _from_json(folder / "tokenizer.json", splitter)
    halves = [f"{one} without {other}" for pair in PAIRS for one, other in (pair, pair[::-1]) if one in has]
    raise TokenizerError(
        f"{folder} holds {' and '.join(halves) or 'no tokenizer files'}",
        expected=" or ".join([*map(" + ".join, PAIRS), "tokenizer.json"]),
    )


def _known(vocabulary: Vocabulary, splitter: Splitter) -> Tokenizer:
    if any(token.endswith(END) for token in vocabulary.ids):
        return GPT1Tokenizer(vocabulary, splitter)
    return roberta(vocabulary) if vocabulary.ids.keys() >= {*FORMAT.specials} else gpt2(vocabulary)


def _from_json(path: Path, splitter: Splitter) -> Tokenizer:
    if (found := known_vocabulary(path)) is None:
        return ForeignTokenizer(path)
    vocabulary, wraps = found
    tokenizer = _known(vocabulary, splitter)
    # A list that tiktoken cannot follow would go the slow way here, where the library has a faster one.
    slow = isinstance(tokenizer, ByteBPE) and not tokenizer.fast
    return ForeignTokenizer(path) if slow or wraps != (tokenizer.kind == "roberta") else tokenizer
