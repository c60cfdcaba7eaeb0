"""The transformer, from token ids to logits, to be read from top to bottom. Which model it is stands in its `Config`.

    B texts   T positions   S positions that can be read   D width of the residual stream
    H heads   G heads of keys and values, each read by H / G of queries   K = D / H width of a head
    M width of the MLP   V vocabulary   C classes

Pre-norm, where `norm_first`:
    resid_mid  = resid_pre + attn(ln1(resid_pre))
    resid_post = resid_mid + mlp(ln2(resid_mid))
    next         resid_post

Post-norm, where `not norm_first`:
    resid_mid  = resid_pre + attn(resid_pre)
    resid_post = ln1(resid_mid) + mlp(ln1(resid_mid))
    next         ln2(resid_post)
"""

from collections.abc import Callable, Mapping
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cutaway.core.attention import Mask, attention_in_blocks, fused_attention, make_mask
from cutaway.core.cache import Cache
from cutaway.core.config import Config
from cutaway.core.heads import HEADS
from cutaway.core.linear import Linear, Table
from cutaway.core.norm import make_norm
from cutaway.core.rotary import Rotation, make_rotation
from cutaway.core.tap import Tap, untapped
from cutaway.errors import TextError


class Embed(nn.Module):
    """Token and place become one vector, where `positions == "learned"`: tables looked up and added.
    Each token becomes a vector, where `positions == "rotary"`: its place comes in later, by turning queries and keys.
    """

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.offset = config.position_offset
        self.token = Table(config.vocab_size, config.width)
        self.position = Table(config.position_rows, config.width) if config.positions == "learned" else None
        self.segment = Table(config.segments, config.width) if config.segments else None
        self.norm = make_norm(config) if config.embed_norm else None

    def forward(self, ids: Tensor, position: Tensor, tap: Tap) -> Tensor:
        x = tap("tok_embed", self.token(ids))  # (B, T, D)
        if self.segment is not None:
            x = x + tap("segment_embed", self.segment.weight[0].expand_as(x))  # each text is one segment
        if self.position is not None:
            x = x + tap("pos_embed", self.position(position + self.offset).expand_as(x))
        if self.norm is not None:
            x = tap("embed_norm", self.norm(x))
        return tap("embed", x)  # (B, T, D)


class Attention(nn.Module):
    """The only part where positions read each other."""

    def __init__(self, config: Config, layer: int) -> None:
        super().__init__()
        self.layer = layer
        self.head_width = config.head_width
        self.sharing = config.heads // config.key_heads  # how many heads read the same keys and values
        self.q = Linear(config.width, config.width, bias=config.bias)
        self.k = Linear(config.width, config.key_width, bias=config.bias)
        self.v = Linear(config.width, config.key_width, bias=config.bias)
        self.out = Linear(config.width, config.width, bias=config.bias)

    def forward(self, x: Tensor, mask: Mask, turn: Rotation | None, cache: Cache | None, tap: Tap) -> Tensor:
        q = self.split(self.q(x))  # (B, H, T, K)
        k, v = self.split(self.k(x)), self.split(self.v(x))  # (B, G, T, K)
        if turn is not None:
            q, k = turn(q), turn(k)
        q, k, v = tap("q", q), tap("k", k), tap("v", v)
        if cache is not None:
            k, v = cache.extend(self.layer, k, v)  # (B, G, S, K)
        if self.sharing > 1:
            k, v = k.repeat_interleave(self.sharing, dim=1), v.repeat_interleave(self.sharing, dim=1)  # (B, H, S, K)
        z = fused_attention(q, k, v, mask) if tap is untapped else attention_in_blocks(q, k, v, mask.readable, tap)
        return tap("out", self.out(z.transpose(1, 2).flatten(2)))  # (B, T, D)

    def split(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:-1], -1, self.head_width).transpose(1, 2)  # (B, T, H · K) -> (B, H, T, K)


def gelu_tanh(x: Tensor) -> Tensor:
    """An approximation of GELU that some models were trained with (Hendrycks & Gimpel 2016, section 2)."""
    return F.gelu(x, approximate="tanh")


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"gelu_tanh": gelu_tanh, "gelu_erf": F.gelu, "swiglu": F.silu}


class MLP(nn.Module):
    """What each position makes of what it has read, on its own.

    SwiGLU, where `activation == "swiglu"`: one layer decides how much of another passes (Shazeer 2020, equation 5).
    """

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.gate = Linear(config.width, config.mlp_width, bias=config.bias) if config.activation == "swiglu" else None
        self.up = Linear(config.width, config.mlp_width, bias=config.bias)
        self.down = Linear(config.mlp_width, config.width, bias=config.bias)
        self.activation = ACTIVATIONS[config.activation]

    def forward(self, x: Tensor, tap: Tap) -> Tensor:
        gate = tap("gate", self.gate(x)) if self.gate is not None else None  # (B, T, M)
        x = tap("pre", self.up(x))  # (B, T, M)
        x = tap("post", self.activation(x) if gate is None else self.activation(gate) * x)
        return tap("out", self.down(x))  # (B, T, D)


