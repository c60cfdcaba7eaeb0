"""GPT-1 reads lower-case words: text is cut at blanks and signs first, and each word's last letter carries `</w>`.

Not here: a way back to capitals, accents and spacing, which the ids do not hold.

The merging is our own: with its cache it keeps pace with the compiled library, whose import would cost more than a page of text.
"""

import re
import string
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from functools import cached_property
from itertools import accumulate
from typing import Literal, Protocol

from cutaway.errors import TokenizerError
from cutaway.text.bpe import BPE, Step
from cutaway.text.vocabulary import BPETokenizer, Format, Piece, Vocabulary, whole

Splitter = Literal["plain", "spacy"]
Span = tuple[int, int]
Placed = tuple[str, list[Span]]  # a word, and for each of its characters the place in the text that it came from

END = "</w>"
UNKNOWN = "<unk>"
LETTERS = r"(?s:.)"

_NOTES = {
    "plain": "words split at blanks and signs, accents dropped (BERT's rule, what transformers does without ftfy and spaCy)",
    "spacy": "text repaired by ftfy and words split by spaCy's English rules, as the publisher did",
}


class _Word(Protocol):
    @property
    def text(self) -> str: ...


class GPT1Tokenizer(BPETokenizer):
    """Lower-case BPE within words. `splitter` says who cuts the words; it changes the ids, so it never changes by itself."""

    kind = "gpt1"

    def __init__(self, vocabulary: Vocabulary, splitter: Splitter = "plain") -> None:
        super().__init__(vocabulary, Format(specials=(UNKNOWN,)))
        self.splitter = splitter
        self.description = f"lower-case BPE, {len(vocabulary.merges):,} merges, a word's end is marked; {_NOTES[splitter]}"
        self.bpe = BPE(vocabulary.merges, END)
        if splitter == "spacy":
            self._spacy  # noqa: B018  # a missing package is reported now, not at the first text

    def count_words(self, text: str) -> int:
        """How many words the splitter makes of a text; signs and, for "spacy", line breaks count too."""
        return len(self._words(whole(text)))

    def _encode(self, text: str) -> list[int]:
        ids, unknown = self._ids, self.specials[UNKNOWN]
        return [ids.get(piece, unknown) for word in self._words(text) for piece in self.bpe(word)]

    def _decode(self, ids: Sequence[int]) -> str:
        tokens = (self._tokens[id_] for id_ in ids)
        return "".join(token.removesuffix(END) + " " * token.endswith(END) for token in tokens).removesuffix(" ")

    def _pieces(self, text: str) -> list[Piece]:
        pieces = []
        for word, spans in plain_places(text) if self.splitter == "plain" else self._spacy_places(text):
            start = 0
            for token in self.bpe(word):
                end = start + len(token.removesuffix(END))
                id_ = self._ids.get(token, self.specials[UNKNOWN])
                shown = self._decode([id_])
                pieces.append(Piece(id_, shown, shown.encode(), (spans[start][0], spans[end - 1][1])))
                start = end
        return pieces

    def _steps(self, text: str) -> Iterator[Step]:
        for word in self._words(text):
            yield from self.bpe.steps(word)

    def _words(self, text: str) -> list[str]:
        return plain_words(text) if self.splitter == "plain" else self._spacy_words(text)

    @cached_property
    def _spacy(self) -> Callable[[str], Iterable[_Word]]:
        try:
            import ftfy  # noqa: F401
            from spacy.lang.en import English
        except ImportError as error:
            raise TokenizerError(
                f"GPT-1's own word splitter needs ftfy and spaCy, and {error.name} is not installed",
                then='pip install "cutaway[gpt1]", or use splitter="plain", whose ids differ here and there',
            ) from error
        return English().tokenizer

    def _spacy_words(self, text: str) -> list[str]:
        import ftfy

        cleaned = _standardized(ftfy.fix_text(text).translate(_SUBSTITUTES))
        # spaCy makes one token of a line break and the blank behind it; the vocabulary has a token for the break alone.
        return ["\n" if word.text == "\n " else word.text.lower() for word in self._spacy(cleaned)]

    def _spacy_places(self, text: str) -> Iterator[Placed]:
        """Cleaning moves blanks and replaces signs but keeps the order of all else, so that counting leads back to the text."""
        solid = [span for character, span in _repaired(text) if not character.isspace()]
        used, here = 0, 0
        for word in self._spacy_words(text):
            if word == "\n":
                there = solid[used][0] if used < len(solid) else len(text)
                yield word, [(here, there)]
                continue
            spans: list[Span] = []
            while len(spans) < len(word):
                spans += [solid[used]]
                used += 1
            here = spans[-1][1]
            yield word, spans


