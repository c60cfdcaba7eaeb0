"""The dimensions of attention in one layer, step by step: what each step holds for this text, and one number of it worked out.

A number is worked out in float64 from what the step before it holds, and set against the one in the tensor; what separates
the two is rounding, unless an edit is in force. Counted are the multiplications of matrix products, no others.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from math import sqrt
from typing import Any

import torch
from torch import Tensor

from cutaway.core.attention import make_mask
from cutaway.core.config import Config
from cutaway.core.rotary import make_rotation
from cutaway.errors import ModelError
from cutaway.model import Model
from cutaway.text.spans import find_word
from cutaway.trace.record import Trace

CORNER = (3, 4)  # rows and columns that are shown of a step
TERMS = 3  # of a sum that are written out


@dataclass(frozen=True)
class Check:
    """One number of a step, worked out again. `working` is the sum, in words; `difference` is worked_out − in_tensor."""

    place: str
    working: str
    worked_out: float
    in_tensor: float

    @property
    def difference(self) -> float:
        return self.worked_out - self.in_tensor


@dataclass(frozen=True)
class Step:
    """One step. `tap` is where it can be read, None where the core has no tap; `letters` and `sizes` are its shape.

    corner: its first values, of the head that is looked at if it has heads. multiplications: what making it took.
    """

    name: str
    tap: str | None
    formula: str
    letters: tuple[str, ...]
    sizes: tuple[int, ...]
    corner: tuple[tuple[float, ...], ...]
    multiplications: int = 0
    checks: tuple[Check, ...] = ()

    @property
    def elements(self) -> int:
        return torch.Size(self.sizes).numel()

    def to_dict(self) -> dict[str, Any]:
        checks = [asdict(check) | {"difference": check.difference} for check in self.checks]
        return asdict(self) | {"elements": self.elements, "checks": checks}


@dataclass(frozen=True)
class Shapes:
    """The steps in the order of the run. `dimensions`: each letter, what it counts, and how many there are."""

    text: str
    tokens: tuple[str, ...]
    layer: int
    head: int
    query: int
    source: int
    dimensions: tuple[tuple[str, str, int], ...]
    steps: tuple[Step, ...]
    edits: tuple[str, ...]
    notes: tuple[str, ...]
    facts: dict[str, Any]

    @property
    def multiplications(self) -> int:
        return sum(step.multiplications for step in self.steps)

    def to_dict(self) -> dict[str, Any]:
        steps = [step.to_dict() for step in self.steps]
        return asdict(self) | {"steps": steps, "multiplications": self.multiplications}

    def page(self) -> str:
        """One self-contained page."""
        from cutaway import render

        return render.attention_page(self._repr_html_())

    def _repr_html_(self) -> str:
        from cutaway import render

        return render.shapes(self)


def shapes(model: Model, text: str, *, layer: int = 0, head: int = 0, query: str | None = None, occurrence: int | None = None) -> Shapes:
    """Every step of attention in one layer. The numbers worked out are those of one head, where `query` (a word; default: the
    last token) looks most.

    Raises ModelError for a layer or head that there is not, TextError for a text or a word that cannot be used.
    """
    config = model.config
    for kind, number, count in (("layer", layer, config.layers), ("head", head, config.heads)):
        if not 0 <= number < count:
            raise ModelError(f"{model.name} has no {kind} {number}", expected=f"0 to {count - 1}")
    trace = model.trace(text)
    size = trace.lengths[0]
    asks = size - 1 if query is None else find_word(text, trace.pieces[0], query, occurrence)[-1]
    seen = Seen(trace, layer, head, asks)
    steps = (*seen.before(), *seen.heads(), *seen.after())
    tokens = tuple(piece.text for piece in trace.pieces[0])
    facts = model.facts() | {"kernel": "eager"}
    return Shapes(text, tokens, layer, head, asks, seen.source, dimensions(config, size), steps, trace.edits, model.notes_on(text), facts)


def dimensions(config: Config, tokens: int) -> tuple[tuple[str, str, int], ...]:
    grouped = [("G", "heads of keys and values, each read by H / G of queries", config.key_heads)] if config.kv_heads else []
    return (
        ("T", "tokens", tokens),
        ("D", "width of the residual stream", config.width),
        ("H", "heads", config.heads),
        *grouped,
        ("K", "width of a head, D / H", config.head_width),
    )


@dataclass(frozen=True)
class Seen:
    """One layer of a run: `asks` is the query's position, `source` the key's that it looks at most."""

    trace: Trace
    layer: int
    head: int
    asks: int

    @property
    def config(self) -> Config:
        return self.trace.model.config

    @property
    def block(self) -> Any:
        return self.trace.model.transformer.blocks[self.layer]

    @property
    def shared(self) -> int:
        """The head of keys and values that this head reads."""
        return self.head * self.config.key_heads // self.config.heads

    @property
    def group(self) -> str:
        return "G" if self.config.kv_heads else "H"

    @cached_property
    def source(self) -> int:
        return int(self.whole("attn.pattern")[self.head, self.asks].argmax())

    @cached_property
    def readable(self) -> Tensor:
        """Who may read whom (T, T)."""
        places = torch.arange(self.trace.lengths[0])
        return make_mask(places, places, self.config.causal).readable[0, 0]

    def named(self, tap: str) -> str:
        return f"blocks.{self.layer}.{tap}"

    def whole(self, tap: str) -> Tensor:
        """A tap of this block, without the batch dimension."""
        return self.trace.whole(self.named(tap))[0].cpu()

    def step(self, tap: str, letters: str, formula: str, multiplications: int = 0, *checks: Check) -> Step:
        """A step that is a tap of this block."""
        x = self.whole(tap)
        name = tap.rpartition(".")[2]
        return Step(name, self.named(tap), formula, tuple(letters.split()), tuple(x.shape), self.corner(x), multiplications, checks)

    def corner(self, x: Tensor) -> tuple[tuple[float, ...], ...]:
        """The first values of (T, ·), or of the head that is looked at."""
        if x.dim() == 3:
            x = x[self.head if len(x) == self.config.heads else self.shared]
        rows, columns = CORNER
        return tuple(map(tuple, x[:rows, :columns].tolist()))

    def before(self) -> Iterator[Step]:
        """From ids to what attention reads."""
        ids = [piece.id for piece in self.trace.pieces[0]]
        yield Step("ids", None, "the tokenizer's number of each piece", ("T",), (len(ids),), (tuple(ids[: CORNER[1]]),))
        formulas = {
            "tok_embed": "row id of the token table",
            "segment_embed": "row 0 of the segment table",
            "pos_embed": "row n of the position table for position n",
            "embed_norm": f"{self.norm}(the sum of these)",
            "embed": "what enters block 0",
        }
        for tap, formula in formulas.items():
            if tap in self.trace:
                x = self.trace.whole(tap)[0].cpu()
                yield Step(tap, tap, formula, ("T", "D"), tuple(x.shape), self.corner(x))
        entered = "embed" if self.layer == 0 else f"what left block {self.layer - 1}"
        yield self.step("resid_pre", "T D", entered)
        if self.config.norm_first:
            yield self.step("ln1", "T D", f"{self.norm}(resid_pre)")

    def heads(self) -> Iterator[Step]:
        """What happens within a head."""
        config, T = self.config, self.trace.lengths[0]
        bias, read = " + bias" if config.bias else "", "ln1" if config.norm_first else "resid_pre"
        turned = "turned by " if config.positions == "rotary" else ""
        if turned:
            yield self.turn()
        products = {"q": config.width, "k": config.key_width, "v": config.key_width}
        for tap, width in products.items():
            of = f"{read} · W{tap}{bias}, split into {'heads' if tap == 'q' else self.group + ' heads'}"
            of += f", {turned}its position's angles" if turned and tap != "v" else ""
            yield self.step(f"attn.{tap}", f"{'H' if tap == 'q' else self.group} T K", of, T * config.width * width)
        square = config.heads * T * T * config.head_width
        grouped = f"; head h reads k and v of group h · {config.key_heads} / {config.heads}, rounded down" if self.group == "G" else ""
        yield self.step("attn.scores", "H T T", f"(q / √K) · kᵀ, before the mask{grouped}", square, self.score())
        shown = self.readable[: CORNER[0], : CORNER[1]].int().tolist()
        who = "1 where key ≤ query: itself and what came before" if config.causal else "1 everywhere: every token reads every token"
        yield Step("mask", None, who, ("T", "T"), (T, T), tuple(map(tuple, shown)))
        yield self.step("attn.pattern", "H T T", "softmax of each row of the scores that the mask lets through", 0, *self.weights())
        yield self.step("attn.z", "H T K", "pattern · v", square, self.mixed())

    def after(self) -> Iterator[Step]:
        """From the heads back to the residual stream."""
        config, z = self.config, self.whole("attn.z")
        joined = z.transpose(0, 1).flatten(1)  # (T, H · K)
        first = "z of head 0, then head 1 …, side by side"
        yield Step("concat", None, first, ("T", "D"), tuple(joined.shape), self.corner(joined))
        product = len(joined) * config.width * config.width
        yield self.step("attn.out", "T D", f"concat · Wo{' + bias' if config.bias else ''}", product, self.written(joined))
        yield self.step("resid_mid", "T D", "resid_pre + out", 0, self.added())
        if not config.norm_first:
            yield self.step("ln1", "T D", f"{self.norm}(resid_mid)")

    @property
    def norm(self) -> str:
        return "layer norm" if self.config.norm == "layer" else "RMS norm"

    def turn(self) -> Step:
        places = torch.arange(self.trace.lengths[0])
        cos = make_rotation(self.config, places, torch.float32).cos
        formula = f"cosine of position · {self.config.rotary_base:g}^(−2i / K): the angle that turns pair i of q and k"
        return Step("rotation", None, formula, ("T", "K"), tuple(cos.shape), self.corner(cos))

    def score(self) -> Check:
        """The score of the query and the key, as a dot product."""
        q, k = self.whole("attn.q")[self.head, self.asks], self.whole("attn.k")[self.shared, self.source]
        products = (q.double() * k.double()).tolist()
        root = sqrt(self.config.head_width)
        found = self.whole("attn.scores")[self.head, self.asks, self.source].item()
        return Check(self.at("scores"), f"({summed(products)}) / √{self.config.head_width}", sum(products) / root, found)

    def weights(self) -> tuple[Check, Check]:
        """The weight of the key, and the sum of the query's row."""
        seen = self.readable[self.asks]
        scores = self.whole("attn.scores")[self.head, self.asks].double()[seen]
        row = self.whole("attn.pattern")[self.head, self.asks]
        best = self.whole("attn.scores")[self.head, self.asks, self.source].double()
        powers = (scores - scores.max()).exp()
        worked = ((best - scores.max()).exp() / powers.sum()).item()
        exact = row.double()
        one = Check(self.at("pattern"), f"e^{best.item():.4f} / Σ e^score over {len(scores)} readable", worked, row[self.source].item())
        return one, Check(f"pattern[{self.head}, {self.asks}, ·]", f"1, against {summed(exact.tolist())}", 1.0, exact.sum().item())

    def mixed(self) -> Check:
        """The first number that the query takes along."""
        row, values = self.whole("attn.pattern")[self.head, self.asks], self.whole("attn.v")[self.shared, :, 0]
        products = (row.double() * values.double()).tolist()
        place = f"z[{self.head}, {self.asks}, 0]"
        return Check(place, summed(products), sum(products), self.whole("attn.z")[self.head, self.asks, 0].item())

    def written(self, joined: Tensor) -> Check:
        """The first number that is written into the residual stream."""
        out = self.block.attn.out
        products = (joined[self.asks].double() * out.weight[0].detach().cpu().double()).tolist()
        products += [] if out.bias is None else [out.bias[0].item()]
        return Check(f"out[{self.asks}, 0]", summed(products), sum(products), self.whole("attn.out")[self.asks, 0].item())

    def added(self) -> Check:
        """The same number of the stream, with what was there before."""
        before, out, after = (self.whole(tap)[self.asks, 0].item() for tap in ("resid_pre", "attn.out", "resid_mid"))
        return Check(f"resid_mid[{self.asks}, 0]", summed([before, out]), before + out, after)

    def at(self, tap: str) -> str:
        return f"{tap}[{self.head}, {self.asks}, {self.source}]"


def summed(terms: list[float]) -> str:
    """A sum, its first terms written out.

    >>> summed([0.5, -0.25]), summed([1.0, 2.0, 3.0, 4.0, 5.0])
    ('0.5000 − 0.2500', '1.0000 + 2.0000 + 3.0000 + … 2 more')
    """
    first, *others = terms[:TERMS]
    written = f"{first:.4f}".replace("-", "−") + "".join(f" {'−' if term < 0 else '+'} {abs(term):.4f}" for term in others)
    return written + (f" + … {len(terms) - TERMS} more" if len(terms) > TERMS else "")
