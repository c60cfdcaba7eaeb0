"""GPT-2 (Radford et al., February 2019): GPT-1 with the norms moved in front, one more at the end, and every byte readable.

Its tokenizer is not here.
"""

from collections.abc import Mapping

from cutaway.core.config import Config, Head
from cutaway.families.family import Dialect, Fact, Family, Published, Quirk, Settings, Shapes, Stated
from cutaway.families.gpt1 import BLOCK, MASKS, VARIABLES, variables
from cutaway.families.keys import Keys, gguf_keys, rows
from cutaway.weights.names import Rule, Unused, layer

PAPER = "https://cdn.openai.com/better-language-models/language_models_are_unsupervised_multitask_learners.pdf"
OPENAI = "https://github.com/openai/gpt-2/blob/master/src/model.py"
README = "https://github.com/openai/gpt-2/blob/master/README.md"
TRANSFORMERS = "https://github.com/huggingface/transformers/blob/main/src/transformers/models/gpt2/modeling_gpt2.py"

HEADS: Mapping[str, Head] = {"GPT2LMHeadModel": "lm", "GPT2Model": "none"}


def config_from(hf_config: Settings, shapes: Shapes) -> Config:
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


def _config(vocab_size: int, context: int, width: int, layers: int, heads: int, *, eps: float = 1e-5, tied: bool = True) -> Config:
    """What all of OpenAI's releases have in common."""
    return Config(
        vocab_size=vocab_size,
        context=context,
        width=width,
        layers=layers,
        heads=heads,
        mlp_width=4 * width,
        causal=True,
        norm_first=True,
        final_norm=True,
        embed_norm=False,
        activation="gelu_tanh",
        norm_eps=eps,
        tied=tied,
    )


def config_from_hparams(hparams: Settings, shapes: Shapes) -> Config:
    """Raises ConfigError for a size that hparams.json lacks: none is guessed."""
    keys = Keys(hparams, "hparams.json")
    config = _config(*(keys.whole(name) for name in ("n_vocab", "n_ctx", "n_embd", "n_layer", "n_head")))
    keys.done()
    return config


def tensorflow_rules(config: Config) -> tuple[Rule, ...]:
    return (
        Rule("model/wte", ("embed.token.weight",)),
        Rule("model/wpe", ("embed.position.weight",)),
        *(rule for part, *ours in VARIABLES for rule in variables(f"model/h{{n}}/{part}", *ours)),
        *variables("model/ln_f", "ln_f"),
    )


SLOT = "what the optimizer kept while training"
SLOTS = (
    Unused("*/Adam", SLOT),
    Unused("*/Adam_1", SLOT),
    Unused("*beta1_power", SLOT),
    Unused("*beta2_power", SLOT),
    Unused("global_step", "how many steps it was trained"),
)


def config_from_gguf(metadata: Settings, shapes: Shapes) -> Config:
    """Raises ConfigError for a key that is missing, contradictory, unknown, or means a computation that is not made here."""
    keys = gguf_keys(metadata, "gpt2")
    width = keys.whole("embedding_length")
    config = _config(
        vocab_size=keys.whole("vocab_size", default=rows(shapes, "token_embd.weight")),
        context=keys.whole("context_length"),
        width=width,
        layers=keys.whole("block_count"),
        heads=keys.whole("attention.head_count"),
        eps=keys.small("attention.layer_norm_epsilon"),
        tied="output.weight" not in shapes,
    ).with_(mlp_width=keys.whole("feed_forward_length", default=4 * width))
    keys.done()
    return config


