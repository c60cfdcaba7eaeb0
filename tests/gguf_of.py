"""A transformers model as a GGUF file: names by the gguf library's own table, layout by llama.cpp's converter."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from torch import Tensor

ARCHITECTURES = {"gpt2": gguf.MODEL_ARCH.GPT2, "llama": gguf.MODEL_ARCH.LLAMA, "bert": gguf.MODEL_ARCH.BERT}


def permuted(weights: Tensor, heads: int) -> Tensor:
    """Rows in the order in which llama.cpp rotates them: neighbours, not halves (its converter's LlamaModel.permute)."""
    return weights.reshape(heads, 2, weights.shape[0] // heads // 2, -1).swapaxes(1, 2).reshape(weights.shape)


def laid_out(kind: str, name: str, tensor: Tensor, config: Any) -> Tensor:
    if (kind == "gpt2" and tensor.ndim == 2 and ".attn.c_" in name) or (".mlp.c_" in name and tensor.ndim == 2):
        return tensor.T
    if kind == "llama" and name.endswith("q_proj.weight"):
        return permuted(tensor, config.num_attention_heads)
    if kind == "llama" and name.endswith("k_proj.weight"):
        return permuted(tensor, config.num_key_value_heads)
    return tensor


def settings(writer: gguf.GGUFWriter, kind: str, config: Any) -> None:
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_head_count(config.num_attention_heads)
    if kind == "gpt2":
        writer.add_feed_forward_length(4 * config.hidden_size)
        writer.add_layer_norm_eps(config.layer_norm_epsilon)
    elif kind == "bert":
        writer.add_feed_forward_length(config.intermediate_size)
        writer.add_layer_norm_eps(config.layer_norm_eps)
        writer.add_causal_attention(False)
    else:
        writer.add_feed_forward_length(config.intermediate_size)
        writer.add_layer_norm_rms_eps(config.rms_norm_eps)
        writer.add_head_count_kv(config.num_key_value_heads)
        writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
        writer.add_rope_dimension_count(config.hidden_size // config.num_attention_heads)
        writer.add_vocab_size(config.vocab_size)


def write_gguf(model: Any, kind: str, path: Path, more: Mapping[str, Any] | None = None) -> Path:
    """F32 throughout. `more`: a vocabulary, say, as name: (value, GGUF type, type of its items)."""
    config = model.config
    writer = gguf.GGUFWriter(path, gguf.MODEL_ARCH_NAMES[ARCHITECTURES[kind]])
    settings(writer, kind, config)
    for key, (value, type_, items) in (more or {}).items():
        writer.add_key_value(key, value, type_, items)
    names = gguf.get_tensor_name_map(ARCHITECTURES[kind], config.num_hidden_layers)
    for name, tensor in model.state_dict().items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        theirs = names.get_name(name.removeprefix("bert."), try_suffixes=(".weight", ".bias"))
        if theirs is None or "pooler" in name:
            continue
        writer.add_tensor(theirs, np.ascontiguousarray(laid_out(kind, name, tensor, config).detach().float().numpy()))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
