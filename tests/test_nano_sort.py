"""A trained model from outside, with published values of every step: minGPT's letter sorter, as llm-viz stores it."""

import base64
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from cutaway.core.config import Config
from cutaway.core.tap import Tap
from cutaway.core.transformer import Transformer, holding
from cutaway.families import FAMILIES
from cutaway.weights.load import assign

# Their names for our taps; the second group stands for every block, but the file holds the first block's alone.
STEPS = {"tok_embed": "tok_emb", "embed": "x", "ln_f": "ln_f", "logits": "lm_head"} | {
    f"blocks.0.{ours}": theirs
    for ours, theirs in {
        "ln1": "ln1",
        "attn.q": "q",
        "attn.k": "k",
        "attn.v": "v",
        "attn.pattern": "attSm",
        "attn.out": "yProj",
        "resid_mid": "attnResid",
        "ln2": "ln2",
        "mlp.pre": "fc",
        "mlp.post": "gelu",
        "mlp.out": "mlp",
        "resid_post": "mlpResid",
    }.items()
}


def tensors(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The configuration and the tensors of one of the two files; base64 of little-endian float32."""
    held = json.loads(path.read_text(encoding="utf-8"))
    config = held.pop("config")
    decoded = {
        name: torch.from_numpy(np.frombuffer(base64.b64decode(t["data"]), "<f4").copy()).reshape(t["shape"]) for name, t in held.items()
    }
    return config, decoded


def sorter(data: Path) -> Transformer:
    theirs, weights = tensors(data / "nano-sort/gpt-nano-sort-model.json")
    config = Config(
        vocab_size=theirs["vocab_size"],
        context=theirs["block_size"],
        width=theirs["n_embd"],
        layers=theirs["n_layer"],
        heads=theirs["n_head"],
        mlp_width=4 * theirs["n_embd"],
        causal=True,
        norm_first=True,
        final_norm=True,
        embed_norm=False,
        activation="gelu_tanh",
        tied=False,
    )
    family = FAMILIES["gpt2"]
    # minGPT has GPT-2's names, and stores plain linear layers where the published files hold transposed ones
    rules = [replace(rule, transpose=False) for rule in family.hub.rules(config)]
    with torch.device("meta"):
        wanted = {name: tuple(p.shape) for name, p in Transformer(config).named_parameters()}
    return holding(config, assign(weights, rules, wanted, family.hub.unused).parameters)


@pytest.fixture
def steps(data: Path) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Ours and theirs, of the same three sequences."""
    _, theirs = tensors(data / "nano-sort/gpt-nano-sort-t0-partials.json")
    ours: dict[str, Tensor] = {}
    with torch.no_grad():
        sorter(data)(theirs["idx"].long(), tap=Tap(lambda name, x: ours.setdefault(name, x)))
    return ours, theirs


def test_every_published_step(steps: tuple[dict[str, Tensor], dict[str, Tensor]]) -> None:
    ours, theirs = steps
    for tap, name in STEPS.items():
        assert (ours[tap] - theirs[name]).abs().max() <= 1e-5, tap
    for layer in range(3):
        assert (ours[f"blocks.{layer}.resid_post"] - theirs[f"block{layer}"]).abs().max() <= 1e-5
    z = ours["blocks.0.attn.z"].transpose(1, 2).flatten(2)
    assert (z - theirs["y"]).abs().max() <= 1e-5


def test_scores_where_they_may_be_read(steps: tuple[dict[str, Tensor], dict[str, Tensor]]) -> None:
    """They store the scores after the mask, ours are before it."""
    ours, theirs = steps
    readable = torch.ones(11, 11, dtype=torch.bool).tril()
    assert (ours["blocks.0.attn.scores"] - theirs["att"])[..., readable].abs().max() <= 1e-5
