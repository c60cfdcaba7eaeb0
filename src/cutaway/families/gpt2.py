"""GPT-2 (Radford et al., February 2019): GPT-1 with the norms moved in front, one more at the end, and every byte readable.

Its tokenizer is not here.
"""

from collections.abc import Mapping
from typing import Any

from cutaway.core.config import Config, Head
from cutaway.families.family import Family, Published, Quirk
from cutaway.families.gpt1 import BLOCK, MASKS
from cutaway.families.keys import Keys
from cutaway.weights.names import Rule, layer

OPENAI = "https://github.com/openai/gpt-2/blob/master/src/model.py"
TRANSFORMERS = "https://github.com/huggingface/transformers/blob/main/src/transformers/models/gpt2/modeling_gpt2.py"

HEADS: Mapping[str, Head] = {"GPT2LMHeadModel": "lm", "GPT2Model": "none"}


def config_from(hf_config: Mapping[str, Any]) -> Config:
    """Raises ConfigError for a key that is missing, contradictory, unknown, or means a computation that is not made here."""
    keys = Keys(hf_config)
    width = keys.whole("n_embd", same=("hidden_size",))
    config = Config(
        vocab_size=keys.whole("vocab_size"),
        context=keys.whole("n_positions", same=("n_ctx", "max_position_embeddings")),
        width=width,
        layers=keys.whole("n_layer", same=("num_hidden_layers",)),
        heads=keys.whole("n_head", same=("num_attention_heads",)),
        mlp_width=keys.whole("n_inner", default=4 * width),
        causal=True,
        norm_first=True,
        final_norm=True,
        embed_norm=False,
        activation=keys.choice("activation_function", {"gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "gelu": "gelu_erf"}),
        norm_eps=keys.small("layer_norm_epsilon"),
        head=keys.head(HEADS),
        tied=keys.yes("tie_word_embeddings", default=True),
    )
    keys.done({"scale_attn_weights": True, "scale_attn_by_inverse_layer_idx": False, "reorder_and_upcast_attn": False})
    return config


def rules(config: Config) -> tuple[Rule, ...]:
    output = "embed.token.weight" if config.tied else "head.unembed.weight"
    return (
        Rule("wte.weight", ("embed.token.weight",)),
        Rule("wpe.weight", ("embed.position.weight",)),
        *BLOCK,
        *layer("ln_f", "ln_f"),
        Rule("lm_head.weight", (output,)),
    )


GPT2 = Family(
    name="gpt2",
    title="GPT-2",
    model_type="gpt2",
    heads=HEADS,
    config_from=config_from,
    rules=rules,
    unused=MASKS,
    quirks=(
        Quirk('"gelu_new" is the tanh form of GELU.', OPENAI),
        Quirk("Old files hold each layer's causal mask under the name attn.bias; it is no parameter.", TRANSFORMERS),
        Quirk("The files hold no output matrix: the token embedding is used a second time.", OPENAI),
        Quirk("Linear layers are stored [in, out]; one of them is square, so that no shape tells.", TRANSFORMERS),
    ),
    sources=("https://cdn.openai.com/better-language-models/language_models_are_unsupervised_multitask_learners.pdf", OPENAI),
)


def _published(name: str, repo: str, *, width: int, layers: int, heads: int, quirks: tuple[Quirk, ...] = ()) -> Published:
    config = Config(
        vocab_size=50257,
        context=1024,
        width=width,
        layers=layers,
        heads=heads,
        mlp_width=4 * width,
        causal=True,
        norm_first=True,
        final_norm=True,
        embed_norm=False,
        activation="gelu_tanh",
    )
    return Published(name=name, family=GPT2, repo=repo, config=config, quirks=quirks)


DISTILLED = Quirk("Half of GPT-2's layers, trained by Hugging Face to imitate the whole.", "https://huggingface.co/distilbert/distilgpt2")

PUBLISHED = (
    _published("gpt2", "openai-community/gpt2", width=768, layers=12, heads=12),
    _published("gpt2-medium", "openai-community/gpt2-medium", width=1024, layers=24, heads=16),
    _published("gpt2-large", "openai-community/gpt2-large", width=1280, layers=36, heads=20),
    _published("gpt2-xl", "openai-community/gpt2-xl", width=1600, layers=48, heads=25),
    _published("distilgpt2", "distilbert/distilgpt2", width=768, layers=6, heads=12, quirks=(DISTILLED,)),
)
