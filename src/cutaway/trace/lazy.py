"""The taps of one run: what enters each block is kept, and a block's inside is computed again when somebody asks for it.

Again means the same inputs, edits, mask, places, kernel and number of threads, so bit-identical to having kept it. If the
weights or the number of threads have changed since, asking raises. An edit by a Python function is called again: if it
counts its calls or draws numbers, what it gives then is its own affair.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from cutaway.core.cache import Cache
from cutaway.core.tap import HEADS, Tap, tap_names
from cutaway.core.transformer import Transformer
from cutaway.errors import ModelError
from cutaway.trace.edit import Edits, editing, no_such_tap

if TYPE_CHECKING:
    from cutaway.model import Model

Keep = Literal["all"] | Sequence[str] | None
Metric = Callable[[Tensor], Tensor]  # of the model's output, the logits (B, T, V) if it has them
Stage = int | Literal["begin", "end"]  # a block, or what comes before the first and after the last


@dataclass(frozen=True)
class Inputs:
    """What a run starts from: ids (B, T), lengths (B), and the cache that holds what was read before, if anything was."""

    ids: Tensor
    lengths: Tensor
    cache: Cache | None = None


@dataclass(eq=False)
class Taps(Mapping[str, Tensor]):
    """Every tap of a run, by name, in the order in which the run met them; each (B, …), not copied. Made by `run`."""

    transformer: Transformer
    inputs: Inputs
    edits: tuple[Edits, ...]
    kept: dict[str, Tensor] = field(default_factory=dict)
    entering: list[Tensor] = field(default_factory=list)  # (B, T, D) as handed to each block, and to the head
    conditions: tuple[object, ...] = ()  # under which it ran
    last: dict[str, Tensor] = field(default_factory=dict)  # the stage that was computed again last

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(tap_names(self.transformer.config))

    def __getitem__(self, name: str) -> Tensor:
        """Raises ModelError if it has to be computed again and would not come out the same; KeyError if there is none."""
        if name in self.kept:
            return self.kept[name]
        if name not in self.names:
            raise KeyError(name)
        if name not in self.last:
            self.require_same_conditions()
            self.last = {}  # first, or two stages would be held at a time
            self.last = self.again(stage_of(name))
        return self.last[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, name: object) -> bool:
        return name in self.names

    @cached_property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """Of every tap, computing none: the same run on torch's meta device, whose tensors have shapes and no numbers."""
        seen: dict[str, tuple[int, ...]] = {}

        def see(name: str, x: Tensor) -> Tensor:
            seen[name] = tuple(x.shape)
            return x

        inputs, config = self.inputs, self.transformer.config
        with torch.device("meta"):
            past = Cache(config, len(inputs.ids), inputs.cache.room, dtype=torch.float32, device="meta") if inputs.cache else None
            if past and inputs.cache:
                past.advance(inputs.cache.length)
            Transformer(config)(inputs.ids.to("meta"), lengths=inputs.lengths.to("meta"), cache=past, tap=Tap(see))
        return seen

    @torch.no_grad()
    def again(self, stage: Stage) -> dict[str, Tensor]:
        """Every tap of one stage."""
        made: dict[str, Tensor] = {}
        tap = self.tap({name for name in self.names if stage_of(name) == stage}, made)
        if stage == "end":
            self.transformer.end(self.entering[-1], tap)
            return made
        inputs = self.inputs
        _, mask, turn = self.transformer.begin(inputs.ids, inputs.lengths, inputs.cache, tap)
        if stage != "begin":
            block = self.transformer.blocks[stage]
            block(self.entering[stage], mask, turn, inputs.cache, tap.at(f"blocks.{stage}"))
        return made

    def tap(self, wanted: Set[str], into: dict[str, Tensor]) -> Tap:
        """A tap that applies the edits and keeps what is wanted."""

        def see(name: str, x: Tensor) -> Tensor:
            if name in wanted:
                into[name] = x
            return x

        return Tap(editing(self.edits, see), only=wanted | self.edited)

    @property
    def edited(self) -> Set[str]:
        return {name for group in self.edits for name in group.changes}

    def require_same_conditions(self) -> None:
        *weights, threads = conditions(self.transformer)
        *weights_then, threads_then = self.conditions
        then = "read what you need before, or name it when you trace: keep=['blocks.0.attn.*'], or keep='all'"
        if weights != weights_then:
            raise ModelError("The weights have changed since this trace was made, so its taps cannot be computed again", then=then)
        if threads != threads_then:
            given = f"This trace was made with {threads_then} threads, there are {threads} now, and rounding may differ"
            raise ModelError(given, then=f"call torch.set_num_threads({threads_then}); or {then}")


