"""A pickle is a program: PyTorch's files that would run one are refused, and it does not run (pitfall 18)."""

import argparse
import builtins
import os
import pickle
import struct
from collections import OrderedDict
from pathlib import Path

import pytest
import torch
from torch_files import FORMATS, Bounded, fairseq_file, pickle_of, refused, rewrite, same, save, some_tensors

from cutaway.weights.torch_bin import open_torch


@pytest.fixture
def tensors():
    return some_tensors()


class Trap:
    """A pickle that would create a file."""

    def __init__(self, kind: str, marker: Path) -> None:
        self.kind, self.marker = kind, str(marker)

    def __reduce__(self):
        return {
            "system": (os.system, (f"echo > {self.marker}",)),
            "eval": (builtins.eval, (f"open({self.marker!r}, 'w').close()",)),
            "mkdir": (os.mkdir, (self.marker,)),
        }[self.kind]


NAMES = {"system": f"{os.system.__module__}.system", "eval": "builtins.eval", "mkdir": f"{os.mkdir.__module__}.mkdir"}


STORAGE = b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\x0ftQ"
TENSOR = b"ctorch._utils\n_rebuild_tensor_v2\n(" + STORAGE + b"K\x00(K\x0ft(K\x01t\x89("  # open: its hooks, and what follows


