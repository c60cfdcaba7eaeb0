"""What a pickle of weights says, read as data: nothing that it names is imported, called or built.

A pickle is a program. This follows one instruction by instruction and keeps what torch would make of it: tables, lists,
plain values, and which tensor lies where. A name that weights never need ends the reading before anything could use it.
Reads no tensor. The instructions: https://docs.python.org/3/library/pickletools.html
"""

import struct
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from pickletools import genops
from typing import IO, Any

import torch

from cutaway.errors import WeightsError
from cutaway.weights.corrupt import corrupt

PROTOCOL = 2  # torch.save's own, and the one that torch's weights-only reader understands

STORAGES = {
    "torch.DoubleStorage": torch.float64, "torch.FloatStorage": torch.float32, "torch.HalfStorage": torch.float16,
    "torch.BFloat16Storage": torch.bfloat16, "torch.LongStorage": torch.int64, "torch.IntStorage": torch.int32,
    "torch.ShortStorage": torch.int16, "torch.CharStorage": torch.int8, "torch.ByteStorage": torch.uint8,
    "torch.BoolStorage": torch.bool, "torch.storage.UntypedStorage": torch.uint8,
}  # fmt: skip
DTYPES = {str(value): value for value in vars(torch).values() if isinstance(value, torch.dtype)}
TABLE, NAMESPACE = "collections.OrderedDict", "argparse.Namespace"
TENSOR, TYPED_TENSOR, PARAMETER = (f"torch._utils._rebuild_{kind}" for kind in ("tensor_v2", "tensor_v3", "parameter"))
OLD_TENSOR = "torch._utils._rebuild_tensor"
# Beside the tensors, in a trainer's notes: never looked into.
ASIDE = ("torch.Size", "torch.device")
ALLOWED = {*STORAGES, *DTYPES, TABLE, NAMESPACE, TENSOR, TYPED_TENSOR, PARAMETER, OLD_TENSOR, *ASIDE}

