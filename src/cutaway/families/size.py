"""How many numbers a model was left with, part by part: computed from its configuration, before any file is opened."""

from cutaway.core.config import Config


def parameters(config: Config) -> dict[str, int]:
    """Parameters of each part; their sum is the model's size. A tied output matrix is counted once, as the embedding."""
    d, m = config.width, config.mlp_width
    kv = config.key_heads * config.head_width
    norm = d if config.norm == "rms" else 2 * d
    attention = 2 * d * d + 2 * d * kv + config.bias * (2 * d + 2 * kv)
    mlp = (3 if config.activation == "swiglu" else 2) * d * m + config.bias * (m + d)
    untied = 0 if config.tied else config.vocab_size * d
    return {
        "token embedding": config.vocab_size * d,
        "position embedding": config.position_rows * d,
        "segment embedding": config.segments * d,
        "attention": config.layers * attention,
        "mlp": config.layers * mlp,
        "norms": (2 * config.layers + config.final_norm + config.embed_norm) * norm,
        "head": {
            "lm": untied,
            "mlm": d * d + d + norm + untied + config.vocab_size,
            "classify": d * d + d + d * config.classes + config.classes,
            "pooler": d * d + d,
            "none": 0,
        }[config.head],
    }
