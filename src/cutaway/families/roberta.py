"""RoBERTa (Liu et al., July 2019): BERT's architecture, trained longer and better; it reads in both directions.

Its tokenizer is not here, nor the sentence-pair task, which it dropped.
"""

from collections.abc import Mapping
from dataclasses import replace

from cutaway.core.config import Config, Head
from cutaway.errors import ConfigError
from cutaway.families.bert import BODY, UNUSED, encoder, with_pooler
from cutaway.families.family import Dialect, Fact, Family, Published, Quirk, Settings, Shapes, Stated
from cutaway.families.gpt2 import DISTIL, OPEN_WEBTEXT, STAGED
from cutaway.families.keys import Keys, rows
from cutaway.weights.names import Rule, Unused, layer

PAPER = "https://arxiv.org/abs/1907.11692"
FAIRSEQ = "https://github.com/facebookresearch/fairseq/tree/main/examples/roberta"
TRANSFORMERS = "https://github.com/huggingface/transformers/blob/main/src/transformers/models/roberta/modeling_roberta.py"
DETECTOR = "https://github.com/openai/gpt-2-output-dataset/tree/master/detector"

HEADS: Mapping[str, Head] = {"RobertaForMaskedLM": "mlm", "RobertaForSequenceClassification": "classify", "RobertaModel": "none"}


def config_from(hf_config: Settings, shapes: Shapes) -> Config:
    """Raises ConfigError for a key that is missing, contradictory, unknown, or means a computation that is not made here."""
    keys = Keys(hf_config)
    head = with_pooler(keys.head(HEADS), shapes)
    # The row of the padding token, and those before it, are no token's position; the first is the next one.
    places, offset = keys.whole("max_position_embeddings"), keys.whole("pad_token_id", least=0) + 1
    if places <= offset:
        raise ConfigError(f"max_position_embeddings is {places}, and pad_token_id {offset - 1} leaves no row for a token")
    activations = {"gelu": "gelu_erf", "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh"}
    config = encoder(
        keys,
        context=places - offset,
        activation=keys.choice("hidden_act", activations),
        position_offset=offset,
        head=head,
        classes=len(keys.labels()) if head == "classify" else 0,
    )
    keys.done()
    return config


def labels_from(hf_config: Settings) -> tuple[str, ...]:
    """What a classifier's file calls its classes, by index. Unnamed ones are LABEL_0, LABEL_1, …"""
    return Keys(hf_config).labels()


def rules(config: Config) -> tuple[Rule, ...]:
    return (*BODY, *_head(config))


def _head(config: Config) -> tuple[Rule, ...]:
    if config.head == "classify":
        return (*layer("classifier.dense", "head.dense"), *layer("classifier.out_proj", "head.out"))
    if config.head in ("none", "pooler"):
        return layer("pooler.dense", "head.dense") if config.head == "pooler" else ()
    output = "embed.token.weight" if config.tied else "head.unembed.weight"
    return (
        *layer("lm_head.dense", "head.dense"),
        *layer("lm_head.layer_norm", "head.norm"),
        Rule("lm_head.bias", ("head.bias",)),
        Rule("lm_head.decoder.weight", (output,)),
        Rule("lm_head.decoder.bias", ("head.bias",)),
    )


ARCHITECTURES = ("roberta", "roberta_base", "roberta_large")


def config_from_fairseq(args: Settings, shapes: Shapes) -> Config:
    """Raises ConfigError for an architecture that is not RoBERTa's, and for a size that the checkpoint does not state."""
    keys = Keys(args, "the checkpoint's args")
    keys.choice("arch" if "arch" in args else "_name", dict.fromkeys(ARCHITECTURES, True))
    table = next((name for name in shapes if name.endswith("sentence_encoder.embed_tokens.weight")), "embed_tokens.weight")
    if keys.yes("encoder_normalize_before", default=False):
        raise ConfigError("The checkpoint has encoder_normalize_before, norms in front, which no RoBERTa here has", expected="false")
    return Config(
        vocab_size=rows(shapes, table),
        context=keys.whole("max_positions"),
        width=keys.whole("encoder_embed_dim"),
        layers=keys.whole("encoder_layers"),
        heads=keys.whole("encoder_attention_heads"),
        mlp_width=keys.whole("encoder_ffn_embed_dim"),
        causal=False,
        norm_first=False,
        final_norm=False,
        embed_norm=True,
        activation=keys.choice("activation_fn", {"gelu": "gelu_erf"}),
        position_offset=2,
        head="mlm",
        tied=not keys.yes("untie_weights_roberta", default=False),
    )


def fairseq_rules(config: Config) -> tuple[Rule, ...]:
    """The body was called a decoder first and an encoder later; q, k and v were one matrix first and three later."""
    output = "embed.token.weight" if config.tied else "head.unembed.weight"
    return tuple(
        replace(rule, theirs=f"{side}.{rule.theirs}") for side in ("decoder", "encoder") for rule in (*FAIRSEQ_BODY, *FAIRSEQ_HEAD)
    ) + tuple(Rule(f"{side}.lm_head.weight", (output,)) for side in ("decoder", "encoder"))


