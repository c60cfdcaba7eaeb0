"""The known models: their names, their sizes, and that knowing them needs no torch."""

import subprocess
import sys

import pytest
import torch
import transformers

from cutaway.core.transformer import Transformer
from cutaway.families import FAMILIES, PUBLISHED, find_known

KNOWN = [
    "openai-gpt", "gpt1", "gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl", "roberta-base", "roberta", "roberta-large",
    "roberta-base-openai-detector", "roberta-large-openai-detector", "distilgpt2", "distilroberta-base",
    "openai-community/gpt2", "FacebookAI/roberta-base",
]  # fmt: skip

# GPT-1's and GPT-2's totals as the design states them.
PARAMETERS = {
    "openai-gpt": 116_534_784,
    "gpt2": 124_439_808,
    "gpt2-medium": 354_823_168,
    "gpt2-large": 774_030_080,
    "gpt2-xl": 1_557_611_200,
}

WORDS = {
    "gpt1": {"vocab_size": "vocab_size", "n_embd": "width", "n_layer": "layers", "n_head": "heads", "n_positions": "context"},
    "roberta": {
        "vocab_size": "vocab_size", "hidden_size": "width", "num_hidden_layers": "layers", "num_attention_heads": "heads",
        "intermediate_size": "mlp_width", "max_position_embeddings": "position_rows", "type_vocab_size": "segments",
        "layer_norm_eps": "norm_eps",
    },
}  # fmt: skip
WORDS["gpt2"] = WORDS["gpt1"]

ORACLES = {
    ("gpt1", "lm"): (transformers.OpenAIGPTLMHeadModel, transformers.OpenAIGPTConfig),
    ("gpt2", "lm"): (transformers.GPT2LMHeadModel, transformers.GPT2Config),
    ("roberta", "mlm"): (transformers.RobertaForMaskedLM, transformers.RobertaConfig),
    ("roberta", "classify"): (transformers.RobertaForSequenceClassification, transformers.RobertaConfig),
}


@pytest.mark.parametrize("name", KNOWN)
def test_known(name):
    assert name in find_known(name).names


@pytest.mark.parametrize("name", ["gpt3", "GPT2", "", "gpt2 ", "./gpt2", "openai-community"])
def test_not_known(name):
    assert find_known(name) is None


def test_no_two_models_answer_to_one_name():
    names = [name for published in PUBLISHED for name in published.names]
    assert len(names) == len(set(names))


def test_nothing_is_pinned_without_a_source():
    assert all(published.revision is None for published in PUBLISHED)


@pytest.mark.parametrize("published", PUBLISHED, ids=lambda published: published.name)
def test_as_many_parameters_as_the_reference_has_at_these_sizes(published):
    config = published.config
    model_class, config_class = ORACLES[published.family.name, config.head]
    sizes = {theirs: getattr(config, our) for theirs, our in WORDS[published.family.name].items()}
    with torch.device("meta"):
        count = sum(p.numel() for p in Transformer(config).parameters())
        theirs = config_class(**sizes)
        assert count == sum(p.numel() for p in model_class(theirs).parameters())
    assert count == PARAMETERS.get(published.name, count)
    assert published.family.hub.config_from({**theirs.to_dict(), "architectures": [model_class.__name__]}, {}) == config


@pytest.mark.parametrize("family", FAMILIES.values(), ids=lambda family: family.name)
def test_each_quirk_is_a_sentence_with_a_source(family):
    assert family.quirks
    assert all(quirk.says.endswith(".") and quirk.source.startswith("https://") for quirk in family.quirks)


def test_knowing_the_models_needs_no_torch():
    program = f"import sys; sys.path[:] = {sys.path!r}; from cutaway.families import find_known; assert find_known('gpt2')"
    program += "; assert not {'torch', 'huggingface_hub'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)
