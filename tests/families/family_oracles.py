"""Tiny random models of each family, made by transformers: what they compute is the truth that ours is held to."""

import json
from pathlib import Path

import torch
import transformers
from torch import Tensor

from cutaway.core.config import Config
from cutaway.core.transformer import Transformer, holding
from cutaway.families import family_of
from cutaway.weights.load import Loaded, assign
from cutaway.weights.safetensors import open_safetensors

GPT = {"vocab_size": 97, "n_embd": 48, "n_head": 4, "n_layer": 2, "n_positions": 64, "bos_token_id": 0, "eos_token_id": 0}
ROBERTA = {
    "vocab_size": 97, "hidden_size": 48, "num_attention_heads": 4, "num_hidden_layers": 2, "intermediate_size": 192,
    "max_position_embeddings": 66, "type_vocab_size": 1, "layer_norm_eps": 1e-5,
}  # fmt: skip

MAKERS = {
    "gpt1": (transformers.OpenAIGPTLMHeadModel, transformers.OpenAIGPTConfig, GPT),
    "gpt2": (transformers.GPT2LMHeadModel, transformers.GPT2Config, GPT),
    "roberta": (transformers.RobertaForMaskedLM, transformers.RobertaConfig, ROBERTA),
    "classifier": (transformers.RobertaForSequenceClassification, transformers.RobertaConfig, ROBERTA),
    "gpt1-body": (transformers.OpenAIGPTModel, transformers.OpenAIGPTConfig, GPT),
    "gpt2-body": (transformers.GPT2Model, transformers.GPT2Config, GPT),
    "roberta-body": (transformers.RobertaModel, transformers.RobertaConfig, ROBERTA),
}


def make(kind: str, **changes: object) -> transformers.PreTrainedModel:
    """Every parameter random, biases and norms too, so that none can be lost unseen."""
    model_class, config_class, sizes = MAKERS[kind]
    torch.manual_seed(0)
    model = model_class(config_class(**{**sizes, **changes}, attn_implementation="eager")).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return model


def save(model: transformers.PreTrainedModel, folder: Path) -> Path:
    model.save_pretrained(folder)
    return folder


def truth(model: transformers.PreTrainedModel, ids: Tensor) -> Tensor:
    with torch.no_grad():
        return model(ids)[0]


def read(folder: Path) -> tuple[Config, Loaded]:
    """What a folder's configuration and weights become."""
    hf_config = json.loads((folder / "config.json").read_text())
    family = family_of(hf_config)
    source = open_safetensors(folder)
    config = family.hub.config_from(hf_config, source.shapes)
    with torch.device("meta"):
        wanted = {name: tuple(p.shape) for name, p in Transformer(config).named_parameters()}
    return config, assign(source, family.hub.rules(config), wanted, family.hub.unused, str(folder))


def ours(folder: Path, ids: Tensor) -> Tensor:
    config, loaded = read(folder)
    with torch.no_grad():
        return holding(config, loaded.parameters)(ids)