_QKV = ("blocks.{n}.attn.q", "blocks.{n}.attn.k", "blocks.{n}.attn.v")
FAIRSEQ_BODY = (
    Rule("sentence_encoder.embed_tokens.weight", ("embed.token.weight",)),
    Rule("sentence_encoder.embed_positions.weight", ("embed.position.weight",)),
    *layer("sentence_encoder.emb_layer_norm", "embed.norm"),
    *layer("sentence_encoder.layernorm_embedding", "embed.norm"),
    Rule("sentence_encoder.layers.{n}.self_attn.in_proj_weight", tuple(f"{name}.weight" for name in _QKV)),
    Rule("sentence_encoder.layers.{n}.self_attn.in_proj_bias", tuple(f"{name}.bias" for name in _QKV)),
    *layer("sentence_encoder.layers.{n}.self_attn.q_proj", "blocks.{n}.attn.q"),
    *layer("sentence_encoder.layers.{n}.self_attn.k_proj", "blocks.{n}.attn.k"),
    *layer("sentence_encoder.layers.{n}.self_attn.v_proj", "blocks.{n}.attn.v"),
    *layer("sentence_encoder.layers.{n}.self_attn.out_proj", "blocks.{n}.attn.out"),
    *layer("sentence_encoder.layers.{n}.self_attn_layer_norm", "blocks.{n}.ln1"),
    *layer("sentence_encoder.layers.{n}.fc1", "blocks.{n}.mlp.up"),
    *layer("sentence_encoder.layers.{n}.fc2", "blocks.{n}.mlp.down"),
    *layer("sentence_encoder.layers.{n}.final_layer_norm", "blocks.{n}.ln2"),
)
FAIRSEQ_HEAD = (
    *layer("lm_head.dense", "head.dense"),
    *layer("lm_head.layer_norm", "head.norm"),
    Rule("lm_head.bias", ("head.bias",)),
)

ROBERTA = Family(
    name="roberta",
    title="RoBERTa",
    model_type="roberta",
    heads=HEADS,
    hub=Dialect(config_from=config_from, rules=rules, unused=UNUSED),
    others={
        "fairseq": Dialect(
            config_from=config_from_fairseq,
            rules=fairseq_rules,
            unused=(Unused("*.embed_positions._float_tensor", "a mark of the precision"), Unused("*.version", "a file version")),
        )
    },
    tokenizers=("roberta",),
    released=Fact("2019-07-26", PAPER),
    parent="bert",
    descent=Fact("BERT trained longer on ten times the text, without the sentence-pair task, in GPT-2's vocabulary of bytes.", PAPER),
    quirks=(
        Quirk(
            "Its 514 rows of positions are for 512 tokens: the first token's position is 2, the padding token's id plus one.", TRANSFORMERS
        ),
        Quirk("Its token ids are not GPT-2's, though the merges are: a second dictionary numbers them by frequency.", FAIRSEQ),
        Quirk("It has one segment, whose vector is the same for every token and is still added.", TRANSFORMERS),
        Quirk("fairseq's own checkpoints have no segment table at all; the one in the Hub's files was added as zeros.", FAIRSEQ),
        Quirk("Files may hold a pooler that no masked-word head reads.", TRANSFORMERS),
        Quirk('"gelu" is the erf form, in the blocks and in the head.', TRANSFORMERS),
    ),
    sources=(PAPER, FAIRSEQ),
)


BASE = Config(
    vocab_size=50265,
    context=512,
    width=768,
    layers=12,
    heads=12,
    mlp_width=3072,
    causal=False,
    norm_first=False,
    final_norm=False,
    embed_norm=True,
    activation="gelu_erf",
    position_offset=2,
    segments=1,
    head="mlm",
)
LARGE = BASE.with_(width=1024, layers=24, heads=16, mlp_width=4096)

TEXTS = Fact(
    "More than 160 GB of English: BooksCorpus and Wikipedia (16 GB), CC-News (76 GB), OpenWebText (38 GB) and Stories (31 GB).", PAPER
)
MACHINE_OR_HUMAN = ("Fake", "Real")
DETECTS = Quirk("Class 0 is machine-made and class 1 is human.", DETECTOR)


def _detector(teacher: str, config: Config) -> Published:
    return Published(
        name=f"{teacher}-openai-detector",
        family=ROBERTA,
        repo=f"openai-community/{teacher}-openai-detector",
        config=config.with_(head="classify", classes=len(MACHINE_OR_HUMAN)),
        labels=MACHINE_OR_HUMAN,
        quirks=(DETECTS,),
        released=Fact("2019-11-05", STAGED[1]),
        trained_on=Fact("What GPT-2 of 1.5 billion parameters wrote, sampled in two ways, against WebText.", DETECTOR),
        parent=teacher,
        descent=Fact("Trained further by OpenAI to tell GPT-2's texts from people's.", DETECTOR),
    )


PUBLISHED = (
    Published(
        name="roberta-base",
        aliases=("roberta",),
        family=ROBERTA,
        repo="FacebookAI/roberta-base",
        config=BASE,
        released=ROBERTA.released,
        trained_on=TEXTS,
        stated=Stated(125_000_000, FAIRSEQ),
    ),
    Published(
        name="roberta-large",
        family=ROBERTA,
        repo="FacebookAI/roberta-large",
        config=LARGE,
        released=ROBERTA.released,
        trained_on=TEXTS,
        stated=Stated(355_000_000, FAIRSEQ),
    ),
    Published(
        name="distilroberta-base",
        family=ROBERTA,
        repo="distilbert/distilroberta-base",
        config=BASE.with_(layers=6),
        released=Fact("2019-10-23", DISTIL),
        trained_on=OPEN_WEBTEXT,
        stated=Stated(82_000_000, DISTIL),
        parent="roberta-base",
        descent=Fact("Half of its layers, trained by Hugging Face to imitate the whole.", DISTIL),
    ),
    _detector("roberta-base", BASE),
    _detector("roberta-large", LARGE),
)
