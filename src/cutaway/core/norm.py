"""A norm brings each position's vector to one length, whatever was added to it before."""

from torch import Tensor, nn
from torch.nn import functional as F

from cutaway.core.config import Config
from cutaway.core.linear import unset


class LayerNorm(nn.Module):
    """Takes the mean out, and has a gain and a bias (Ba et al. 2016, "Layer Normalization", equation 4)."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.eps = eps
        self.weight = unset(width)
        self.bias = unset(width)

    def forward(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)


class RMSNorm(nn.Module):
    """Divides by the root mean square, and has a gain alone (Zhang & Sennrich 2019, "Root Mean Square Layer Normalization", equation 4)."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.eps = eps
        self.weight = unset(width)

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.weight.shape, self.weight, self.eps)


def make_norm(config: Config) -> nn.Module:
    made = LayerNorm if config.norm == "layer" else RMSNorm
    return made(config.width, config.norm_eps)
