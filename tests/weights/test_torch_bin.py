"""PyTorch's own files: what torch.save wrote is read bit for bit, in both of its formats, from one file or shards."""

import struct
from collections import OrderedDict

import pytest
import torch
from huggingface_hub import split_torch_state_dict_into_shards
from torch_files import FORMATS, fairseq_file, memory, pickle_of, refused, rewrite, same, save, some_tensors

from cutaway.errors import WeightsError
from cutaway.weights.torch_bin import open_torch
from tests.conftest import oracle


@pytest.fixture
def tensors():
    return some_tensors()


@pytest.mark.parametrize("how", FORMATS)
class TestReading:
    @pytest.mark.parametrize("kind", ["gpt2", "roberta"])
    @pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
    def test_a_models_state_comes_back_bit_for_bit(self, tmp_path, how, kind, dtype):
        state = oracle(kind).to(dtype).state_dict()
        opened = open_torch((save(tmp_path / "pytorch_model.bin", state, how),))
        assert same(dict(opened), state)
        assert opened.shapes == {name: tuple(tensor.shape) for name, tensor in state.items()}
        assert (opened.dialect, opened.settings) == ("transformers", {})

    def test_every_dtype_and_view(self, tmp_path, how, tensors):
        opened = open_torch((save(tmp_path / "model.pt", tensors, how),))
        assert same(dict(opened), tensors)
        assert opened["turned"].stride() == (1, 3)

    def test_torch_agrees(self, tmp_path, how, tensors):
        path = save(tmp_path / "model.pt", tensors, how)
        assert same(dict(open_torch((path,))), torch.load(path, weights_only=True))

    def test_tied_matrices_share_their_storage(self, tmp_path, how):
        wte = torch.randn(6, 4)
        opened = open_torch((save(tmp_path / "model.pt", {"wte": wte, "lm_head": wte, "part": wte[2:, 1:3]}, how),))
        assert opened["wte"].data_ptr() == opened["lm_head"].data_ptr()
        assert opened["part"].equal(wte[2:, 1:3])
        assert opened["part"].untyped_storage().data_ptr() == opened["wte"].untyped_storage().data_ptr()

    def test_parameters_are_read_as_their_numbers(self, tmp_path, how):
        tensor = open_torch((save(tmp_path / "model.pt", dict(torch.nn.Linear(3, 2).named_parameters()), how),))["weight"]
        assert type(tensor) is torch.Tensor
        assert not tensor.requires_grad

    def test_opening_makes_no_tensor(self, tmp_path, how, tensors, monkeypatch):
        path = save(tmp_path / "model.pt", tensors, how)
        monkeypatch.setattr(torch, "load", None)
        assert open_torch((path,)).shapes["a.weight"] == (3, 5)

    @pytest.mark.parametrize("key", ["model", "state_dict", "model_state_dict"])
    def test_weights_among_other_things(self, tmp_path, how, tensors, key):
        opened = open_torch((save(tmp_path / "model.ckpt", {"epoch": 3, key: tensors, "optimizer": {"lr": 0.1}}, how),))
        assert same(dict(opened), tensors)
        assert (opened.dialect, opened.settings) == ("transformers", {})

    def test_two_tables_that_could_be_the_weights(self, tmp_path, how, tensors):
        refused(save(tmp_path / "model.ckpt", {"model": tensors, "state_dict": tensors}, how), "model and state_dict")

    @pytest.mark.parametrize("stray", [3, "text", None, [1], {"deeper": torch.ones(1)}])
    def test_what_is_no_tensor_is_named(self, tmp_path, how, tensors, stray):
        refused(save(tmp_path / "model.pt", {**tensors, "stray": stray}, how), "'stray'", type(stray).__name__)

    def test_a_name_that_is_no_text(self, tmp_path, how, tensors):
        refused(save(tmp_path / "model.pt", {**tensors, 7: torch.ones(1)}, how), "7 is of type")

    def test_metadata_is_harmless(self, tmp_path, how, tensors):
        state = OrderedDict(tensors)
        state._metadata = {"": {"version": 1}}
        assert same(dict(open_torch((save(tmp_path / "attribute.pt", state, how),))), tensors)
        assert same(dict(open_torch((save(tmp_path / "entry.pt", {**tensors, "_metadata": {}}, how),))), tensors)

    @pytest.mark.parametrize("content", [torch.ones(2), [torch.ones(2)], 3, "weights"])
    def test_no_table(self, tmp_path, how, content):
        refused(save(tmp_path / "model.pt", content, how), "where a table of tensors belongs")

    def test_a_file_of_no_tensors_is_a_file(self, tmp_path, how):
        assert dict(open_torch((save(tmp_path / "model.pt", {}, how),))) == {}


