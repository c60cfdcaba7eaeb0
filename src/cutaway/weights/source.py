"""What every reader hands out, whatever the format: tensors by the names the file gives them, and what it says of itself.

A reader knows its format and no model. What the names mean is said in `families`.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

Shape = tuple[int, ...]


class Source(Mapping[str, Tensor], ABC):
    """The tensors of one model, each read when it is asked for.

    dialect: whose names and settings these are: "transformers", "tensorflow", "numpy", "fairseq" or "gguf".
    paths: the files that hold the tensors.
    shapes: of each tensor, checked against the files' sizes before any of it was read.
    settings: what the files themselves say of the model, such as its number of heads; {} where they say nothing.
    notes: what a reader of the model's numbers has to know of how the tensors were made, each a sentence.
    """

    dialect: str
    paths: tuple[Path, ...]
    shapes: Mapping[str, Shape]
    settings: Mapping[str, Any]
    notes: tuple[str, ...] = ()

    @abstractmethod
    def __getitem__(self, name: str) -> Tensor: ...

    def __iter__(self) -> Iterator[str]:
        return iter(self.shapes)

    def __len__(self) -> int:
        return len(self.shapes)


class Held(Source):
    """Tensors that are in memory already."""

    dialect = "transformers"
    paths = ()

    def __init__(self, tensors: Mapping[str, Tensor], settings: Mapping[str, Any]) -> None:
        self._tensors = tensors
        self.shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
        self.settings = settings

    def __getitem__(self, name: str) -> Tensor:
        return self._tensors[name]
