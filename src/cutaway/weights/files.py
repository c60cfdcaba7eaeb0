"""Which files hold a model's weights: one safetensors file, or shards that an index names. A pickle is refused.

No torch, and no tensor: the index is all that is opened.
"""

import json
from pathlib import Path, PurePosixPath, PureWindowsPath

from cutaway.errors import WeightsError
from cutaway.weights.corrupt import corrupt

FILE, INDEX = "model.safetensors", "model.safetensors.index.json"
PICKLES = (".bin", ".ckpt", ".pt", ".pth", ".pkl")


def weight_files(path: Path) -> tuple[Path, ...]:
    """The files that hold a model's tensors: one, or the shards that an index names. No more than the index is opened."""
    first = entrance(path)
    if first.suffix == ".json":
        return tuple(first.parent / shard for shard in sorted(set(weight_map(first).values())))
    return (first,)


def entrance(path: Path) -> Path:
    """The one file to begin with: the weights themselves, or the index of their shards."""
    if path.suffix in PICKLES:
        raise _pickled(path)
    if not path.is_dir():
        return path
    for name in (FILE, INDEX):  # in this order, as transformers does
        if (path / name).is_file():
            return path / name
    if pickles := sorted(file.name for file in path.iterdir() if file.suffix in PICKLES):
        raise _pickled(path / pickles[0])
    raise WeightsError(f"{path} holds no weights", expected=f"{FILE} or {INDEX}")


def weight_map(index: Path) -> dict[str, str]:
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
        if {PurePosixPath(shard).name, PureWindowsPath(shard).name} != {shard} or not shard.endswith(".safetensors"):
            raise corrupt(index, f"it names the shard {shard!r}, which is not the plain name of a safetensors file")
    return dict(names)


def _pickled(path: Path) -> WeightsError:
    return WeightsError(
        f"{path} is a pickle, and opening a pickle can run any command that its author chose",
        expected="safetensors",
        then="where you trust the file, convert it once with transformers: AutoModel….from_pretrained(…).save_pretrained(…)",
    )
