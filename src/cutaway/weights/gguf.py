"""Weights as llama.cpp publishes them: one GGUF file with the sizes, the vocabulary and the tensors, most of them packed into blocks.

A tensor is unpacked when it is asked for. Not here: what the names mean, or the order of the rows that a converter changed; that is said
in `families`.
"""

from collections import Counter
from pathlib import Path

import torch
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType
from torch import Tensor

from cutaway.errors import WeightsError
from cutaway.weights.gguf_header import Place, read_gguf
from cutaway.weights.source import Source

# These lie in the file as torch holds them. All others are blocks.
PLAIN = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16,
    "I64": torch.int64, "I32": torch.int32, "I16": torch.int16, "I8": torch.int8,
}  # fmt: skip


class GGUF(Source):
    """The tensors of one file. `settings` are its metadata, by the names it gives them."""

    dialect = "gguf"

    def __init__(self, path: Path) -> None:
        header = read_gguf(path)
        self.paths = (path,)
        self.settings = header.metadata
        self.places = header.tensors
        self.shapes = {name: place.shape for name, place in header.tensors.items()}
        packed = Counter(place.kind for place in header.tensors.values() if place.kind not in PLAIN)
        if packed:
            listed = ", ".join(f"{count} of {kind}" for kind, count in packed.most_common())
            self.notes = (f"Quantized tensors were unpacked to float32: {listed}.",)
        # A private mapping: writing to a tensor would change the pages in memory, never the file.
        self._bytes = torch.from_file(str(path), shared=False, size=path.stat().st_size, dtype=torch.uint8)

    def __getitem__(self, name: str) -> Tensor:
        """A plain tensor as a view of the mapped file, in the file's precision; an unpacked one in float32.

        Raises WeightsError if the gguf package cannot unpack the tensor's type.
        """
        place = self.places[name]
        raw = self._bytes[place.offset : place.offset + place.size]
        if (dtype := PLAIN.get(place.kind)) is None:
            return self._unpacked(name, place, raw)
        if place.offset % dtype.itemsize:
            raw = raw.clone()  # general.alignment is smaller than a number: torch has no view that begins within one
        return raw.view(dtype).view(place.shape)

    def _unpacked(self, name: str, place: Place, raw: Tensor) -> Tensor:
        import numpy as np
        from gguf.quants import dequantize

        kind = GGMLQuantizationType[place.kind]
        block, size = GGML_QUANT_SIZES[kind]
        rows = raw.view(-1, place.shape[-1] // block * size).numpy()
        try:
            with np.errstate(all="ignore"):  # a damaged scale is a NaN, and a NaN in a tensor is for the model to find
                return torch.from_numpy(dequantize(rows, kind)).view(place.shape)
        except NotImplementedError as error:
            raise WeightsError(
                f"{self.paths[0]}: {name} is packed as {place.kind}, which the gguf package cannot unpack",
                expected=", ".join([*PLAIN, *_unpackable()]),
                then="get the model in another quantization",
            ) from error


def open_gguf(path: Path) -> GGUF:
    """The tensors in a file. Its header is checked; no tensor is read.

    Raises WeightsError, naming the file and the reason; a model cut into several files is refused.
    """
    source = GGUF(path)
    if (parts := source.settings.get("split.count", 1)) != 1:
        raise WeightsError(
            f"{path} is one of {parts} files that hold the model together",
            expected="one file",
            then=f"join them with llama.cpp: llama-gguf-split --merge {path} whole.gguf",
        )
    return source


def _unpackable() -> list[str]:
    """The types that the gguf package says it can unpack, when asked for an empty block of each."""
    import numpy as np
    from gguf.quants import dequantize

    able = []
    for kind, (_, size) in GGML_QUANT_SIZES.items():
        try:
            dequantize(np.zeros((1, size), np.uint8), kind)
        except NotImplementedError:
            continue
        if kind.name not in PLAIN:
            able.append(kind.name)
    return able
