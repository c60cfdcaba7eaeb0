"""TransformerLens, holding the same random GPT-2, sees what we see: every activation that both name, and what patching does.

Nothing is folded or centred there. Its scores are masked with −inf, ours are not masked yet, so scores are compared where
the mask lets the query read the key.
"""

import os
import warnings
from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor

import cutaway
from cutaway.model import Model
from cutaway.trace.attribute import attribute
from cutaway.trace.names import transformer_lens
from cutaway.trace.odds import LogOdds
from cutaway.trace.patch import PatchSweep, patch_sweep
from tests.conftest import oracle, worded

CLEAN, CORRUPT = [11, 5, 29, 3, 20, 77], [11, 5, 30, 3, 21, 77]
FIRST, SECOND = 40, 41

pytestmark = [
    pytest.mark.long,  # its import takes longer than all that is tested here
    pytest.mark.filterwarnings("ignore"),  # and warns of what it will remove, as do libraries that it imports
]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Model, Any]]:
    """The same weights here and there, with a vocabulary of words; without network."""
    folder, ours = tmp_path_factory.mktemp("gpt2"), worded("gpt2")
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        warnings.simplefilter("ignore")
        patch.setitem(os.environ, "HF_HUB_OFFLINE", "1")
        bridges = pytest.importorskip("transformer_lens.model_bridge", reason="pip install 'cutaway[peers]'")
        model = oracle("gpt2", vocab_size=ours.config.vocab_size)
        model.save_pretrained(folder)  # it reads the configuration from there, and takes the weights from memory
        yield ours, bridges.TransformerBridge.boot_transformers(str(folder), hf_model=model, device="cpu")


def theirs(value: Tensor, tap: str) -> Tensor:
    """As we lay it out: heads before positions."""
    return value.transpose(1, 2) if tap.endswith(("attn.q", "attn.k", "attn.v", "attn.z")) else value


def run(model: Model, ids: list[int]) -> dict[str, Tensor]:
    taps: dict[str, Tensor] = {}

    def keep(name: str, x: Tensor) -> Tensor:
        taps[name] = x
        return x

    with torch.no_grad():
        model.transformer(torch.tensor([ids]), tap=cutaway.core.tap.Tap(keep))
    return taps


def test_every_activation_that_both_name(both: tuple[Model, Any]) -> None:
    ours, bridge = both
    taps = run(ours, CLEAN)
    with torch.no_grad():
        _, cache = bridge.run_with_cache(torch.tensor([CLEAN]))
    assert list(taps) == ours.taps
    for tap, value in taps.items():
        name = transformer_lens(tap)
        assert name is not None, f"{tap} has no name in TransformerLens"
        other = theirs(cache[name], tap)
        if tap.endswith("attn.scores"):
            readable = torch.ones(value.shape[-2:], dtype=torch.bool).tril()
            value, other = value[..., readable], other[..., readable]
        torch.testing.assert_close(other, value, atol=1e-5, rtol=0, msg=lambda said, tap=tap: f"{tap}: {said}")


def odds(logits: Tensor) -> Tensor:
    last = logits[0, -1].log_softmax(dim=-1)
    return last[FIRST] - last[SECOND]


@torch.no_grad()
def by_hand(bridge: Any, tap: str, index: tuple[Any, ...], clean: list[int], corrupt: list[int]) -> float:
    """Run `corrupt` with what the clean run held at `index`, the way TransformerLens does it, one site at a time."""
    texts = torch.tensor([clean]), torch.tensor([corrupt])
    hook = transformer_lens(tap)
    logits, cache = bridge.run_with_cache(texts[0])
    held = cache[hook].clone()

    def write(value: Tensor, hook: Any) -> Tensor:
        value = value.clone()
        value[index] = held[index]
        return value

    patched, own = odds(bridge.run_with_hooks(texts[1], fwd_hooks=[(hook, write)])), odds(bridge(texts[1]))
    return ((patched - own) / (odds(logits) - own)).item()


def swept(model: Model, taps: str) -> PatchSweep:
    found = patch_sweep(model, CLEAN, CORRUPT, taps, LogOdds(FIRST, SECOND), least=0.0)
    assert found.left_out == 0
    return found


def test_patching_the_residual_stream(both: tuple[Model, Any]) -> None:
    """Every layer and position, both directions."""
    ours, bridge = both
    found = swept(ours, "blocks.*.resid_pre")
    assert len(found.sites) == 2 * len(CLEAN)
    for n, site in enumerate(found.sites):
        at = partial(by_hand, bridge, site.tap, (0, list(site.positions)))
        assert found.pairs[0].denoising[n] == pytest.approx(at(CLEAN, CORRUPT), abs=1e-5)  # type: ignore[index]
        assert found.pairs[0].noising[n] == pytest.approx(at(CORRUPT, CLEAN), abs=1e-5)  # type: ignore[index]


def test_patching_one_head(both: tuple[Model, Any]) -> None:
    """z of every layer, head and position."""
    ours, bridge = both
    found = swept(ours, "blocks.*.attn.z")
    sites = [(f"blocks.{layer}.attn.z", (place,), (head,)) for layer, place, head in product(range(2), range(len(CLEAN)), range(4))]
    assert [(site.tap, site.positions, site.heads) for site in found.sites] == sites
    for n, site in enumerate(found.sites):
        index = (0, list(site.positions), list(site.heads or ()))
        assert found.pairs[0].denoising[n] == pytest.approx(by_hand(bridge, site.tap, index, CLEAN, CORRUPT), abs=1e-5)  # type: ignore[index]


@torch.no_grad()
def test_direct_attribution(both: tuple[Model, Any]) -> None:
    """Its decomposition of the stream, its frozen scale, its gain and its output matrix give each of our terms."""
    ours, bridge = both
    text = "the big cat was in the"
    found = attribute(ours, text, "box", "dog")
    one, two = (ours.tokenizer.encode(f" {word}")[0] for word in ("box", "dog"))
    _, cache = bridge.run_with_cache(ours.batch([text])[0])
    stack, labels = cache.get_full_resid_decomposition(pos_slice=-1, return_labels=True, expand_neurons=False)
    direction = (bridge.W_U[:, one] - bridge.W_U[:, two]) * bridge.ln_final.w
    shares = (cache.apply_ln_to_stack(stack, layer=-1, pos_slice=-1)[:, 0] @ direction).tolist()
    terms = dict.fromkeys(labels, 0.0)
    for term in found.terms:
        if term.head is not None:
            terms[f"L{term.layer}H{term.head}"] += term.value
        elif "MLP" in term.name:
            terms[f"{term.layer}_mlp_out"] += term.value
        elif term.layer is not None:
            terms["bias"] += term.value
        elif term.name != "final norm's bias":
            terms[term.name.replace("tok_", "")] += term.value
    assert terms == pytest.approx(dict(zip(labels, shares, strict=True)), abs=1e-5)
    assert max(map(abs, shares)) > 0.1
