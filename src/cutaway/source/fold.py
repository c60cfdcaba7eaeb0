"""Folding: the core's text with one configuration put in. Each rule is small; they are applied until none applies any more.

A branch that is decided leaves what it decides for, a tap leaves what it shows, a name for a plain value leaves the value, and
a statement, an argument or a definition that nothing needs any longer goes. The rules know Python, not the core; all that is said
here of the core is in BOXES and in what `Program.learn` takes for given at the entry.
"""

import ast
from collections.abc import Callable, Iterator, Mapping
from functools import cache

from cutaway.core.config import Config
from cutaway.source.decide import PASSING, PRESENT, UNKNOWN, Known, Mark, value_of
from cutaway.source.program import Program, Scope, core_text, definitions
from cutaway.source.splice import ATOMS, TIGHT, Splice, Text, dotted, names_in

BOXES = {"Mask": "readable"}  # classes of which one field is left when no kernel has a fast path to choose
Rule = Callable[[Program, str], Iterator[Splice]]


@cache
def folded(config: Config) -> Mapping[str, str]:
    """The definitions of the model with this configuration; whatever is needed stands before what needs it."""
    program = Program({name: Text(text) for name, text in definitions().items()}, config).learn()
    while True:
        again = _round(program, _rewritten)
        if again.texts == program.texts:
            again = _round(program, _without_idle_parameters)
        if again.texts == program.texts:
            return {name: text.text for name, text in again.texts.items()}
        program = again


def _round(program: Program, rule: Rule) -> Program:
    rewritten = {name: text.spliced(list(rule(program, name))) for name, text in program.texts.items()}
    return Program(rewritten, program.config, program.given).reached().learn()


def _rewritten(program: Program, name: str) -> Iterator[Splice]:
    for scope in program.scopes.values():
        if scope.definition == name:
            fold = _Function(program, scope)
            yield from fold.statements(scope.function.body)
            yield from fold.annotations()


