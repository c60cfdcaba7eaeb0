"""Chapter 0: the published models, counted. Parameters by part, what a token costs, and what separates one model from the next.

All of it is computed from configurations, so that nothing has to be fetched. Whether a computed count is that of a model's own tensors
is `e00_parts`.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from cutaway.diff_models import diff_models
from cutaway.families import PUBLISHED, Published
from cutaway.families.size import cache_bytes, flops, parameters
from cutaway.lab.claims import Claim
from cutaway.lab.experiment import Run, experiment
from cutaway.lab.measurement import Measurement

if TYPE_CHECKING:
    from cutaway.charts import Chart
    from cutaway.lab.record import Record

GPT1_TOKENS, GPT2_TOKENS = 40_478, 50_257
GPT2S = ("gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl")
TREE = ("openai-gpt", "gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl"), ("openai-gpt", "roberta-base", "roberta-large")


def charts(records: Sequence["Record"]) -> "Mapping[str, Chart]":
    from cutaway.charts import made_of

    title = "What the published models are made of"
    wholes: dict[str, dict[str, int]] = {}
    for record in records[-1:]:
        for row in record.rows("part"):
            wholes.setdefault(row["model"], {})[row["part"]] = int(row["value"])
    return {title: made_of(wholes, title, "parameters")} if wholes else {}


def total(name: str, count: int, source: str) -> Claim:
    return Claim(
        sentence=f"{name} has {count:,} parameters",
        measurement=f"parameters[model={name}]",
        compare="==",
        bound=count,
        reason=source,
        fails_if="a matrix, a bias or a norm of the configuration were counted twice, or not at all",
    )


@experiment(
    "e00_census",
    chapter="00",
    version=1,
    question="How large are the published models, of what are they made, and what does a token cost?",
    needs=None,
    charts=charts,
    not_shown="that any file has these parameters: e00_parts checks that on the models that are present",
    claims=(
        total("openai-gpt", 116_534_784, "what its published arrays hold, positions and tokens apart"),
        total("gpt2", 124_439_808, "what its published file holds, with one matrix for input and output"),
        total("gpt2-xl", 1_557_611_200, "what its published file holds"),
        Claim(
            sentence="With GPT-1's vocabulary the four sizes of GPT-2 would be what the paper says, to the million",
            measurement="stated.unexplained",
            compare="==",
            bound=0,
            reason="OpenAI's README says that the paper's counts were wrong; this is the one change that gives all four",
            fails_if="the paper's counts had left out something else",
        ),
        Claim(
            sentence="The sizes of GPT-2 differ in sizes alone",
            measurement="tree.settings[from=gpt2,to=gpt2-xl]",
            compare="==",
            bound=0,
            reason="Radford et al. 2019, table 2: layers and width",
            fails_if="a setting other than a number of something changed from one size to another",
        ),
    ),
)
def census(run: Run, *, context: int = 512) -> Iterator[Measurement]:
    """context: positions that the token reads whose cost is counted; every model here can."""
    for one in PUBLISHED:
        yield from counted(run, one, context)
    off = []
    for name in GPT2S:
        model = next(one for one in PUBLISHED if one.name == name)
        smaller = sum(parameters(model.config).values()) - (GPT2_TOKENS - GPT1_TOKENS) * model.config.width
        assert model.stated is not None
        yield run.exact("with_gpt1_vocabulary", smaller, "parameters", at={"model": name})
        off.append(abs(round(smaller / 1e6) - model.stated.parameters // 1_000_000))
    yield run.exact("stated.unexplained", max(off), "million parameters", n=len(off))
    for line in TREE:
        for a, b in dict.fromkeys([*pairwise(line), ("gpt2", "gpt2-xl")]):
            fields = diff_models(a, b).fields
            settings = sum(not (type(field.a) is type(field.b) is int) for field in fields)
            yield from (
                run.exact(name, value, "fields", at={"from": a, "to": b})
                for name, value in (("tree.fields", len(fields)), ("tree.settings", settings))
            )


def counted(run: Run, one: Published, context: int) -> Iterator[Measurement]:
    at = {"model": one.name}
    parts = parameters(one.config)
    yield run.exact("parameters", sum(parts.values()), at=at)
    for part, count in parts.items():
        yield run.exact("part", count, "parameters", at=at | {"part": part})
    if one.stated:
        yield run.exact("stated", one.stated.parameters, "parameters", at=at)
    cost = flops(one.config, min(context, one.config.context))
    yield run.exact("flops.matrices", cost.matrices, "a token", at=at)
    yield run.exact("flops.attention", cost.attention, f"a token that reads {cost.context} positions", at=at)
    kept = cache_bytes(one.config, "float32")
    if kept is None:
        yield run.absent("cache", "a bidirectional model keeps no keys and values, since every token changes all of them", at=at)
    else:
        yield run.exact("cache", kept, "bytes a token, float32", at=at)
