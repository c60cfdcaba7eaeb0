"""Weights as the field publishes them since 2023: safetensors, in one file or in shards with an index.

Nothing is unpickled. A tensor is read, as a view of the mapped file, when it is asked for.
"""

from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from cutaway.errors import WeightsError
from cutaway.weights.corrupt import corrupt
from cutaway.weights.files import FILE, INDEX, find_weights, weight_map
from cutaway.weights.header import Place, read_header
from cutaway.weights.mapped import Bytes, as_tensor, mapped
from cutaway.weights.source import Shape, Source
from cutaway.writing import replacing

__all__ = ["FILE", "INDEX", "Safetensors", "open_safetensors", "save_safetensors"]


DTYPES = {
    "BOOL": torch.bool, "U8": torch.uint8, "I8": torch.int8, "F8_E4M3": torch.float8_e4m3fn, "F8_E5M2": torch.float8_e5m2,
    "U16": torch.uint16, "I16": torch.int16, "F16": torch.float16, "BF16": torch.bfloat16,
    "U32": torch.uint32, "I32": torch.int32, "F32": torch.float32,
    "U64": torch.uint64, "I64": torch.int64, "F64": torch.float64,
}  # fmt: skip


class Safetensors(Source):
    """The tensors of one model, in one file or several.

    Read here and not by the library, which takes longer to hand out a tensor and checks no more than `header` did.
    """

    dialect = "transformers"

    def __init__(self, paths: tuple[Path, ...]) -> None:
        self.paths = paths
        self.settings = {}
        self.metadata: dict[str, str] = {}
        self.shapes: dict[str, Shape] = {}
        self._places: dict[str, tuple[Bytes, Place]] = {}
        for path in paths:
            header = read_header(path)
            raw = mapped(path, 0, path.stat().st_size)
            self.metadata |= header.metadata
            self.shapes |= header.shapes
            self._places |= {name: (raw, place) for name, place in header.places.items()}

    def __getitem__(self, name: str) -> Tensor:
        raw, place = self._places[name]
        return as_tensor(raw[place.begin : place.end], DTYPES[place.dtype], place.shape)


def open_safetensors(path: Path) -> Safetensors:
    """The tensors in a file, or in a folder that holds one file or shards. Every header is checked; no tensor is read.

    Raises WeightsError, naming the file and the reason.
    """
    found = find_weights(path)
    if found.format != "safetensors":
        raise WeightsError(f"{found.entrance} is no safetensors file", expected=f"{FILE} or {INDEX}")
    if found.index:
        _check_shards(found.index, found.files)
    return Safetensors(found.files)


def save_safetensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> None:
    """Write a file that is there whole or not at all: under another name first, then renamed.

    Raises WeightsError if two names mean one tensor (a tied matrix has one name here), or if the file cannot be written.
    """
    _refuse_aliases(tensors)
    whole = {name: tensor.detach().contiguous() for name, tensor in tensors.items()}
    try:
        with replacing(path) as new:
            save_file(whole, new, {"format": "pt", **(metadata or {})})  # transformers refuses a file that does not say "format"
    except (SafetensorError, OSError) as error:
        raise WeightsError(f"{path} cannot be written: {error}") from error


def _check_shards(index: Path, paths: tuple[Path, ...]) -> None:
    names = weight_map(index)
    for path in paths:
        if not path.is_file():
            raise WeightsError(f"{path} is missing", expected=f"every shard that {index.name} names", then="download it again")
        listed, held = {name for name, shard in names.items() if shard == path.name}, read_header(path).shapes.keys()
        if differ := sorted(listed ^ held):
            where = "the index alone" if differ[0] in listed else "the shard alone"
            raise corrupt(path, f"it and {index.name} disagree on {len(differ)} tensors: {differ[0]} is in {where}")


def _refuse_aliases(tensors: Mapping[str, Tensor]) -> None:
    seen: dict[tuple[torch.device, int], str] = {}
    for name, tensor in tensors.items():
        if tensor.numel() and (first := seen.setdefault((tensor.device, tensor.data_ptr()), name)) != name:
            raise WeightsError(f"{first} and {name} are one tensor", expected="each tensor once", then="leave one of the two names out")
