"""Which of a repository's files a model needs: its configuration, its tokenizer, and its weights in one format.

Knows names, and of an index of shards the names in it. Fetches nothing.
"""

import re
from collections.abc import Collection, Iterable
from pathlib import Path

from cutaway.errors import WeightsError
from cutaway.weights.files import weight_files

CONFIG = "config.json"
# Each of these sets is a whole tokenizer.
TOKENIZERS = (
    ("vocab.json", "merges.txt"),
    ("encoder_bpe_40000.json", "vocab_40000.bpe"),
    ("encoder.json", "vocab.bpe"),
    ("tokenizer.json",),
)
BESIDE = ("dict.txt", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json")
TOKENIZER_FILES = (*(name for names in TOKENIZERS for name in names), *BESIDE)
# The best format first, as in `files`: one file, or an index and the shards it names.
WEIGHTS = (
    ("model.safetensors", "model.safetensors.index.json", r"model-\d+-of-\d+\.safetensors"),
    ("pytorch_model.bin", "pytorch_model.bin.index.json", r"pytorch_model-\d+-of-\d+\.bin"),
)


def wanted(names: Collection[str], *, tokenizer_only: bool = False) -> tuple[str, ...]:
    """In the order of fetching: weights come last, so that where they are whole the rest is there."""
    small = tuple(name for name in (CONFIG, *TOKENIZER_FILES) if name in names)
    return small if tokenizer_only else small + weights_in(names)


def weights_in(names: Collection[str]) -> tuple[str, ...]:
    """One format's files, () where there is none: safetensors before a pickle, one file before shards."""
    for whole, index, shard in WEIGHTS:
        if whole in names:
            return (whole,)
        if index in names:
            return (index, *sorted(name for name in names if re.fullmatch(shard, name)))
    return ()


def tensor_files(names: Iterable[str]) -> tuple[str, ...]:
    """Those among them that hold tensors: neither an index nor a tokenizer."""
    return tuple(name for name in names if name.endswith((".safetensors", ".bin")))


def has_tokenizer(folder: Path) -> bool:
    return any(_names(folder).issuperset(files) for files in TOKENIZERS)


def has_weights(folder: Path) -> bool:
    """Whether whole weights of such a format are there: one file, or every shard that the index names."""
    try:
        return bool(weights_in(_names(folder))) and all(path.is_file() for path in weight_files(folder))
    except WeightsError:  # an index that is none
        return False


def _names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if path.is_file()}
