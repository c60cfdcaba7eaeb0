"""GPT-1 (Radford et al., June 2018): the first of the line, post-norm, in a vocabulary of lower-case words.

Its tokenizer is not here.
"""

from collections.abc import Mapping
from dataclasses import replace

from cutaway.core.config import Config, Head
from cutaway.errors import ConfigError
from cutaway.families.family import Dialect, Fact, Family, Published, Quirk, Settings, Shapes
from cutaway.families.keys import Keys
from cutaway.weights.names import Rule, Unused, layer

PAPER = "https://cdn.openai.com/research-covers/language-unsupervised/language_understanding_paper.pdf"
OPENAI = "https://github.com/openai/finetune-transformer-lm/blob/master/train.py"
TRANSFORMERS = "https://github.com/huggingface/transformers/blob/main/src/transformers/models/openai/modeling_openai.py"

HEADS: Mapping[str, Head] = {"OpenAIGPTLMHeadModel": "lm", "OpenAIGPTModel": "none"}


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
        mlp_width=4 * width,
        causal=True,
        norm_first=False,
        final_norm=False,
        embed_norm=False,
        # The word is "gelu" and the function the tanh form: ACT_FNS in modeling_openai.py, gelu in OpenAI's train.py.
        activation=keys.choice("afn", {"gelu": "gelu_tanh"}),
        norm_eps=keys.small("layer_norm_epsilon"),
        head=keys.head(HEADS),
        tied=keys.yes("tie_word_embeddings", default=True),
    )
    keys.done()
    return config


def rules(config: Config) -> tuple[Rule, ...]:
    output = "embed.token.weight" if config.tied else "head.unembed.weight"
    return (
        Rule("tokens_embed.weight", ("embed.token.weight",)),
        Rule("positions_embed.weight", ("embed.position.weight",)),
        *BLOCK,
        Rule("lm_head.weight", (output,)),
    )


# Stored [in, out], as the 1×1 convolutions they were (conv1d in OpenAI's train.py); q, k and v side by side.
BLOCK = (
    *layer("h.{n}.attn.c_attn", "blocks.{n}.attn.q", "blocks.{n}.attn.k", "blocks.{n}.attn.v", transpose=True),
    *layer("h.{n}.attn.c_proj", "blocks.{n}.attn.out", transpose=True),
    *layer("h.{n}.ln_1", "blocks.{n}.ln1"),
    *layer("h.{n}.mlp.c_fc", "blocks.{n}.mlp.up", transpose=True),
    *layer("h.{n}.mlp.c_proj", "blocks.{n}.mlp.down", transpose=True),
    *layer("h.{n}.ln_2", "blocks.{n}.ln2"),
)

MASKS = (
    Unused("h.{n}.attn.bias", "the causal mask, not a bias", dims=4),
    Unused("h.{n}.attn.masked_bias", "the number that masked scores were replaced by"),
)

# The variables of one block of OpenAI's models, in the order in which GPT-1's train.py makes them.
VARIABLES = (
    ("attn/c_attn", "blocks.{n}.attn.q", "blocks.{n}.attn.k", "blocks.{n}.attn.v"),
    ("attn/c_proj", "blocks.{n}.attn.out"),
    ("ln_1", "blocks.{n}.ln1"),
    ("mlp/c_fc", "blocks.{n}.mlp.up"),
    ("mlp/c_proj", "blocks.{n}.mlp.down"),
    ("ln_2", "blocks.{n}.ln2"),
)


def variables(theirs: str, *ours: str) -> tuple[Rule, Rule]:
    """g and b of a norm are its gain and bias; w of a layer is stored as a convolution of width 1."""
    weight, bias = (tuple(f"{name}.{part}" for name in ours) for part in ("weight", "bias"))
    if theirs.endswith(("ln_1", "ln_2", "ln_f")):
        return Rule(f"{theirs}/g", weight), Rule(f"{theirs}/b", bias)
    return Rule(f"{theirs}/w", weight, transpose=True, convolution=True), Rule(f"{theirs}/b", bias)


def config_from_numpy(hf_config: Settings, shapes: Shapes) -> Config:
    """From the shapes alone, where they are the published model's; else from a config.json beside the files.

    Raises ConfigError: OpenAI's files do not say how many heads there are. Its train.py has 12 for the published sizes.
    """
    if hf_config:
        return config_from(hf_config, shapes)
    published = PUBLISHED[0].config
    if shapes.get("0") != (published.context, published.width) or shapes.get("1") != (published.vocab_size, published.width):
        raise ConfigError(
            f"params_shapes.json begins with {shapes.get('0')} and {shapes.get('1')}, which is not the published GPT-1, "
            "and says nothing of heads",
            expected=f"({published.context}, {published.width}) and ({published.vocab_size}, {published.width})",
            then="put a config.json of model_type openai-gpt beside the files",
        )
    return published


def numpy_rules(config: Config) -> tuple[Rule, ...]:
    """By number: the files have no names."""
    block = [rule for part, *ours in VARIABLES for rule in variables(part, *ours)]
    numbered = (
        replace(rule, theirs=str(2 + len(block) * n + i), ours=tuple(name.replace("{n}", str(n)) for name in rule.ours))
        for n in range(config.layers)
        for i, rule in enumerate(block)
    )
    return Rule("0", ("embed.position.weight",)), Rule("1", ("embed.token.weight",)), *numbered


GPT1 = Family(
    name="gpt1",
    title="GPT-1",
    model_type="openai-gpt",
    heads=HEADS,
    hub=Dialect(config_from=config_from, rules=rules, unused=(*MASKS, Unused("position_ids", "the numbers 0, 1, 2 and so on"))),
    others={"numpy": Dialect(config_from=config_from_numpy, rules=numpy_rules)},
    tokenizers=("gpt1",),
    released=Fact("2018-06-11", "https://openai.com/index/language-unsupervised/"),
    descent=Fact("The Transformer's decoder alone, with no encoder to read: it is trained to say the next word.", PAPER),
    quirks=(
        Quirk('The configuration says "gelu" and means its tanh form.', TRANSFORMERS),
        Quirk("The files hold tokens and positions as two tables; OpenAI's code kept both, and the task's own symbols, in one.", OPENAI),
        Quirk("The norms stand after the sums, and there is none at the end: GPT-2 is the one that moved them.", OPENAI),
        Quirk("Linear layers are stored [in, out].", TRANSFORMERS),
    ),
    sources=(PAPER, OPENAI),
)

PUBLISHED = (
    Published(
        name="openai-gpt",
        aliases=("gpt1",),
        family=GPT1,
        repo="openai-community/openai-gpt",
        config=Config(
            vocab_size=40478,
            context=512,
            width=768,
            layers=12,
            heads=12,
            mlp_width=3072,
            causal=True,
            norm_first=False,
            final_norm=False,
            embed_norm=False,
            activation="gelu_tanh",
        ),
        released=GPT1.released,
        trained_on=Fact("BooksCorpus: more than 7,000 unpublished books.", PAPER),
        quirks=(Quirk("The paper states no number of parameters.", PAPER),),
    ),
)
