"""Each tensor in is used once, each parameter out is set once (pitfalls 12 to 15 and 19, on the smallest files that show them)."""

import pytest
import torch

from cutaway.errors import WeightsError
from cutaway.weights.load import assign
from cutaway.weights.names import Rule, Unused, layer, match, plain

RULES = (
    Rule("wte.weight", ("embed.weight",)),
    *layer("h.{n}.attn.c_attn", "blocks.{n}.q", "blocks.{n}.k", "blocks.{n}.v", transpose=True),
    *layer("h.{n}.LayerNorm", "blocks.{n}.ln"),
    Rule("lm_head.weight", ("embed.weight",)),
)
IGNORE = (Unused("h.{n}.attn.bias", "a mask", dims=4), Unused("h.{n}.attn.masked_bias", "a number"))
WANTED = {
    "embed.weight": (5, 2),
    "blocks.0.q.weight": (2, 2),
    "blocks.0.k.weight": (2, 2),
    "blocks.0.v.weight": (2, 2),
    "blocks.0.q.bias": (2,),
    "blocks.0.k.bias": (2,),
    "blocks.0.v.bias": (2,),
    "blocks.0.ln.weight": (2,),
    "blocks.0.ln.bias": (2,),
}


@pytest.fixture
def tensors():
    torch.manual_seed(0)
    return {
        "wte.weight": torch.randn(5, 2),
        "h.0.attn.c_attn.weight": torch.randn(2, 6),
        "h.0.attn.c_attn.bias": torch.randn(6),
        "h.0.LayerNorm.weight": torch.randn(2),
        "h.0.LayerNorm.bias": torch.randn(2),
    }


def load(tensors):
    return assign(tensors, RULES, WANTED, IGNORE, "a file")


def problem(tensors) -> str:
    with pytest.raises(WeightsError) as caught:
        load(tensors)
    return str(caught.value)


def test_renamed_transposed_and_split(tensors):
    loaded = load(tensors)
    assert loaded.parameters.keys() == WANTED.keys()
    assert {name: tuple(tensor.shape) for name, tensor in loaded.parameters.items()} == WANTED
    for number, name in enumerate("qkv"):
        assert torch.equal(
            loaded.parameters[f"blocks.0.{name}.weight"], tensors["h.0.attn.c_attn.weight"][:, 2 * number : 2 * number + 2].t()
        )
        assert torch.equal(loaded.parameters[f"blocks.0.{name}.bias"], tensors["h.0.attn.c_attn.bias"][2 * number : 2 * number + 2])
    assert torch.equal(loaded.parameters["embed.weight"], tensors["wte.weight"])
    assert loaded.unused == {}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_the_precision_is_the_files(tensors, dtype):
    assert {p.dtype for p in load({name: t.to(dtype) for name, t in tensors.items()}).parameters.values()} == {dtype}


@pytest.mark.parametrize(
    "prefix", ["", "transformer.", "model.", "module.", "_orig_mod.", "roberta.", "module.transformer.", "_orig_mod.module.model."]
)
def test_prefixes(tensors, prefix):
    loaded = load({prefix + name: tensor for name, tensor in tensors.items()}).parameters
    assert all(torch.equal(loaded[name], tensor) for name, tensor in load(tensors).parameters.items())


def test_prefixes_are_whole_words():
    assert plain("remodel.h.0") == "remodel.h.0"
    assert plain("transformers.h.0") == "transformers.h.0"
    assert plain("h.0.transformer.weight") == "h.0.transformer.weight"


def test_gamma_and_beta_of_a_norm(tensors):
    old = {"weight": "gamma", "bias": "beta"}
    renamed = {".".join([*n.split(".")[:-1], old[n.split(".")[-1]]]) if "LayerNorm" in n else n: t for n, t in tensors.items()}
    assert "h.0.LayerNorm.gamma" in renamed
    assert torch.equal(load(renamed).parameters["blocks.0.ln.weight"], tensors["h.0.LayerNorm.weight"])


