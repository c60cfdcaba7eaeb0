"""How large a model is and what a token costs it: computed from its configuration, before any file is opened.

Counts, not times: how long a machine takes is measured elsewhere.
"""

from dataclasses import dataclass

from cutaway.core.config import Config

DTYPES = {"float32": 4, "float16": 2, "bfloat16": 2}  # bytes a number


def parameters(config: Config) -> dict[str, int]:
    """Parameters of each part; their sum is the model's size. A tied output matrix is counted once, as the embedding."""
    d, m = config.width, config.mlp_width
    norm = d if config.norm == "rms" else 2 * d
    attention = _attention_matrices(config) + config.bias * (2 * d + 2 * _read(config))
    mlp = _mlp_matrices(config) + config.bias * (_inputs(config) * m + d)
    untied = 0 if config.tied else config.vocab_size * d
    return {
        "token embedding": config.vocab_size * d,
        "position embedding": config.position_rows * d,
        "segment embedding": config.segments * d,
        "attention": config.layers * attention,
        "MLP": config.layers * mlp,
        "norms": (2 * config.layers + config.final_norm + config.embed_norm) * norm,
        "head": {
            "lm": untied,
            "mlm": d * d + d + norm + untied + config.vocab_size,
            "classify": d * d + d + d * config.classes + config.classes,
            "pooler": d * d + d,
            "none": 0,
        }[config.head],
    }


def part_of(parameter: str) -> str:
    """The part, as `parameters` names it, that a parameter of the core belongs to.

    >>> part_of("blocks.3.attn.q.weight"), part_of("blocks.3.ln1.bias"), part_of("embed.norm.weight"), part_of("head.norm.weight")
    ('attention', 'norms', 'norms', 'head')
    """
    first, *others = parameter.split(".")
    if first == "embed" and others[0] != "norm":
        return f"{others[0]} embedding"
    if first == "blocks" and others[1] in ("attn", "mlp"):
        return "attention" if others[1] == "attn" else "MLP"
    return "head" if first == "head" else "norms"


@dataclass(frozen=True)
class Flops:
    """Floating-point operations of one token's forward pass, a multiplication and an addition being two.

    matrices: 2 × the parameters of the matrices that every token is multiplied with. The output matrix is one of them, tied
        or not; the embeddings, which are looked up, are not, nor are biases and norms, nor a head that reads one position only.
    attention: 2 · 2 · layers · width · context: scores and weighted sums of a token that reads `context` positions.
    """

    context: int
    matrix_parameters: int
    matrices: int
    attention: int

    @property
    def total(self) -> int:
        return self.matrices + self.attention


def flops(config: Config, context: int) -> Flops:
    """Of a token that reads `context` positions: any token of a bidirectional text so long, the last one of a causal text."""
    d = config.width
    head = {"lm": config.vocab_size * d, "mlm": d * d + config.vocab_size * d}.get(config.head, 0)
    held = config.layers * (_attention_matrices(config) + _mlp_matrices(config)) + head
    return Flops(context, held, 2 * held, 2 * 2 * config.layers * d * context)


def cache_bytes(config: Config, dtype: str) -> int | None:
    """Bytes of keys and values that each token leaves in the cache. None: a bidirectional model has nothing to keep."""
    return 2 * config.layers * _read(config) * DTYPES[dtype] if config.causal else None


def _read(config: Config) -> int:
    """The width of all the keys of a layer."""
    return config.key_heads * config.head_width


def _attention_matrices(config: Config) -> int:
    return 2 * config.width * (config.width + _read(config))


def _mlp_matrices(config: Config) -> int:
    return (_inputs(config) + 1) * config.width * config.mlp_width


def _inputs(config: Config) -> int:
    """Matrices that lead into the MLP: a gate is one more."""
    return 2 if config.activation == "swiglu" else 1
