"""A model's vocabulary is learned from texts and written as the publishers' two files, `vocab.json` and `merges.txt`.

Not here: the counting itself (see `learn`), and training from a saved vocabulary on.
"""

import json
import string
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Literal

from cutaway.errors import TokenizerError
from cutaway.text.bpe import SYMBOL_TO_BYTE
from cutaway.text.gpt1 import END, UNKNOWN, plain_words
from cutaway.text.gpt2 import byte_letters, split
from cutaway.text.learn import Merge, merges_of
from cutaway.text.roberta import FORMAT
from cutaway.text.vocabulary import whole
from cutaway.writing import write_text

Kind = Literal["gpt1", "gpt2", "roberta"]

# Every lower-case ASCII letter, digit and sign, inside a word and at its end: GPT-1's vocabulary begins in the same way.
LETTERS = [character for character in string.printable if character.isprintable() and not character.isspace() and not character.isupper()]

# What each vocabulary holds besides merges: control tokens in front, single symbols, control tokens behind.
ALPHABETS = {
    "gpt1": ([UNKNOWN], [*LETTERS, *(letter + END for letter in LETTERS)], []),
    "gpt2": ([], [*SYMBOL_TO_BYTE], ["<|endoftext|>"]),
    "roberta": (FORMAT.specials[:4], [*SYMBOL_TO_BYTE], FORMAT.specials[4:]),
}


def train_bpe(texts: Iterable[str], kind: Kind, vocab_size: int | None, folder: Path) -> None:
    """Learn a vocabulary and write it where `load_tokenizer` finds it; see `learn` and `write_vocabulary`."""
    write_vocabulary(list(learn(texts, kind, vocab_size)), kind, folder)


def learn(texts: Iterable[str], kind: Kind, vocab_size: int | None = None, *, least: int = 2) -> Iterator[Merge]:
    """The merges of a vocabulary of `vocab_size` pieces besides control tokens, one by one as they are found.

    Without a size it goes on until no pair occurs `least` times: every word that does is then one piece. The first merge comes
    when all texts are read. On the same texts "gpt2" and "roberta" learn the same merges, as the published ones did. For "gpt1"
    words that are not ASCII are not learned from.

    Raises TokenizerError at once for a size below the number of single symbols, at the end for one that the texts cannot give.
    """
    if kind not in ALPHABETS:
        raise TokenizerError(f"There is no vocabulary of the kind {kind!r}", expected=" or ".join(ALPHABETS))
    symbols = len(ALPHABETS[kind][1])
    if vocab_size is not None and vocab_size < symbols:
        raise TokenizerError(f"A {kind} vocabulary with vocab_size={vocab_size}", expected=f"at least its {symbols} single symbols")
    return _learn(texts, kind, None if vocab_size is None else vocab_size - symbols, least)


def _learn(texts: Iterable[str], kind: Kind, wanted: int | None, least: int) -> Iterator[Merge]:
    if kind == "gpt1":
        words = Counter(word for text in texts for word in plain_words(whole(text)) if word.isascii())
        merges = merges_of(words, alphabet=LETTERS, end=END, least=least)
    else:
        words = Counter(word for text in texts for word in split(whole(text)))
        merges = merges_of({byte_letters(word): count for word, count in words.items()}, alphabet=SYMBOL_TO_BYTE, least=least)
    found = 0
    for merge in islice(merges, wanted):
        found += 1
        yield merge
    if wanted is not None and found < wanted:
        symbols = len(ALPHABETS[kind][1])
        raise TokenizerError(
            f"The texts give {symbols + found} pieces, {symbols} of them single symbols",
            expected=f"vocab_size={symbols + wanted}",
            then="train on more text, or ask for a size between the two",
        )


def write_vocabulary(merges: Iterable[Merge], kind: Kind, folder: Path) -> None:
    """Write merges as a vocabulary of this kind: `vocab.json` with control tokens, single symbols and what was merged; `merges.txt`."""
    kept = list(merges)
    before, symbols, after = ALPHABETS[kind]
    tokens = [*before, *symbols, *(merge.token for merge in kept), *after]
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / "vocab.json", json.dumps({token: id_ for id_, token in enumerate(tokens)}, ensure_ascii=False))
    write_text(folder / "merges.txt", "".join(["#version: 0.2\n", *(f"{' '.join(merge.pair)}\n" for merge in kept)]))
