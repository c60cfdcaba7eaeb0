"""A norm brings each position's vector to one length, whatever was added to it before."""

from torch import nn

from cutaway.core.config import Config


def make_norm(config: Config) -> nn.Module:
    """LayerNorm (Ba et al. 2016) takes the mean out and has a bias; RMSNorm (Zhang & Sennrich 2019) does neither."""
    if config.norm == "rms":
        return nn.RMSNorm(config.width, eps=config.norm_eps)
    return nn.LayerNorm(config.width, eps=config.norm_eps)
