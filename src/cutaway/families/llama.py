"""Llama (Touvron et al., February 2023), a relative: GPT-2's plan with rotary positions, RMS norms, a gated MLP and shared keys.

Its tokenizer is not here, nor the stretched rotations of later versions.
"""

from collections.abc import Mapping

from cutaway.core.config import Config, Head
from cutaway.errors import ConfigError
from cutaway.families.family import Dialect, Fact, Family, Quirk, Settings, Shapes
from cutaway.families.keys import Keys, gguf_keys, rows
from cutaway.weights.names import Rule, Unused

PAPER = "https://arxiv.org/abs/2302.13971"
META = "https://github.com/meta-llama/llama/blob/main/llama/model.py"
TRANSFORMERS = "https://github.com/huggingface/transformers/blob/main/src/transformers/models/llama/modeling_llama.py"
LLAMA_CPP = "https://github.com/ggml-org/llama.cpp/blob/master/conversion/llama.py"

HEADS: Mapping[str, Head] = {"LlamaForCausalLM": "lm", "LlamaModel": "none"}

PLAIN: Mapping[str, object] = {"attention_bias": False, "mlp_bias": False, "rope_scaling": None, "rope_interleaved": False}


def config_from(hf_config: Settings, shapes: Shapes) -> Config:
    """Raises ConfigError for a key that is missing, contradictory, unknown, or means a computation that is not made here."""
    keys = Keys(_flat(hf_config))
    keys.choice("hidden_act", {"silu": "swiglu"})
    config = _config(
        vocab_size=keys.whole("vocab_size"),
        context=keys.whole("max_position_embeddings"),
        width=keys.whole("hidden_size"),
        layers=keys.whole("num_hidden_layers"),
        heads=(heads := keys.whole("num_attention_heads")),
        mlp_width=keys.whole("intermediate_size"),
        kv_heads=keys.whole("num_key_value_heads", default=heads),
        norm_eps=keys.small("rms_norm_eps"),
        rotary_base=keys.number("rope_theta", default=10000.0),
        head=keys.head(HEADS),
        tied=keys.yes("tie_word_embeddings", default=False),
    )
    _check_head_width(config, keys.whole("head_dim", default=config.head_width))
    keys.done(PLAIN, ignored=("is_llama_config", "pretraining_tp", "transformers.js_config"))
    return config


def _flat(hf_config: Settings) -> Settings:
    """transformers 5 has all that is said of rotations in one table."""
    told = hf_config.get("rope_parameters")
    if not isinstance(told, Mapping):
        return hf_config
    kind = {} if told.get("rope_type", "default") == "default" else {"rope_scaling": dict(told)}
    others = {key: value for key, value in told.items() if key != "rope_type"}
    return {key: value for key, value in hf_config.items() if key != "rope_parameters"} | (kind or others)


def _config(**sizes: object) -> Config:
    return Config(
        causal=True,
        norm_first=True,
        final_norm=True,
        embed_norm=False,
        activation="swiglu",
        norm="rms",
        bias=False,
        positions="rotary",
        **sizes,  # type: ignore[arg-type]
    )


def _check_head_width(config: Config, told: int) -> None:
    if told != config.head_width:
        given = f"A head is said to be {told} wide, and {config.heads} heads in a width of {config.width} leave it {config.head_width}"
        raise ConfigError(given, expected="heads that share the width equally")


def rules(config: Config) -> tuple[Rule, ...]:
    output = "embed.token.weight" if config.tied else "head.unembed.weight"
    return (
        Rule("embed_tokens.weight", ("embed.token.weight",)),
        *(Rule(f"layers.{{n}}.{theirs}.weight", (f"blocks.{{n}}.{ours}.weight",)) for theirs, ours in LAYERS),
        Rule("norm.weight", ("ln_f.weight",)),
        *((Rule("lm_head.weight", (output,)),) if config.head == "lm" else ()),
    )