_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}
_VALUES = {"BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "BINUNICODE", "SHORT_BINUNICODE", "SHORT_BINSTRING", "BINBYTES"}
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


@dataclass(frozen=True)
class Global:
    """A name, and no more than the name."""

    name: str


@dataclass(frozen=True)
class Storage:
    """A run of bytes in the file, by the key that the file gives it; `count` elements."""

    key: str
    dtype: torch.dtype
    count: int

    @property
    def nbytes(self) -> int:
        return self.count * self.dtype.itemsize


@dataclass(frozen=True)
class View:
    """A tensor: which elements of a storage, in what order."""

    storage: Storage
    offset: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype


@dataclass
class Namespace:
    """An argparse.Namespace: a command line's settings."""

    values: dict[Any, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Aside:
    """A value that is not a tensor and not plain, which nobody asks for."""

    kind: str


class PickleReader:
    """Reads the pickles of one file. `storages`, by key, and `views`: those that they have named so far."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.storages: dict[str, Storage] = {}
        self.views: list[View] = []

    def read(self, file: IO[bytes]) -> Any:
        """The next pickle. The file then stands right behind it.

        Raises WeightsError, naming what the pickle holds that weights never need, or why it cannot be followed.
        """
        self._stack: list[Any] = []
        self._below: list[list[Any]] = []  # the stacks under each open mark
        self._memo: dict[int, Any] = {}
        self._protocol = 0
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of odd backslashes in a damaged name
                for opcode, argument, _ in genops(file):
                    self._step(opcode.name, argument)
        except ValueError as error:
            raise corrupt(self.path, f"its pickle cannot be followed ({error})", kind="PyTorch") from error
        except (LookupError, TypeError, AttributeError, struct.error) as error:
            raise corrupt(self.path, "its pickle cannot be followed (it uses what it has not made)", kind="PyTorch") from error
        return self._stack.pop()

    def _step(self, name: str, argument: Any) -> None:
        stack = self._stack
        if name in _VALUES:
            stack.append(argument)
        elif name in _CONSTANTS:
            stack.append(_CONSTANTS[name])
        elif name in _TUPLES:
            count = _TUPLES[name]
            stack[-count:] = [tuple(stack[len(stack) - count :])]
        elif name in ("GLOBAL", "INST", "STACK_GLOBAL"):
            stack.append(self._global(name, argument))
        elif name in ("BINPUT", "LONG_BINPUT", "MEMOIZE"):
            self._memo[len(self._memo) if argument is None else argument] = stack[-1]
        elif name in ("BINGET", "LONG_BINGET"):
            stack.append(self._memo[argument])
        elif name == "PROTO":
            self._protocol = argument
        elif name == "STOP":
            self._stop()
        elif name != "FRAME":
            getattr(self, f"_{name.lower()}", self._unknown)()

    def _global(self, opcode: str, argument: str | None) -> Global:
        if argument is None:
            name, module = self._stack.pop(), self._stack.pop()
        else:
            module, name = argument.split(" ", 1)
        name = f"{module.replace('__builtin__', 'builtins')}.{name}"
        if opcode == "INST" or name not in ALLOWED:
            shown = name if name.isprintable() else ascii(name)
            raise WeightsError(
                f"{self.path}: it holds the global {shown:.100}, which weights never need: to open it could run what its author chose",
                expected="tensors, and beside them plain values" + (" (cfg as a plain dict)" if name.startswith("omegaconf.") else ""),
                then="get the model as safetensors, or, where you trust the file, save its model.state_dict() alone",
            )
        return Global(name)

    def _unknown(self) -> None:
        raise ValueError("an instruction that torch.save never writes")

    def _stop(self) -> None:
        if self._protocol != PROTOCOL:
            raise ValueError(f"it is of protocol {self._protocol}, and torch reads weights of protocol {PROTOCOL}")
        if len(self._stack) != 1 or self._below:
            raise ValueError("it ends in the middle of something")

    def _mark(self) -> None:
        self._below.append(self._stack)
        self._stack = []

    def _since_mark(self) -> list[Any]:
        items, self._stack = self._stack, self._below.pop()
        return items

    def _tuple(self) -> None:
        items = self._since_mark()
        self._stack.append(tuple(items))

    def _empty_list(self) -> None:
        self._stack.append([])

    def _empty_dict(self) -> None:
        self._stack.append({})

    def _append(self) -> None:
        item = self._stack.pop()
        _of_type(list, self._stack[-1]).append(item)

    def _appends(self) -> None:
        items = self._since_mark()
        _of_type(list, self._stack[-1]).extend(items)

    def _setitem(self) -> None:
        value, key = self._stack.pop(), self._stack.pop()
        _enter(self._stack[-1], [(key, value)])

    def _setitems(self) -> None:
        items = self._since_mark()
        _enter(self._stack[-1], zip(items[::2], items[1::2], strict=True))

    def _build(self) -> None:
        """State is given to an object: a Namespace takes it; a table's are attributes, such as _metadata, which hold no weights."""
        state = _of_type(dict, self._stack.pop())
        if isinstance(self._stack[-1], Namespace):
            self._stack[-1].values.update(state)
        else:
            _of_type(dict, self._stack[-1])

    def _newobj(self) -> None:
        arguments, made = self._stack.pop(), self._stack.pop()
        if (made, arguments) != (Global(NAMESPACE), ()):
            raise ValueError(f"it makes a {type(made).__name__}")
        self._stack.append(Namespace())

    def _reduce(self) -> None:
        arguments, name = self._stack.pop(), _of_type(Global, self._stack.pop()).name
        made = _called(name, _of_type(tuple, arguments))
        if isinstance(made, View):
            self.views.append(made)
        self._stack.append(made)

    def _binpersid(self) -> None:
        """A tensor's bytes stand elsewhere in the file: ("storage", type, key, device, elements), and in legacy files None."""
        mark, kind, key, _, count, *older = _of_type(tuple, self._stack.pop())
        if mark != "storage" or any(view is not None for view in older):
            raise ValueError("it names a part of the file that is no storage")
        storage = Storage(_of_type(str, key), STORAGES[_of_type(Global, kind).name], _whole(count))
        if self.storages.setdefault(key, storage) != storage:
            raise ValueError(f"storage {key} is described in two ways")
        self._stack.append(storage)


def _called(name: str, arguments: tuple[Any, ...]) -> Any:
    """What torch would make of a function and its arguments."""
    if name in (TENSOR, OLD_TENSOR, TYPED_TENSOR):
        return _view(name, *arguments)
    if name == PARAMETER:
        return _of_type(View, arguments[0])
    if name == TABLE:
        table: dict[Any, Any] = {}
        for pairs in arguments:  # Python 2 wrote them all at once
            _enter(table, pairs)
        return table
    if name in ASIDE:
        return Aside(name)
    raise ValueError(f"it calls {name}")


def _view(name: str, storage: Any, offset: Any, shape: Any, stride: Any, *rest: Any) -> View:
    dtype = _of_type(Storage, storage).dtype
    flags = rest[2:]  # after requires_grad and hooks
    if name == TYPED_TENSOR:
        dtype, flags = DTYPES[_of_type(Global, rest[2]).name], rest[3:]
    if any(flags):
        raise ValueError("it marks a tensor as conjugate or negative")
    sizes, steps = (tuple(map(_whole, _of_type(tuple, values))) for values in (shape, stride))
    if len(sizes) != len(steps) or len(sizes) > 64:
        raise ValueError(f"a tensor has {len(sizes)} sizes and {len(steps)} strides")
    return View(storage, _whole(offset), sizes, steps, dtype)


def _enter(table: Any, pairs: Any) -> None:
    table = _of_type(dict, table)
    for key, value in pairs:
        if not isinstance(key, str | int | float | bytes):  # a tuple's hash can take for ever
            raise ValueError(f"a table has a {type(key).__name__} for a key")
        if key in table:
            raise ValueError(f"the key {key!r:.100} occurs twice")
        table[key] = value


def _of_type(kind: type[Any], value: Any) -> Any:
    if not isinstance(value, kind):
        raise ValueError(f"it has a {type(value).__name__} where a {kind.__name__} belongs")
    return value


def _whole(value: Any) -> int:
    if type(value) is not int or value < 0:
        shown = value if type(value) is int else f"a {type(value).__name__}"  # anything else may take for ever to print
        raise ValueError(f"it has {shown} where a size belongs")
    return value
