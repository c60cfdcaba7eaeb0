"""One door for all formats: what lies at a place is opened by the reader for it, and by no other.

A reader is imported when it is needed; what the tensors' names mean is not known here.
"""

from pathlib import Path

from cutaway.errors import WeightsError
from cutaway.weights.files import find_weights, weight_map
from cutaway.weights.source import Source


def open_weights(path: Path) -> tuple[Source, tuple[str, ...]]:
    """The tensors in a folder or a file, none of them read yet, and what is to be said about the choice.

    Raises WeightsError, naming the file and the reason.
    """
    found = find_weights(path)
    if missing := [file for file in found.files if not file.is_file()]:
        expected = f"every shard that {found.index.name} names" if found.index else "a file"
        raise WeightsError(f"{missing[0]} is missing", expected=expected, then="download it again" if found.index else "")
    for file in found.files:
        _refuse_other_things(file)
    said = tuple(f"{found.entrance.name} was read; {name} lies beside it and was not." for name in found.passed_over)
    return _reader(found.format, found.entrance, found.index, found.files), said


# What is often saved under a weights file's name.
OTHERS = (
    (b"version https://git-lfs", "is a Git LFS pointer, not the file it points to", "run git lfs pull, or download the file itself"),
    (b"<!DOCTYPE", "is a web page", "download the file itself, not the page about it"),
    (b"<html", "is a web page", "download the file itself, not the page about it"),
)


def _refuse_other_things(file: Path) -> None:
    try:
        with file.open("rb") as opened:
            first = opened.read(32)
    except OSError as error:
        raise WeightsError(f"{file} cannot be read: {error.strerror}", expected="a weights file") from None
    for start, what, then in OTHERS:
        if first.lower().startswith(start.lower()):
            raise WeightsError(f"{file} {what}", expected="weights", then=then)


def _reader(format_: str, entrance: Path, index: Path | None, files: tuple[Path, ...]) -> Source:
    if format_ == "torch":
        from cutaway.weights.torch_bin import open_torch

        return open_torch(files, weight_map(index) if index else None)
    if format_ == "tensorflow":
        from cutaway.weights.tf_checkpoint import open_tf_checkpoint

        return open_tf_checkpoint(entrance)
    if format_ == "numpy":
        from cutaway.weights.npy_shards import open_npy_shards

        return open_npy_shards(entrance.parent)
    if format_ == "gguf":
        from cutaway.weights.gguf import open_gguf

        return open_gguf(entrance)
    from cutaway.weights.safetensors import open_safetensors

    return open_safetensors(entrance)
