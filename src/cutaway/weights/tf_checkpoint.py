"""GPT-2 as OpenAI published it in 2019: a TensorFlow checkpoint and hparams.json. Read without TensorFlow.

Names are the file's own, optimizer slots and counters among them. A tensor is read, as a view of the mapped file, when it is
asked for, and its checksum is compared then. What the index says is checked in `tf_bundle`.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from cutaway.errors import WeightsError
from cutaway.weights.corrupt import corrupt
from cutaway.weights.mapped import as_tensor, mapped
from cutaway.weights.source import Source
from cutaway.weights.sstable import KIND, checksum
from cutaway.weights.tf_bundle import DTYPES, Bundle, find_index, read_bundle

HPARAMS = "hparams.json"


class TFCheckpoint(Source):
    """The tensors of one checkpoint, in the order of their names as text: h10 comes before h2."""

    dialect = "tensorflow"

    def __init__(self, bundle: Bundle, settings: Mapping[str, Any]) -> None:
        self.paths = (bundle.index, *bundle.shards)
        self.shapes = {name: entry.shape for name, entry in bundle.tensors.items()}
        self.settings = settings
        self._bundle = bundle

    def __getitem__(self, name: str) -> Tensor:
        """Raises WeightsError if its bytes are not those that were saved, or if it is of a kind that is not read here."""
        entry = self._bundle.tensors[name]
        shard = self._bundle.shards[entry.shard]
        if entry.parted:
            raise WeightsError(f"{name} in {self._bundle.index} was saved in several parts", expected="whole tensors")
        if entry.dtype not in DTYPES:
            kind = "texts" if entry.dtype == 7 else f"TensorFlow's dtype of number {entry.dtype}"
            raise WeightsError(f"{name} in {self._bundle.index} holds {kind}", expected="numbers of a dtype that PyTorch has")
        raw = mapped(shard, entry.begin, entry.size)
        if checksum(raw) != entry.checksum:
            raise corrupt(shard, f"the checksum of {name} is wrong: its bytes are not those that were saved", KIND)
        return as_tensor(raw, getattr(torch, DTYPES[entry.dtype][0]), entry.shape)


def open_tf_checkpoint(path: Path) -> TFCheckpoint:
    """The checkpoint in a folder, or with a prefix such as "…/model.ckpt". Index and sizes are checked; no tensor is read.

    Its settings are what hparams.json beside it says, and {} without one. Raises WeightsError, naming the file and the reason.
    """
    index = find_index(path)
    return TFCheckpoint(read_bundle(index), _hparams(index.with_name(HPARAMS)))


def _hparams(path: Path) -> dict[str, Any]:
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise WeightsError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise corrupt(path, f"it is not JSON ({error})", "JSON") from error
    if not isinstance(settings, dict):
        raise corrupt(path, "it is not a table of settings", "JSON")
    return settings