@pytest.mark.parametrize(
    "name", ["my_gamma_gate", "h.0.LayerNorm.gamma_gate", "h.0.MyLayerNorm.gamma", "h.0.ln_1.beta", "LayerNorm.gamma.scale"]
)
def test_nothing_else_is_renamed(tensors, name):
    assert plain(name) == name
    assert f"nowhere to put {name}" in problem(tensors | {name: torch.zeros(2)})


@pytest.mark.parametrize("dtype", [torch.float32, torch.bool, torch.uint8])
def test_mask_buffers_are_no_parameters(tensors, dtype):
    buffers = {"h.0.attn.bias": torch.ones(1, 1, 4, 4).tril().to(dtype), "h.0.attn.masked_bias": torch.tensor(-1e4)}
    loaded = load(tensors | buffers)
    assert loaded.unused == {"h.0.attn.bias": "a mask", "h.0.attn.masked_bias": "a number"}
    assert torch.equal(loaded.parameters["blocks.0.q.bias"], tensors["h.0.attn.c_attn.bias"][:2])


def test_a_bias_that_is_no_mask_is_not_ignored(tensors):
    assert "nowhere to put h.0.attn.bias" in problem(tensors | {"h.0.attn.bias": torch.ones(2)})


def test_both_leftovers_in_one_message(tensors):
    del tensors["h.0.attn.c_attn.weight"]
    said = problem(tensors | {"my_gamma_gate": torch.zeros(1), "h.1.LayerNorm.bias": torch.zeros(2)})
    assert "a file" in said
    assert "no tensor for blocks.0.q.weight, blocks.0.k.weight, blocks.0.v.weight" in said
    assert "nowhere to put my_gamma_gate, h.1.LayerNorm.bias" in said


def test_a_shape_that_differs_names_both(tensors):
    said = problem(tensors | {"h.0.attn.c_attn.weight": torch.zeros(6, 2)})
    assert "h.0.attn.c_attn.weight is (6, 2), and blocks.0.q.weight + blocks.0.k.weight + blocks.0.v.weight would need (2, 6)" in said
    assert "no tensor" not in said
    assert "wte.weight is (7, 2), and embed.weight would need (5, 2)" in problem(tensors | {"wte.weight": torch.zeros(7, 2)})


def test_long_lists_are_shortened(tensors):
    said = problem(tensors | {f"extra.{number}": torch.zeros(1) for number in range(100)})
    assert "extra.11, and 88 more" in said


class TestTied:
    def test_both_and_equal(self, tensors):
        loaded = load(tensors | {"lm_head.weight": tensors["wte.weight"].clone()})
        assert torch.equal(loaded.parameters["embed.weight"], tensors["wte.weight"])

    def test_the_output_matrix_alone_is_the_embedding(self, tensors):
        tensors["lm_head.weight"] = tensors.pop("wte.weight")
        assert torch.equal(load(tensors).parameters["embed.weight"], tensors["lm_head.weight"])

    @pytest.mark.parametrize("first", ["wte.weight", "lm_head.weight"])
    def test_both_and_different(self, tensors, first):
        both = tensors | {"lm_head.weight": tensors["wte.weight"] + 1e-6}
        said = problem({first: both[first]} | both)
        assert "wte.weight" in said
        assert "lm_head.weight" in said
        assert "tie_word_embeddings" in said

    def test_one_weight_under_two_wrappers_must_agree_too(self, tensors):
        load(tensors | {"module.wte.weight": tensors["wte.weight"]})
        assert "differ" in problem(tensors | {"module.wte.weight": torch.zeros(5, 2)})


def test_layers_are_numbers_not_texts():
    """Pitfall 16 in small: layer 10 is layer 10, and 010 is none."""
    assert match("h.{n}.w", "h.10.w") == "10"
    assert match("h.{n}.w", "h.010.w") is None
    assert match("h.{n}.w", "hx1.w") is None
    tensors = {f"h.{number}.w": torch.full((2,), float(number)) for number in sorted(range(12), key=str)}
    wanted = {f"blocks.{number}.w": (2,) for number in range(12)}
    loaded = assign(tensors, [Rule("h.{n}.w", ("blocks.{n}.w",))], wanted)
    assert all(loaded.parameters[f"blocks.{number}.w"][0] == number for number in range(12))
