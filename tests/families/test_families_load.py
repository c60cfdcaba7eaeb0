"""Each family's files become our parameters and compute what the reference computes (pitfalls 12 to 15, 19)."""

import json

import pytest
import torch
from family_oracles import MAKERS, make, ours, read, save, truth

from cutaway.errors import WeightsError
from cutaway.families import gpt2
from cutaway.weights.names import Rule
from cutaway.weights.safetensors import open_safetensors, save_safetensors


@pytest.fixture(autouse=True)
def quiet(capfd):
    """transformers draws progress bars when it saves."""


@pytest.fixture
def ids():
    return torch.randint(2, 97, (2, 20), generator=torch.Generator().manual_seed(1))


def rewrite(folder, change):
    """The same folder with its tensors changed."""
    path = folder / "model.safetensors"
    tensors = {name: tensor.clone() for name, tensor in open_safetensors(path).items()}
    save_safetensors(path, change(tensors) or tensors)
    return folder


def problem(folder) -> str:
    with pytest.raises(WeightsError) as caught:
        read(folder)
    return str(caught.value)


@pytest.mark.parametrize("kind", MAKERS)
def test_the_reference_in_both_precisions(kind, tmp_path, ids):
    model = make(kind)
    assert (ours(save(model, tmp_path), ids) - truth(model, ids)).abs().max() <= 1e-5
    model = model.double()
    found = ours(save(model, tmp_path), ids)
    assert found.dtype == torch.float64
    assert (found - truth(model, ids)).abs().max() <= 1e-12


@pytest.mark.parametrize("kind", ["gpt1", "gpt2", "roberta"])
def test_an_output_matrix_of_its_own(kind, tmp_path, ids):
    model = make(kind, tie_word_embeddings=False)
    if kind == "roberta":  # transformers then keeps two biases and reads one of them; files in which they differ are refused
        with torch.no_grad():
            model.lm_head.bias.copy_(model.lm_head.decoder.bias)
    config, loaded = read(save(model, tmp_path))
    assert not config.tied
    assert not torch.equal(loaded.parameters["head.unembed.weight"], loaded.parameters["embed.token.weight"])
    assert (ours(tmp_path, ids) - truth(model, ids)).abs().max() <= 1e-5


def test_an_epsilon_of_its_own_reaches_the_norms(tmp_path, ids):
    model = make("gpt2", layer_norm_epsilon=1e-3)
    assert (ours(save(model, tmp_path), ids) - truth(model, ids)).abs().max() <= 1e-5
    assert (ours(tmp_path, ids) - truth(make("gpt2"), ids)).abs().max() > 1e-4


def test_shards_are_one_model(tmp_path, ids):
    model = make("gpt2")
    model.save_pretrained(tmp_path, max_shard_size="100KB")
    assert len(list(tmp_path.glob("model-*.safetensors"))) > 1
    assert (ours(tmp_path, ids) - truth(model, ids)).abs().max() <= 1e-5


@pytest.mark.parametrize("kind", ["gpt1", "gpt2", "roberta"])
@pytest.mark.parametrize("prefix", ["module.", "_orig_mod.", "model.", "_orig_mod.module."])
def test_wrappers(kind, prefix, tmp_path, ids):
    plain = ours(save(make(kind), tmp_path), ids)
    assert torch.equal(ours(rewrite(tmp_path, lambda tensors: {prefix + name: t for name, t in tensors.items()}), ids), plain)


@pytest.mark.parametrize(("kind", "prefix"), [("gpt1", "transformer."), ("gpt2", "transformer."), ("roberta", "roberta.")])
def test_a_body_without_its_prefix(kind, prefix, tmp_path, ids):
    plain = ours(save(make(kind), tmp_path), ids)
    rewrite(tmp_path, lambda tensors: {name.removeprefix(prefix): t for name, t in tensors.items()})
    assert not any(name.startswith(prefix) for name in open_safetensors(tmp_path))
    assert torch.equal(ours(tmp_path, ids), plain)


def test_gamma_and_beta(tmp_path, ids):
    plain = ours(save(make("roberta"), tmp_path), ids)
    old = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}

    def rename(tensors):
        return {next((name.replace(new, was) for new, was in old.items() if name.endswith(new)), name): t for name, t in tensors.items()}

    rewrite(tmp_path, rename)
    assert sum(name.endswith((".gamma", ".beta")) for name in open_safetensors(tmp_path)) == 10
    assert torch.equal(ours(tmp_path, ids), plain)


@pytest.mark.parametrize("kind", ["gpt1", "gpt2"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bool, torch.uint8])
def test_old_mask_buffers(kind, dtype, tmp_path, ids):
    plain = ours(save(make(kind), tmp_path), ids)

    def add(tensors):
        for number in range(2):
            tensors[f"transformer.h.{number}.attn.bias"] = torch.ones(1, 1, 64, 64).tril().to(dtype)
            tensors[f"transformer.h.{number}.attn.masked_bias"] = torch.tensor(-1e4)

    rewrite(tmp_path, add)
    assert torch.equal(ours(tmp_path, ids), plain)
    assert sorted(read(tmp_path)[1].unused) == [f"transformer.h.{n}.attn.{what}" for n in range(2) for what in ("bias", "masked_bias")]


