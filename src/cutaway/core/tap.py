"""A tap is a named place in the forward pass where a tensor can be read or replaced.

Nothing is registered on the model: a tap is an argument that travels down the forward pass, so none can outlive a run.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from torch import Tensor

from cutaway.core.config import Config

See = Callable[[str, Tensor], Tensor]


@dataclass(frozen=True)
class Tap:
    """Calls `see(full name, tensor)` at every tap, or at those in `only`; what `see` returns is what the model goes on with.

    `see` must not write into the tensor: what it has to change, it returns anew.
    """

    see: See
    place: str = ""
    only: Collection[str] | None = None  # full names

    def __call__(self, name: str, x: Tensor) -> Tensor:
        return self.see(self.place + name, x) if self.wants(name) else x

    def at(self, place: str) -> "Tap":
        return Tap(self.see, f"{self.place}{place}.", self.only)

    def wants(self, name: str) -> bool:
        return self.only is None or self.place + name in self.only


class Untapped(Tap):
    """Nobody is looking: tensors pass, names are not even put together."""

    def __call__(self, name: str, x: Tensor) -> Tensor:
        return x

    def at(self, place: str) -> "Tap":
        return self


untapped = Untapped(lambda name, x: x)

HEADS = {
    "lm": ["logits"],
    "mlm": ["head.transform", "logits"],
    "classify": ["head.transform", "logits"],
    "pooler": ["pooled"],
    "none": [],
}


def tap_names(config: Config) -> list[str]:
    """Every tap that a model with this configuration has, in the order in which a forward pass meets them."""
    embed = ["tok_embed", *(["segment_embed"] if config.segments else [])]
    embed += ["pos_embed"] if config.positions == "learned" else []
    embed += [*(["embed_norm"] if config.embed_norm else []), "embed"]
    attn = [f"attn.{part}" for part in ("q", "k", "v", "scores", "pattern", "z", "out")]
    mlp = [*(["mlp.gate"] if config.activation == "swiglu" else []), "mlp.pre", "mlp.post", "mlp.out"]
    block = (
        ["resid_pre", "ln1", *attn, "resid_mid", "ln2", *mlp, "resid_post"]
        if config.norm_first
        else ["resid_pre", *attn, "resid_mid", "ln1", *mlp, "resid_post", "ln2"]
    )
    blocks = [f"blocks.{n}.{part}" for n in range(config.layers) for part in block]
    return embed + blocks + (["ln_f"] if config.final_norm else []) + HEADS[config.head]
