"""BERT (Devlin et al., October 2018), a relative: RoBERTa's architecture before RoBERTa, with two segments and a pooler.

Its tokenizer is not here, nor the sentence-pair task.
"""

from collections.abc import Mapping
from typing import Any

from cutaway.core.config import Config, Head
from cutaway.families.family import Dialect, Fact, Family, Quirk, Settings, Shapes
from cutaway.families.keys import Keys, gguf_keys, rows
from cutaway.weights.names import Rule, Unused, layer

PAPER = "https://arxiv.org/abs/1810.04805"
GOOGLE = "https://github.com/google-research/bert/blob/master/modeling.py"
TRANSFORMERS = "https://github.com/huggingface/transformers/blob/main/src/transformers/models/bert/modeling_bert.py"

HEADS: Mapping[str, Head] = {"BertForMaskedLM": "mlm", "BertForPreTraining": "mlm", "BertModel": "none"}


def with_pooler(head: Head, shapes: Shapes) -> Head:
    """A body's file may hold a pooler or not, and config.json does not say."""
    return "pooler" if head == "none" and any(name.endswith("pooler.dense.weight") for name in shapes) else head


def config_from(hf_config: Settings, shapes: Shapes) -> Config:
    """Raises ConfigError for a key that is missing, contradictory, unknown, or means a computation that is not made here."""
    keys = Keys(hf_config)
    head, activation = with_pooler(keys.head(HEADS), shapes), keys.choice("hidden_act", {"gelu": "gelu_erf"})
    config = encoder(keys, context=keys.whole("max_position_embeddings"), activation=activation, head=head)
    keys.done()
    return config


def encoder(keys: Keys, **own: Any) -> Config:
    """What config.json says in the same words of BERT and of RoBERTa; `own` is what it does not."""
    return Config(
        vocab_size=keys.whole("vocab_size"),
        width=keys.whole("hidden_size"),
        layers=keys.whole("num_hidden_layers"),
        heads=keys.whole("num_attention_heads"),
        mlp_width=keys.whole("intermediate_size"),
        causal=False,
        norm_first=False,
        final_norm=False,
        embed_norm=True,
        segments=keys.whole("type_vocab_size"),
        norm_eps=keys.small("layer_norm_eps"),
        tied=keys.yes("tie_word_embeddings", default=True),
        **own,
    )


def rules(config: Config) -> tuple[Rule, ...]:
    heads = {"none": (), "pooler": layer("pooler.dense", "head.dense"), "mlm": MASKED}
    output = "embed.token.weight" if config.tied else "head.unembed.weight"
    return (*BODY, *heads[config.head], *((Rule("cls.predictions.decoder.weight", (output,)),) if config.head == "mlm" else ()))


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
MASKED = (
    *layer("cls.predictions.transform.dense", "head.dense"),
    *layer("cls.predictions.transform.LayerNorm", "head.norm"),
    Rule("cls.predictions.bias", ("head.bias",)),
    Rule("cls.predictions.decoder.bias", ("head.bias",)),
)


PAIR = "part of BERT's sentence-pair task; nothing here reads it"
UNUSED = (
    Unused("embeddings.position_ids", "the numbers 0, 1, 2 and so on"),
    Unused("embeddings.token_type_ids", "zeros"),
    Unused("pooler.dense.weight", PAIR),  # where another head stands on the body
    Unused("pooler.dense.bias", PAIR),
)


def config_from_gguf(metadata: Settings, shapes: Shapes) -> Config:
    """Raises ConfigError for a key that is missing, contradictory, unknown, or means a computation that is not made here."""
    keys = gguf_keys(metadata, "bert")
    config = Config(
        vocab_size=keys.whole("vocab_size", default=rows(shapes, "token_embd.weight")),
        context=keys.whole("context_length"),
        width=keys.whole("embedding_length"),
        layers=keys.whole("block_count"),
        heads=keys.whole("attention.head_count"),
        mlp_width=keys.whole("feed_forward_length"),
        causal=keys.yes("attention.causal", default=False),
        norm_first=False,
        final_norm=False,
        embed_norm=True,
        activation="gelu_erf",
        segments=rows(shapes, "token_types.weight"),
        norm_eps=keys.small("attention.layer_norm_epsilon"),
        head="none",
    )
    keys.done(ignored=("pooling_type",))
    return config


def gguf_rules(config: Config) -> tuple[Rule, ...]:
    return (
        Rule("token_embd.weight", ("embed.token.weight",)),
        Rule("position_embd.weight", ("embed.position.weight",)),
        Rule("token_types.weight", ("embed.segment.weight",)),
        *layer("token_embd_norm", "embed.norm"),
        *layer("blk.{n}.attn_q", "blocks.{n}.attn.q"),
        *layer("blk.{n}.attn_k", "blocks.{n}.attn.k"),
        *layer("blk.{n}.attn_v", "blocks.{n}.attn.v"),
        *layer("blk.{n}.attn_output", "blocks.{n}.attn.out"),
        *layer("blk.{n}.attn_output_norm", "blocks.{n}.ln1"),
        *layer("blk.{n}.ffn_up", "blocks.{n}.mlp.up"),
        *layer("blk.{n}.ffn_down", "blocks.{n}.mlp.down"),
        *layer("blk.{n}.layer_output_norm", "blocks.{n}.ln2"),
    )


BERT = Family(
    name="bert",
    title="BERT",
    model_type="bert",
    heads=HEADS,
    hub=Dialect(
        config_from=config_from,
        rules=rules,
        unused=(*UNUSED, Unused("cls.seq_relationship.weight", PAIR), Unused("cls.seq_relationship.bias", PAIR)),
    ),
    others={"gguf": Dialect(config_from=config_from_gguf, rules=gguf_rules)},
    architecture="bert",
    tokenizers=("wordpiece",),
    released=Fact("2018-10-11", PAPER),
    descent=Fact("The Transformer's encoder alone, in GPT-1's size: it is trained to fill gaps, and reads in both directions.", PAPER),
    quirks=(
        Quirk("It has two segments; a text alone is the first, whose vector is added to every token.", GOOGLE),
        Quirk("The pooler reads the first position alone and is no language-model head.", GOOGLE),
        Quirk("The norms' epsilon is 1e-12, smaller than single precision can add to 1.", GOOGLE),
    ),
    sources=(PAPER, GOOGLE, TRANSFORMERS),
)
