"""The KV cache: what was read before gives what reading it again would give, and a saved prefix stays as it is."""

import pytest
import torch
from torch import Tensor

import cutaway
from cutaway.core.cache import Cache
from cutaway.core.transformer import Transformer
from tests.conftest import oracle

IDS = torch.arange(1, 6)[None]


def model(**changes: int) -> Transformer:
    return cutaway.load(oracle("gpt2", **changes)).transformer


def cache_for(net: Transformer, room: int) -> Cache:
    return Cache(net.config, 1, room, dtype=torch.float32)


@torch.no_grad()
def greedy(net: Transformer, ids: Tensor, steps: int, cache: Cache | None) -> list[int]:
    """Greedy tokens after ids, of which a cache may hold the first."""
    out: list[int] = []
    while len(out) < steps:
        logits = net(ids[:, cache.length :], cache=cache) if cache else net(ids)
        out.append(int(logits[0, -1].argmax()))
        ids = torch.cat([ids, torch.tensor([[out[-1]]])], dim=1)
    return out


@pytest.mark.parametrize("kind", ("gpt1", "gpt2"))
@torch.no_grad()
def test_cached_is_uncached(kind: str) -> None:
    """Pitfall 9: ids 1 to 5 in one go, and 1 to 3, then 4, then 5."""
    net = cutaway.load(oracle(kind)).transformer
    whole = net(IDS)
    cache = cache_for(net, 8)
    parts = torch.cat([net(IDS[:, :3], cache=cache), net(IDS[:, 3:4], cache=cache), net(IDS[:, 4:], cache=cache)], dim=1)
    assert (whole - parts).abs().max() <= 1e-5
    assert cache.length == 5


def test_fifty_greedy_tokens_are_the_same_twice() -> None:
    net = model()
    plain = greedy(net, IDS, 50, None)
    assert greedy(net, IDS, 50, cache_for(net, 64)) == plain
    assert greedy(net, IDS, 50, cache_for(net, 64)) == plain


@torch.no_grad()
def test_a_saved_prefix_does_not_grow() -> None:
    """Pitfall 10: 13 tokens from one prefix of 6, twice; each is the uncached continuation."""
    net, ids = model(), torch.arange(1, 7)[None]
    prefix = cache_for(net, 6)
    first = int(net(ids, cache=prefix)[0, -1].argmax())
    begun = torch.cat([ids, torch.tensor([[first]])], dim=1)
    expected = greedy(net, begun, 12, None)
    for _ in range(2):
        assert greedy(net, begun, 12, prefix.fork(32)) == expected
        assert prefix.length == 6


def test_a_full_cache_is_refused() -> None:
    net = model()
    with pytest.raises(cutaway.CutawayError, match="room for 4 tokens and would hold 5"):
        net(IDS, cache=cache_for(net, 4))


@pytest.mark.parametrize(("cached", "fed"), ((0, 17), (16, 1), (10, 7)))
def test_beyond_the_context_is_refused_before_computing(cached: int, fed: int) -> None:
    """Pitfall 11: a model with 16 positions; the message names 16 and what there is."""
    net = model(n_positions=16)
    cache = cache_for(net, 64)
    if cached:
        net(torch.zeros(1, cached, dtype=torch.long), cache=cache)
    with pytest.raises(cutaway.CutawayError, match="has 17 tokens.*at most 16"):
        net(torch.zeros(1, fed, dtype=torch.long), cache=cache)
    assert cache.length == cached
