"""Llama's forward pass in plain NumPy, written from the papers: independent of the core, and float64 throughout.

transformers' own has float32 islands in it, so that it cannot hold ours to 1e-12.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def rms(x: Array, gain: Array, eps: float) -> Array:
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + eps) * gain


def turned(x: Array, base: float) -> Array:
    """x (T, K): each pair as a complex number, multiplied by a unit one (RoFormer, equation 13)."""
    half = x.shape[1] // 2
    angle = np.arange(len(x))[:, None] * base ** (-np.arange(half) / half)
    z = (x[:, :half] + 1j * x[:, half:]) * np.exp(1j * angle)
    return np.concatenate([z.real, z.imag], axis=1)


def attend(q: Array, k: Array, v: Array) -> Array:
    scores = q @ k.T / np.sqrt(q.shape[1])
    scores[np.triu_indices(len(q), 1)] = -np.inf
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return np.asarray(weights / weights.sum(-1, keepdims=True) @ v)


def logits(model: Any, ids: list[int]) -> Array:
    """Of a transformers LlamaForCausalLM's weights, for one text."""
    config = model.config
    w = {name: tensor.detach().double().numpy() for name, tensor in model.state_dict().items()}
    base = config.rope_parameters["rope_theta"]
    heads, shared = config.num_attention_heads, config.num_attention_heads // config.num_key_value_heads
    x = w["model.embed_tokens.weight"][ids]
    for n in range(config.num_hidden_layers):
        at = f"model.layers.{n}."
        h = rms(x, w[at + "input_layernorm.weight"], config.rms_norm_eps)
        q = np.split(h @ w[at + "self_attn.q_proj.weight"].T, heads, axis=1)
        k, v = (np.split(h @ w[at + f"self_attn.{name}_proj.weight"].T, heads // shared, axis=1) for name in "kv")
        z = [attend(turned(q[i], base), turned(k[i // shared], base), v[i // shared]) for i in range(heads)]
        x = x + np.concatenate(z, axis=1) @ w[at + "self_attn.o_proj.weight"].T
        h = rms(x, w[at + "post_attention_layernorm.weight"], config.rms_norm_eps)
        gate, up = (h @ w[at + f"mlp.{name}_proj.weight"].T for name in ("gate", "up"))
        x = x + (gate / (1 + np.exp(-gate)) * up) @ w[at + "mlp.down_proj.weight"].T
    return np.asarray(rms(x, w["model.norm.weight"], config.rms_norm_eps) @ w["lm_head.weight"].T)
