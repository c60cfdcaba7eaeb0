"""The core's own text, cut into its definitions: who calls whom with what, and what is therefore known in each of them."""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import cutaway.core
from cutaway.core.config import Config
from cutaway.source.decide import NOBODY, PASSING, PRESENT, UNKNOWN, Mark, value_of
from cutaway.source.splice import Text, dotted, names_in

ENTRY = "Transformer"
GIVEN = ("config", "tap", "cache")  # modules of what is decided: which model it is, that somebody looks, that nothing was read before
INSTEAD = {"attention_in_blocks": "attention"}  # what is there for the memory of long texts alone: the printed file is to be read
Callee = tuple[str, str]  # a definition, and its method; "" of a function


@cache
def core_text(module: str) -> str:
    """A module of the core as it is written. It is not imported: that would take torch."""
    return (Path(cutaway.core.__path__[0]) / f"{module}.py").read_text(encoding="utf-8")


@cache
def core_modules() -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in Path(cutaway.core.__path__[0]).glob("*.py") if path.stem not in GIVEN))


@cache
def definitions() -> Mapping[str, str]:
    """Each class, function and table of the core that the transformer needs; whatever is needed stands before what needs it."""
    every: dict[str, str] = {}
    for module in core_modules():
        text = core_text(module)
        for node in ast.parse(text).body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.Assign | ast.AnnAssign):
                first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", []))])
                plain = "".join(line for line in text.splitlines(keepends=True)[first - 1 : node.end_lineno])
                for name, other in INSTEAD.items():
                    plain = plain.replace(f"{name}(", f"{other}(")
                every.setdefault(_name(node), inlined(plain))
    found: dict[str, str] = {}

    def meet(name: str) -> None:
        for needed in names_in(ast.parse(every[name])):
            if needed in every and needed not in found and needed != name:
                meet(needed)
        found.setdefault(name, every[name])

    meet(ENTRY)
    return found


def queries_at_once() -> int:
    """The size of the blocks that the printed file does without."""
    table = next(node for node in ast.parse(core_text("attention")).body if isinstance(node, ast.Assign) and _name(node) == "ROWS")
    return int(ast.literal_eval(table.value))


def inlined(definition: str) -> str:
    """A class without those of its methods that one statement alone calls, by the names of their own parameters.

    Where the statement stood, their lines stand: `x, y = self.begin(ids)` is what `begin` does before it returns x, y.
    """
    text = Text(definition)
    methods = {one.name: one for one in text.functions if isinstance(text.body, ast.ClassDef)}
    for statement in text.nodes:
        if not isinstance(statement, ast.Assign | ast.Return) or not isinstance(call := statement.value, ast.Call):
            continue
        method = methods.get(dotted(call.func).removeprefix("self."))
        if not method or [dotted(arg) for arg in call.args] != [arg.arg for arg in method.args.args[1:]]:
            continue
        body = method.body[ast.get_docstring(method) is not None :]
        if isinstance(statement, ast.Assign):
            returned = body.pop()
            if not (isinstance(returned, ast.Return) and returned.value and dotted(returned.value) == dotted(statement.targets[0])):
                continue
        lines = "".join(text.line(n) for n in range(body[0].lineno, (body[-1].end_lineno or 0) + 1))
        here = text.lines(statement.lineno, statement.end_lineno or 0, lines)
        return inlined(text.spliced([here, text.lines(method.lineno, method.end_lineno or 0)]).text)
    return definition


def _name(node: ast.stmt) -> str:
    match node:
        case ast.ClassDef() | ast.FunctionDef():
            return node.name
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return name
    return ""


@dataclass(frozen=True)
class Scope:
    """One function or method. owner: the class's name, "" of a function; known: values of names and of `self.name`s."""

    definition: str
    function: ast.FunctionDef
    text: Text
    known: Mapping[str, Any]
    is_method: bool

    @property
    def key(self) -> Callee:
        return self.definition, self.function.name if self.is_method else ""

    @property
    def parameters(self) -> list[ast.arg]:
        """Those that a caller gives."""
        given = self.function.args
        return [*given.args[self.is_method :], *given.kwonlyargs]

    @cached_property
    def idle(self) -> set[str]:
        """The parameters that nothing inside reads."""
        read = {name for statement in self.function.body for name in names_in(statement)}
        return {arg.arg for arg in self.parameters if arg.arg not in read}

    def default(self, name: str) -> ast.expr | None:
        given = self.function.args
        behind = given.args[len(given.args) - len(given.defaults) :]
        pairs = [*zip(behind, given.defaults, strict=True), *zip(given.kwonlyargs, given.kw_defaults, strict=True)]
        return next((default for arg, default in pairs if arg.arg == name), None)

    def match(self, call: ast.Call) -> dict[str, ast.expr]:
        """What a call gives for each parameter that it names or counts up to."""
        found = {arg.arg: given for arg, given in zip(self.parameters, call.args, strict=False)}
        return found | {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}


