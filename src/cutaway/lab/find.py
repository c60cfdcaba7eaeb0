"""Experiments by name: this package's own, those that installed packages offer, and those in a file of one's own."""

import importlib
import importlib.util
import pkgutil
import re
import sys
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType

import cutaway.lab
from cutaway.errors import LabError
from cutaway.lab.experiment import Experiment
from cutaway.registry import nearest

GROUP = "cutaway.experiments"  # entry points of other packages: each names an Experiment
OWN = "cutaway_own_"  # begins the module's name of a file that a user runs


@cache
def experiments() -> dict[str, Experiment]:
    """All that have a name here, sorted by it. This package's own come first: no other can take one of their names.

    Raises LabError for an entry point that cannot be loaded.
    """
    modules = [m.name for m in pkgutil.iter_modules(cutaway.lab.__path__) if re.match(r"e\d\d", m.name)]
    own = {e.name: e for name in modules for e in of_module(importlib.import_module(f"cutaway.lab.{name}"))}
    others = {e.name: e for e in map(offered, entry_points(group=GROUP))}
    return dict(sorted((others | own).items()))


def offered(point: EntryPoint) -> Experiment:
    """What another package's entry point names."""
    given = f"The entry point {point.name} = {point.value} of the group {GROUP}"
    try:
        found = point.load()
    except Exception as error:
        raise LabError(f"{given} cannot be loaded: {type(error).__name__}: {error}", then="mend or remove the package") from error
    if not isinstance(found, Experiment):
        raise LabError(f"{given} is {type(found).__name__}", expected="a function under @experiment")
    return found


def find(name: str) -> list[Experiment]:
    """One experiment by its name, or those of a file (./mine.py). Raises LabError if there is none."""
    if is_path(name):
        return of_file(Path(name))
    known = experiments()
    if name not in known:
        near = nearest(name, list(known))
        then = f"did you mean {near}?" if near else "a file of your own is named as a path: ./mine.py"
        raise LabError(f"There is no experiment {name!r}", expected="one of " + ", ".join(known), then=then)
    return [known[name]]


def is_path(name: str) -> bool:
    return bool(set(name) & set("/\\."))


@cache
def of_file(path: Path) -> list[Experiment]:
    """The experiments of a Python file, which is run for that: it is the user's own."""
    if not path.is_file():
        raise LabError(f"There is no file {path}", expected="a Python file that defines an experiment")
    name = f"{OWN}{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise LabError(f"{path} is no Python file", expected="a name that ends in .py")
    sys.modules[name] = module = importlib.util.module_from_spec(spec)  # where dataclasses and inspect look for it
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise LabError(f"{path} cannot be run: {type(error).__name__}: {error}", then="mend the file; --debug shows where") from error
    known = experiments()
    if not (found := [e for e in of_module(module) if e is not known.get(e.name)]):
        raise LabError(f"{path} defines no experiment", expected="a function under @experiment; see cutaway.lab.experiment")
    if taken := [e.name for e in found if e.name in known]:
        raise LabError(f"{path} defines {taken[0]}, and that name is taken", then="give it one of its own, so that records tell them apart")
    return found


def of_module(module: ModuleType) -> list[Experiment]:
    return [value for value in vars(module).values() if isinstance(value, Experiment)]
