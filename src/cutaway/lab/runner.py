"""Running experiments: which on which models, one after the other, each of them stopped and taken up again at will."""

import hashlib
import inspect
import json
import time
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

import cutaway
from cutaway.errors import CutawayError, LabError
from cutaway.lab import data, record
from cutaway.lab.experiment import Experiment, Progress, Run, silent
from cutaway.lab.find import find
from cutaway.lab.ledger import Ledger, Units
from cutaway.lab.record import Record
from cutaway.load import load
from cutaway.model import Model
from cutaway.shipped import shipped_names


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
    """A task that was not started, and why."""

    task: str
    why: str


@lru_cache(maxsize=1)
def loaded(name: str, dtype: str | None, device: str, offline: bool) -> Model:
    """The model, kept for the next task: tasks come sorted by model."""
    return load(name, dtype=dtype, device=device, offline=offline)


def the_experiment(task: Task) -> Experiment:
    """The one of its file that the task names."""
    return next(e for e in find(task.target) if e.name == task.experiment)


def plan(
    targets: Sequence[str], models: Sequence[str], *, every: bool = False, may_train: bool = True, **options: Any
) -> tuple[list[Task], list[Skipped]]:
    """The tasks, sorted by model, and what is skipped. Models default to the shipped ones of the right kind.

    every: skip what does not fit rather than refuse it: models of the wrong kind, those too large for this machine's
    memory, and experiments that train. Raises ModelError for a model of the wrong kind otherwise.
    """
    tasks, skipped = [], []
    for target in targets:
        for e in find(target):
            if every and e.trains:
                skipped.append(Skipped(e.name, f"it trains models of its own; cutaway lab run {e.name} starts it"))
                continue
            for name in (models or shipped_names()) if e.needs is not None else [None]:
                task = Task(target, e.name, name, may_train=may_train, threads=torch.get_num_threads(), command=record.command(), **options)
                why = unfit(task, e)
                if why and (every or not models):
                    skipped.append(Skipped(str(task), why))
                elif why:
                    raise LabError(f"{e.name} does not fit: {why}", expected=f"a model of the kind: {e.needs}")
                else:
                    tasks.append(task)
    return sorted(tasks, key=lambda task: task.model or ""), skipped


def unfit(task: Task, e: Experiment) -> str:
    """Why this task cannot run: the wrong kind of model, or not enough memory; empty if it can."""
    if task.model is None or e.needs is None:
        return ""
    model = loaded(task.model, task.dtype, task.device, task.offline)
    if why := e.needs.why_not(model):
        return why
    wanted, free = memory(model), available()
    return f"it needs about {wanted / 2**30:.1f} GiB and {free / 2**30:.1f} GiB are free" if wanted > free else ""


def memory(model: Model) -> int:
    """Bytes that one eager run with every tap of a short text takes beside the weights, and the weights once more."""
    config, width = model.config, torch.finfo(model.dtype).bits // 8
    weights = sum(p.numel() for p in model.transformer.parameters())
    tokens = min(config.context, 256)
    per_block = tokens * (12 * config.width + 3 * config.mlp_width) + 3 * config.heads * tokens**2
    return width * (weights + config.layers * per_block + tokens * config.vocab_size)


def available() -> int:
    import psutil

    return int(psutil.virtual_memory().available)


def key_of(task: Task, e: Experiment, model: Model | None) -> str:
    """What a stopped run must have in common with this one to be taken up."""
    code = inspect.getsource(inspect.getmodule(inspect.unwrap(e.function)) or e.function)
    sha = (model.weights_sha256 or model.name) if model else None
    settings = [dict(task.parameters), task.seed, task.level, task.dtype, task.device, task.threads]
    said = [e.name, e.version, settings, sha, code, record.commit()]
    return hashlib.sha256(json.dumps(said, sort_keys=True, default=str).encode()).hexdigest()


def perform(task: Task, ledger: Ledger | None = None, progress: Progress = silent) -> Record:
    """Run one task and make its record; with a ledger the record is written there, and finished units as they come."""
    e = the_experiment(task)
    model = loaded(task.model, task.dtype, task.device, task.offline) if task.model and e.needs is not None else None
    torch.set_num_threads(task.threads)
    key = key_of(task, e, model)
    done: MutableMapping[str, Any] = Units(ledger, key) if ledger else {}
    run = Run(model, task.seed, task.level, task.data, may_train=task.may_train, progress=progress, done=done)
    started, clock, code = datetime.now(UTC), time.monotonic(), record.commit()  # the code that was loaded, whatever is saved meanwhile
    measured = tuple(e.measure(run, **task.parameters))
    made = Record(
        experiment=e.name,
        version=e.version,
        parameters=json.loads(json.dumps({name: p.default for name, p in e.parameters.items()} | dict(task.parameters))),
        model=facts_of(model) if model else None,
        seed=task.seed,
        level=task.level,
        measurements=measured,
        facts={
            "data": data.facts(e.data, task.data),
            "threads": task.threads,
            "cutaway": cutaway.__version__,
            **code,
            "versions": record.versions(),
            "machine": record.machine(),
            "command": task.command,
            "started": started.isoformat(timespec="seconds"),
            "seconds": round(time.monotonic() - clock, 2),
        },
    )
    if ledger:
        keep(ledger, made, key)
    return made


def keep(ledger: Ledger, made: Record, key: str | None = None) -> None:
    """Write the record. Raises NotKeptError, which holds it, where the ledger cannot be written: a result is never lost."""
    try:
        ledger.add(made, key)
    except CutawayError as error:
        raise NotKeptError(made, error) from error


class NotKeptError(LabError):
    """A record was made, and the ledger would not take it."""

    def __init__(self, made: Record, error: CutawayError) -> None:
        super().__init__(error.given, expected=error.expected, then=error.then)
        self.record = made


def facts_of(model: Model) -> dict[str, Any]:
    facts = model.facts()
    return {
        "model": Path(model.name).name,
        "weights_sha256": facts["weights_sha256"],
        "causal": model.config.causal,
        "head": model.config.head,
        "nano": bool(model.origin.card),
        "dtype": facts["dtype"],
        "device": facts["device"],
        "kernel": "eager",  # experiments look inside, and whoever looks runs the eager kernel
        "notes": list(model.origin.notes),
    }


def sequential(tasks: Sequence[Task], ledger: Ledger | None, progress: Callable[[Task], Progress]) -> Iterator[Record]:
    for task in tasks:
        yield perform(task, ledger, progress(task))