@dataclass
class Program:
    """Definitions in some state of folding, for one configuration."""

    texts: dict[str, Text]
    config: Config
    given: dict[Callee, dict[str, Any]] = field(default_factory=dict)  # parameters that are the same at every call

    def __post_init__(self) -> None:
        self.constants = {name.upper(): value for name, value in self.config.to_dict().items()}
        self.constants["HEAD_WIDTH"] = self.config.head_width

    @cached_property
    def scopes(self) -> dict[Callee, Scope]:
        found = [self._scope(name, text, function) for name, text in self.texts.items() for function in text.functions]
        return {scope.key: scope for scope in found}

    def _scope(self, name: str, text: Text, function: ast.FunctionDef) -> Scope:
        is_method = isinstance(text.body, ast.ClassDef)
        known: dict[str, Any] = {"untapped": NOBODY, **self.constants}
        known |= self.given.get((name, function.name if is_method else ""), {})
        if is_method and function.name == "__init__":
            known |= self._assigned(name, function, known)
        elif is_method and (setup := next((one for one in text.functions if one.name == "__init__"), None)):
            inside = self._scope(name, text, setup).known
            known |= {place: value for place, value in inside.items() if place.startswith("self.")}
        return Scope(name, function, text, known | self._assigned(name, function, known), is_method)

    def _assigned(self, name: str, function: ast.FunctionDef, known: Mapping[str, Any]) -> dict[str, Any]:
        """What is assigned once, and to what: a plain value, or something that a part of the core makes."""
        found: dict[str, Any] = dict(known)
        for place, statement in self.texts[name].once[function].items():
            value = value_of(statement.value, found)
            made = isinstance(statement.value, ast.Call) and self.callee(statement.value, name)
            if value is not UNKNOWN or made:
                found[place] = PRESENT if made else value
        return found

    def attribute_class(self, owner: str, attribute: str) -> str:
        """The class of what `self.attribute` holds; of a list of modules, that of each."""
        written = self.texts[owner].assigned.get(f"self.{attribute}", [])
        return next((name for one in written for name in names_in(one.value) if name in self.texts and self._is_class(name)), "")

    def _is_class(self, name: str) -> bool:
        return isinstance(self.texts[name].body, ast.ClassDef)

    def callee(self, call: ast.Call, owner: str) -> Callee | None:
        """Which function or method is called, from within the class or function `owner`."""
        match call.func:
            case ast.Name(id=name) if name in self.texts:
                return (name, "__init__" if self._is_class(name) else "")
            case ast.Attribute(value=ast.Name(id="self"), attr=attribute):
                methods = [one.name for one in self.texts[owner].functions]
                part = self.attribute_class(owner, attribute)
                return (owner, attribute) if attribute in methods else (part, "forward") if part else None
            case ast.Name(id=name) if part := self._element_class(name, owner):
                return part, "forward"
        return None

    def _element_class(self, name: str, owner: str) -> str:
        """The class of a loop's variable that runs over a list of modules."""
        lists = self.texts[owner].loops.get(name, [])
        return next((part for one in lists if (part := self.attribute_class(owner, one))), "")

    @cached_property
    def calls(self) -> list[tuple[Scope, ast.Call, Callee]]:
        return list(self._calls())

    def _calls(self) -> Iterator[tuple[Scope, ast.Call, Callee]]:
        for scope in self.scopes.values():
            for node in scope.text.within[scope.function]:
                if isinstance(node, ast.Call) and (callee := self.callee(node, scope.definition)) in self.scopes:
                    yield scope, node, callee

    def learn(self) -> "Program":
        """The same, with what every call of a function gives alike known inside it."""
        seen: dict[Callee, dict[str, list[Any]]] = {}
        for scope, call, callee in self.calls:
            matched = self.scopes[callee].match(call)
            for parameter in self.scopes[callee].parameters:
                default = self.scopes[callee].default(parameter.arg)
                value = value_of(matched.get(parameter.arg, default), scope.known)
                seen.setdefault(callee, {}).setdefault(parameter.arg, []).append(value)
        alike = {callee: {p: v[0] for p, v in given.items() if v[0] is not UNKNOWN and _same(v)} for callee, given in seen.items()}
        alike[ENTRY, "__init__"] = {"config": self.config}
        alike[ENTRY, "forward"] = {"cache": None, "tap": PASSING}
        return Program(self.texts, self.config, alike)

    def reached(self) -> "Program":
        """Without the definitions that the entry does not come to."""
        found: set[str] = set()
        todo = [ENTRY]
        while todo:
            name = todo.pop()
            found.add(name)
            todo += [one for one in self.texts[name].names if one in self.texts and one not in found]
        return Program({name: text for name, text in self.texts.items() if name in found}, self.config, self.given)


def _same(values: list[Any]) -> bool:
    return all(value is values[0] if isinstance(value, Mark) else value == values[0] for value in values)