class _Function:
    """One function, for one round: what is inside a changed place waits for the next round."""

    def __init__(self, program: Program, scope: Scope) -> None:
        self.program, self.scope, self.text = program, scope, scope.text

    def value(self, node: ast.AST | None) -> object:
        return value_of(node, self.scope.known)

    # Statements

    def statements(self, block: list[ast.stmt]) -> Iterator[Splice]:
        for n, statement in enumerate(block):
            following = block[n + 1] if n + 1 < len(block) else None
            if isinstance(statement, ast.Return | ast.Raise) and following:
                last = block[-1].end_lineno or 0
                yield from self.inside(statement)
                yield self.text.lines(following.lineno, last)
                return
            if self.is_idle(statement, following):
                yield self.text.drop(statement)
            else:
                yield from self.inside(statement)

    def inside(self, statement: ast.stmt) -> Iterator[Splice]:
        if isinstance(statement, ast.If):
            yield from self.branch(statement)
        elif isinstance(statement, ast.For):
            yield from self.loop(statement)
        elif isinstance(statement, ast.Raise) and (error := _plain_error(self.text, statement)):
            yield error
        elif not isinstance(statement, ast.FunctionDef):
            yield from self.expressions(statement)

    def branch(self, statement: ast.If) -> Iterator[Splice]:
        decided = self.value(statement.test)
        if isinstance(decided, Mark):
            yield from self.test(statement)
            yield from self.statements(statement.body)
            yield from self.statements(statement.orelse)
            return
        assert statement.test.end_lineno and statement.body[-1].end_lineno
        first = statement.test.end_lineno if decided else statement.body[-1].end_lineno + 1  # else: is a line
        chosen = statement.body if decided else statement.orelse
        kept = self.text.block(chosen, first, statement.col_offset) if chosen else ""
        yield self.text.lines(statement.lineno, statement.end_lineno or first, kept)

    def test(self, statement: ast.If) -> Iterator[Splice]:
        """Of several conditions those that are still open. What was said of them all, behind the line, is no longer true."""
        test = statement.test
        left = [one for one in test.values if isinstance(self.value(one), Mark)] if isinstance(test, ast.BoolOp) else []
        if isinstance(test, ast.BoolOp) and len(left) < len(test.values):
            word = " and " if isinstance(test.op, ast.And) else " or "
            said = f"{' ' * statement.col_offset}if {word.join(self.text.of(one) for one in left)}:\n"
            yield self.text.lines(statement.lineno, test.end_lineno or 0, said)
        else:
            yield from self.expressions(test)

    def loop(self, statement: ast.For) -> Iterator[Splice]:
        match statement:
            case ast.For(target=ast.Tuple(elts=[ast.Name(id=count), element]), iter=ast.Call(func=ast.Name(id="enumerate"), args=[over])):
                if count not in self.text.read:
                    yield self.text.put(statement.target, self.text.of(element))
                    yield self.text.choose(statement.iter, over)
        yield from self.statements(statement.body)

    def is_idle(self, statement: ast.stmt, following: ast.stmt | None) -> bool:
        """Does it do nothing any more?"""
        match statement:
            case ast.Expr(value=ast.Call(func=called)):
                return self.value(called) is PASSING
            case ast.Assign(targets=[target], value=value):
                place = dotted(target)
                plain = not any(isinstance(node, ast.Call) for node in ast.walk(value))
                overwritten = (
                    isinstance(target, ast.Name)
                    and isinstance(following, ast.Assign)
                    and dotted(following.targets[0]) == place
                    and place not in names_in(following.value)
                )
                return place == dotted(value) or overwritten or (plain and place not in self.text.read and _is_place(target))
        return False

    # Expressions

    def expressions(self, node: ast.AST) -> Iterator[Splice]:
        """The outermost places that change."""
        if isinstance(node, ast.expr) and (splice := self.expression(node)):
            yield splice
            return
        if isinstance(node, ast.Call):
            yield from _without_defaults(self.program, self.scope, node)
        if isinstance(node, ast.comprehension) and isinstance(node.target, ast.Name) and node.target.id not in {*self.text.read, "_"}:
            yield self.text.put(node.target, "_")
        for child in ast.iter_child_nodes(node):
            yield from self.expressions(child)

    def expression(self, node: ast.expr) -> Splice | None:
        match node:
            case ast.IfExp(test=test) if not isinstance(decided := self.value(test), Mark):
                return self.text.choose(node, node.body if decided else node.orelse)
            case ast.Call():
                return self.call(node)
            case ast.Subscript(value=ast.Name(id=table), slice=key) if table in self.program.texts:
                return self.looked_up(node, self.program.texts[table], self.value(key))
            case ast.Subscript(value=whole, slice=ast.Slice(lower=start, upper=None)) if start and self.value(start) == 0:
                return self.text.choose(node, whole)
            case ast.BinOp(op=ast.Add(), left=left, right=right) if 0 in (self.value(left), self.value(right)):
                return self.text.choose(node, right if self.value(left) == 0 else left)
            case ast.BoolOp() if not isinstance(value := self.value(node), Mark):
                return self.text.choose(node, next(one for one in node.values if self.value(one) == value))
            case ast.Attribute(value=owner, attr=box) if box in BOXES.values():
                return self.text.choose(node, owner)
            case ast.Attribute(value=owner, attr=attribute) if isinstance(self.value(owner), Config):
                return self.field(node, attribute)
            case ast.Name() | ast.Attribute() if isinstance(node.ctx, ast.Load):
                return self.alias(node)
        return None

    def call(self, node: ast.Call) -> Splice | None:
        if self.value(node.func) is PASSING and len(node.args) == 2:
            return self.text.choose(node, node.args[1])
        match node:
            case ast.Call(func=ast.Name(id=name), args=[_, given]) if name == "cast":
                return self.text.choose(node, given)
            case ast.Call(func=ast.Name(id=name), args=[given, *_]) if name in BOXES:
                return self.text.choose(node, given)
            case ast.Call(func=ast.Attribute(value=ast.Name(id="F")), args=[*_, before, ast.Constant(value=None) as last]):  # its default
                return Splice(self.text.span(before)[1], self.text.span(last)[1], "")
            case ast.Call(func=ast.Name(id=name)) if name in self.program.texts:
                return self.inlined(node, self.program.texts[name])
        return None

    def inlined(self, node: ast.Call, called: Text) -> Splice | None:
        """A function that is one expression without arguments, or that hands its arguments on to another."""
        match called.body:
            case ast.FunctionDef(args=ast.arguments(args=[], kwonlyargs=[]), body=[ast.Return(value=ast.expr() as value)]):
                return self.text.put(node, called.of(value))
            case ast.FunctionDef(args=given, body=[*before, ast.Return(value=ast.Call(func=other, args=handed, keywords=[]))] as body):
                is_all = not before or (len(body) == 2 and ast.get_docstring(called.body))
                if is_all and [arg.arg for arg in given.args] == [dotted(one) for one in handed]:
                    return self.text.put(node.func, called.of(other))
        return None

    def looked_up(self, node: ast.expr, table: Text, key: object) -> Splice | None:
        match table.body:
            case ast.AnnAssign(value=ast.Dict() as entries) | ast.Assign(value=ast.Dict() as entries):
                for name, value in zip(entries.keys, entries.values, strict=True):
                    if isinstance(name, ast.Constant) and name.value == key:
                        return self.text.put(node, table.of(value))
        return None

    def field(self, node: ast.Attribute, attribute: str) -> Splice:
        """A field of the configuration: a switch is its value, a size its name in capitals, what is computed from others its formula."""
        value = self.value(node)
        if isinstance(value, bool | str) or value is None:
            return self.text.put(node, repr(value))
        if attribute.upper() in self.program.constants:
            return self.text.put(node, attribute.upper())
        return self.text.put(node, _formula(attribute, self.program.config, isinstance(self.text.parents.get(node), TIGHT)))

    def alias(self, node: ast.expr) -> Splice | None:
        """What a name stands for, if that is a plain value or another name."""
        place = dotted(node)
        value = self.value(node)
        if isinstance(value, Config) or value is PASSING or place in self.program.constants:
            return None
        found = self.assigned(place)
        if found is not None and _is_alias(found, self.program):
            return self.text.put(node, self.text.of(found))
        given = self.program.given.get(self.scope.key, {}).get(place, UNKNOWN)
        return self.text.put(node, repr(given)) if given is None or isinstance(given, bool) else None

    def assigned(self, place: str) -> ast.expr | None:
        """The one expression that is assigned to it in this function, or to an attribute in this class."""
        functions = self.text.functions if "." in place else [self.scope.function]
        return next((once[place].value for function in functions if place in (once := self.text.once[function])), None)

    def annotations(self) -> Iterator[Splice]:
        """A parameter that is never None does not say that it may be; a box's type is its field's."""
        given = self.program.given.get(self.scope.key, {})
        for arg in self.scope.parameters:
            match arg.annotation:
                case ast.BinOp(left=kind, right=ast.Constant(value=None)) if given.get(arg.arg) is PRESENT:
                    yield self.text.choose(arg.annotation, kind)
                case ast.Name(id=name) if name in BOXES:
                    yield self.text.put(arg.annotation, "Tensor")
        match self.scope.function.returns:
            case ast.Name(id=name) as kind if name in BOXES:
                yield self.text.put(kind, "Tensor")