def plain_words(text: str) -> list[str]:
    """BERT's basic split, in one pass.

    >>> plain_words("Don't PANIC, Zoë…")
    ['don', "'", 't', 'panic', ',', 'zoe', '…']
    """
    return text.translate(_PLAIN).split()


def plain_places(text: str) -> Iterator[Placed]:
    """The same words with, for each character, the place in the text that it came from."""
    letters = [(letter, (i, i + 1)) for i, character in enumerate(text) for letter in _PLAIN[ord(character)]]
    for match in re.finditer("[^ ]+", "".join(letter for letter, _ in letters)):
        yield match.group(), [span for _, span in letters[match.start() : match.end()]]


class _Plain(dict[int, str]):
    """What becomes of one character: blanks around signs and Chinese characters, nothing of control codes and accents."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        category = unicodedata.category(character)
        if character in "\t\n\r" or category[0] == "Z":
            plain = " "
        elif category[0] == "C" or character == "\ufffd":
            plain = ""
        else:
            bare = [letter for letter in unicodedata.normalize("NFD", character) if unicodedata.category(letter) != "Mn"]
            plain = "".join(f" {letter} " if _stands_alone(letter) else letter.lower() for letter in bare)
        self[code] = plain
        return plain


_PLAIN = _Plain()

_CHINESE = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B920, 0x2CEAF),  # sic: 2B820 is meant, but the library that everybody compares with says 2B920
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)


def _stands_alone(letter: str) -> bool:
    return (
        letter in string.punctuation
        or unicodedata.category(letter)[0] == "P"
        or any(first <= ord(letter) <= last for first, last in _CHINESE)
    )


# openai/finetune-transformer-lm text_utils.py, text_standardize: what spaCy's splitter tripped over in the books.
_SUBSTITUTES = str.maketrans({"—": "-", "–": "-", "―": "-", "…": "...", "´": "'"})
# A backslash is not among them: the publisher's '\\+', not being a raw string, meant one more plus sign.
_SIGNS = re.compile(r"""(-+|~+|!+|"+|;+|\?+|\++|,+|\)+|\(+|/+|\*+|\[+|\]+|}+|{+|\|+|_+)""")


def _standardized(text: str) -> str:
    text = _SIGNS.sub(r" \1 ", text)
    text = re.sub(r"\s*\n\s*", " \n ", text)
    return re.sub(r"[^\S\n]+", " ", text).strip()


def _repaired(text: str) -> Iterator[tuple[str, Span]]:
    """The characters that ftfy, the substitutions and lower-casing leave, each with the place it came from."""
    import ftfy

    start = 0
    for line in re.findall(r"[^\n]*\n|[^\n]+", text):  # ftfy repairs line by line too
        fixed = ftfy.fix_text(line)
        for character, (first, last) in zip(fixed, _aligned(line, fixed), strict=True):
            for letter in character.translate(_SUBSTITUTES).lower():
                yield letter, (start + first, start + last)
        start += len(line)


def _aligned(old: str, new: str, units: str = r"\s+|\S+") -> Iterator[Span]:
    """For each character of the new line its place in the old one: word by word, then letter by letter in what changed.

    A stretch that has nothing in common with its repair (mojibake) is the place of each character that it became.
    """
    if len(old) == len(new):
        yield from ((i, i + 1) for i in range(len(old)))
        return
    olds, news = (re.findall(units, line) for line in (old, new))
    at, to = ([0, *accumulate(map(len, words))] for words in (olds, news))
    for _, i1, i2, j1, j2 in SequenceMatcher(None, olds, news).get_opcodes():
        first, last, begin, end = at[i1], at[i2], to[j1], to[j2]
        if last - first != end - begin and units != LETTERS:
            yield from ((first + a, first + b) for a, b in _aligned(old[first:last], new[begin:end], LETTERS))
        else:
            same = last - first == end - begin
            yield from ((first + k, first + k + 1) if same else (first, last) for k in range(end - begin))
