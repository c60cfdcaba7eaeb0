"""Attention: each position asks, every position answers. Eager, so that each step can be seen; who may read whom comes in as a mask.

    B texts   T positions that ask   S positions that can be read   H heads   K width of a head
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from cutaway.core.tap import Tap, untapped


# [region eight-lines]
def attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, tap: Tap = untapped) -> Tensor:
    """What each position takes from those that it may read.

    q (B, H, T, K), k and v (B, H, S, K), mask (1 or B, 1, T, S) true where T may read S; returns z (B, H, T, K).
    Vaswani et al. 2017, "Attention Is All You Need", equation 1. q is scaled before the product, so that half precision
    does not overflow; what is hidden gets the lowest finite value, so that a row with nothing to read stays finite.
    """
    scale = math.sqrt(q.shape[-1])
    scores = tap("scores", (q / scale) @ k.mT)  # (B, H, T, S), before the mask
    lowest = torch.finfo(scores.dtype).min
    visible = scores.masked_fill(~mask, lowest)
    pattern = tap("pattern", visible.softmax(dim=-1))  # (B, H, T, S), rows sum to 1
    z = tap("z", pattern @ v)  # (B, H, T, K)
    return z  # noqa: RET504  the eight lines name every step
# [end]


ROWS = 128  # queries at a time: at 1,024 tokens, scores and pattern of 12 heads are then 6 MB each, not 50


def attention_in_blocks(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, tap: Tap) -> Tensor:
    """`attention`, for ROWS queries at a time: no query's row depends on another's, so what nobody asks for is never held whole.

    A tap still sees whole tensors, put together from the blocks; if it puts another in its place, the blocks go on with that.
    """
    if q.shape[2] <= ROWS:
        return attention(q, k, v, mask, tap)
    wanted = [name for name in ("scores", "pattern") if tap.wants(name)]
    put: dict[str, Tensor] = {}

    def run() -> dict[str, Tensor]:
        parts: dict[str, list[Tensor]] = {name: [] for name in (*wanted, "z")}
        for start in range(0, q.shape[2], ROWS):
            rows = slice(start, start + ROWS)

            def see(name: str, x: Tensor, rows: slice = rows) -> Tensor:
                x = put[name][:, :, rows] if name in put else x
                if name in parts:
                    parts[name].append(x)
                return x

            attention(q[:, :, rows], k, v, mask[:, :, rows], Tap(see))
        return {name: torch.cat(part, dim=2) for name, part in parts.items()}

    whole = run()
    for name in wanted:
        seen = tap(name, whole[name])
        if seen is not whole[name]:
            put[name] = seen
            whole = run()
    return tap("z", whole["z"])


@dataclass(frozen=True)
class Mask:
    """Who may read whom: `readable` (1 or B, 1, T, S) is true where position T may read position S."""

    readable: Tensor
    is_plain_triangle: bool  # each position reads itself and all before it, in every text: kernels have a fast path for that


def make_mask(query_pos: Tensor, key_pos: Tensor, causal: bool, lengths: Tensor | None = None) -> Mask:
    """The one place that decides who may read whom.

    query_pos (T), key_pos (S): places in the text, counted from 0.
    lengths (B): how many tokens of each text are real, the rest being padding on the right.
    """
    readable = torch.ones(len(query_pos), len(key_pos), dtype=torch.bool, device=key_pos.device)
    if causal:
        readable = key_pos <= query_pos[:, None]  # itself and what came before [region the-line] [end]
    readable = readable[None, None]  # (1, 1, T, S)
    if lengths is not None and not causal:  # under a causal mask no real token can see the padding on its right
        readable = readable & (key_pos < lengths[:, None])[:, None, None, :]  # (B, 1, T, S)
    return Mask(readable, is_plain_triangle=causal and len(query_pos) == len(key_pos))


def fused_attention(q: Tensor, k: Tensor, v: Tensor, mask: Mask) -> Tensor:
    """The same in one kernel, for when nobody looks. Agrees with `attention` within rounding, not bit for bit."""
    if mask.is_plain_triangle:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask.readable)
