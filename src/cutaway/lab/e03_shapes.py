"""Chapter 3: the shapes of attention. What each step holds and multiplies, counted in a run and by formula.

    B texts   T positions   D width of the residual stream   H heads   G heads of keys and values   K width of a head

Counted are numbers (elements), their bytes, and the multiplications of matrix products, which torch counts as it runs them.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from cutaway.core.config import Config
from cutaway.core.tap import Tap
from cutaway.core.transformer import Attention, Transformer
from cutaway.lab.claims import ANY, Claim
from cutaway.lab.curves import curves
from cutaway.lab.experiment import Run, experiment
from cutaway.lab.measurement import Measurement

if TYPE_CHECKING:
    from cutaway.charts import Chart
    from cutaway.lab.record import Record

STEPS = ("q", "k", "v", "scores", "pattern", "z", "out")
COUNTS = ("elements", "bytes", "multiplications")
Counts = dict[str, int]  # of one step


def charts(records: Sequence["Record"]) -> "Mapping[str, Chart]":
    found = {}
    for record in records:
        title = f"What each step of a layer holds, by the length of the text: {record.model_name}"
        found[title] = curves(record.rows("elements"), title, x="T", y="elements", colour="step", log=("x", "y"))
    return found


@experiment(
    "e03_shapes",
    chapter="03",
    version=1,
    question="How large is each step of attention, and which of them grow with the square of the text?",
    needs=ANY,
    claims=(
        Claim(
            sentence="Every count of every step is the formula's",
            measurement="counts.unlike",
            compare="==",
            bound=0,
            reason="a step's shape follows from B, T, D, H, G and K alone",
            fails_if="a step held or multiplied more than it has to, or less",
        ),
        Claim(
            sentence="Twice the text makes four times the pattern",
            measurement="growth[step=pattern]",
            compare="==",
            bound=4,
            reason="every position has a weight for every position",
            fails_if="attention were to a window, or sparse",
        ),
        Claim(
            sentence="Twice the text makes twice the queries",
            measurement="growth[step=q]",
            compare="==",
            bound=2,
            reason="every position has one vector a head",
            fails_if="positions were pooled, or asked more than once",
        ),
        Claim(
            sentence="Every layer has the same counts",
            measurement="layers.unlike",
            compare="==",
            bound=0,
            reason="the residual stream has one width, and layers differ in their weights alone",
            fails_if="a layer were of another kind",
        ),
        Claim(
            sentence="However many heads, W_q, W_k, W_v and W_o have as many parameters",
            measurement="parameters.kinds",
            compare="==",
            bound=1,
            reason="more heads are narrower heads: H times K is D (as many queries to a key head as this model has)",
            fails_if="heads had a width of their own",
        ),
        Claim(
            sentence="They are as many as the formula says",
            measurement="parameters.above_formula",
            compare="==",
            bound=0,
            reason="two matrices of D by D for q and out, two of D by G·K for k and v, and their biases",
            fails_if="a matrix were shared, split or missing",
        ),
    ),
    charts=charts,
    not_shown="how long a step takes, or what a fused kernel needs, which never holds the scores",
)
def shapes(run: Run, *, lengths: tuple[int, ...] = (8, 16, 32), batch: int = 2) -> Iterator[Measurement]:
    """`lengths`: of texts in tokens, each twice the one before. The ids are random: no count depends on them."""
    model, config = run.model, run.model.config
    run_of = partial(counted, model.transformer, config, batch, run)
    every = dict(zip(lengths, run.units("lengths", list(lengths), run_of), strict=True))  # layers, then steps, of each length
    unlike = 0
    for tokens, layers in every.items():
        expected = formula(config, batch, tokens, model.dtype.itemsize)
        for step in STEPS:
            for count in COUNTS:
                unlike += layers[0][step][count] != expected[step][count]
                yield run.exact(count, layers[0][step][count], at={"step": step, "T": tokens})
    yield run.exact("counts.unlike", unlike, n=len(lengths) * len(STEPS) * len(COUNTS))
    yield run.exact("layers.unlike", sum(layer != layers[0] for layers in every.values() for layer in layers), n=config.layers * len(every))
    for short, long in list(itertools.pairwise(lengths))[-1:]:
        for step in STEPS:
            yield run.exact("growth", every[long][0][step]["elements"] / every[short][0][step]["elements"], at={"step": step})
    yield from parameters(run)


@torch.no_grad()
def counted(transformer: Transformer, config: Config, batch: int, run: Run, tokens: int) -> list[dict[str, Counts]]:
    """Of each layer and step, in a run through the eager kernel. What was multiplied since the last tap belongs to this one: q, k and v
    are made before any of them is seen, so theirs are dealt out by their sizes.
    """
    layers: list[dict[str, Counts]] = []
    meter, before = FlopCounterMode(display=False), 0

    def see(name: str, x: Tensor) -> Tensor:
        nonlocal before
        step = name.partition(".attn.")[2]
        total = meter.get_total_flops() // 2  # torch counts a multiplication and an addition
        if step == "q":
            layers.append({})
        if step:
            layers[-1][step] = {"elements": x.numel(), "bytes": x.numel() * x.element_size(), "multiplications": total - before}
        if step == "v":
            share_out(layers[-1])
        before = total
        return x

    ids = torch.from_numpy(run.rng(f"ids {tokens}").integers(0, config.vocab_size, (batch, tokens)))
    with meter:
        transformer(ids.to(transformer.embed.token.weight.device), tap=Tap(see))
    return layers


def share_out(layer: dict[str, Counts]) -> None:
    """The multiplications that made q, k and v, seen at q: each gets as many as it has numbers."""
    parts = [layer[step] for step in "qkv"]
    each = sum(part["multiplications"] for part in parts) // sum(part["elements"] for part in parts)
    for part in parts:
        part["multiplications"] = each * part["elements"]


def formula(config: Config, batch: int, tokens: int, size: int) -> dict[str, Counts]:
    """The same from B, T, D, H, G and K; `size`: bytes of a number."""
    b, t, d, h, g, k = batch, tokens, config.width, config.heads, config.key_heads, config.head_width
    asked, read, square = b * h * t * k, b * g * t * k, b * h * t * t
    elements = {"q": asked, "k": read, "v": read, "scores": square, "pattern": square, "z": asked, "out": b * t * d}
    times = {"q": d, "k": d, "v": d, "scores": k, "pattern": 0, "z": t, "out": h * k}  # multiplications for each number
    return {step: {"elements": n, "bytes": n * size, "multiplications": n * times[step]} for step, n in elements.items()}


def parameters(run: Run) -> Iterator[Measurement]:
    """Of one layer's attention, and of the same with other numbers of heads."""
    config = run.model.config
    first: Any = run.model.transformer.blocks[0]
    here = size(first.attn)
    read = config.key_heads * config.head_width
    expected = 2 * config.width * (config.width + read) + config.bias * 2 * (config.width + read)
    yield run.exact("parameters", here, "parameters")
    yield run.exact("parameters.above_formula", here - expected)
    others = {one.heads: size(Attention(one, 0)) for one in regrouped(config)}
    yield run.exact("parameters.kinds", len({here, *others.values()}), n=len(others))


def size(attention: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in attention.parameters())


def regrouped(config: Config) -> Iterator[Config]:
    """The configuration with every other number of heads that divides the width; as many queries share a key head."""
    sharing = config.heads // config.key_heads
    for groups in range(1, config.width // sharing + 1):
        heads = groups * sharing
        if config.width % heads == 0 and (config.positions == "learned" or config.width // heads % 2 == 0):
            yield config.with_(heads=heads, kv_heads=groups if config.kv_heads else 0)
