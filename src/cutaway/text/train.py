"""A vocabulary is learned by counting: the most frequent pair of neighbours becomes one token, and so on until there are enough.

Not here: training from a saved vocabulary on. The files written are the publishers' two, `vocab.json` and `merges.txt`.
"""

import json
import string
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

from cutaway.errors import TokenizerError
from cutaway.text.bpe import SYMBOL_TO_BYTE, Pair
from cutaway.text.gpt1 import END, UNKNOWN, plain_words
from cutaway.text.roberta import FORMAT
from cutaway.writing import write_text

Kind = Literal["gpt1", "gpt2", "roberta"]

ENOUGH = 100_000  # pieces: more than any training here can reach; the trainer makes room for as many at once

# Every lower-case ASCII letter, digit and sign, inside a word and at its end: GPT-1's vocabulary begins in the same way.
LETTERS = [character for character in string.printable if character.isprintable() and not character.isspace() and not character.isupper()]


def train_bpe(texts: Iterable[str], kind: Kind, vocab_size: int | None, folder: Path) -> None:
    """Learn a vocabulary of `vocab_size` pieces, besides control tokens, and write it where `load_tokenizer` finds it.

    `None` goes on until every word that occurs twice is one piece.

    On the same texts "gpt2" and "roberta" learn the same merges, as the published ones did. For "gpt1" words that are not ASCII are
    not learned from.
    """
    if kind == "gpt1":
        symbols = [*LETTERS, *(letter + END for letter in LETTERS)]
        merges = _learn(_ascii_words(texts), LETTERS, END, vocab_size)
    else:
        symbols = list(SYMBOL_TO_BYTE)
        merges = _learn(texts, symbols, "", vocab_size)
    pieces = dict.fromkeys(symbols)
    kept = []
    for left, right in merges:
        if len(pieces) == vocab_size:
            break
        pieces[left + right] = None
        kept.append((left, right))
    if vocab_size is not None and len(pieces) != vocab_size:
        raise TokenizerError(
            f"The texts give {len(pieces)} pieces, {len(symbols)} of them single symbols",
            expected=f"vocab_size={vocab_size}",
            then="train on more text, or ask for a size between the two",
        )
    before, after = {"gpt1": ([UNKNOWN], []), "gpt2": ([], ["<|endoftext|>"]), "roberta": (FORMAT.specials[:4], FORMAT.specials[4:])}[kind]
    tokens = [*before, *pieces, *after]
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / "vocab.json", json.dumps({token: id_ for id_, token in enumerate(tokens)}, ensure_ascii=False))
    write_text(folder / "merges.txt", "".join(["#version: 0.2\n", *(f"{left} {right}\n" for left, right in kept)]))


def _learn(texts: Iterable[str], alphabet: list[str], end: str, size: int | None) -> list[Pair]:
    from tokenizers import Tokenizer
    from tokenizers.models import BPE
    from tokenizers.pre_tokenizers import ByteLevel, WhitespaceSplit
    from tokenizers.trainers import BpeTrainer

    engine = Tokenizer(BPE())
    engine.pre_tokenizer = WhitespaceSplit() if end else ByteLevel(add_prefix_space=False)
    trainer = BpeTrainer(vocab_size=size or ENOUGH, min_frequency=2, initial_alphabet=alphabet, end_of_word_suffix=end, show_progress=False)
    engine.train_from_iterator(texts, trainer)
    return [(left, right) for left, right in json.loads(engine.to_str())["model"]["merges"]]


def _ascii_words(texts: Iterable[str]) -> Iterator[str]:
    return (" ".join(word for word in plain_words(text) if word.isascii()) for text in texts)
