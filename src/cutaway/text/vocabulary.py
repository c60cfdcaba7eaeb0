"""A tokenizer's files are a table of numbers and a list of merges; read them to the letter, or refuse them.

Not here: how text is cut into words, which is what tells the models apart.
"""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cutaway.errors import TokenizerError
from cutaway.text.bpe import Pair, Step


@dataclass(frozen=True, slots=True)
class Piece:
    """One token where it stands in a text.

    `span` counts characters of the text as it was given. A piece that is only a part of a character reads "\\ufffd" and
    spans the whole character; a piece that the text does not hold (`<s>`) has an empty span at the border.
    """

    id: int
    text: str
    bytes: bytes
    span: tuple[int, int]


@dataclass(frozen=True)
class Vocabulary:
    """Ids by token, and merges by rank."""

    ids: Mapping[str, int]
    merges: Sequence[Pair]

    def __post_init__(self) -> None:
        if sorted(self.ids.values()) != list(range(len(self.ids))):
            raise TokenizerError(
                f"The vocabulary's {len(self.ids)} tokens do not have the ids 0 to {len(self.ids) - 1}",
                expected="each id once, without gaps",
            )
        known = {token for token in self.ids if len(token.removesuffix("</w>")) == 1}
        for rank, (left, right) in enumerate(self.merges):
            joined = left + right
            if left not in known or right not in known or joined not in self.ids:
                raise TokenizerError(
                    f"Merge {rank + 1}, '{left} {right}', does not fit the vocabulary",
                    expected="both parts made by earlier merges, and the result among the tokens",
                    then="check that both files belong to the same model",
                )
            known.add(joined)

    @classmethod
    def read(cls, tokens: Path, merges: Path) -> "Vocabulary":
        """From a JSON table (`vocab.json`, `encoder.json`) and a merge list (`merges.txt`, `vocab.bpe`)."""
        return cls(read_table(tokens), read_merges(merges))


def read_text(path: Path) -> str:
    """A vocabulary file is UTF-8 whatever the machine's locale says; a byte order mark in front is not part of it."""
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise TokenizerError(f"{path} is not UTF-8 (byte {error.start})", expected="the publisher's file, unchanged") from error
    except OSError as error:
        raise TokenizerError(f"{path} cannot be read: {error.strerror}") from error


def read_json(path: Path) -> dict[str, object]:
    try:
        table = json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise TokenizerError(f"{path} is not JSON: {error}", expected="a whole file; this one may have been cut short") from error
    if not isinstance(table, dict):
        raise TokenizerError(f"{path} holds a {type(table).__name__}", expected="a JSON object")
    return table


def read_table(path: Path) -> dict[str, int]:
    table = read_json(path)
    if wrong := next((token for token, id_ in table.items() if type(id_) is not int), None):
        raise TokenizerError(f"{path} gives {wrong!r} the id {table[wrong]!r}", expected="a whole number")
    return table  # type: ignore[return-value]  # just checked


def read_merges(path: Path) -> list[Pair]:
    """One pair a line. Only the first line can be a header: later ones that begin with # are merges."""
    # Not splitlines(): it would also cut at characters that a token may hold.
    lines = [line.removesuffix("\r") for line in read_text(path).removesuffix("\n").split("\n")]
    header = lines[0].startswith("#version")
    merges: dict[Pair, int] = {}
    for number, line in enumerate(lines[header:], start=1 + header):
        left, _, right = line.partition(" ")
        if not left or not right or " " in right:
            raise TokenizerError(f"Line {number} of {path} is {line!r}", expected="two tokens with one blank between them")
        if merges.setdefault((left, right), number) != number:
            raise TokenizerError(f"{path} has the merge '{line}' on lines {merges[left, right]} and {number}", expected="each merge once")
    return list(merges)


def is_control(token: str) -> bool:
    """Is this a name in angle brackets, such as `<s>` or `<|endoftext|>`?"""
    return len(token) > 2 and token.startswith("<") and token.endswith(">") and token != "</w>"


def whole(text: str) -> str:
    """Join the halves of surrogate pairs; a half without its other half becomes U+FFFD, for UTF-8 cannot carry it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return _SURROGATES.sub(lambda match: _joined(match.group()), text)
    return text


_SURROGATES = re.compile("[\\ud800-\\udbff][\\udc00-\\udfff]|[\\ud800-\\udfff]")


def _joined(halves: str) -> str:
    return halves.encode("utf-16", "surrogatepass").decode("utf-16") if len(halves) == 2 else "\ufffd"


def placed(pieces: list[Piece], text: str) -> list[Piece]:
    """Spans in `whole(text)` as spans in the text as it was given, where a joined pair is two characters."""
    if not _SURROGATES.search(text):
        return pieces
    origin = [match.start() for match in re.finditer(f"(?s:{_SURROGATES.pattern}|.)", text)] + [len(text)]
    return [replace(piece, span=(origin[piece.span[0]], origin[piece.span[1]])) for piece in pieces]


@dataclass(frozen=True)
class Format:
    """A model's control tokens, and where its input format puts them around a text or a pair of texts."""

    specials: Sequence[str]
    before: Sequence[str] = ()
    between: Sequence[str] | None = None
    after: Sequence[str] = ()
    swallowing: Sequence[str] = ()  # these take the blanks on their left with them


