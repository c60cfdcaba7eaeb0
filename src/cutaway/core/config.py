"""What separates the models, as data. A field is here only if two published families differ in it."""

import difflib
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal, Self, get_args

from cutaway.errors import ConfigError

Activation = Literal["gelu_tanh", "gelu_erf", "swiglu"]
Norm = Literal["layer", "rms"]
Positions = Literal["learned", "rotary"]
Head = Literal["lm", "mlm", "classify", "pooler", "none"]


@dataclass(frozen=True, kw_only=True)
class Config:
    """Sizes and switches of one transformer. Immutable; a field that contradicts another is refused on construction.

    Raises ConfigError, naming both values.
    """

    vocab_size: int  # how many tokens there are
    context: int  # the most tokens one text may have
    width: int  # of the residual stream
    layers: int  # blocks, one after another
    heads: int  # that attend side by side in each layer
    mlp_width: int  # between the layers of each MLP

    causal: bool  # may a position read only itself and what came before?
    norm_first: bool  # norm before each part (pre-norm), or after the sum (post-norm)?
    final_norm: bool  # one more norm before the head?
    embed_norm: bool  # a norm on the embeddings?
    activation: Activation  # what bends in the middle of each MLP
    norm: Norm = "layer"  # does a norm take the mean out, or scale alone?
    bias: bool = True  # does each linear layer add one?
    kv_heads: int = 0  # heads of keys and values, each read by several of queries; 0: as many as those
    positions: Positions = "learned"  # a table that is added, or a rotation of queries and keys
    rotary_base: float = 10000.0  # the slowest rotation's; read only if they are rotary
    position_offset: int = 0  # rows of the position table that no token uses
    segments: int = 0  # rows of the segment table; 0: there is none
    norm_eps: float = 1e-5  # added inside a norm's root, so that nothing is divided by 0
    head: Head = "lm"  # what stands on top of the last block
    tied: bool = True  # is the output matrix the token embedding itself?
    classes: int = 0  # of a classifier head

    def __post_init__(self) -> None:
        for name in ("vocab_size", "context", "width", "layers", "heads", "mlp_width"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)}", expected="a whole number above 0")
        for name, kind in (("activation", Activation), ("norm", Norm), ("positions", Positions), ("head", Head)):
            if getattr(self, name) not in get_args(kind):
                raise ConfigError(f"{name} is {getattr(self, name)!r}", expected="one of " + ", ".join(get_args(kind)))
        if self.width % self.heads:
            raise ConfigError(f"width {self.width} is not divisible by heads {self.heads}", expected="heads of equal width")
        if self.kv_heads < 0 or self.heads % self.key_heads:
            raise ConfigError(f"heads {self.heads} is not divisible by kv_heads {self.kv_heads}", expected="groups of equal size")
        if self.positions == "rotary" and self.head_width % 2:
            raise ConfigError(f"A head is {self.head_width} wide", expected="an even width, to be rotated in pairs")
        if (self.head == "classify") != (self.classes > 0):
            raise ConfigError(f"head is {self.head!r} and classes is {self.classes}", expected="classes > 0 for a classifier, else 0")

    @property
    def head_width(self) -> int:
        return self.width // self.heads

    @property
    def key_heads(self) -> int:
        return self.kv_heads or self.heads

    @property
    def key_width(self) -> int:
        return self.key_heads * self.head_width if self.kv_heads else self.width

    @property
    def position_rows(self) -> int:
        return self.context + self.position_offset if self.positions == "learned" else 0

    def with_(self, **changes: Any) -> Self:
        """The same configuration with some fields changed; raises ConfigError for a field that does not exist."""
        known = [field.name for field in fields(self)]
        for name in changes:
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                raise ConfigError(f"Unknown field {name!r}", then=f"did you mean {near[0]!r}?" if near else "known: " + ", ".join(known))
        return replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)
