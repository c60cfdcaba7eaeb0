"""Which files hold a model's weights, and in which format: told by names alone, in a fixed order of preference.

No torch, and no tensor: an index of shards is all that is opened.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath, PureWindowsPath

from cutaway.errors import WeightsError
from cutaway.weights.corrupt import corrupt
from cutaway.weights.tf_bundle import find_index

FILE, INDEX = "model.safetensors", "model.safetensors.index.json"

# What a folder may hold, the best first: what runs no code before pickles, what the Hub's tools write before publishers' own formats.
PREFERRED = (
    ("safetensors", FILE),
    ("safetensors", INDEX),
    ("torch", "pytorch_model.bin"),
    ("torch", "pytorch_model.bin.index.json"),
    ("torch", "model.pt"),
    ("tensorflow", "*.ckpt.index"),
    ("numpy", "params_0.npy"),
    ("gguf", "*.gguf"),
)
SUFFIXES = {
    ".safetensors": "safetensors",
    ".bin": "torch",
    ".pt": "torch",
    ".pth": "torch",
    ".ckpt": "torch",
    ".npy": "numpy",
    ".gguf": "gguf",
    ".index": "tensorflow",
}
SHARDS = {"safetensors": ".safetensors", "torch": ".bin"}


@dataclass(frozen=True)
class Found:
    """The weights at a place: `entrance` is the file to begin with, `passed_over` what lies there too and was not chosen."""

    format: str
    entrance: Path
    passed_over: tuple[str, ...] = ()

    @property
    def index(self) -> Path | None:
        """The index of the shards, if there are shards."""
        return self.entrance if self.entrance.suffix == ".json" else None

    @property
    def files(self) -> tuple[Path, ...]:
        """The files of the tensors: one, or the shards that the index names. Raises WeightsError for an index that cannot be used."""
        if self.index is None:
            return (self.entrance,)
        return tuple(self.index.parent / shard for shard in sorted(set(weight_map(self.index).values())))


def find_weights(path: Path) -> Found:
    """The weights in a folder, or what one file is. Raises WeightsError where there are none, or several of equal right."""
    if not path.is_dir():
        return _one_file(path)
    found = list(_candidates(path))
    if not found:
        others = sorted(file.name for file in path.iterdir() if file.suffix in SUFFIXES)
        raise WeightsError(
            f"{path} holds no weights under a name that is looked for",
            expected="one of " + ", ".join(name for _, name in PREFERRED),
            then=f"name the file itself: {path / others[0]}" if others else "",
        )
    format_, first = found[0]
    if format_ == "tensorflow":  # which notes in a file of its own which of several is the latest
        first = find_index(path)
    equals = [file.name for kind, file in found if kind == format_]
    if format_ == "gguf" and len(equals) > 1:  # whose names are free, so that none is the one that is meant
        raise WeightsError(f"{path} holds {len(equals)} models: {', '.join(equals)}", expected="one", then="name the file itself")
    return Found(format_, first, tuple(dict.fromkeys(file.name for _, file in found[1:])))


def weight_files(path: Path) -> tuple[Path, ...]:
    """The files that hold a model's tensors: one, or the shards that an index names. No more than the index is opened."""
    return find_weights(path).files


def weight_map(index: Path) -> dict[str, str]:
    """Which shard holds each tensor."""
    suffix = SHARDS["safetensors" if "safetensors" in index.name else "torch"]
    try:
        names = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
        if not names or not all(isinstance(shard, str) for shard in names.values()):
            raise TypeError
    except OSError as error:
        raise WeightsError(f"{index} cannot be read: {error.strerror}") from error
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise corrupt(index, "it is no index: it has no weight_map from tensor names to file names") from error
    for shard in set(names.values()):
        # A name with a folder in it could reach any file of the machine.
        if {PurePosixPath(shard).name, PureWindowsPath(shard).name} != {shard} or not shard.endswith(suffix):
            raise corrupt(index, f"it names the shard {shard!r}, which is not the plain name of a {suffix} file")
    return dict(names)


def _candidates(folder: Path) -> Iterator[tuple[str, Path]]:
    try:
        names = sorted(path.name for path in folder.iterdir())
    except OSError as error:
        raise WeightsError(f"{folder} cannot be read: {error.strerror}", expected="a folder that may be looked into") from None
    for format_, pattern in PREFERRED:
        for name in names:
            if fnmatchcase(name, pattern) and (folder / name).is_file():
                yield format_, folder / name


def _one_file(path: Path) -> Found:
    if path.name.endswith(".index.json"):
        return Found("safetensors" if "safetensors" in path.name else "torch", path)
    if path.with_name(path.name + ".index").is_file():  # TensorFlow names a checkpoint by what its files have in common
        return Found("tensorflow", path.with_name(path.name + ".index"))
    if path.suffix not in SUFFIXES:
        raise WeightsError(f"{path} is in no format that is read here", expected="one of " + ", ".join(SUFFIXES))
    return Found(SUFFIXES[path.suffix], path)