class Block(nn.Module):
    """One floor: read, then think; each adds to the residual stream."""

    def __init__(self, config: Config, layer: int) -> None:
        super().__init__()
        self.norm_first = config.norm_first
        self.ln1 = make_norm(config)
        self.attn = Attention(config, layer)
        self.ln2 = make_norm(config)
        self.mlp = MLP(config)

    def forward(self, x: Tensor, mask: Mask, turn: Rotation | None, cache: Cache | None, tap: Tap) -> Tensor:
        x = tap("resid_pre", x)
        if self.norm_first:
            mid = tap("resid_mid", x + self.attn(tap("ln1", self.ln1(x)), mask, turn, cache, tap.at("attn")))  # (B, T, D)
            return tap("resid_post", mid + self.mlp(tap("ln2", self.ln2(mid)), tap.at("mlp")))
        mid = tap("ln1", self.ln1(tap("resid_mid", x + self.attn(x, mask, turn, cache, tap.at("attn")))))  # (B, T, D)
        return tap("ln2", self.ln2(tap("resid_post", mid + self.mlp(mid, tap.at("mlp")))))


class Transformer(nn.Module):
    """Token ids in, logits out."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.embed = Embed(config)
        self.blocks = nn.ModuleList(Block(config, layer) for layer in range(config.layers))
        self.ln_f = make_norm(config) if config.final_norm else None
        self.head = HEADS[config.head](config, self.embed.token) if config.head != "none" else None

    def forward(
        self,
        ids: Tensor,
        *,
        lengths: Tensor | None = None,
        cache: Cache | None = None,
        tap: Tap = untapped,
    ) -> Tensor:
        """Logits (B, T, V) of token ids (B, T), where `head in ("lm", "mlm")`.
        Logits (B, C) of token ids (B, T), where `head == "classify"`.
        The last residual stream (B, T, D) of token ids (B, T), where `head in ("pooler", "none")`.

        lengths (B): how many tokens of each row are real, when shorter texts were padded on the right.
        cache: what was read before; ids are then what comes next, and the cache is filled with them.
        Raises TextError, before anything is computed, for a text that does not fit the context.
        """
        x, mask, turn = self.begin(ids, lengths, cache, tap)  # (B, T, D)
        for layer, block in enumerate(self.blocks):
            x = block(x, mask, turn, cache, tap.at(f"blocks.{layer}"))
        if cache is not None:
            cache.advance(ids.shape[1])
        return self.end(x, tap)

    def begin(self, ids: Tensor, lengths: Tensor | None, cache: Cache | None, tap: Tap) -> tuple[Tensor, Mask, Rotation | None]:
        """What enters the first block, and what every block is told: who may read whom, and the turn of each position."""
        start = cache.length if cache is not None else 0
        end = start + ids.shape[1]
        if end > self.config.context:
            raise TextError(f"The text has {end} tokens", expected=f"at most {self.config.context}, the model's context")
        key_pos = torch.arange(end, device=ids.device)  # (S)
        query_pos = key_pos[start:]  # (T)
        mask = make_mask(query_pos, key_pos, self.config.causal, lengths)
        x = self.embed(ids, query_pos, tap)  # (B, T, D)
        turn = make_rotation(self.config, query_pos, x.dtype) if self.config.positions == "rotary" else None
        return x, mask, turn

    def end(self, x: Tensor, tap: Tap) -> Tensor:
        """What the model says about the stream (B, T, D) that leaves its last block."""
        if self.ln_f is not None:
            x = tap("ln_f", self.ln_f(x))
        return cast(Tensor, self.head(x, tap)) if self.head is not None else x


def holding(config: Config, parameters: Mapping[str, Tensor]) -> Transformer:
    """A transformer whose parameters are these tensors themselves, not copies; see `hold`."""
    return hold(Transformer(config), parameters)


def hold(model: Transformer, parameters: Mapping[str, Tensor]) -> Transformer:
    """Make these tensors themselves the model's parameters; it is then ready to run, not to train.

    The caller names every parameter once; a tied output matrix may be left out. Raises RuntimeError otherwise. Not
    load_state_dict, which takes longer and would have the parameters require gradients.
    """
    held = {name: p if isinstance(p, nn.Parameter) else nn.Parameter(p, requires_grad=False) for name, p in parameters.items()}
    if model.config.tied and model.config.head in ("lm", "mlm"):
        held["head.unembed.weight"] = held["embed.token.weight"]
    for place, module in model.named_modules():
        for leaf, empty in module._parameters.items():
            if empty is None:  # a layer without a bias
                continue
            given = held.pop(f"{place}.{leaf}", None)
            if given is None or given.shape != empty.shape:
                raise RuntimeError(f"{place}.{leaf} is {tuple(empty.shape)}, and was given {None if given is None else tuple(given.shape)}")
            module._parameters[leaf] = given  # what setattr does in the end, after checks that cost more than all of this
    if held:
        raise RuntimeError(f"no parameter is called {', '.join(held)}")
    return model
