"""What the tests of PyTorch's files share: writing good ones, changing them as somebody would who means harm, and measuring."""

import argparse
import pickle
import struct
import time
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch

from cutaway.errors import WeightsError
from cutaway.weights.torch_bin import open_torch

FORMATS = ("zip", "legacy")


def save(path: Path, content: object, how: str = "zip") -> Path:
    torch.save(content, path, _use_new_zipfile_serialization=how == "zip")
    return path


def fairseq_file(path: Path, state: dict[str, Any], how: str = "zip", **args: Any) -> Path:
    """A checkpoint as fairseq wrote them until 2020: the settings as a Namespace, the weights, and the training's state."""
    trained = {
        "optimizer_history": [{"criterion_name": "MaskedLmLoss", "num_updates": 3, "lr_scheduler_state": {"best": None}}],
        "last_optimizer_state": {"state": {0: {"step": 3, "exp_avg": torch.ones(4)}}, "param_groups": [{"lr": 0.1, "params": [0]}]},
        "extra_state": {"epoch": 1, "val_loss": 2.5, "train_iterator": {"iterations_in_epoch": 0}},
    }
    return save(path, {"args": argparse.Namespace(**args), "model": state, **trained}, how)


def some_tensors() -> dict[str, torch.Tensor]:
    """One of each kind that a file may hold."""
    torch.manual_seed(0)
    return {
        "a.weight": torch.randn(3, 5),
        "a.bias": torch.randn(5, dtype=torch.float16),
        "double": torch.randn(2, 2, dtype=torch.float64),
        "mask": torch.ones(2, 2, dtype=torch.bool),
        "ids": torch.arange(6).expand(1, -1),
        "scale": torch.tensor(-1e4),
        "half": torch.randn(4, dtype=torch.bfloat16),
        "nothing": torch.empty(0, 7),
        "turned": torch.randn(4, 3).t(),
    }


def same(one: Any, other: Any) -> bool:
    return one.keys() == other.keys() and all(
        one[n].dtype == other[n].dtype and one[n].shape == other[n].shape and one[n].equal(other[n]) for n in one
    )


def refused(path: Path, *reasons: str) -> None:
    with pytest.raises(WeightsError) as caught:
        dict(open_torch((path,)))
    before, found, message = str(caught.value).partition(str(path))
    assert found, before
    for reason in reasons:  # not in the path, which pytest names after the test
        assert reason in message


def rewrite(path: Path, changed: dict[str, bytes], more: dict[str, bytes] | None = None, method: int = zipfile.ZIP_STORED) -> Path:
    """The same archive with other records, all checksums right: the work of somebody who means it."""
    with zipfile.ZipFile(path) as archive:
        records = {name: archive.read(name) for name in archive.namelist()}
    folder = next(iter(records)).partition("/")[0]
    records |= {f"{folder}/{name}": data for name, data in {**changed, **(more or {})}.items()}
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in records.items():
            archive.writestr(name, data)
    return path


def pickle_of(path: Path) -> bytes:
    with zipfile.ZipFile(path) as archive:
        return archive.read(archive.namelist()[0])


def view(count: int, offset: int, shape: tuple[int, ...], stride: tuple[int, ...], kind: str = "FloatStorage") -> bytes:
    """The pickle of {"a": a tensor}, written by hand."""

    def number(value: int) -> bytes:
        raw = pickle.encode_long(value)
        return b"\x8a" + bytes([len(raw)]) + raw

    def numbers(values: tuple[int, ...]) -> bytes:
        return b"(" + b"".join(map(number, values)) + b"t"

    def text(value: str) -> bytes:
        return b"X" + struct.pack("<L", len(value)) + value.encode()

    storage = b"(" + text("storage") + f"ctorch\n{kind}\n".encode() + text("0") + text("cpu") + number(count) + b"tQ"
    hooks = b"ccollections\nOrderedDict\n)R"
    built = b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + number(offset) + numbers(shape) + numbers(stride) + b"\x89" + hooks + b"tR"
    return b"\x80\x02}" + text("a") + built + b"s."


class Bounded:
    """Within a second, and without much memory."""

    def __enter__(self) -> None:
        tracemalloc.start()
        self.began, self.most = time.process_time(), memory("VmHWM")

    def __exit__(self, kind: object, *_: object) -> None:
        took, (_, peak) = time.process_time() - self.began, tracemalloc.get_traced_memory()
        tracemalloc.stop()
        if kind is None:
            assert took < 1
            assert peak < 4_000_000
            assert memory("VmHWM") - self.most < 32_000_000  # torch allocates past tracemalloc


def memory(kind: str) -> int:
    """Bytes: "RssAnon", what is in use and no file's; "VmHWM", the most there ever was. 0 where the system does not say."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{kind}:"))
