"""What an expression is worth when the configuration is known. Nothing is run: an expression that is not plain has no value here."""

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

from cutaway.core.config import Config
from cutaway.source.splice import dotted


class Mark:
    """Something that is itself and nothing else."""

    def __init__(self, says: str) -> None:
        self.says = says

    def __repr__(self) -> str:
        return self.says


UNKNOWN = Mark("unknown")
PRESENT = Mark("something, not None")
PASSING = Mark("a tap that looks at every tensor and passes it on")  # so attention is the eager one, and whole: asked, it says yes
NOBODY = Mark("a tap that nobody looks through")

OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv, ast.FloorDiv: operator.floordiv,
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
    ast.In: lambda a, b: a in b, ast.NotIn: lambda a, b: a not in b,
}  # fmt: skip
Known = Mapping[str, Any]


def value_of(node: ast.AST | None, known: Known) -> Any:
    """The value of an expression, UNKNOWN if it depends on more than `known`, which holds values of names and of `self.name`s."""
    match node:
        case ast.Constant():
            return node.value
        case ast.Tuple():
            values = tuple(value_of(one, known) for one in node.elts)
            return UNKNOWN if UNKNOWN in values else values
        case ast.Name():
            return known.get(node.id, UNKNOWN)
        case ast.Attribute():
            owner = value_of(node.value, known)
            return getattr(owner, node.attr) if isinstance(owner, Config) else known.get(dotted(node), UNKNOWN)
        case ast.Call(func=ast.Attribute(value=tap, attr=asked)) if value_of(tap, known) is PASSING:
            return PASSING if asked == "at" else True
        case ast.UnaryOp(op=ast.Not()):
            value = value_of(node.operand, known)
            return UNKNOWN if isinstance(value, Mark) else not value
        case ast.BoolOp():
            return _several(node, known)
        case ast.BinOp():
            return _applied(node.op, node.left, node.right, known)
        case ast.Compare(ops=[operation], comparators=[other]):
            return _applied(operation, node.left, other, known)
    return UNKNOWN


def _applied(operation: ast.AST, left: ast.expr, right: ast.expr, known: Known) -> Any:
    a, b = value_of(left, known), value_of(right, known)
    if a is UNKNOWN or b is UNKNOWN:
        return UNKNOWN
    if isinstance(operation, ast.Is | ast.IsNot):
        return (a is b) == isinstance(operation, ast.Is)
    return OPERATORS[type(operation)](a, b) if type(operation) in OPERATORS and not {type(a), type(b)} & {Mark, Config} else UNKNOWN


def _several(node: ast.BoolOp, known: Known) -> Any:
    """The first operand that settles the matter, wherever it stands, else the last; UNKNOWN if none does and one is unknown."""
    values = [value_of(operand, known) for operand in node.values]
    settled = [value for value in values if not isinstance(value, Mark) and bool(value) == isinstance(node.op, ast.Or)]
    return settled[0] if settled else UNKNOWN if any(isinstance(value, Mark) for value in values) else values[-1]