class BPETokenizer(ABC):
    """What the three models' tokenizers share: tokens by number, control tokens, pieces in place."""

    kind: str
    description: str

    def __init__(self, vocabulary: Vocabulary, format: Format) -> None:  # noqa: A002
        if missing := [token for token in format.specials if token not in vocabulary.ids]:
            raise TokenizerError(f"The vocabulary has no {' '.join(missing)}", expected=f"{' '.join(format.specials)}")
        self.format = format
        self._ids = dict(vocabulary.ids)
        self._tokens = sorted(self._ids, key=self._ids.__getitem__)
        self.vocab_size = len(self._tokens)
        self.specials: Mapping[str, int] = {token: self._ids[token] for token in format.specials}
        longest_first = sorted(self.specials, key=len, reverse=True)
        self._special = re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")

    def __repr__(self) -> str:
        return f"<{self.kind} tokenizer, {self.vocab_size:,} tokens>"

    def encode(self, text: str, *, wrap: bool = False, allow_special: bool = False) -> list[int]:
        """The ids of a text. A control token's name in it is ordinary text unless `allow_special`."""
        text = whole(text)
        if not allow_special:
            ids = self._encode(text)
        else:
            parts = self._parts(text)
            ids = [id_ for start, end, special in parts for id_ in (self._encode(text[start:end]) if special is None else [special])]
        return [*self._named(self.format.before), *ids, *self._named(self.format.after)] if wrap else ids

    def encode_pair(self, a: str, b: str) -> list[int]:
        """The ids of two texts in the model's input format for pairs, where it has one."""
        if self.format.between is None:
            raise TokenizerError(f"{self.kind} has no format for a pair of texts", then="use RoBERTa, or encode one text that holds both")
        before, between, after = map(self._named, (self.format.before, self.format.between, self.format.after))
        return [*before, *self.encode(a), *between, *self.encode(b), *after]

    def encode_words(self, words: Sequence[str]) -> list[int]:
        """The ids of words that are already split: each after the first gets the space that stood before it."""
        return [id_ for i, word in enumerate(words) for id_ in self._encode(whole(f" {word}" if i else word))]

    def decode(self, ids: Sequence[int], *, keep_special: bool = True) -> str:
        dropped = frozenset() if keep_special else frozenset(self.specials.values())
        return self._decode([self._checked(id_) for id_ in ids if id_ not in dropped])

    def token(self, id: int) -> str:  # noqa: A002
        return self._tokens[self._checked(id)]

    def id(self, token: str) -> int | None:
        return self._ids.get(token)

    def pieces(self, text: str, *, wrap: bool = False, allow_special: bool = False) -> list[Piece]:
        """The tokens of a text, each with the characters it came from; their ids are those of `encode`."""
        joined, found = whole(text), []
        for start, end, special in self._parts(joined) if allow_special else [(0, len(joined), None)]:
            if special is None:
                found += [replace(piece, span=(start + piece.span[0], start + piece.span[1])) for piece in self._pieces(joined[start:end])]
            else:
                found.append(self._control(special, start, end))
        if wrap:
            before, after = self._named(self.format.before), self._named(self.format.after)
            found = [self._control(id_, 0, 0) for id_ in before] + found
            found += [self._control(id_, len(joined), len(joined)) for id_ in after]
        return placed(found, text)

    def steps(self, text: str) -> Iterator[Step]:
        """Every merge of every word, in order; each word begins with a step that has no pair."""
        return self._steps(whole(text))

    def _parts(self, text: str) -> Iterator[tuple[int, int, int | None]]:
        """Cut out the control tokens: start, end and id, which is None for ordinary text."""
        done = 0
        for match in self._special.finditer(text):
            name, start = match.group(), match.start()
            if name in self.format.swallowing:
                start = done + len(text[done:start].rstrip())
            yield done, start, None
            yield start, match.end(), self.specials[name]
            done = match.end()
        yield done, len(text), None

    def _named(self, tokens: Sequence[str]) -> list[int]:
        return [self.specials[token] for token in tokens]

    def _control(self, id_: int, start: int, end: int) -> Piece:
        name = self.token(id_)
        return Piece(id_, name, name.encode(), (start, end))

    def _checked(self, id_: int) -> int:
        if not 0 <= id_ < self.vocab_size:
            raise TokenizerError(f"{self.kind} has no token {id_}", expected=f"an id from 0 to {self.vocab_size - 1}")
        return id_

    @abstractmethod
    def _encode(self, text: str) -> list[int]: ...

    @abstractmethod
    def _decode(self, ids: Sequence[int]) -> str: ...

    @abstractmethod
    def _pieces(self, text: str) -> list[Piece]: ...

    @abstractmethod
    def _steps(self, text: str) -> Iterator[Step]: ...