class TestCode:
    """A file that would run code is refused, the code does not run, and the message says what the file holds."""

    @pytest.mark.parametrize("how", FORMATS)
    @pytest.mark.parametrize("kind", ["system", "eval", "mkdir"])
    @pytest.mark.parametrize("where", ["alone", "leaf", "beside", "in Namespace", "in optimizer", "in metadata"])
    def test_refused_and_not_run(self, tmp_path, tensors, how, kind, where):
        path, marker = tmp_path / "pytorch_model.bin", tmp_path / "marker"
        trap = Trap(kind, marker)
        marked = OrderedDict(tensors)
        marked._metadata = {"": trap}
        content = {
            "alone": trap,
            "leaf": {**tensors, "evil": trap},
            "beside": {"model": tensors, "epoch": trap},
            "in Namespace": {"args": argparse.Namespace(layers=2, evil=[trap]), "model": tensors},
            "in optimizer": {"args": argparse.Namespace(), "model": tensors, "last_optimizer_state": {"state": {0: trap}}},
            "in metadata": marked,
        }[where]
        refused(save(path, content, how), f"the global {NAMES[kind]}, which weights never need", "safetensors")
        assert not marker.exists()
        torch.load(path, weights_only=False)
        assert marker.exists(), "the trap does not work, so the test proves nothing"

    @pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
    def test_a_bare_pickle_of_any_protocol(self, tmp_path, protocol):
        path, marker = tmp_path / "model.pkl", tmp_path / "marker"
        path.write_bytes(pickle.dumps(Trap("system", marker), protocol))
        refused(path, f"the global {NAMES['system']}")
        assert not marker.exists()

    @pytest.mark.parametrize("how", FORMATS)
    def test_a_whole_model_is_no_state_dict(self, tmp_path, how):
        refused(save(tmp_path / "model.pt", torch.nn.Linear(2, 2), how), "torch.nn.modules.linear.Linear", "state_dict()")

    @pytest.mark.parametrize(
        ("code", "reason"),
        [
            (b"iposix\nsystem\n", "the global posix.system"),
            (b"(S'touch x'\niposix\nsystem\n", "cannot be followed"),
            (b"cargparse\nNamespace\n)\x81cargparse\nNamespace\nb", "a Global where a dict belongs"),
            (b"cargparse\nNamespace\n)\x81}X\x01\x00\x00\x00xccollections\nOrderedDict\ns\x86b", "cannot be followed"),
            (b"cargparse\nNamespace\nK\x01\x85\x81", "it makes a Global"),
            (b"cargparse\nNamespace\n)R", "it calls argparse.Namespace"),
            (b"cargparse\nNamespace._get_args\n", "the global argparse.Namespace._get_args"),
            (b"ctorch.storage\n_load_from_bytes\n", "the global torch.storage._load_from_bytes"),
            (b"ctorch\nload\n", "the global torch.load"),
            (b"ctorch.serialization\nload\n", "the global torch.serialization.load"),
            (b"cnumpy.core.multiarray\nscalar\n", "the global numpy.core.multiarray.scalar"),
            (b"ctorch._utils\n_rebuild_qtensor\n", "the global torch._utils._rebuild_qtensor"),
            (STORAGE + b"K\x00K\x01s", "a Storage where a dict belongs"),
            (STORAGE + b"(K\x00K\x01u", "a Storage where a dict belongs"),
            (STORAGE + b"}b", "a Storage where a dict belongs"),
            (STORAGE + b"K\x00a", "a Storage where a list belongs"),
            (TENSOR + b"ttR}b", "a View where a dict belongs"),
            (TENSOR + b"tN}X\x04\x00\x00\x00conj\x88stR", "conjugate"),
            (b"}X\x01\x00\x00\x00xK\x01sX\x01\x00\x00\x00xK\x02s", "'x' occurs twice"),
            (b"}}", "in the middle"),
            (b"}(", "in the middle"),
            (b"", "in the middle"),
            (b")R", "what it has not made"),
            (b"h\x07", "what it has not made"),
            (STORAGE + STORAGE.replace(b"K\x0f", b"K\x0e"), "storage 0 is described in two ways"),
            (STORAGE + STORAGE.replace(b"Float", b"Int"), "storage 0 is described in two ways"),
            (b"\x80\x03}", "protocol 3"),
            (b"\x82\x01", "never writes"),
            (b"Pevil\n", "never writes"),
        ],
    )
    def test_tricks(self, tmp_path, code, reason):
        path = save(tmp_path / "model.pt", {})
        refused(rewrite(path, {"data.pkl": b"\x80\x02" + code + b"."}), reason)

    @pytest.mark.parametrize("how", FORMATS)
    def test_settings_named_to_do_harm_are_only_names(self, tmp_path, tensors, how):
        evil = {"__class__": "x", "__dict__": "y", "__reduce__": "z", "__setstate__": "w", "keys": 1}
        space = argparse.Namespace()
        space.__dict__.update(evil)
        opened = open_torch((save(tmp_path / "model.pt", {"args": space, "model": tensors}, how),))
        assert opened.settings == evil
        assert same(dict(opened), tensors)

    @pytest.mark.parametrize("name", ["items", "keys", "get", "__class__", "__getitem__", "__len__", "__dict__"])
    def test_attributes_named_to_do_harm_are_not_looked_at(self, tmp_path, tensors, name):
        state = OrderedDict(tensors)
        state._metadata = "harm"
        path = save(tmp_path / "model.pt", state)
        data = pickle_of(path).replace(b"X\x09\0\0\0_metadata", b"X" + struct.pack("<L", len(name)) + name.encode())
        assert same(dict(open_torch((rewrite(path, {"data.pkl": data}),))), tensors)

    def test_what_was_allowed_is_not_allowed_afterwards(self, tmp_path, tensors):
        path = fairseq_file(tmp_path / "model.pt", tensors)
        dict(open_torch((path,)))
        with pytest.raises(pickle.UnpicklingError, match="Namespace"):
            torch.load(path, weights_only=True)

    def test_pickles_that_would_take_for_ever(self, tmp_path):
        """A tuple of two of the same, fifty deep: its hash, and its text, have 2**50 parts."""
        path, deep = save(tmp_path / "model.pt", {}), b"K\x01" + b"q\x00h\x00\x86" * 50
        for code in (b"}" + deep + b"K\x01s", b"cargparse\nNamespace\n" + deep + b"\x81", deep + b")\x81", b"}K\x01" + deep + b"b"):
            with Bounded():
                refused(rewrite(path, {"data.pkl": b"\x80\x02" + code + b"."}))
