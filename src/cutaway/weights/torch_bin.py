"""Weights as PyTorch itself saves them: pytorch_model.bin, .pt, .pth and .ckpt, and fairseq's checkpoints among them.

They are pickles, and a pickle is a program. So each is first read as data (`pickled`) and laid against the bytes that the
file has (`torch_layout`); only what passed is given to torch, and to its weights-only reader alone. Which folder holds
which file is not decided here.
"""

from argparse import Namespace as Arguments
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.torch_version import TorchVersion

from cutaway.errors import WeightsError
from cutaway.weights.corrupt import corrupt
from cutaway.weights.pickled import Namespace, View
from cutaway.weights.source import Shape, Source
from cutaway.weights.torch_layout import read_layout

# Before it, weights_only=True could be made to run code (CVE-2025-32434). What could still corrupt memory before 2.10
# (CVE-2026-24747: items set on what is no table, storages of another size than their record) ends in the first reading.
SAFE_TORCH = "2.6"
NESTED = ("model", "state_dict", "model_state_dict")  # where training programs put the weights among other things
HARMLESS = ("_metadata",)  # modules' version numbers


class TorchBin(Source):
    """The tensors of one model, in one file or several.

    A file in torch's zip format (since 1.6) is mapped and its tensors are views of it; a legacy file is read when the first
    of its tensors is asked for.
    """

    def __init__(self, paths: tuple[Path, ...]) -> None:
        self.paths = paths
        self.dialect = "transformers"
        self.settings: dict[str, Any] = {}
        self.shapes: dict[str, Shape] = {}
        self._held: dict[str, _File] = {}  # by tensor name
        self._states: dict[Path, Any] = {}  # what torch made of a file
        for path in paths:
            held = _read(path)
            if twice := sorted(held.views.keys() & self.shapes.keys()):
                raise corrupt(path, f"{twice[0]} is in {self._held[twice[0]].path.name} too", kind="PyTorch")
            self.shapes |= {name: view.shape for name, view in held.views.items()}
            self._held |= dict.fromkeys(held.views, held)
            if held.settings is not None:
                self.dialect, self.settings = "fairseq", held.settings

    def __getitem__(self, name: str) -> Tensor:
        held = self._held[name]
        if held.path not in self._states:
            self._states[held.path] = _load(held)
        tensor: Tensor = self._states[held.path][name]
        return tensor.detach()  # a Parameter's numbers


def open_torch(paths: tuple[Path, ...], names: Mapping[str, str] | None = None) -> TorchBin:
    """The tensors in a file, or in all the shards of one model. Every byte is accounted for before torch sees any.

    names: tensor → file name, as an index has it; it must agree with the files.
    Raises WeightsError, naming the file and the reason: damaged, unsafe, not weights, or torch itself too old to be safe.
    """
    if TorchVersion(torch.__version__) < SAFE_TORCH:
        raise WeightsError(
            f"{paths[0]} is a pickle, and torch {torch.__version__} can be made to run code by one",
            expected="torch 2.6 or newer",
            then="upgrade torch, or use safetensors",
        )
    opened = TorchBin(paths)
    if names is not None:
        _check_shards(opened, names)
    return opened


@dataclass(frozen=True)
class _File:
    """What one file holds. `within`: the key of its state dict, or None. `settings`: fairseq's, or None."""

    path: Path
    mapped: bool
    views: dict[str, View]
    within: str | None
    settings: dict[str, Any] | None


def _read(path: Path) -> _File:
    layout = read_layout(path)
    content = layout.content
    if not isinstance(content, dict):
        raise corrupt(path, f"it holds a {type(content).__name__} where a table of tensors belongs", kind="PyTorch")
    found = [key for key in NESTED if isinstance(content.get(key), dict)]
    if len(found) > 1:
        raise corrupt(path, f"{' and '.join(found)} could both be its weights", kind="PyTorch")
    within = found[0] if found else None
    table = content if within is None else content[within]
    views = {name: view for name, view in table.items() if name not in HARMLESS}
    for name, view in views.items():
        if not isinstance(name, str) or not isinstance(view, View):
            raise corrupt(path, f"{name!r:.100} is of type {type(view).__name__}, and no tensor", kind="PyTorch")
    return _File(path, layout.mapped, views, within, _settings(content) if within == "model" else None)


def _settings(content: Mapping[Any, Any]) -> dict[str, Any] | None:
    """What fairseq says of its model: an argparse.Namespace, in newer files the `model` part of a table; None elsewhere."""
    said, parts = content.get("args"), content.get("cfg")
    if not isinstance(said, Namespace):
        said = parts.get("model") if isinstance(parts, dict) else None
    values = said.values if isinstance(said, Namespace) else said
    if not isinstance(values, dict):
        return None
    return {name: value for name, value in values.items() if isinstance(name, str) and _plain(value)}


def _plain(value: Any) -> bool:
    scalar = str, int, float, bool, type(None)
    return isinstance(value, scalar) or (isinstance(value, list) and all(isinstance(item, scalar) for item in value))


def _load(held: _File) -> Mapping[str, Tensor]:
    """What torch reads, which must be what the pickle said."""
    try:
        with torch.serialization.safe_globals([Arguments]):
            content = torch.load(held.path, map_location="cpu", weights_only=True, mmap=held.mapped)
        state: Mapping[str, Tensor] = content if held.within is None else content[held.within]
        agree = all((tuple(state[name].shape), state[name].dtype) == (view.shape, view.dtype) for name, view in held.views.items())
    except MemoryError:
        raise
    except Exception as error:  # torch raises nearly anything for a file that it cannot read
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise corrupt(held.path, f"torch could not read it ({reason})", kind="PyTorch") from error
    if not agree:
        raise corrupt(held.path, "it was changed while it was read", kind="PyTorch")
    return state


def _check_shards(opened: TorchBin, names: Mapping[str, str]) -> None:
    held = {name: path.path.name for name, path in opened._held.items()}
    if differ := sorted(held.items() ^ names.items()):
        name, shard = differ[0]
        where = "the index alone" if names.get(name) == shard else "the shard alone"
        reason = f"it and the index disagree on {len({name for name, _ in differ})} tensors: {name} is in {where}"
        raise corrupt(opened.paths[0].parent / shard, reason, kind="PyTorch")
