"""Experiments by name: this package's own, those that installed packages offer, and those in a file of one's own."""

import importlib
import importlib.util
import pkgutil
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType

import cutaway.lab
from cutaway.errors import LabError
from cutaway.lab.experiment import Experiment
from cutaway.registry import nearest

GROUP = "cutaway.experiments"  # entry points of other packages: each names an Experiment


def experiments() -> dict[str, Experiment]:
    """All that have a name here, sorted by it."""
    modules = [m.name for m in pkgutil.iter_modules(cutaway.lab.__path__) if m.name.startswith("e") and m.name[1:3].isdigit()]
    found = [e for name in modules for e in of_module(importlib.import_module(f"cutaway.lab.{name}"))]
    found += [point.load() for point in entry_points(group=GROUP)]
    return {e.name: e for e in sorted(found, key=lambda e: e.name)}


def find(name: str) -> list[Experiment]:
    """One experiment by its name, or those of a file (./mine.py). Raises LabError if there is none."""
    if name.endswith(".py") or "/" in name or "\\" in name:
        return of_file(Path(name))
    known = experiments()
    if name not in known:
        near = nearest(name, list(known))
        then = f"did you mean {near}?" if near else "a file of your own is named as a path: ./mine.py"
        raise LabError(f"There is no experiment {name!r}", expected="one of " + ", ".join(known), then=then)
    return [known[name]]


def of_file(path: Path) -> list[Experiment]:
    """The experiments of a Python file, which is run for that: it is the user's own."""
    if not path.is_file():
        raise LabError(f"There is no file {path}", expected="a Python file that defines an experiment")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise LabError(f"{path} is no Python file", expected="a name that ends in .py")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise LabError(f"{path} cannot be run: {type(error).__name__}: {error}", then="mend the file; --debug shows where") from error
    if not (found := of_module(module)):
        raise LabError(f"{path} defines no experiment", expected="a function under @experiment; see cutaway.lab.experiment")
    return found


def of_module(module: ModuleType) -> list[Experiment]:
    return [value for value in vars(module).values() if isinstance(value, Experiment)]
