"""Heads typed and ablated as TransformerLens has them, with the same random GPT-2."""

from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from cutaway.lab import e04_heads_ablation as ablation
from cutaway.lab import e04_heads_types as types
from cutaway.model import Model
from tests.test_transformer_lens import both as both
from tests.test_transformer_lens import pytestmark as pytestmark

LENGTH = 5


def test_weights(both: tuple[Model, Any]) -> None:
    ours, theirs = both
    reading = types.repeated(ours, np.random.default_rng(1), 6, LENGTH)
    found = types.scores(ours.transformer, [reading], 200, np.random.default_rng(2))
    with torch.no_grad():
        _, cache = theirs.run_with_cache(reading.ids)
    for layer in range(ours.config.layers):
        pattern = cache[f"blocks.{layer}.attn.hook_pattern"]  # (N, H, T, T)
        for kind, offset in (("previous", -1), ("duplicate", -LENGTH), ("induction", 1 - LENGTH)):
            stripe = pattern.diagonal(offset, dim1=-2, dim2=-1)[..., LENGTH + 1 + offset :]  # queries of the second copy but its first
            assert torch.allclose(torch.from_numpy(found.mean[kind][layer]).float(), stripe.mean(dim=(0, 2)), atol=1e-5)
        assert found.mean["first"][layer] == pytest.approx(pattern[:, :, LENGTH + 1 :, 0].mean(dim=(0, 2)).numpy(), abs=1e-5)


def test_ablation(both: tuple[Model, Any]) -> None:
    ours, theirs = both
    ids = types.repeated(ours, np.random.default_rng(1), 4, LENGTH).ids
    measured = ablation.Ablation(ours, [(row, ablation.second_copy(row, 0, LENGTH)) for row in ids.split(1)])
    found = np.stack([measured.of_each(text) for text in range(len(ids))], axis=-1)  # (ways, L, H, N)

    def losses(logits: torch.Tensor) -> torch.Tensor:
        asked = slice(LENGTH, 2 * LENGTH - 1)
        return F.cross_entropy(logits[:, asked].transpose(1, 2), ids[:, LENGTH + 1 :], reduction="none").mean(dim=1)

    with torch.no_grad():
        logits, cache = theirs.run_with_cache(ids)
        for layer in range(ours.config.layers):
            hook = f"blocks.{layer}.attn.hook_z"
            z = cache[hook]  # (N, T, H, K)
            instead = {"zero": torch.zeros_like(z), "mean": z.mean(dim=(0, 1)).expand_as(z), "resample": z.roll(1, dims=0)}
            for way, how in enumerate(ablation.HOWS):
                for head in range(ours.config.heads):

                    def swap(value: torch.Tensor, hook: Any, head: int = head, other: torch.Tensor = instead[how]) -> torch.Tensor:
                        value = value.clone()
                        value[:, :, head] = other[:, :, head]
                        return value

                    changed = theirs.run_with_hooks(ids, fwd_hooks=[(hook, swap)])
                    rise = (losses(changed) - losses(logits)).numpy()
                    assert found[way, layer, head] == pytest.approx(rise, abs=1e-5)
