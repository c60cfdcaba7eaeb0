"""Chapter 3: the attention function, as the course prints it, does what other people's does. Counted, and compared."""

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from cutaway.core import attention as core
from cutaway.lab.claims import Claim
from cutaway.lab.curves import dots
from cutaway.lab.experiment import Run, experiment
from cutaway.lab.measurement import Measurement

if TYPE_CHECKING:
    from cutaway.charts import Chart
    from cutaway.lab.record import Record

BOUNDS = {"float64": 1e-12, "float32": 1e-5}
PEERS = ("sdpa", "numpy", "transformers")
MARK = "[region the-line]"


def agrees(peer: str, dtype: str) -> Claim:
    return Claim(
        sentence=f"The eight lines give what {peer} gives, in {dtype}",
        measurement=f"max_abs_diff[peer={peer},dtype={dtype}]",
        compare="<=",
        bound=BOUNDS[dtype],
        reason="the same sums in another order: an error of rounding, which grows with the root of the row's length",
        fails_if="the scale, the mask, or the axis of the softmax were another",
    )


def charts(records: Sequence["Record"]) -> "Mapping[str, Chart]":
    title = "How far the eight lines are from others' attention"
    rows = [row for record in records for row in record.rows("max_abs_diff") if row["value"]]  # an axis of powers has no 0
    return {title: dots(rows, title, x="peer", y="largest difference", colour="dtype", log=True)}


@experiment(
    "e03_eight_lines",
    chapter="03",
    version=1,
    question="Is attention really eight lines, and do they compute what everybody else's attention computes?",
    needs=None,
    charts=charts,
    not_shown="that a whole model is right, or how fast it is",
    claims=(
        Claim(
            sentence="The attention function is eight statement lines",
            measurement="lines",
            compare="==",
            bound=8,
            reason="def, scale, scores, the lowest number, the mask, softmax, the weighted sum, return",
            fails_if="a line were added or taken away",
        ),
        Claim(
            sentence="One line makes a model causal",
            measurement="mask_lines",
            compare="==",
            bound=1,
            reason="who may read whom is decided once, from positions",
            fails_if="causality were decided in two places, or in none",
        ),
        *(agrees(peer, dtype) for peer, dtype in (("sdpa", "float64"), ("numpy", "float64"), ("transformers", "float32"))),
        Claim(
            sentence="In half precision large scores stay finite",
            measurement="half.max_abs_diff",
            compare="==",
            bound=0,
            reason="q is divided by √d before the product: 64 products of 40 by 40 overflow float16, an eighth of that does not",
            fails_if="the scale came after the product",
        ),
    ),
)
def eight_lines(run: Run, *, shapes: int = 40) -> Iterator[Measurement]:
    """Count the lines, then compare outputs on random shapes and masks, long rows among them."""
    yield run.exact("lines", statement_lines(core.attention))
    yield run.exact("mask_lines", inspect.getsource(core).count(MARK))
    for dtype in BOUNDS:
        rng = run.rng(f"shapes {dtype}")
        given = [example(rng, getattr(torch, dtype), long=n == 0) for n in range(shapes)]
        ours = [core.attention(*each) for each in given]
        for peer in PEERS:
            at = {"peer": peer, "dtype": dtype}
            try:
                theirs = [OTHERS[peer](*each) for each in given]
            except ImportError:
                yield run.absent("max_abs_diff", f"{peer} is not installed", at=at)
                continue
            apart = max((x - y).abs().max().item() for x, y in zip(ours, theirs, strict=True))
            yield run.exact("max_abs_diff", apart, at=at, n=shapes)
    yield run.exact("half.max_abs_diff", half_precision())


def statement_lines(function: Callable[..., Any]) -> int:
    """Lines of a function that are statements: `def` and `return` count, the docstring does not."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    return sum(isinstance(node, ast.stmt) and not is_docstring(node) for node in ast.walk(tree))


def is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def example(rng: np.random.Generator, dtype: torch.dtype, long: bool) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """q, k, v and a mask in which every row reads itself at least."""
    batch, heads, tokens, width = (int(rng.integers(1, most)) for most in (4, 5, 40, 65))
    tokens = 1500 if long else tokens
    q, k, v = (torch.from_numpy(rng.standard_normal((batch, heads, tokens, width))).to(dtype) for _ in range(3))
    readable = torch.from_numpy(rng.random((batch, 1, tokens, tokens)) < rng.random()) | torch.eye(tokens, dtype=torch.bool)
    return q, k, v, readable


def by_sdpa(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def by_numpy(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """Vaswani et al. 2017, equation 1, row by row as the paper writes it."""
    queries, keys, values = (x.numpy() for x in (q, k, v))
    scores = np.where(mask.numpy(), np.einsum("bhtk,bhsk->bhts", queries, keys) / np.sqrt(q.shape[-1]), -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return torch.from_numpy(np.einsum("bhts,bhsk->bhtk", weights / weights.sum(axis=-1, keepdims=True), values).astype(values.dtype))


def by_transformers(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    from transformers.models.bert.modeling_bert import eager_attention_forward

    added = torch.zeros(mask.shape, dtype=q.dtype).masked_fill(~mask, torch.finfo(q.dtype).min)
    module: Any = SimpleNamespace(training=False, num_key_value_groups=1)
    out: Tensor
    out, _ = eager_attention_forward(module, q, k, v, added, scaling=q.shape[-1] ** -0.5, dropout=0.0)
    return out.transpose(1, 2)


OTHERS = {"sdpa": by_sdpa, "numpy": by_numpy, "transformers": by_transformers}


def half_precision() -> float:
    """How far float16 is from the plain mean of v where every score is 12,800 and an unscaled one would be infinite."""
    full = torch.full((1, 1, 4, 64), 40.0, dtype=torch.float16)
    v = torch.arange(4, dtype=torch.float16)[:, None].expand(1, 1, 4, 64)
    z = core.attention(full, full, v, torch.ones(1, 1, 4, 4, dtype=torch.bool))
    apart = (z - 1.5).abs().max().item()
    return apart if np.isfinite(apart) else float("inf")
