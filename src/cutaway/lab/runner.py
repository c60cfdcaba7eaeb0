"""Running tasks: one after the other, each of them stopped and taken up again at will, each into a record."""

import hashlib
import inspect
import json
import time
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from datetime import UTC, datetime
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import torch

import cutaway
from cutaway.errors import TextError
from cutaway.lab import data, record
from cutaway.lab.experiment import Experiment, NotTrainedError, Run
from cutaway.lab.find import is_path
from cutaway.lab.ledger import Keeper
from cutaway.lab.plan import Skipped, Task, the_experiment
from cutaway.lab.record import Record
from cutaway.load import load
from cutaway.model import Model
from cutaway.progress import Progress, silent
from cutaway.weights.remember import cache_folder


@lru_cache(maxsize=1)
def loaded(name: str, dtype: str | None, device: str, offline: bool) -> Model:
    """The model, kept for the next task: tasks come sorted by model."""
    return load(name, dtype=dtype, device=device, offline=offline)


def model_of(task: Task, e: Experiment) -> Model | None:
    return loaded(task.model, task.dtype, task.device, task.offline) if task.model and e.needs is not None else None


def own_file(task: Task) -> Path | None:
    """The file of an experiment that does not come with a package."""
    return Path(task.target) if is_path(task.target) else None


@cache
def code_of(e: Experiment) -> str:
    """sha256 of all that computes: this package's code but for its faces, and the experiment's own module."""
    package = Path(cutaway.__file__).parent
    files = [path for path in sorted(package.rglob("*.py")) if path.relative_to(package).parts[0] != "cli"]
    own = inspect.getsource(inspect.getmodule(inspect.unwrap(e.function)) or e.function)
    return hashlib.sha256(b"\0".join([*(path.read_bytes() for path in files), own.encode()])).hexdigest()


def key_of(task: Task, e: Experiment, model: Model | None) -> str:
    """What a stopped run must have in common with this one to be taken up."""
    sha = (model.weights_sha256 or model.name) if model else None
    files = data.facts(e.data, task.data)
    said = [e.name, e.version, dict(task.parameters), sha, task.seed, task.level, task.dtype, task.device, task.threads, files, code_of(e)]
    return hashlib.sha256(json.dumps(said, sort_keys=True, default=str).encode()).hexdigest()


def attempt(task: Task, keeper: Keeper | None = None, progress: Progress = silent) -> Record | Skipped:
    """Perform it, unless something that it needs is not here: a data set, or a model that had to be trained first."""
    try:
        return perform(task, keeper, progress)
    except NotTrainedError as missing:
        return Skipped(str(task), f"not measured here: {missing}")
    except TextError as missing:
        if None in data.facts(the_experiment(task).data, task.data).values():
            return Skipped(str(task), f"not measured here: {missing}")
        raise


def perform(task: Task, keeper: Keeper | None = None, progress: Progress = silent) -> Record:
    """Run one task and make its record. With a keeper it is written to the ledger, and finished units as they come."""
    e = the_experiment(task)
    model = model_of(task, e)
    torch.set_num_threads(task.threads)
    key = key_of(task, e, model)
    done: MutableMapping[str, Any] = keeper.units(key) if keeper else {}
    run = Run(model, task.seed, task.level, task.data, cache_folder() / "trained", task.may_train, progress, done)
    facts = facts_of_run(task, e)  # before it runs: of the code that was loaded, whatever is saved meanwhile
    started, clock = datetime.now(UTC), time.monotonic()
    measured = tuple(e.measure(run, **task.parameters))
    made = Record(
        experiment=e.name,
        version=e.version,
        parameters={name: p.default for name, p in e.parameters.items()} | dict(task.parameters),
        model=facts_of(model) if model else None,
        seed=task.seed,
        level=task.level,
        measurements=measured,
        facts=facts | {"started": started.isoformat(timespec="seconds"), "seconds": round(time.monotonic() - clock, 2)},
    ).as_written()
    if keeper:
        keeper.keep(made, key)
    return made


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
        "kernel": "eager where taps are read, else sdpa",
        "notes": list(model.origin.notes),
    }


def facts_of_run(task: Task, e: Experiment) -> dict[str, Any]:
    return {
        "data": data.facts(e.data, task.data),
        "threads": task.threads,
        "cutaway": cutaway.__version__,
        **record.commit(own_file(task)),
        "code_sha256": code_of(e),
        "versions": record.versions(),
        "machine": record.machine(),
        "command": task.command,
    }


def sequential(tasks: Sequence[Task], keeper: Keeper | None, progress: Callable[[Task], Progress]) -> Iterator[Record | Skipped]:
    for task in tasks:
        yield attempt(task, keeper, progress(task))