def test_what_roberta_files_hold_besides(tmp_path, ids):
    plain = ours(save(make("roberta"), tmp_path), ids)

    def add(tensors):
        tensors["roberta.embeddings.position_ids"] = torch.arange(66)[None]
        tensors["roberta.pooler.dense.weight"], tensors["roberta.pooler.dense.bias"] = torch.randn(48, 48), torch.randn(48)
        tensors["lm_head.decoder.weight"] = tensors["roberta.embeddings.word_embeddings.weight"].clone()
        tensors["lm_head.decoder.bias"] = tensors["lm_head.bias"].clone()

    rewrite(tmp_path, add)
    assert torch.equal(ours(tmp_path, ids), plain)
    assert sorted(read(tmp_path)[1].unused) == [
        "roberta.embeddings.position_ids",
        "roberta.pooler.dense.bias",
        "roberta.pooler.dense.weight",
    ]


def test_two_biases_of_one_output_must_agree(tmp_path):
    save(make("roberta"), tmp_path)
    rewrite(tmp_path, lambda tensors: tensors | {"lm_head.decoder.bias": tensors["lm_head.bias"] + 1})
    said = problem(tmp_path)
    assert "lm_head.bias" in said
    assert "lm_head.decoder.bias" in said


class TestTied:
    @pytest.mark.parametrize(("kind", "embedding"), [("gpt1", "transformer.tokens_embed.weight"), ("gpt2", "transformer.wte.weight")])
    def test_one_matrix_under_either_name_or_both(self, kind, embedding, tmp_path, ids):
        plain = ours(save(make(kind), tmp_path), ids)
        assert "lm_head.weight" not in open_safetensors(tmp_path)
        rewrite(tmp_path, lambda tensors: tensors | {"lm_head.weight": tensors[embedding].clone()})
        assert torch.equal(ours(tmp_path, ids), plain)
        rewrite(tmp_path, lambda tensors: {name: t for name, t in tensors.items() if name != embedding})
        assert torch.equal(ours(tmp_path, ids), plain)

    def test_two_matrices_are_refused(self, tmp_path):
        save(make("gpt2"), tmp_path)
        rewrite(tmp_path, lambda tensors: tensors | {"lm_head.weight": tensors["transformer.wte.weight"] * 2})
        said = problem(tmp_path)
        assert "lm_head.weight" in said
        assert "transformer.wte.weight" in said


class TestMissingAndExtra:
    def test_a_missing_weight_is_named(self, tmp_path):
        save(make("gpt2"), tmp_path)
        rewrite(tmp_path, lambda tensors: {name: t for name, t in tensors.items() if name != "transformer.h.1.mlp.c_fc.weight"})
        assert "no tensor for blocks.1.mlp.up.weight" in problem(tmp_path)

    def test_an_extra_tensor_keeps_its_name(self, tmp_path):
        save(make("gpt2"), tmp_path)
        rewrite(tmp_path, lambda tensors: tensors | {"my_gamma_gate": torch.zeros(2)})
        assert "nowhere to put my_gamma_gate" in problem(tmp_path)


class TestConfigAgainstWeights:
    """Pitfall 19."""

    @pytest.fixture
    def folder(self, tmp_path):
        return save(make("gpt2"), tmp_path)

    def configure(self, folder, **changes):
        path = folder / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))
        return folder

    def test_heads_are_the_configs(self, folder, ids):
        expected = truth(make("gpt2"), ids)
        assert (ours(self.configure(folder, n_head=3), ids) - expected).abs().max() > 1e-3
        assert (ours(self.configure(folder, n_head=4), ids) - expected).abs().max() <= 1e-5

    def test_a_vocabulary_of_another_size_names_both(self, folder):
        said = problem(self.configure(folder, vocab_size=375))
        assert "transformer.wte.weight is (97, 48), and embed.token.weight would need (375, 48)" in said

    def test_other_layer_counts(self, folder):
        assert "nowhere to put transformer.h.1." in problem(self.configure(folder, n_layer=1))
        assert "no tensor for blocks.2." in problem(self.configure(folder, n_layer=3))


def test_a_square_matrix_read_the_wrong_way_round_would_be_seen(tmp_path, ids, monkeypatch):
    """Pitfall 12: attn.c_proj fits either way, so only the numbers can tell."""
    model = make("gpt2")
    save(model, tmp_path)
    wrong = tuple(Rule(r.theirs, r.ours) if r.theirs == "h.{n}.attn.c_proj.weight" else r for r in gpt2.BLOCK)
    monkeypatch.setattr(gpt2, "BLOCK", wrong)
    assert (ours(tmp_path, ids) - truth(model, ids)).abs().max() > 1e-3
