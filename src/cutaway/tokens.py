"""Neither letters nor words: the pieces in which a model reads a text, under one or several tokenizers.

Needs a tokenizer's files alone; no weights are opened and no torch is loaded. What a language costs is not here (`lab.e01_cost`).
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cutaway.errors import TextError, TokenizerError
from cutaway.locate import locate, tokenizer_at
from cutaway.registry import no_such
from cutaway.text import Piece, Step, Tokenizer, load_tokenizer
from cutaway.text.cleaning import Cleaning, cleaning

if TYPE_CHECKING:
    from cutaway.weights.hub.arrival import Progress

SPLITTERS = ("plain", "spacy", "both")

PLAIN, SPACY = " (plain)", " (spacy)"  # how GPT-1's two ways are told apart
UNKNOWN = ("<unk>", "[UNK]")
LISTED = 12  # words of a text that a message names
# Scripts that put no blanks between words, by how Unicode names their letters; half of a text's letters decide.
WITHOUT_BLANKS = ("CJK UNIFIED", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN")


@dataclass(frozen=True)
class Opened:
    """A tokenizer, what it is called here, and where it lies."""

    name: str
    tokenizer: Tokenizer
    path: Path


@dataclass(frozen=True)
class WordSteps:
    """One word merge by merge, in the spelling `word`; `occurs` says how often the text has it so."""

    word: str
    occurs: int
    steps: tuple[Step, ...]  # each of the stretches into which the tokenizer cuts the word begins with a step that has no pair


@dataclass(frozen=True)
class Tokenized:
    """A text under one tokenizer, as its model reads it. `tokens` are the vocabulary's own spellings of `pieces`.

    added: how many of the tokens the model's input format puts around the text. unknown: how many of the text's own stand for
    something that the vocabulary cannot write. The rates leave out what is added; a rate is None where it has no meaning.
    """

    tokenizer: str
    kind: str
    description: str
    vocab_size: int
    pieces: tuple[Piece, ...]
    tokens: tuple[str, ...]
    added: int
    unknown: int
    tokens_per_word: float | None
    characters_per_token: float | None
    steps: tuple[WordSteps, ...] | None

    def to_dict(self) -> dict[str, Any]:
        """As JSON knows no bytes, a piece's are a list of numbers."""
        both = zip(self.pieces, self.tokens, strict=True)
        pieces = [asdict(piece) | {"token": token, "bytes": list(piece.bytes)} for piece, token in both]
        plain = ("tokenizer", "kind", "description", "vocab_size", "added", "unknown", "tokens_per_word", "characters_per_token")
        steps = None if self.steps is None else [asdict(word) for word in self.steps]
        return {name: getattr(self, name) for name in plain} | {"pieces": pieces, "steps": steps}


@dataclass(frozen=True)
class Tokens:
    """One text, cut by each tokenizer. `words` is None for a script without blanks between words.

    cleanings: by GPT-1 tokenizer, what the two ways to clean the text make of it, where both were asked for.
    """

    text: str
    words: int | None
    tokenizers: tuple[Tokenized, ...]
    cleanings: Mapping[str, Cleaning]
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        cleanings = {name: {key: value for key, value in one.to_dict().items() if key != "text"} for name, one in self.cleanings.items()}
        cut = [one.to_dict() for one in self.tokenizers]
        return {"text": self.text, "words": self.words, "tokenizers": cut, "cleanings": cleanings, "notes": list(self.notes)}


def tokens(
    text: str,
    sources: Sequence[str],
    *,
    steps: str | None = None,
    splitter: str | None = None,
    offline: bool = False,
    progress: "Progress | None" = None,
) -> Tokens:
    """Cut `text` as each model in `sources` does: a known name, a folder of tokenizer files, or a .gguf file.

    steps: a word of the text whose merges are kept. splitter: how GPT-1's text is cleaned, "plain" (the default), "spacy" as the
    publisher did, or "both". progress: as of `weights.fetch.find`, which fetches no weights here.
    Raises TextError for an empty text or a word that is not in it, ModelError or TokenizerError for a source that cannot be used.
    """
    if not text:
        raise TextError("The text is empty", expected="at least one character")
    spelled = spellings(text, steps) if steps is not None else None
    opened, notes = open_tokenizers(sources, splitter=splitter, offline=offline, progress=progress)
    words = words_of(text)
    cut = tuple(tokenized(one, text, words, spelled) for one in opened)
    if words is None:
        notes += ("The text is in a script without blanks between words, so tokens per word are not given.",)
    both = {one.name.removesuffix(PLAIN): one.path for one in opened if one.name.endswith(PLAIN)} if splitter == "both" else {}
    cleanings = {name: cleaning(text, path) for name, path in both.items()}
    return Tokens(text, None if words is None else len(words), cut, cleanings, notes)


