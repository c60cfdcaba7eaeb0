"""cutaway: GPT-1, GPT-2 and RoBERTa taken apart. These are the public names; each is loaded when it is first used."""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cutaway.errors import CutawayError as CutawayError
    from cutaway.invariance import invariance as invariance
    from cutaway.load import load as load
    from cutaway.model import Model as Model
    from cutaway.text.tokenizer import load_tokenizer as load_tokenizer
    from cutaway.trace.compare import diff as diff
    from cutaway.trace.edit import add as add
    from cutaway.trace.edit import function as function
    from cutaway.trace.edit import mean as mean
    from cutaway.trace.edit import patch as patch
    from cutaway.trace.edit import replace as replace
    from cutaway.trace.edit import resample as resample
    from cutaway.trace.edit import scale as scale
    from cutaway.trace.edit import zero as zero

__version__ = "0.1.0"

_HOMES = {
    "CutawayError": "errors",
    "Model": "model",
    "add": "trace.edit",
    "diff": "trace.compare",
    "function": "trace.edit",
    "invariance": "invariance",
    "load": "load",
    "load_tokenizer": "text.tokenizer",
    "mean": "trace.edit",
    "patch": "trace.edit",
    "replace": "trace.edit",
    "resample": "trace.edit",
    "scale": "trace.edit",
    "zero": "trace.edit",
}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'cutaway' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"cutaway.{_HOMES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


class _Package(ModuleType):
    """Importing the submodule `cutaway.invariance` must not put the module where the public function of that name stands."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _HOMES and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
