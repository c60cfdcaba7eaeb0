"""`name=value` becomes an experiment's parameter, of the type that its signature says."""

import inspect
from collections.abc import Sequence
from typing import Any, get_args, get_origin, get_type_hints

from cutaway.errors import LabError
from cutaway.lab.experiment import Experiment


def parse(e: Experiment, given: Sequence[str]) -> dict[str, Any]:
    """Raises LabError for a parameter that is not there, or a value of another type."""
    hints = get_type_hints(inspect.unwrap(e.function))
    found = {}
    for pair in given:
        name, _, text = pair.partition("=")
        if name not in e.parameters:
            raise LabError(f"{e.name} has no parameter {name!r}", expected="one of " + (", ".join(e.parameters) or "none at all"))
        try:
            found[name] = value(text, hints[name])
        except ValueError:
            default = e.parameters[name].default
            raise LabError(f"{name} is {text!r}", expected=f"a value like {default!r}, given as {name}={written(default)}") from None
    return found


def value(text: str, kind: Any) -> Any:
    if get_origin(kind) is tuple:
        return tuple(value(part, get_args(kind)[0]) for part in text.split(","))
    if kind is bool:
        if text.lower() not in ("true", "false"):
            raise ValueError(text)
        return text.lower() == "true"
    return kind(text)


def written(default: Any) -> str:
    return ",".join(map(str, default)) if isinstance(default, tuple) else str(default)
