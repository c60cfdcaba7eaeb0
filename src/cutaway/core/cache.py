"""Keys and values of what was read already, so that each new token costs one step. Room is made once, at the start."""

import torch
from torch import Tensor

from cutaway.core.config import Config
from cutaway.errors import TextError


class Cache:
    """Room for the keys and values of up to `room` tokens of `batch` texts; `length` of them are filled.

    A run writes behind `length` and moves it on. To use one prefix several times, `fork` it: the fork is filled, the
    prefix stays as it is.
    """

    def __init__(self, config: Config, batch: int, room: int, *, dtype: torch.dtype, device: torch.device | str = "cpu") -> None:
        shape = (config.layers, 2, batch, config.key_heads, room, config.head_width)
        self._store = torch.empty(shape, dtype=dtype, device=device)
        self.length = 0

    @property
    def room(self) -> int:
        return self._store.shape[4]

    def extend(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Store k and v (B, H, T, K) behind what is there; returns all keys and values so far (B, H, S, K)."""
        end = self.length + k.shape[2]
        if end > self.room:
            raise TextError(f"The cache has room for {self.room} tokens and would hold {end}", then="make it larger, or start anew")
        self._store[layer, 0, :, :, self.length : end] = k
        self._store[layer, 1, :, :, self.length : end] = v
        return self._store[layer, 0, :, :, :end], self._store[layer, 1, :, :, :end]

    def advance(self, tokens: int) -> None:
        """Count `tokens` as filled; called once a run, when every layer has stored them."""
        self.length += tokens

    def fork(self, room: int | None = None) -> "Cache":
        """A copy with its own room (default: the same) that holds the same prefix."""
        copy = object.__new__(Cache)
        shape = list(self._store.shape)
        shape[4] = max(room or self.room, self.length)
        copy._store = self._store.new_empty(shape)
        copy._store[..., : self.length, :] = self._store[..., : self.length, :]
        copy.length = self.length
        return copy
