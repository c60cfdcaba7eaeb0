"""How fast is text cut into ids, beside bare tiktoken? 10 MB of English, in turns, medians; ratios to tiktoken in the same round.

    CUTAWAY_DATA=FOLDER .venv/bin/python benchmarks/tokenizers.py [rounds]

FOLDER holds text/*.txt, and tokenizers/gpt2 and tokenizers/roberta with the publishers' vocabularies. Every contender returns a
list of int, on one thread; tiktoken and the tokenizers library have GPT-2's vocabulary. Learning is measured beside the library's,
which may use every processor.
"""

import os
import statistics
import sys
import time
from collections.abc import Callable
from itertools import repeat
from pathlib import Path

import tiktoken

from cutaway.text import load_tokenizer
from cutaway.text.bpe import SYMBOL_TO_BYTE, token_bytes
from cutaway.text.gpt2 import SPLIT
from cutaway.text.train import learn
from cutaway.text.vocabulary import read_merges, read_table

SIZE = 10_000_000
PIECES = 10_000


def english(texts: list[str]) -> str:
    """The texts again and again, up to SIZE bytes."""
    once = "".join(texts).encode()
    return b"".join(repeat(once, 1 + SIZE // len(once)))[:SIZE].decode(errors="ignore")


def encoders(folder: Path) -> dict[str, Callable[[str], list[int]]]:
    from tokenizers import Tokenizer, models, pre_tokenizers

    ids, merges = read_table(folder / "gpt2/encoder.json"), read_merges(folder / "gpt2/vocab.bpe")
    ranks = {token_bytes(token): id_ for token, id_ in ids.items() if token != "<|endoftext|>"}
    bare = tiktoken.Encoding("gpt2", pat_str=SPLIT, mergeable_ranks=ranks, special_tokens={})
    library = Tokenizer(models.BPE(ids, merges))
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return {
        "tiktoken": bare.encode_ordinary,
        "cutaway gpt2": load_tokenizer(folder / "gpt2").encode,
        "cutaway roberta": load_tokenizer(folder / "roberta").encode,
        "tokenizers": lambda text: library.encode(text).ids,
    }


def train_library(texts: list[str]) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    engine = Tokenizer(models.BPE())
    engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    settings = {"vocab_size": PIECES, "min_frequency": 2, "initial_alphabet": list(SYMBOL_TO_BYTE), "show_progress": False}
    trainer = trainers.BpeTrainer(**settings)
    engine.train_from_iterator(texts, trainer)


def seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()  # what it returns is dropped here: a list has to be freed, too
    return time.perf_counter() - started


def compare(contenders: dict[str, Callable[[], object]], megabytes: float, rounds: int) -> None:
    """The first contender is the measure of the others; each round begins with the next one."""
    names = list(contenders)
    times: dict[str, list[float]] = {name: [] for name in names}
    for first in range(rounds):
        for name in names[first % len(names) :] + names[: first % len(names)]:
            times[name].append(seconds(contenders[name]))
    for name, taken in times.items():
        ratios = [other / own for other, own in zip(times[names[0]], taken, strict=True)]
        median, ratio = statistics.median(taken), statistics.median(ratios)
        rates = f"{median:7.2f} s {megabytes / median:7.2f} MB/s {ratio:7.2f} × {names[0]}"
        print(f"{name:16} {rates}   ({min(ratios):.2f} to {max(ratios):.2f}, n = {rounds})")


def main(rounds: int) -> None:
    sys.path.remove(str(Path(__file__).parent))  # this file bears the name of the library that it measures
    data = Path(os.environ["CUTAWAY_DATA"])
    texts = [path.read_text("utf-8") for path in sorted((data / "text").glob("*.txt"))]
    text = english(texts)
    by_name = encoders(data / "tokenizers")
    for encode in by_name.values():
        encode(text[:1000])  # what is built at the first text is not measured
    print(f"encode {SIZE / 1e6:.0f} MB")
    compare({name: (lambda encode=encode: encode(text)) for name, encode in by_name.items()}, SIZE / 1e6, rounds)
    size = sum(len(one.encode()) for one in texts) / 1e6
    print(f"learn {PIECES:,} pieces from {size:.1f} MB")
    ours = {"tokenizers": lambda: train_library(texts), "cutaway": lambda: list(learn(texts, "gpt2", PIECES))}
    compare(ours, size, max(3, rounds // 3))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 9)