def _is_place(node: ast.expr) -> bool:
    """A name, or an attribute of self: no other object sees what is written there."""
    return isinstance(node, ast.Name) or (isinstance(node, ast.Attribute) and dotted(node.value) == "self")


def _is_alias(value: ast.expr, program: Program) -> bool:
    match value:
        case ast.Constant() | ast.Attribute(value=ast.Name(id="F")):
            return True
        case ast.Name(id=name):
            return name in program.texts or name in program.constants
    return False


def _formula(attribute: str, config: Config, tight: bool) -> str:
    """How a property of this configuration is computed from its fields."""
    text = Text(core_text("config").split("@dataclass(frozen=True, kw_only=True)\n")[1])
    methods = text.body.body if isinstance(text.body, ast.ClassDef) else []
    returned = next(node.body[-1] for node in methods if isinstance(node, ast.FunctionDef) and node.name == attribute)
    assert isinstance(returned, ast.Return)
    settled = _settled(returned.value, {"self": config})
    said = text.of(settled).replace("self.", "config.")
    return f"({said})" if tight and not isinstance(settled, ATOMS) else said


def _settled(node: ast.expr | None, known: Known) -> ast.expr:
    """The part of a plain formula that gives its value."""
    match node:
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return _settled(body if value_of(test, known) else orelse, known)
        case ast.BoolOp(values=values):
            return _settled(next(one for one in values if value_of(one, known) == value_of(node, known)), known)
        case ast.BinOp(op=ast.Add(), left=left, right=right) if 0 in (value_of(left, known), value_of(right, known)):
            return _settled(right if value_of(left, known) == 0 else left, known)
    assert node
    return node


