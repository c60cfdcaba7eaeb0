"""The eight lines: against plain NumPy, in rows with nothing to read, in half precision, and as text."""

import inspect
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from cutaway.core import attention as module
from cutaway.core.attention import ROWS, attention, attention_in_blocks, fused_attention, make_mask
from cutaway.core.tap import Tap


def numpy_attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, readable: np.ndarray) -> np.ndarray:
    """One head at a time, one query at a time, by the definition."""
    out = np.zeros_like(q)
    for batch, head, t in np.ndindex(q.shape[:3]):
        keys = [s for s in range(k.shape[2]) if readable[min(batch, len(readable) - 1), 0, t, s]]
        scores = np.array([q[batch, head, t] @ k[batch, head, s] / np.sqrt(q.shape[-1]) for s in keys])
        weights = np.exp(scores - scores.max())
        weights /= weights.sum()
        out[batch, head, t] = sum(w * v[batch, head, s] for w, s in zip(weights, keys, strict=True))
    return out


@pytest.mark.parametrize("causal", (True, False))
def test_against_numpy(causal: bool) -> None:
    q, k, v = torch.randn(3, 2, 4, 9, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    lengths = None if causal else torch.tensor([9, 4])
    mask = make_mask(torch.arange(9), torch.arange(9), causal, lengths)
    expected = numpy_attention(q.numpy(), k.numpy(), v.numpy(), mask.readable.numpy())
    assert np.abs(attention(q, k, v, mask.readable).numpy() - expected).max() < 1e-14
    assert np.abs(fused_attention(q, k, v, mask).numpy() - expected).max() < 1e-14


def test_the_triangle_flag_means_the_mask() -> None:
    """The fast kernel's own flag gives what the mask gives."""
    q, k, v = torch.randn(3, 1, 2, 33, 8, generator=torch.Generator().manual_seed(0))
    mask = make_mask(torch.arange(33), torch.arange(33), causal=True)
    assert mask.is_plain_triangle
    by_mask = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask.readable)
    assert (fused_attention(q, k, v, mask) - by_mask).abs().max() < 1e-6


def test_a_row_with_nothing_to_read_stays_finite() -> None:
    """Pitfall 2a: outputs and gradients are finite, and the other row is as if alone."""
    q, k, v = (torch.randn(2, 2, 5, 4, generator=torch.Generator().manual_seed(n), requires_grad=True) for n in range(3))
    readable = make_mask(torch.arange(5), torch.arange(5), causal=False, lengths=torch.tensor([0, 5])).readable
    z = attention(q, k, v, readable)
    z.sum().backward()
    assert z.isfinite().all()
    assert all(x.grad is not None and x.grad.isfinite().all() for x in (q, k, v))
    assert torch.equal(z[1:], attention(q[1:], k[1:], v[1:], readable[1:]))


def test_half_precision_does_not_overflow() -> None:
    """Pitfall 2b: q = k = 40 at width 64 would give a raw score of 102,400, beyond float16; scaled first, it is 12,800."""
    q = torch.full((1, 1, 3, 64), 40.0, dtype=torch.float16)
    v = torch.randn(1, 1, 3, 64, dtype=torch.float16, generator=torch.Generator().manual_seed(0))
    seen: dict[str, torch.Tensor] = {}
    z = attention(q, q, v, torch.ones(1, 1, 3, 3, dtype=torch.bool), Tap(lambda name, x: seen.setdefault(name, x)))
    assert seen["scores"].unique().tolist() == [12800.0]
    assert (seen["pattern"] - 1 / 3).abs().max() < 1e-3
    assert (z - v.mean(dim=2, keepdim=True)).abs().max() < 2e-3


def test_scores_are_seen_before_the_mask() -> None:
    """What the mask hides is in the scores, and not in the pattern."""
    q, k, v = torch.randn(3, 1, 1, 4, 8, generator=torch.Generator().manual_seed(0))
    seen: dict[str, torch.Tensor] = {}
    attention(q, k, v, make_mask(torch.arange(4), torch.arange(4), True).readable, Tap(lambda n, x: seen.setdefault(n, x)))
    assert torch.allclose(seen["scores"], q @ k.mT / 8**0.5)
    assert (seen["pattern"].triu(1) == 0).all()
    assert (seen["pattern"].sum(-1) - 1).abs().max() < 1e-6


