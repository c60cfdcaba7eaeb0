"""Part of a file as a tensor, without reading it: pages come from the disk when they are looked at, and a change stays in memory.

Whoever calls has compared begin and size with the file's.
"""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from cutaway.errors import WeightsError
from cutaway.weights.source import Shape

Bytes = npt.NDArray[np.uint8]


def mapped(path: Path, begin: int, size: int) -> Bytes:
    """(size,) bytes of the file. Raises WeightsError if they are no longer there."""
    if size == 0:
        return np.empty(0, np.uint8)  # nothing cannot be mapped
    try:
        return np.asarray(np.memmap(path, np.uint8, mode="c", offset=begin, shape=(size,)))  # "c": writable, and never written back
    except OSError as error:
        raise WeightsError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise WeightsError(f"{path} has shrunk since it was opened", then="open it again") from error


def as_tensor(raw: Bytes, dtype: torch.dtype, shape: Shape) -> Tensor:
    """The same memory as a tensor; a copy only where it lies across the dtype's natural borders, as PyTorch does not allow."""
    if not raw.size:
        return torch.empty(shape, dtype=dtype)
    if raw.ctypes.data % dtype.itemsize:
        raw = raw.copy()
    return torch.from_numpy(raw).view(dtype).reshape(shape)
