"""Every door leads to the same model: one set of weights, written in each format, loads to bit-equal parameters and logits."""

import argparse
import json
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import cutaway
from cutaway.errors import ConfigError, CutawayError, ModelError, TokenizerError, WeightsError
from cutaway.model import Model
from tests.conftest import oracle
from tests.gguf_of import write_gguf
from tests.weights.tf_writer import write_checkpoint

IDS = torch.randint(5, 97, (2, 17), generator=torch.Generator().manual_seed(1))


def same(a: Model, b: Model) -> bool:
    mine, other = dict(a.transformer.named_parameters()), dict(b.transformer.named_parameters())
    if mine.keys() != other.keys() or not torch.equal(a.logits(IDS), b.logits(IDS)):
        return False
    return all(torch.equal(mine[name], other[name]) for name in mine)


@pytest.fixture(autouse=True)
def quiet(capfd: pytest.CaptureFixture[str]) -> None:
    """transformers draws progress bars when it saves."""


def as_safetensors(model: Any, folder: Path) -> Path:
    model.save_pretrained(folder)
    return folder


def as_shards(model: Any, folder: Path) -> Path:
    model.save_pretrained(folder, max_shard_size="60KB")
    assert (folder / "model.safetensors.index.json").is_file()
    return folder


def as_bin(model: Any, folder: Path, **how: Any) -> Path:
    model.config.architectures = [type(model).__name__]
    model.config.save_pretrained(folder)
    torch.save(model.state_dict(), folder / "pytorch_model.bin", **how)
    return folder


def as_old_bin(model: Any, folder: Path) -> Path:
    return as_bin(model, folder, _use_new_zipfile_serialization=False)


def as_bin_shards(model: Any, folder: Path) -> Path:
    tensors = list(model.state_dict().items())
    as_bin(model, folder)
    (folder / "pytorch_model.bin").unlink()
    names = {}
    for n, part in enumerate((tensors[::2], tensors[1::2]), 1):
        file = f"pytorch_model-{n:05}-of-00002.bin"
        torch.save(dict(part), folder / file)
        names |= {name: file for name, _ in part}
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": names}))
    return folder


EVERYWHERE: dict[str, Callable[[Any, Path], Path]] = {
    "safetensors": as_safetensors,
    "safetensors shards": as_shards,
    "bin": as_bin,
    "old bin": as_old_bin,
    "bin shards": as_bin_shards,
}


@pytest.mark.parametrize("written", EVERYWHERE)
@pytest.mark.parametrize("kind", ("gpt1", "gpt2", "roberta", "classifier", "bert", "bert-body", "llama"))
def test_the_hubs_formats(kind: str, written: str, tmp_path: Path) -> None:
    theirs = oracle(kind)
    assert same(cutaway.load(str(EVERYWHERE[written](theirs, tmp_path))), cutaway.load(theirs))


@pytest.mark.parametrize(("kind", "source"), (("gpt2", "gpt2"), ("llama", "llama"), ("bert", "bert-body")))
def test_gguf(kind: str, source: str, tmp_path: Path) -> None:
    theirs = oracle(source)
    found = cutaway.load(str(write_gguf(theirs, kind, tmp_path / "tiny.gguf")))
    expected = cutaway.load(theirs)
    if kind == "bert":  # llama.cpp leaves the pooler out
        assert found.config.head == "none"
        mine, other = dict(found.transformer.named_parameters()), dict(expected.transformer.named_parameters())
        assert all(torch.equal(mine[name], other[name]) for name in mine)
        assert torch.equal(found.logits(IDS), expected.logits(IDS))
    else:
        assert same(found, expected)


def variables(model: Any) -> OrderedDict[str, Tensor]:
    """A transformers GPT-1 or GPT-2 under the names and in the shapes of OpenAI's code, in the order in which that makes them."""
    named: OrderedDict[str, Tensor] = OrderedDict()
    for name, tensor in model.transformer.state_dict().items():
        parts = name.removesuffix(".weight").removesuffix(".bias").split(".")
        parts = [f"h{parts[1]}", *parts[2:]] if parts[0] == "h" else parts
        norm = parts[-1].startswith("ln_")
        if len(parts) == 1 and not norm:
            named["model/" + parts[0]] = tensor
        elif name.endswith(".bias"):
            named["model/" + "/".join(parts) + "/b"] = tensor
        else:
            named["model/" + "/".join(parts) + ("/g" if norm else "/w")] = tensor if norm else tensor[None]
    return named


def as_openai_gpt2(model: Any, folder: Path, more: dict[str, Tensor] | None = None) -> Path:
    write_checkpoint(folder / "model.ckpt", {name: tensor.detach() for name, tensor in {**variables(model), **(more or {})}.items()})
    config = model.config
    hparams = {"n_vocab": config.vocab_size, "n_ctx": config.n_positions, "n_embd": config.n_embd, "n_head": config.n_head}
    (folder / "hparams.json").write_text(json.dumps(hparams | {"n_layer": config.n_layer}))
    return folder