def open_tokenizers(
    sources: Sequence[str], *, splitter: str | None = None, offline: bool = False, progress: "Progress | None" = None
) -> tuple[list[Opened], tuple[str, ...]]:
    """The tokenizer of each source, of GPT-1's two ways if "both" are wanted; and what is to be said about the choice."""
    if splitter is not None and splitter not in SPLITTERS:
        raise no_such("splitter", splitter, SPLITTERS)
    opened: list[Opened] = []
    notes: list[str] = []
    for source in sources:
        name, path, said = locate(source, offline=offline, tokenizer_only=True, progress=progress)
        notes += said
        opened += _in_ways(name, path, splitter)
    if splitter and not any(one.tokenizer.kind == "gpt1" for one in opened):
        raise TokenizerError(f"splitter={splitter!r}, and none of the tokenizers is GPT-1's", expected="a GPT-1 tokenizer among them")
    if splitter is None and any(one.tokenizer.kind == "gpt1" for one in opened):
        notes.append("GPT-1's text is cleaned the plain way here; the splitter \"both\" counts what the publisher's ftfy and spaCy change.")
    return opened, tuple(notes)


def _in_ways(name: str, path: Path, splitter: str | None) -> Iterator[Opened]:
    folder = path if path.is_dir() else path.parent
    plain = tokenizer_at(path) or load_tokenizer(folder)  # which says what is missing
    if plain.kind != "gpt1" or splitter in (None, "plain"):
        yield Opened(name, plain, folder)
        return
    spacy = load_tokenizer(folder, splitter="spacy")
    if splitter == "both":
        yield Opened(name + PLAIN, plain, folder)
    yield Opened(name + (SPACY if splitter == "both" else ""), spacy, folder)


def tokenized(one: Opened, text: str, words: Sequence[str] | None, spelled: Sequence[tuple[str, int]] | None = None) -> Tokenized:
    """The text under one tokenizer. `spelled`: the spellings of a word to show merge by merge."""
    tokenizer = one.tokenizer
    pieces = tokenizer.pieces(text, wrap=True, allow_special=tokenizer.kind == "roberta")
    own = [piece for piece in pieces if piece.span[0] < piece.span[1]]
    unknown = {tokenizer.id(name) for name in UNKNOWN if name in tokenizer.specials}
    return Tokenized(
        tokenizer=one.name,
        kind=tokenizer.kind,
        description=tokenizer.description,
        vocab_size=tokenizer.vocab_size,
        pieces=tuple(pieces),
        tokens=tuple(tokenizer.token(piece.id) for piece in pieces),
        added=len(pieces) - len(own),
        unknown=sum(piece.id in unknown for piece in own),
        tokens_per_word=len(own) / len(words) if words else None,
        characters_per_token=len(text) / len(own) if own else None,
        steps=None if spelled is None else tuple(_steps(tokenizer, spelled)),
    )


def _steps(tokenizer: Tokenizer, spelled: Sequence[tuple[str, int]]) -> Iterator[WordSteps]:
    """Where a blank belongs to the word, both spellings; else they come to the same and one is shown."""
    shown: dict[tuple[Step, ...], WordSteps] = {}
    for word, occurs in spelled:
        steps = tuple(tokenizer.steps(word))
        same = shown.get(steps, WordSteps(word, 0, steps))
        shown[steps] = replace(same, occurs=same.occurs + occurs)
    yield from shown.values()


def spellings(text: str, word: str) -> list[tuple[str, int]]:
    """A word without and with the blank before it, and how often the text has it so. Raises TextError if it has it not at all."""
    bare = word.strip()
    places = [match.start() for match in re.finditer(rf"(?<!\w){re.escape(bare)}(?!\w)", text)] if bare else []
    if not places:
        there = list(dict.fromkeys(re.findall(r"\w+", text)))
        more = f" and {len(there) - LISTED} more" if len(there) > LISTED else ""
        raise TextError(f"The word {word!r} is not in the text", expected=f"one of its words: {', '.join(there[:LISTED])}{more}")
    behind = sum(text[start - 1 : start] == " " for start in places)
    return [(bare, len(places) - behind), (f" {bare}", behind)]


def labels(names: Sequence[str]) -> dict[str, str]:
    """What each tokenizer is called in a table or chart: of a path its last part, if no other has the same.

    >>> labels(["gpt2", "my/roberta", "old/bert", "new/bert"])
    {'gpt2': 'gpt2', 'my/roberta': 'roberta', 'old/bert': 'old/bert', 'new/bert': 'new/bert'}
    """
    last = {name: Path(name).name or name for name in names}
    seen = Counter(last.values())
    return {name: short if seen[short] == 1 else name for name, short in last.items()}


def words_of(text: str) -> list[str] | None:
    """What stands between blanks, without the signs at its ends; None where more than half the letters are of a script without blanks.

    >>> words_of("« L’homme », 2 fois – naïve.")
    ['L’homme', '2', 'fois', 'naïve']
    >>> words_of("第一条") is None
    True
    """
    letters = Counter(filter(str.isalpha, text))
    if sum(n for letter, n in letters.items() if unicodedata.name(letter, "").startswith(WITHOUT_BLANKS)) * 2 > letters.total():
        return None
    stripped = (_within(word) for word in text.split())
    return [word for word in stripped if word]


def _within(word: str) -> str:
    if word.isalnum():
        return word
    kept = [i for i, character in enumerate(word) if unicodedata.category(character)[0] not in "PSC"]
    return word[kept[0] : kept[-1] + 1] if kept else ""