class TestFormats:
    def test_a_zip_is_mapped(self, tmp_path):
        path = save(tmp_path / "model.pt", {"a": torch.zeros(4, 1 << 20)})
        before = memory("RssAnon")
        opened = open_torch((path,))
        assert opened["a"].shape == (4, 1 << 20)
        assert memory("RssAnon") - before < 4_000_000
        opened["a"].fill_(1)  # a change stays in memory
        assert torch.load(path)["a"].sum() == 0

    def test_a_file_from_a_big_endian_machine(self, tmp_path, tensors):
        path = save(tmp_path / "model.pt", {"a": tensors["a.weight"]})
        swapped = struct.pack(">15f", *tensors["a.weight"].flatten().tolist())
        rewrite(path, {"byteorder": b"big", "data/0": swapped})
        assert open_torch((path,))["a"].equal(tensors["a.weight"])

    def test_dtypes_that_came_later(self, tmp_path):
        state = {"u": torch.arange(3).to(torch.uint16), "f8": torch.randn(4).to(torch.float8_e4m3fn)}
        opened = open_torch((save(tmp_path / "model.pt", state),))
        assert opened["u"].equal(state["u"])
        assert opened["f8"].float().equal(state["f8"].float())

    def test_a_torch_that_is_not_safe(self, tmp_path, tensors, monkeypatch):
        path = save(tmp_path / "model.pt", tensors)
        monkeypatch.setattr(torch, "__version__", "2.5.1+cu121")
        refused(path, "torch 2.5.1+cu121", "2.6 or newer")
        for version in ("2.6.0", "2.10.0+cpu"):
            monkeypatch.setattr(torch, "__version__", version)
            assert open_torch((path,)).shapes

    def test_not_there(self, tmp_path):
        refused(tmp_path / "none.pt", "No such file")

    def test_changed_between_opening_and_reading(self, tmp_path, tensors):
        opened = open_torch((save(tmp_path / "model.pt", tensors),))
        save(tmp_path / "model.pt", {name: torch.zeros(1) for name in tensors})
        with pytest.raises(WeightsError, match="changed while it was read"):
            opened["a.weight"]


class TestFairseq:
    @pytest.mark.parametrize("how", FORMATS)
    def test_the_settings_and_the_weights(self, tmp_path, tensors, how):
        said = {"arch": "roberta_base", "encoder_layers": 12, "dropout": 0.1, "fp16": True, "restore_file": None, "betas": [0.9, 0.98]}
        opened = open_torch((fairseq_file(tmp_path / "model.pt", tensors, how, **said, odd=(1, 2), deep={"a": 1}),))
        assert opened.dialect == "fairseq"
        assert opened.settings == said
        assert same(dict(opened), tensors)

    def test_the_newer_form_with_a_plain_table(self, tmp_path, tensors):
        cfg = {"model": {"_name": "roberta", "encoder_layers": 12}, "task": {"data": "x"}}
        opened = open_torch((save(tmp_path / "model.pt", {"args": None, "cfg": cfg, "model": tensors}),))
        assert (opened.dialect, opened.settings) == ("fairseq", {"_name": "roberta", "encoder_layers": 12})

    @pytest.mark.parametrize("beside", [{"args": {"lr": 1}}, {"cfg": {"lr": 1}}, {"args": None, "cfg": None}, {"args": "text", "cfg": [1]}])
    def test_another_programs_settings_are_not_fairseqs(self, tmp_path, tensors, beside):
        opened = open_torch((save(tmp_path / "model.pt", {"model": tensors, **beside}),))
        assert (opened.dialect, opened.settings) == ("transformers", {})

    def test_omegaconf_is_named(self, tmp_path, tensors):
        path = save(tmp_path / "model.pt", {"cfg": "CFG", "model": tensors})
        data = pickle_of(path).replace(b"X\x03\x00\x00\x00CFG", b"comegaconf.dictconfig\nDictConfig\n")
        refused(rewrite(path, {"data.pkl": data}), "the global omegaconf.dictconfig.DictConfig", "cfg as a plain dict")


class TestShards:
    @pytest.fixture
    def shards(self, tmp_path, tensors):
        names = list(tensors)
        parts = {"pytorch_model-1.bin": names[:4], "pytorch_model-2.bin": names[4:]}
        paths = tuple(
            save(tmp_path / part, {n: tensors[n] for n in held}, how) for (part, held), how in zip(parts.items(), FORMATS, strict=True)
        )
        return paths, {name: part for part, held in parts.items() for name in held}

    def test_shards_are_one_model(self, shards, tensors):
        paths, index = shards
        opened = open_torch(paths, index)
        assert same(dict(opened), tensors)
        assert opened.paths == paths
        assert same(dict(open_torch(paths)), tensors)

    def test_a_tensor_in_two_shards(self, shards, tensors):
        paths, _ = shards
        save(paths[1], {"half": tensors["half"], "scale": tensors["scale"], "mask": tensors["mask"]})
        with pytest.raises(WeightsError, match=r"model-2\.bin: mask is in pytorch_model-1\.bin too"):
            open_torch(paths)

    def test_they_and_the_index_disagree(self, shards):
        paths, index = shards
        with pytest.raises(WeightsError, match=r"model-2\.bin: .* 1 tensors: ghost is in the index alone"):
            open_torch(paths, index | {"ghost": "pytorch_model-2.bin"})
        with pytest.raises(WeightsError, match=r"model-1\.bin: .* mask is in the shard alone"):
            open_torch(paths, {name: shard for name, shard in index.items() if name != "mask"})
        with pytest.raises(WeightsError, match=r"disagree on 1 tensors: mask"):
            open_torch(paths, index | {"mask": "pytorch_model-2.bin"})

    def test_transformers_shards(self, tmp_path):
        state = oracle("gpt2").state_dict()
        plan = split_torch_state_dict_into_shards(state, max_shard_size="60KB", filename_pattern="pytorch_model{suffix}.bin")
        for name, held in plan.filename_to_tensors.items():
            save(tmp_path / name, {tensor: state[tensor] for tensor in held})
        paths = tuple(tmp_path / name for name in sorted(plan.filename_to_tensors))
        assert len(paths) > 1
        assert same(dict(open_torch(paths, plan.tensor_to_filename)), {name: state[name] for name in plan.tensor_to_filename})
