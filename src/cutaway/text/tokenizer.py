"""A model is handed numbers; which numbers a text becomes is settled by the files that were published with the model.

Not here: a guess. A folder whose files are missing or contradict each other is refused.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from cutaway.errors import TokenizerError
from cutaway.text.bpe import Step
from cutaway.text.foreign import ForeignTokenizer, known_vocabulary, says_more
from cutaway.text.gpt1 import END, GPT1Tokenizer, Splitter
from cutaway.text.gpt2 import ByteBPE, gpt2
from cutaway.text.roberta import FORMAT, read_fairseq, roberta
from cutaway.text.vocabulary import Piece as Piece
from cutaway.text.vocabulary import Vocabulary
from cutaway.text.wordpiece import read_wordpiece


class Tokenizer(Protocol):
    """What every tokenizer here can do. Nothing is added to a text, and no control token read from it, unless asked for."""

    @property
    def kind(self) -> str: ...  # "gpt1", "gpt2", "roberta", "wordpiece" for BERT's, or "tokenizers" for any other

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


def named(tokenizer: Tokenizer, number: int) -> tuple[str, str]:
    """The vocabulary's spelling of an id, and its text. Some files have more rows than their vocabulary has ids."""
    if number >= tokenizer.vocab_size:
        return f"row {number}, which has no token", ""
    return tokenizer.token(number), tokenizer.decode([number])


# Where a publisher's vocabulary and merges stand, in the order in which a folder is searched.
PAIRS = (
    ("vocab.json", "merges.txt"),
    ("encoder_bpe_40000.json", "vocab_40000.bpe"),
    ("encoder.json", "vocab.bpe"),
)


def load_tokenizer(folder: Path, *, kinds: Collection[str] = (), splitter: Splitter = "plain") -> Tokenizer:
    """The tokenizer whose files lie in a folder.

    `kinds` are those that the model can read: a folder that holds another is refused, for its ids would be fluent nonsense.
    `splitter` is GPT-1's: "spacy" cuts words as the publisher did.
    """
    return fitting(_open(Path(folder), kinds, splitter), kinds, folder)


def fitting(tokenizer: Tokenizer, kinds: Collection[str], source: object) -> Tokenizer:
    """The tokenizer, if it is of one of these kinds, or if none is named."""
    if kinds and tokenizer.kind not in kinds:
        expected = f"one for {' or '.join(kinds)}, whose ids are others"
        raise TokenizerError(f"{source} holds a {tokenizer.kind} tokenizer", expected=expected, then="put the model's own files there")
    return tokenizer


def _open(folder: Path, kinds: Collection[str], splitter: Splitter) -> Tokenizer:
    try:
        has = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    except OSError as error:
        raise TokenizerError(f"{folder} cannot be read: {error.strerror}", expected="a folder that may be looked into") from None
    pair = next((pair for pair in PAIRS if has.issuperset(pair)), None)
    if pair == PAIRS[2] and ("roberta" in kinds or "dict.txt" in has):
        if "dict.txt" not in has:
            raise TokenizerError(
                f"{folder} has no dict.txt",
                expected="fairseq's dictionary beside encoder.json and vocab.bpe: RoBERTa's ids are not GPT-2's",
                then="get dict.txt from the model's archive, or vocab.json and merges.txt of roberta-base",
            )
        return roberta(read_fairseq(folder))
    if pair is not None and not ("tokenizer.json" in has and says_more(folder / "tokenizer.json")):
        return _known(Vocabulary.read(folder / pair[0], folder / pair[1]), splitter)
    if "tokenizer.json" in has:
        return _from_json(folder / "tokenizer.json", splitter)
    if "vocab.txt" in has:
        return read_wordpiece(folder)
    halves = [f"{one} without {other}" for pair in PAIRS for one, other in (pair, pair[::-1]) if one in has]
    raise TokenizerError(
        f"{folder} holds {' and '.join(halves) or 'no tokenizer files'}",
        expected=" or ".join([*map(" + ".join, PAIRS), "tokenizer.json", "vocab.txt"]),
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