def test_attention_has_eight_lines() -> None:
    source = inspect.getsource(attention)
    code = re.sub(r'"""[\s\S]*?"""', "", source).splitlines()
    assert len([line for line in code if line.strip() and not line.strip().startswith("#")]) == 8


def test_the_causal_line_is_one_line() -> None:
    lines = Path(module.__file__).read_text(encoding="utf-8").splitlines()
    marked = [line for line in lines if "[region the-line]" in line]
    assert len(marked) == 1
    assert "[end]" in marked[0]
    assert "key_pos <= query_pos" in marked[0]


def test_nothing_else_decides_causality() -> None:
    """`key_pos <= query_pos` stands once in the core, and nothing there makes a triangle."""
    core = Path(module.__file__).parent
    text = "\n".join(path.read_text(encoding="utf-8") for path in core.glob("*.py"))
    assert text.count("<= query_pos") == 1
    assert not re.search(r"\b(tril|triu)\b", text)


LONG = 2 * ROWS + 7  # two whole blocks of queries, and one that is not full


def long_texts(causal: bool) -> tuple[torch.Tensor, ...]:
    q, k, v = torch.randn(3, 2, 2, LONG, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    lengths = None if causal else torch.tensor([LONG, LONG - 9])
    return q, k, v, make_mask(torch.arange(LONG), torch.arange(LONG), causal, lengths).readable


@pytest.mark.parametrize("causal", (True, False))
def test_blocks_of_queries_are_the_whole(causal: bool) -> None:
    """Each tap sees the whole tensor, z comes out the same within rounding, and whoever looks changes no bit of it."""
    q, k, v, mask = long_texts(causal)
    at_once: dict[str, torch.Tensor] = {}
    expected = attention(q, k, v, mask, Tap(lambda name, x: at_once.setdefault(name, x)))
    seen: dict[str, torch.Tensor] = {}
    z = attention_in_blocks(q, k, v, mask, Tap(lambda name, x: seen.setdefault(name, x)))
    assert list(seen) == ["scores", "pattern", "z"]
    for name, x in at_once.items():
        assert seen[name].shape == x.shape and (seen[name] - x).abs().max() < 1e-14, name
    assert (z - expected).abs().max() < 1e-14
    assert torch.equal(z, attention_in_blocks(q, k, v, mask, Tap(lambda name, x: x, only=())))


@pytest.mark.parametrize("name", ("scores", "pattern", "z"))
def test_blocks_go_on_with_what_a_tap_puts_in_place(name: str) -> None:
    q, k, v, mask = long_texts(causal=True)
    change = Tap(lambda tap, x: x.roll(1, dims=2) * 0.5 if tap == name else x)
    expected = attention(q, k, v, mask, change)
    assert (attention_in_blocks(q, k, v, mask, change) - expected).abs().max() < 1e-14
    assert (attention(q, k, v, mask) - expected).abs().max() > 1e-3


def test_blocks_of_scores_are_never_whole_unless_asked_for() -> None:
    """What a block holds is ROWS queries' scores; nothing in a run that nobody looks at is larger than that."""
    q, k, v, mask = long_texts(causal=True)
    sizes: list[int] = []

    class Watch(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            out = func(*args, **(kwargs or {}))
            if isinstance(out, torch.Tensor):
                sizes.append(out.shape[-2] if out.dim() > 1 and out.shape[-1] == LONG else 0)
            return out

    with Watch():
        attention_in_blocks(q, k, v, mask, Tap(lambda name, x: x, only=()))
    assert max(sizes) == ROWS


def test_a_tap_sees_only_what_it_asks_for() -> None:
    seen: list[str] = []
    tap = Tap(lambda name, x: seen.append(name) or x, only={"blocks.0.attn.z"}).at("blocks.0").at("attn")  # type: ignore[func-returns-value]
    q, k, v, mask = long_texts(causal=True)
    attention(q, k, v, mask, tap)
    assert seen == ["blocks.0.attn.z"]
