"""Which experiments run on which models with which seeds: tasks, and what is left out and why. No model is loaded for it.

Not here: running them (`runner`, `engine_ray`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

import torch

from cutaway.about import about
from cutaway.core.config import Config
from cutaway.errors import LabError, ModelError
from cutaway.families.size import parameters
from cutaway.lab import record
from cutaway.lab.claims import Claim
from cutaway.lab.experiment import Experiment
from cutaway.lab.find import find
from cutaway.load import DTYPES
from cutaway.locate import HUB_ID
from cutaway.shipped import shipped_names

SHORT = 256  # tokens of the text whose trace is reckoned with


@dataclass(frozen=True)
class Task:
    """One experiment on one model with one seed; everything in it can be sent to another process."""

    target: str  # a name, or the path of a file
    experiment: str
    model: str | None
    seed: int = 1
    level: float = 0.95
    parameters: Mapping[str, Any] = field(default_factory=dict)
    data: Path | None = None
    dtype: str | None = None
    device: str = "cpu"
    offline: bool = False
    may_train: bool = True
    threads: int = 1
    command: str = ""

    def __str__(self) -> str:
        return f"{self.experiment} on {self.model}" if self.model else self.experiment


@dataclass(frozen=True)
class Skipped:
    """A task that was not run, and why."""

    task: str
    why: str


@dataclass(frozen=True)
class Kind:
    """What can be said of a model before it is loaded."""

    config: Config
    nano: bool

    @classmethod
    def of(cls, name: str) -> "Kind | None":
        """None where it must be fetched first: then anything is tried. Raises ModelError for a name that means nothing."""
        try:
            found = about(name)
        except ModelError:
            if HUB_ID.fullmatch(name) and not Path(name).exists():
                return None
            raise
        return cls(found.config, found.nano)


def plan(
    targets: Sequence[str],
    models: Sequence[str],
    *,
    seeds: Sequence[int] = (1,),
    skip_misfits: bool = False,
    skip_training: bool = False,
    **options: Any,
) -> tuple[list[Task], list[Skipped]]:
    """The tasks, sorted by model, and what is left out. Models default to the shipped ones of the right kind.

    skip_misfits: leave out named models of the wrong kind, and those too large for this machine's memory, rather than refuse
    them. skip_training: leave out experiments that train models of their own. Raises LabError for what does not fit, and for no seed.
    """
    if not seeds:
        raise LabError("The list of seeds is empty", expected="one seed at least")
    options = {"threads": torch.get_num_threads(), "command": record.command(), **options}
    kinds = {name: Kind.of(name) for name in models or shipped_names()}
    tasks: list[Task] = []
    skipped: list[Skipped] = []
    for target, e in [(place, e) for place in targets for e in find(place)]:
        if skip_training and e.trains:
            skipped.append(Skipped(e.name, f"it trains models of its own; cutaway lab run {e.name} starts it"))
            continue
        for name in kinds if e.needs is not None else (None,):
            task = Task(target, e.name, name, **options)
            why = unfit(task, e, kinds[name] if name else None)
            if why and models and not skip_misfits:
                raise LabError(f"{e.name} does not fit: {why}", expected=f"a model of the kind: {e.needs}")
            if why:
                skipped.append(Skipped(str(task), why))
            else:
                tasks.append(task)
    return [replace(task, seed=seed) for task, seed in product(sorted(tasks, key=lambda task: task.model or ""), seeds)], skipped


def unfit(task: Task, e: Experiment, kind: Kind | None) -> str:
    """Why this task cannot run: the wrong kind of model, or not enough memory; empty if it can."""
    if task.model is None or e.needs is None or kind is None:
        return ""
    if why := e.needs.unlike(task.model, kind.config.causal, kind.config.head, kind.nano):
        return why
    wanted, free = memory(kind.config, task.dtype), available()
    return f"it needs about {wanted / 2**30:.1f} GiB and {free / 2**30:.1f} GiB are free" if wanted > free else ""


def memory(config: Config, dtype: str | None) -> int:
    """Bytes of the weights, twice, and of one eager run with every tap of a short text; without a dtype, in float32."""
    width = torch.finfo(DTYPES.get(dtype or "", torch.float32)).bits // 8
    tokens = min(config.context, SHORT)
    per_block = tokens * (12 * config.width + 3 * config.mlp_width) + 3 * config.heads * tokens**2
    return width * (2 * sum(parameters(config).values()) + config.layers * per_block + tokens * config.vocab_size)


def available() -> int:
    import psutil

    return int(psutil.virtual_memory().available)


def the_experiment(task: Task) -> Experiment:
    return next(e for e in find(task.target) if e.name == task.experiment)


def claims_of(task: Task) -> tuple[Claim, ...]:
    """The claims of its experiment that are about its model's kind."""
    e, kind = the_experiment(task), Kind.of(task.model) if task.model else None
    if task.model is None or kind is None:
        return e.claims
    return tuple(c for c in e.claims if not c.of.unlike(task.model, kind.config.causal, kind.config.head, kind.nano))
