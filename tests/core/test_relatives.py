"""What only the relatives have: rotations, RMS norms, gated MLPs, shared keys (Llama); a pooler and two segments (BERT)."""

import pytest
import torch

import cutaway
from cutaway.core.cache import Cache
from cutaway.core.config import Config
from cutaway.core.tap import Tap
from cutaway.errors import ConfigError
from tests.conftest import oracle, worded
from tests.core.llama_reference import logits as reference
from tests.core.test_twins import hidden_states, ids


@pytest.mark.parametrize("changes", ({}, {"tie_word_embeddings": True}, {"num_key_value_heads": 4}, {"rope_theta": 500.0}), ids=str)
def test_llama_in_both_precisions(changes: dict[str, object]) -> None:
    theirs = oracle("llama", **changes)
    x = ids()
    with torch.no_grad():
        expected = theirs(x, output_hidden_states=True)
    logits, hidden = hidden_states(cutaway.load(theirs), x)
    assert (logits - expected.logits).abs().max() <= 1e-5
    for mine, other in zip(hidden, expected.hidden_states, strict=True):
        assert (mine - other).abs().max() <= 1e-5
    exact = cutaway.load(theirs.double())
    for row in x:
        both = (hidden_states(exact, row[None])[0], exact.logits(row[None]))
        for got in both:
            assert (got[0] - torch.from_numpy(reference(theirs, row.tolist()))).abs().max() <= 1e-12


def test_a_wrong_pairing_or_speed_of_the_rotations_would_be_seen() -> None:
    theirs = oracle("llama").double()
    ours = cutaway.load(theirs)
    right = torch.from_numpy(reference(theirs, ids(1)[0].tolist()))
    assert (ours.with_config(rotary_base=500.0).logits(ids(1))[0] - right).abs().max() > 1e-3
    swapped = ours.transformer.blocks[0].attn.q.weight  # neighbours rotated together, as llama.cpp does
    swapped.data = swapped.unflatten(0, (4, 2, 6)).transpose(1, 2).flatten(0, 2).contiguous()
    assert (ours.logits(ids(1))[0] - right).abs().max() > 1e-3


def test_llama_with_a_cache_and_in_padded_batches() -> None:
    ours = cutaway.load(oracle("llama").double())
    x = ids(1)
    whole = ours.logits(x)
    cache = Cache(ours.config, 1, 17, dtype=torch.float64)
    steps = [ours.transformer(x[:, part], cache=cache) for part in (slice(0, 5), slice(5, 6), slice(6, 17))]
    assert (torch.cat(steps, dim=1) - whole).abs().max() <= 1e-12
    padded = ours.logits(torch.cat([x, x], dim=1), torch.tensor([17]))[:, :17]
    assert (padded - whole).abs().max() <= 1e-12


def test_keys_are_kept_once_for_all_heads_that_share_them() -> None:
    trace = worded("llama").trace("the big cat was in the box")
    assert trace["blocks.0.attn.q"].shape == (4, 7, 12)
    assert trace["blocks.0.attn.k"].shape == trace["blocks.0.attn.v"].shape == (2, 7, 12)
    assert trace["blocks.0.attn.pattern"].shape == (4, 7, 7)
    for head in range(4):
        found = trace.attention(layer=0, head=head, query=6)
        z = trace["blocks.0.attn.v"][head // 2] * found.weights[:, None]
        out = trace.model.transformer.blocks[0].attn.out.weight[:, 12 * head : 12 * head + 12]
        assert torch.allclose(found.lengths, (z @ out.T).norm(dim=-1), atol=1e-6)


def test_a_gate_is_a_tap_of_its_own() -> None:
    trace = worded("llama").trace("the big cat")
    silu = torch.nn.functional.silu(trace["blocks.0.mlp.gate"])
    assert torch.equal(trace["blocks.0.mlp.post"], silu * trace["blocks.0.mlp.pre"])
    assert "pos_embed" not in trace
    with trace.model.edit({"blocks.0.mlp.gate": cutaway.zero()}):
        assert trace.model.trace("the big cat")["blocks.0.mlp.out"].abs().max() == 0


def test_the_pooler_is_for_who_looks() -> None:
    theirs = oracle("bert-body").double()
    ours = cutaway.load(theirs)
    assert ours.config.head == "pooler"
    assert ours.taps[-1] == "pooled"
    taps: dict[str, torch.Tensor] = {}
    with torch.no_grad():
        expected = theirs(ids())
        states = ours.transformer(ids(), tap=Tap(lambda name, x: taps.setdefault(name, x)))
    assert (states - expected.last_hidden_state).abs().max() <= 1e-12
    assert (taps["pooled"] - expected.pooler_output).abs().max() <= 1e-12


@pytest.mark.parametrize(
    ("changes", "said"),
    (
        ({"kv_heads": 3}, "heads 4 is not divisible by kv_heads 3"),
        ({"width": 12, "positions": "rotary"}, "3 wide"),
        ({"norm": "batch"}, "layer, rms"),
        ({"positions": "alibi"}, "learned, rotary"),
    ),
)
def test_contradictions_are_refused(changes: dict[str, object], said: str) -> None:
    config = cutaway.load(oracle("llama")).config
    with pytest.raises(ConfigError, match=said):
        Config(**config.to_dict() | changes)