def test_openais_gpt2(tmp_path: Path) -> None:
    theirs = oracle("gpt2", n_layer=12)
    slots = {"model/h0/attn/c_attn/w/Adam": torch.ones(3), "beta1_power": torch.tensor(0.9), "global_step": torch.tensor(7)}
    folder = as_openai_gpt2(theirs, tmp_path, slots)
    found = cutaway.load(str(folder))
    assert same(found, cutaway.load(theirs))
    assert any("optimizer" in note for note in found.origin.notes)
    assert same(cutaway.load(str(folder / "model.ckpt")), found)


def test_each_layer_of_openais_gpt2_is_in_its_place(tmp_path: Path) -> None:
    """Pitfall 16: h10 and h11 sort before h2."""
    theirs = oracle("gpt2", n_layer=12)
    for n, block in enumerate(theirs.transformer.h):
        block.ln_1.bias.data.fill_(n)
    found = cutaway.load(str(as_openai_gpt2(theirs, tmp_path)))
    assert [float(block.ln1.bias.mean()) for block in found.transformer.blocks] == list(range(12))  # type: ignore[union-attr]


def test_openais_gpt1(tmp_path: Path) -> None:
    theirs = oracle("gpt1", n_layer=3)
    named = variables(theirs)
    order = ["model/positions_embed", "model/tokens_embed"]
    for n in range(3):
        layers = ("attn/c_attn/w", "attn/c_attn/b", "attn/c_proj/w", "attn/c_proj/b", "ln_1/g", "ln_1/b")
        more = ("mlp/c_fc/w", "mlp/c_fc/b", "mlp/c_proj/w", "mlp/c_proj/b", "ln_2/g", "ln_2/b")
        order += [f"model/h{n}/{name}" for name in (*layers, *more)]
    arrays = [named[name].detach().numpy() for name in order]
    assert len(arrays) == len(named)
    (tmp_path / "params_shapes.json").write_text(json.dumps([list(array.shape) for array in arrays]))
    flat = np.concatenate([array.ravel() for array in arrays])
    for n, part in enumerate(np.array_split(flat, 11)):  # more than ten: 10 comes after 9
        np.save(tmp_path / f"params_{n}.npy", part)
    with pytest.raises(ConfigError, match=r"says nothing of heads.*config\.json"):
        cutaway.load(str(tmp_path))
    theirs.config.architectures = ["OpenAIGPTLMHeadModel"]
    theirs.config.save_pretrained(tmp_path)
    assert same(cutaway.load(str(tmp_path)), cutaway.load(theirs))


def as_fairseq(model: Any, folder: Path, *, fused: bool, side: str, **changes: Any) -> Path:
    """fairseq's names for a transformers RoBERTa, which has a segment table besides; it has to be zeros to mean the same."""
    renamed = {
        "attention.self.": "self_attn.", "attention.output.dense": "self_attn.out_proj", "intermediate.dense": "fc1",
        "attention.output.LayerNorm": "self_attn_layer_norm", "output.dense": "fc2", "output.LayerNorm": "final_layer_norm",
        "query": "q_proj", "key": "k_proj", "value": "v_proj", "embeddings.LayerNorm": "emb_layer_norm",
        "embeddings.word_embeddings": "embed_tokens", "embeddings.position_embeddings": "embed_positions", "encoder.layer.": "layers.",
    }  # fmt: skip
    tensors: dict[str, Tensor] = {}
    for name, tensor in model.state_dict().items():
        if "token_type" in name or "decoder" in name:
            continue
        theirs = name.replace("roberta.", f"{side}.sentence_encoder.") if name.startswith("roberta") else f"{side}.{name}"
        for hub, fairseq in renamed.items():
            theirs = theirs.replace(hub, fairseq)
        tensors[theirs] = tensor
    tensors[f"{side}.lm_head.weight"] = tensors[f"{side}.sentence_encoder.embed_tokens.weight"]
    if fused:
        for name in [name for name in tensors if "q_proj" in name]:
            kind = name.rpartition(".")[2]
            parts = [tensors.pop(name.replace("q_proj", f"{letter}_proj")) for letter in "qkv"]
            tensors[name.replace(f"q_proj.{kind}", f"in_proj_{kind}")] = torch.cat(parts)
    config = model.config
    args = argparse.Namespace(
        arch="roberta_base", encoder_layers=config.num_hidden_layers, encoder_embed_dim=config.hidden_size,
        encoder_attention_heads=config.num_attention_heads, encoder_ffn_embed_dim=config.intermediate_size,
        max_positions=config.max_position_embeddings - 2, activation_fn="gelu", **changes,
    )  # fmt: skip
    torch.save({"args": args, "model": tensors, "extra_state": {"epoch": 3}, "optimizer_history": []}, folder / "model.pt")
    return folder


