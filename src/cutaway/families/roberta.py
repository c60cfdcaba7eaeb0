"""RoBERTa (Liu et al., July 2019): BERT's architecture, trained longer and better; it reads in both directions.

Its tokenizer is not here, nor the sentence-pair task, which it dropped.
"""

from collections.abc import Mapping
from typing import Any

from cutaway.core.config import Config, Head
from cutaway.errors import ConfigError
from cutaway.families.family import Family, Published, Quirk
from cutaway.families.keys import Keys
from cutaway.weights.names import Rule, Unused, layer

FAIRSEQ = "https://github.com/facebookresearch/fairseq/tree/main/examples/roberta"
TRANSFORMERS = "https://github.com/huggingface/transformers/blob/main/src/transformers/models/roberta/modeling_roberta.py"
DETECTOR = "https://github.com/openai/gpt-2-output-dataset/tree/master/detector"

HEADS: Mapping[str, Head] = {"RobertaForMaskedLM": "mlm", "RobertaForSequenceClassification": "classify", "RobertaModel": "none"}


def config_from(hf_config: Mapping[str, Any]) -> Config:
    """Raises ConfigError for a key that is missing, contradictory, unknown, or means a computation that is not made here."""
    keys = Keys(hf_config)
    head = keys.head(HEADS)
    # The row of the padding token, and those before it, are no token's position; the first is the next one.
    rows, offset = keys.whole("max_position_embeddings"), keys.whole("pad_token_id", least=0) + 1
    if rows <= offset:
        raise ConfigError(f"max_position_embeddings is {rows}, and pad_token_id {offset - 1} leaves no row for a token")
    config = Config(
        vocab_size=keys.whole("vocab_size"),
        context=rows - offset,
        width=keys.whole("hidden_size"),
        layers=keys.whole("num_hidden_layers"),
        heads=keys.whole("num_attention_heads"),
        mlp_width=keys.whole("intermediate_size"),
        causal=False,
        norm_first=False,
        final_norm=False,
        embed_norm=True,
        activation=keys.choice("hidden_act", {"gelu": "gelu_erf", "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh"}),
        position_offset=offset,
        segments=keys.whole("type_vocab_size"),
        norm_eps=keys.small("layer_norm_eps"),
        head=head,
        tied=keys.yes("tie_word_embeddings", default=True),
        classes=len(keys.labels()) if head == "classify" else 0,
    )
    keys.done()
    return config


def labels_from(hf_config: Mapping[str, Any]) -> tuple[str, ...]:
    """What a classifier's file calls its classes, by index. Unnamed ones are LABEL_0, LABEL_1, …"""
    return Keys(hf_config).labels()


def rules(config: Config) -> tuple[Rule, ...]:
    return (*BODY, *_head(config))


def _head(config: Config) -> tuple[Rule, ...]:
    if config.head == "classify":
        return (*layer("classifier.dense", "head.dense"), *layer("classifier.out_proj", "head.out"))
    if config.head == "none":
        return ()
    output = "embed.token.weight" if config.tied else "head.unembed.weight"
    return (
        *layer("lm_head.dense", "head.dense"),
        *layer("lm_head.layer_norm", "head.norm"),
        Rule("lm_head.bias", ("head.bias",)),
        Rule("lm_head.decoder.weight", (output,)),
        Rule("lm_head.decoder.bias", ("head.bias",)),
    )


BODY = (
    Rule("embeddings.word_embeddings.weight", ("embed.token.weight",)),
    Rule("embeddings.position_embeddings.weight", ("embed.position.weight",)),
    Rule("embeddings.token_type_embeddings.weight", ("embed.segment.weight",)),
    *layer("embeddings.LayerNorm", "embed.norm"),
    *layer("encoder.layer.{n}.attention.self.query", "blocks.{n}.attn.q"),
    *layer("encoder.layer.{n}.attention.self.key", "blocks.{n}.attn.k"),
    *layer("encoder.layer.{n}.attention.self.value", "blocks.{n}.attn.v"),
    *layer("encoder.layer.{n}.attention.output.dense", "blocks.{n}.attn.out"),
    *layer("encoder.layer.{n}.attention.output.LayerNorm", "blocks.{n}.ln1"),
    *layer("encoder.layer.{n}.intermediate.dense", "blocks.{n}.mlp.up"),
    *layer("encoder.layer.{n}.output.dense", "blocks.{n}.mlp.down"),
    *layer("encoder.layer.{n}.output.LayerNorm", "blocks.{n}.ln2"),
)

POOLER = "part of BERT's sentence-pair task; nothing here reads it"

ROBERTA = Family(
    name="roberta",
    title="RoBERTa",
    model_type="roberta",
    heads=HEADS,
    config_from=config_from,
    rules=rules,
    unused=(
        Unused("embeddings.position_ids", "the numbers 0, 1, 2, …"),
        Unused("embeddings.token_type_ids", "zeros"),
        Unused("pooler.dense.weight", POOLER),
        Unused("pooler.dense.bias", POOLER),
    ),
    quirks=(
        Quirk(
            "Its 514 rows of positions are for 512 tokens: the first token's position is 2, the padding token's id plus one.", TRANSFORMERS
        ),
        Quirk("Its token ids are not GPT-2's, though the merges are: a second dictionary numbers them by frequency.", FAIRSEQ),
        Quirk("It has one segment, whose vector is the same for every token and is still added.", TRANSFORMERS),
        Quirk("Files may hold a pooler that no masked-word head reads.", TRANSFORMERS),
        Quirk('"gelu" is the erf form, in the blocks and in the head.', TRANSFORMERS),
    ),
    sources=("https://arxiv.org/abs/1907.11692", FAIRSEQ),
)


def _published(name: str, repo: str, config: Config, *quirks: Quirk, alias: str = "", labels: tuple[str, ...] = ()) -> Published:
    aliases = (alias,) if alias else ()
    return Published(name=name, family=ROBERTA, repo=repo, config=config, aliases=aliases, labels=labels, quirks=quirks)


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

MACHINE_OR_HUMAN = ("Fake", "Real")
DETECTS = Quirk("Class 0 is machine-made and class 1 is human.", DETECTOR)
DISTILLED = Quirk(
    "Half of RoBERTa's layers, trained by Hugging Face to imitate the whole.", "https://huggingface.co/distilbert/distilroberta-base"
)

PUBLISHED = (
    _published("roberta-base", "FacebookAI/roberta-base", BASE, alias="roberta"),
    _published("roberta-large", "FacebookAI/roberta-large", LARGE),
    _published("distilroberta-base", "distilbert/distilroberta-base", BASE.with_(layers=6), DISTILLED),
    *(
        _published(f"{name}-openai-detector", f"openai-community/{name}-openai-detector", config, DETECTS, labels=MACHINE_OR_HUMAN)
        for name, config in (
            ("roberta-base", BASE.with_(head="classify", classes=2)),
            ("roberta-large", LARGE.with_(head="classify", classes=2)),
        )
    ),
)