LAYERS = (
    ("self_attn.q_proj", "attn.q"),
    ("self_attn.k_proj", "attn.k"),
    ("self_attn.v_proj", "attn.v"),
    ("self_attn.o_proj", "attn.out"),
    ("input_layernorm", "ln1"),
    ("mlp.gate_proj", "mlp.gate"),
    ("mlp.up_proj", "mlp.up"),
    ("mlp.down_proj", "mlp.down"),
    ("post_attention_layernorm", "ln2"),
)


def config_from_gguf(metadata: Settings, shapes: Shapes) -> Config:
    """Raises ConfigError for a key that is missing, contradictory, unknown, or means a computation that is not made here."""
    keys = gguf_keys(metadata, "llama")
    config = _config(
        vocab_size=keys.whole("vocab_size", default=rows(shapes, "token_embd.weight")),
        context=keys.whole("context_length"),
        width=keys.whole("embedding_length"),
        layers=keys.whole("block_count"),
        heads=(heads := keys.whole("attention.head_count")),
        mlp_width=keys.whole("feed_forward_length"),
        kv_heads=keys.whole("attention.head_count_kv", default=heads),
        norm_eps=keys.small("attention.layer_norm_rms_epsilon"),
        rotary_base=keys.number("rope.freq_base", default=10000.0),
        tied="output.weight" not in shapes,
    )
    for key in ("rope.dimension_count", "attention.key_length", "attention.value_length"):
        _check_head_width(config, keys.whole(key, default=config.head_width))
    keys.done()
    return config


def gguf_rules(config: Config) -> tuple[Rule, ...]:
    """llama.cpp rotates neighbours, so its files hold the rows of queries and keys in that order."""
    turned = {"attn.q", "attn.k"}
    return (
        Rule("token_embd.weight", ("embed.token.weight",)),
        *(
            Rule(f"blk.{{n}}.{theirs}.weight", (f"blocks.{{n}}.{ours}.weight",), pairs=config.head_width if ours in turned else 0)
            for theirs, ours in GGUF_LAYERS
        ),
        Rule("output_norm.weight", ("ln_f.weight",)),
        Rule("output.weight", ("head.unembed.weight",)),
    )


GGUF_LAYERS = (
    ("attn_q", "attn.q"),
    ("attn_k", "attn.k"),
    ("attn_v", "attn.v"),
    ("attn_output", "attn.out"),
    ("attn_norm", "ln1"),
    ("ffn_gate", "mlp.gate"),
    ("ffn_up", "mlp.up"),
    ("ffn_down", "mlp.down"),
    ("ffn_norm", "ln2"),
)

LLAMA = Family(
    name="llama",
    title="Llama",
    model_type="llama",
    heads=HEADS,
    hub=Dialect(
        config_from=config_from,
        rules=rules,
        unused=(Unused("layers.{n}.self_attn.rotary_emb.inv_freq", "the speeds of the rotations, which the configuration states"),),
    ),
    others={"gguf": Dialect(config_from=config_from_gguf, rules=gguf_rules)},
    architecture="llama",
    tokenizers=("gpt2",),
    released=Fact("2023-02-27", PAPER),
    parent="gpt2",
    descent=Fact("Pre-norm as in GPT-3, which has GPT-2's plan; SwiGLU as in PaLM, rotary positions as in GPT-NeoX.", PAPER),
    quirks=(
        Quirk("Places are rotations of queries and keys; nothing is added to the embedding.", META),
        Quirk("A head of keys and values may be read by several of queries.", META),
        Quirk("No linear layer has a bias, and the norms take no mean out.", META),
        Quirk("A GGUF holds the rows of queries and keys in another order than the Hub's files.", LLAMA_CPP),
        Quirk("transformers computes norms, angles and softmax in float32 whatever the model's precision.", TRANSFORMERS),
    ),
    sources=(PAPER, META, TRANSFORMERS),
)