@torch.no_grad()
def run(model: "Model", inputs: Inputs, keep: Keep = None) -> Taps:
    """Run the model's blocks through the eager kernel, under the edits in force; the head when a tap behind it is read.

    `keep` names what is to be kept beside the residual stream: tap names, with `*`, or "all". A cache stays as it is.
    Raises TapError for a name that matches no tap.
    """
    if inputs.cache is not None:
        inputs = replace(inputs, cache=inputs.cache.fork(inputs.cache.length + inputs.ids.shape[1]))
    transformer = model.transformer
    taps = Taps(transformer, inputs, model.edits)
    wanted = named(keep, taps.names)
    tap = taps.tap(wanted, taps.kept)
    x, mask, turn = transformer.begin(inputs.ids, inputs.lengths, inputs.cache, tap)
    for layer, block in enumerate(transformer.blocks):
        taps.entering.append(x)
        x = block(x, mask, turn, inputs.cache, tap.at(f"blocks.{layer}"))
    taps.entering.append(x)
    if any(stage_of(name) == "end" for name in wanted | taps.edited):  # an edit that does not fit is to fail now, not when read
        transformer.end(x, tap)
    taps.conditions = conditions(transformer)
    return taps


def run_with_gradients(model: "Model", inputs: Inputs, metric: Metric) -> tuple[Taps, dict[str, Tensor]]:
    """Run it whole, keep every tap, and the gradient of the metric at each, in its shape; a tap that it does not hang on has zeros.

    Weights get no gradient. Raises ModelError if the metric is not one number.
    """
    taps = Taps(model.transformer, inputs, model.edits)
    seen: dict[str, Tensor] = {}

    def see(name: str, x: Tensor) -> Tensor:
        seen[name] = x.view_as(x) if x.requires_grad else x.detach().clone().requires_grad_()
        return seen[name]

    with torch.enable_grad():
        out = model.transformer(inputs.ids, lengths=inputs.lengths, tap=Tap(editing(model.edits, see)))
        value = metric(out)
        if not (isinstance(value, Tensor) and value.numel() == 1 and value.requires_grad):
            got = f"a tensor of shape {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
            given = f"The metric made {got} of the model's output, {tuple(out.shape)}"
            raise ModelError(given, expected="one number, computed from it by torch")
        found = torch.autograd.grad(value.sum(), list(seen.values()), allow_unused=True)
    taps.kept = {name: x.detach() for name, x in seen.items()}
    return taps, {name: torch.zeros_like(x) if at is None else at for (name, x), at in zip(seen.items(), found, strict=True)}


def stage_of(name: str) -> Stage:
    if name.startswith("blocks."):
        return int(name.split(".")[1])
    return "end" if name == "ln_f" or any(name in taps for taps in HEADS.values()) else "begin"


def named(keep: Keep, taps: Sequence[str]) -> set[str]:
    """The taps that `keep` names, and the residual stream. Raises TapError if a name matches none."""
    patterns = ["*"] if keep == "all" else ["blocks.*.resid_pre", *([keep] if isinstance(keep, str) else keep or ())]
    for pattern in patterns:
        if not any(fnmatchcase(tap, pattern) for tap in taps):
            raise no_such_tap(pattern, taps)
    return {tap for tap in taps if any(fnmatchcase(tap, pattern) for pattern in patterns)}


def conditions(transformer: Transformer) -> tuple[object, ...]:
    """What would make the same run come out otherwise: the weights, and last the number of threads."""
    weights = ((id(p), p._version, p.data_ptr(), checksum(p)) for p in transformer.parameters())
    return (*weights, torch.get_num_threads())


def checksum(x: Tensor) -> tuple[object, ...]:
    """Its bits added up, for writing to `x.data` moves no version. As int64, which takes a sixtieth of the time of int32."""
    flat = x.detach().reshape(-1)
    each = 8 // flat.itemsize
    if flat.storage_offset() % each:
        flat = flat.clone()
    even = len(flat) - len(flat) % each
    return int(flat[:even].view(torch.int64).sum()), *flat[even:].tolist()
