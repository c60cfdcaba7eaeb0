"""The output matrix is the token embedding itself: one storage, one parameter, one step changes both."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import cutaway
from cutaway.core.transformer import Transformer
from cutaway.families import find_known
from cutaway.families.size import parameters
from cutaway.train.loop import initialise
from tests.conftest import oracle

IDS = torch.arange(5, 20)[None]


@pytest.mark.parametrize("kind", ("gpt1", "gpt2", "roberta"))
def test_one_storage_and_one_step(kind: str) -> None:
    """Pitfall 14."""
    model = Transformer(cutaway.load(oracle(kind)).config)
    initialise(model, 0)
    embedding, output = model.embed.token.weight, model.head.unembed.weight  # type: ignore[union-attr]
    assert embedding is output
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    before = embedding.detach().clone()
    model(IDS).logsumexp(-1).sum().backward()
    optimizer.step()
    assert not torch.equal(embedding, before)
    assert model.head.unembed.weight.data_ptr() == model.embed.token.weight.data_ptr()  # type: ignore[union-attr]


@pytest.mark.parametrize("kind", ("gpt1", "gpt2", "roberta", "bert"))
def test_a_loaded_model_counts_it_once(kind: str) -> None:
    model = cutaway.load(oracle(kind))
    assert sum(p.numel() for p in model.transformer.parameters()) == sum(parameters(model.config).values())
    assert not any(p.requires_grad for p in model.transformer.parameters())


@pytest.mark.parametrize("dropped", (None, "transformer.wte.weight", "lm_head.weight"))
def test_either_name_alone_or_both(tmp_path: Path, dropped: str | None) -> None:
    theirs = oracle("gpt2")
    theirs.save_pretrained(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    tensors["lm_head.weight"] = tensors["transformer.wte.weight"].clone()
    tensors.pop(dropped or "", None)
    save_file(tensors, tmp_path / "model.safetensors", {"format": "pt"})
    assert torch.equal(cutaway.load(str(tmp_path)).logits(IDS), cutaway.load(theirs).logits(IDS))


def test_published_sizes_count_it_once() -> None:
    expected = {"gpt1": 116_534_784, "gpt2": 124_439_808, "gpt2-medium": 354_823_168, "gpt2-large": 774_030_080, "gpt2-xl": 1_557_611_200}
    for name, count in expected.items():
        known = find_known(name)
        assert known is not None
        assert sum(parameters(known.config).values()) == count
        with torch.device("meta"):
            assert sum(p.numel() for p in Transformer(known.config).parameters()) == count