def _plain_error(text: Text, statement: ast.Raise) -> Splice | None:
    """An error of this package becomes Python's own, which takes one message."""
    match statement.exc:
        case ast.Call(args=[ast.JoinedStr() as given], keywords=[ast.keyword(arg="expected", value=ast.JoinedStr() as expected)]):
            said = text.of(given)[:-1] + ", expected " + text.of(expected)[2:]  # f"…", f"…": one string
            return text.put(statement.exc, f"ValueError({said})")
    return None


def _without_defaults(program: Program, scope: Scope, call: ast.Call) -> Iterator[Splice]:
    """Arguments by name that say what would be taken anyway."""
    callee = program.scopes.get(program.callee(call, scope.definition) or ("", ""))
    for n, keyword in enumerate(call.keywords):
        default = callee.default(keyword.arg or "") if callee else None
        if isinstance(default, ast.Constant) and isinstance(keyword.value, ast.Constant) and default.value is keyword.value.value:
            before = [*call.args, *(one.value for one in call.keywords[:n])]
            if before:
                yield Splice(scope.text.span(before[-1])[1], scope.text.span(keyword)[1], "")


# Parameters that nobody reads


def _without_idle_parameters(program: Program, name: str) -> Iterator[Splice]:
    """From signatures and from calls at once, when all else is done."""
    for scope in program.scopes.values():
        if scope.definition == name and scope.idle:
            yield _signature(scope)
    gone: list[ast.AST] = []
    for scope, call, callee in program.calls:
        if scope.definition == name and not any(call in ast.walk(argument) for argument in gone):
            matched = program.scopes[callee].match(call)
            unread = {id(value) for arg, value in matched.items() if arg in program.scopes[callee].idle}
            arguments: list[ast.expr | ast.keyword] = [*call.args, *call.keywords]
            idle = [id(one.value if isinstance(one, ast.keyword) else one) in unread for one in arguments]
            gone += [one for one, is_idle in zip(arguments, idle, strict=True) if is_idle]
            yield from _without(scope.text, arguments, idle)


def _without(text: Text, arguments: list[ast.expr | ast.keyword], idle: list[bool]) -> Iterator[Splice]:
    """Each with the comma before it; those in front of all that stay, with the one behind."""
    spans = [text.span(one) for one in arguments]
    if all(idle):
        yield from [Splice(spans[0][0], spans[-1][1], "")] if spans else []
        return
    first = idle.index(False)
    for n, (start, end) in enumerate(spans):
        if idle[n]:
            yield Splice(start, spans[n + 1][0], "") if n < first else Splice(spans[n - 1][1], end, "")


def _signature(scope: Scope) -> Splice:
    function, text, idle = scope.function, scope.text, scope.idle

    def written(arg: ast.arg) -> str:
        default = scope.default(arg.arg)
        return text.of(arg) + (f" = {text.of(default)}" if default else "")

    plain = [written(arg) for arg in function.args.args if arg.arg not in idle]
    named = [written(arg) for arg in function.args.kwonlyargs if arg.arg not in idle]
    arguments = ", ".join([*plain, *(["*"] if named else []), *named])
    returns = f" -> {text.of(function.returns)}" if function.returns else ""
    said = f"{' ' * function.col_offset}def {function.name}({arguments}){returns}:\n"
    documented = function.body[0].lineno
    return text.lines(function.lineno, documented - 1, said)