@pytest.mark.parametrize("side", ("decoder", "encoder"))
@pytest.mark.parametrize("fused", (True, False))
def test_fairseqs_roberta(fused: bool, side: str, tmp_path: Path) -> None:
    theirs = oracle("roberta")
    theirs.roberta.embeddings.token_type_embeddings.weight.data.zero_()
    found = cutaway.load(str(as_fairseq(theirs, tmp_path, fused=fused, side=side)))
    expected = cutaway.load(theirs)
    assert found.config == expected.config.with_(segments=0)
    mine, other = dict(found.transformer.named_parameters()), dict(expected.transformer.named_parameters())
    assert other.keys() - mine.keys() == {"embed.segment.weight"}
    assert all(torch.equal(mine[name], other[name]) for name in mine)
    assert torch.equal(found.logits(IDS), expected.logits(IDS))


def test_fairseqs_other_models_are_refused(tmp_path: Path) -> None:
    theirs = oracle("roberta")
    as_fairseq(theirs, tmp_path, fused=True, side="decoder", encoder_normalize_before=True)
    with pytest.raises(ConfigError, match="encoder_normalize_before"):
        cutaway.load(str(tmp_path))


def test_a_fairseq_roberta_without_its_dictionary_is_refused(tmp_path: Path, data: Path) -> None:
    """Pitfall 6: GPT-2's ids would be fluent nonsense."""
    model = cutaway.load(str(as_fairseq(oracle("roberta"), tmp_path, fused=True, side="decoder")))
    for name in ("encoder.json", "vocab.bpe"):
        (tmp_path / name).write_bytes((data / "tokenizers/gpt2" / name).read_bytes())
    with pytest.raises(TokenizerError, match=r"no dict\.txt"):
        model.pieces("Jack and jill")


def test_safetensors_are_preferred_and_it_is_said(tmp_path: Path) -> None:
    theirs = oracle("gpt2")
    as_bin(oracle("gpt2", n_layer=1), tmp_path)
    as_safetensors(theirs, tmp_path)
    found = cutaway.load(str(tmp_path))
    assert same(found, cutaway.load(theirs))
    assert "model.safetensors was read; pytorch_model.bin lies beside it and was not." in found.origin.notes


def test_two_candidates_of_equal_right_are_refused(tmp_path: Path) -> None:
    for name in ("a.gguf", "b.gguf"):
        write_gguf(oracle("gpt2"), "gpt2", tmp_path / name)
    with pytest.raises(WeightsError, match=r"2 models: a\.gguf, b\.gguf.*name the file itself"):
        cutaway.load(str(tmp_path))


def test_a_gguf_of_an_unknown_architecture_is_refused(tmp_path: Path) -> None:
    path = write_gguf(oracle("gpt2"), "gpt2", tmp_path / "tiny.gguf")
    path.write_bytes(path.read_bytes().replace(b"general.architecture\x08\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00gpt2",
                                               b"general.architecture\x08\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00rwkv"))  # fmt: skip
    with pytest.raises(ConfigError, match=r"architecture 'rwkv'.*gpt2, bert, llama"):
        cutaway.load(str(path))


@pytest.mark.parametrize("name", ("model.h5", "notes.txt", "flax_model.msgpack"))
def test_other_files_are_refused_by_name(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"\x89HDF")
    with pytest.raises(CutawayError, match=r"no format that is read here|in no format.*\.safetensors"):
        cutaway.load(str(tmp_path / name))


def test_a_folder_without_weights_names_what_is_looked_for(tmp_path: Path) -> None:
    (tmp_path / "mine.bin").write_bytes(b"")
    with pytest.raises(WeightsError, match=r"model\.safetensors.*pytorch_model\.bin.*\.gguf.*name the file itself: .*mine\.bin"):
        cutaway.load(str(tmp_path))


def test_no_config_is_an_error_where_the_format_has_none(tmp_path: Path) -> None:
    as_bin(oracle("gpt2"), tmp_path)
    (tmp_path / "config.json").unlink()
    with pytest.raises(ModelError, match=r"no config\.json"):
        cutaway.load(str(tmp_path))


@pytest.mark.parametrize(
    ("content", "said"),
    ((b"version https://git-lfs.github.com/spec/v1\n", "Git LFS pointer.*git lfs pull"), (b"<!doctype html>", "is a web page")),
)
@pytest.mark.parametrize("name", ("model.safetensors", "pytorch_model.bin", "x.gguf"))
def test_what_is_no_weights_file_is_called_what_it_is(name: str, content: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(WeightsError, match=said):
        cutaway.load(str(tmp_path))


def test_a_tokenizer_that_lacks_most_of_the_models_ids_is_refused(tmp_path: Path) -> None:
    from tests.conftest import tokenizer_folder

    as_safetensors(oracle("gpt2", vocab_size=5000), tmp_path)
    with pytest.raises(TokenizerError, match="ids and the model 5000"):
        cutaway.load(str(tmp_path), tokenizer=tokenizer_folder("gpt2"))


def test_a_configuration_nested_without_end_is_refused(tmp_path: Path) -> None:
    as_safetensors(oracle("gpt2"), tmp_path)
    (tmp_path / "config.json").write_text("[" * 100_000)
    with pytest.raises(ConfigError, match="cannot be read"):
        cutaway.load(str(tmp_path))
