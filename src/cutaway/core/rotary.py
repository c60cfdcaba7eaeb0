"""Rotary positions: queries and keys are turned by an angle that grows with the place, so that a score depends on the distance.

Su et al. 2021, "RoFormer", section 3.2. Number i of a head's first half is turned together with number i of its second half.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from cutaway.core.config import Config


@dataclass(frozen=True)
class Rotation:
    """The turn of each position: `cos` and `sin` (T, K), the same for all heads and layers."""

    cos: Tensor
    sin: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        """x (B, H, T, K), turned."""
        first, second = x.chunk(2, dim=-1)
        return x * self.cos + torch.cat([-second, first], dim=-1) * self.sin


def make_rotation(config: Config, position: Tensor, dtype: torch.dtype) -> Rotation:
    """position (T), counted from 0. Angles are computed in float32 at least: half precision cannot tell late places apart."""
    wide = torch.promote_types(dtype, torch.float32)
    pairs = torch.arange(0, config.head_width, 2, device=position.device).to(wide) / config.head_width
    angle = torch.outer(position.to(wide), 1.0 / config.rotary_base**pairs)  # (T, K / 2)
    angle = torch.cat([angle, angle], dim=-1)  # (T, K)
    return Rotation(angle.cos().to(dtype), angle.sin().to(dtype))