def gguf_rules(config: Config) -> tuple[Rule, ...]:
    return (
        Rule("token_embd.weight", ("embed.token.weight",)),
        Rule("position_embd.weight", ("embed.position.weight",)),
        *layer("blk.{n}.attn_qkv", "blocks.{n}.attn.q", "blocks.{n}.attn.k", "blocks.{n}.attn.v"),
        *layer("blk.{n}.attn_output", "blocks.{n}.attn.out"),
        *layer("blk.{n}.attn_norm", "blocks.{n}.ln1"),
        *layer("blk.{n}.ffn_up", "blocks.{n}.mlp.up"),
        *layer("blk.{n}.ffn_down", "blocks.{n}.mlp.down"),
        *layer("blk.{n}.ffn_norm", "blocks.{n}.ln2"),
        *layer("output_norm", "ln_f"),
        Rule("output.weight", ("head.unembed.weight",)),
    )


GPT2 = Family(
    name="gpt2",
    title="GPT-2",
    model_type="gpt2",
    heads=HEADS,
    hub=Dialect(config_from=config_from, rules=rules, unused=MASKS),
    others={
        "tensorflow": Dialect(config_from=config_from_hparams, rules=tensorflow_rules, unused=SLOTS),
        "gguf": Dialect(config_from=config_from_gguf, rules=gguf_rules),
    },
    architecture="gpt2",
    tokenizers=("gpt2",),
    released=Fact("2019-02-14", "https://openai.com/index/better-language-models/"),
    parent="gpt1",
    descent=Fact("GPT-1 with the norms in front of each part, one more at the end, all bytes in its vocabulary, twice the context.", PAPER),
    quirks=(
        Quirk('"gelu_new" is the tanh form of GELU.', OPENAI),
        Quirk("Old files hold each layer's causal mask under the name attn.bias; it is no parameter.", TRANSFORMERS),
        Quirk("The files hold no output matrix: the token embedding is used a second time.", OPENAI),
        Quirk("Linear layers are stored [in, out]; one of them is square, so that no shape tells.", TRANSFORMERS),
    ),
    sources=(PAPER, OPENAI),
)


WEBTEXT = Fact(
    "WebText: 40 GB, slightly more than 8 million documents that Reddit linked to before 2018, without Wikipedia; never released.", PAPER
)
MISCOUNTED = Quirk(
    "The paper's table says 117M, 345M, 762M and 1542M, and OpenAI's README that its counts were wrong. To the million they are what "
    "these shapes would have with GPT-1's 40,478 tokens in place of 50,257.",
    README,
)
STAGED = ("https://openai.com/index/gpt-2-6-month-follow-up/", "https://openai.com/index/gpt-2-1-5b-release/")


def _published(name: str, released: Fact, stated: int, *, width: int, layers: int, heads: int) -> Published:
    return Published(
        name=name,
        family=GPT2,
        repo=f"openai-community/{name}",
        config=_config(50257, 1024, width, layers, heads),
        quirks=(MISCOUNTED,),
        released=released,
        trained_on=WEBTEXT,
        stated=Stated(stated, PAPER),
    )


DISTIL = "https://github.com/huggingface/transformers/blob/v4.20.0/examples/research_projects/distillation/README.md"
OPEN_WEBTEXT = Fact("OpenWebTextCorpus, others' reproduction of WebText, under the eyes of its teacher.", DISTIL)

PUBLISHED = (
    _published("gpt2", GPT2.released, 117_000_000, width=768, layers=12, heads=12),
    _published("gpt2-medium", Fact("2019-05", STAGED[0]), 345_000_000, width=1024, layers=24, heads=16),
    _published("gpt2-large", Fact("2019-08-20", STAGED[0]), 762_000_000, width=1280, layers=36, heads=20),
    _published("gpt2-xl", Fact("2019-11-05", STAGED[1]), 1_542_000_000, width=1600, layers=48, heads=25),
    Published(
        name="distilgpt2",
        family=GPT2,
        repo="distilbert/distilgpt2",
        config=_config(50257, 1024, width=768, layers=6, heads=12),
        released=Fact("2019-10-03", DISTIL),
        trained_on=OPEN_WEBTEXT,
        stated=Stated(82_000_000, DISTIL),
        parent="gpt2",
        descent=Fact("Half of its layers, trained by Hugging Face to imitate the whole.", DISTIL),
    ),
)
