"""A text, its syntax tree, and where each node stands in it: what is changed is spliced in, and every other sign stays as it was.

Python's own tree forgets comments and line breaks; so it is asked for places alone, and the text is never written from it.
"""

import ast
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

ATOMS = (ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.Constant, ast.JoinedStr)
PLACES = (ast.Name, ast.Attribute)
TIGHT = (ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.Attribute, ast.Subscript, ast.IfExp)


def dotted(node: ast.AST) -> str:
    """An expression in Python's own spelling; of a name or an attribute, at once."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=ast.Name(id=owner), attr=attribute):
            return f"{owner}.{attribute}"
    return ast.unparse(node)


def names_in(tree: ast.AST) -> list[str]:
    """Names that are read, in the order in which they stand there."""
    read = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)]
    return list(dict.fromkeys(node.id for node in sorted(read, key=lambda node: (node.lineno, node.col_offset))))


def _is_written(node: ast.AST) -> bool:
    return isinstance(node, PLACES) and isinstance(node.ctx, ast.Store)


@dataclass(frozen=True)
class Splice:
    """`new` in place of the bytes from start to end."""

    start: int
    end: int
    new: str


class Text:
    """One definition. Places are bytes of its UTF-8, as the tree counts them."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tree = ast.parse(text)
        self.body = self.tree.body[0]
        self._raw = text.encode()
        self._starts = [0, *accumulate(len(line) for line in self._raw.splitlines(keepends=True))]
        self.parents = {child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Text) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        return list(ast.walk(self.tree))

    @cached_property
    def functions(self) -> list[ast.FunctionDef]:
        """The function, or the class's methods."""
        body = self.body.body if isinstance(self.body, ast.ClassDef) else [self.body]
        return [node for node in body if isinstance(node, ast.FunctionDef)]

    @cached_property
    def within(self) -> dict[ast.AST, list[ast.AST]]:
        """The nodes of each of them."""
        return {function: list(ast.walk(function)) for function in self.functions}

    @cached_property
    def once(self) -> dict[ast.AST, dict[str, ast.Assign]]:
        """In each of them: what is written in one place only, whatever happens, by a statement that writes nothing else."""
        return {function: self._once(function) for function in self.functions}

    def _once(self, function: ast.FunctionDef) -> dict[str, ast.Assign]:
        given = [arg.arg for arg in (*function.args.args, *function.args.kwonlyargs)]
        written = Counter([*given, *(dotted(node) for node in self.within[function] if _is_written(node))])
        whole = Counter(dotted(node) for node in self.nodes if _is_written(node))
        alone = {dotted(node.targets[0]): node for node in function.body if isinstance(node, ast.Assign)}
        return {place: statement for place, statement in alone.items() if (whole if "." in place else written)[place] == 1}

    @cached_property
    def read(self) -> set[str]:
        """Names and attributes that are read."""
        return {dotted(node) for node in self.nodes if isinstance(node, PLACES) and isinstance(node.ctx, ast.Load)}

    @cached_property
    def names(self) -> list[str]:
        """Names that are read, in the order in which they stand there."""
        return names_in(self.tree)

    @cached_property
    def assigned(self) -> dict[str, list[ast.Assign]]:
        """Every statement that gives a name or an attribute its value, alone or among others."""
        found: dict[str, list[ast.Assign]] = {}
        for node in self.nodes:
            for target in node.targets if isinstance(node, ast.Assign) else ():
                for place in target.elts if isinstance(target, ast.Tuple) else [target]:
                    found.setdefault(dotted(place), []).append(node)  # type: ignore[arg-type]
        return found

    @cached_property
    def loops(self) -> dict[str, list[str]]:
        """The attributes over which a loop's variables run."""
        return {
            name.id: [node.attr for node in ast.walk(loop.iter) if isinstance(node, ast.Attribute)]
            for loop in self.nodes
            if isinstance(loop, ast.For)
            for name in ast.walk(loop.target)
            if isinstance(name, ast.Name)
        }

    def span(self, node: ast.AST) -> tuple[int, int]:
        assert isinstance(node, ast.expr | ast.stmt | ast.arg | ast.keyword)
        assert node.end_lineno is not None and node.end_col_offset is not None
        return self._starts[node.lineno - 1] + node.col_offset, self._starts[node.end_lineno - 1] + node.end_col_offset

    def of(self, node: ast.AST) -> str:
        """The node as it is written."""
        start, end = self.span(node)
        return self._raw[start:end].decode()

    def put(self, node: ast.AST, new: str) -> Splice:
        return Splice(*self.span(node), new)

    def choose(self, node: ast.AST, part: ast.AST) -> Splice:
        """One part of a node in its place, in brackets where it would come apart."""
        loose = isinstance(self.parents.get(node), TIGHT) and not isinstance(part, ATOMS)
        return self.put(node, f"({self.of(part)})" if loose else self.of(part))

    def line(self, number: int) -> str:
        """Lines are counted from 1, as the tree does."""
        return self._raw[self._starts[number - 1] : self._starts[number]].decode()

    def lines(self, first: int, last: int, new: str = "") -> Splice:
        """`new` in place of whole lines, the last one included."""
        return Splice(self._starts[first - 1], self._starts[last], new)

    def drop(self, statement: ast.stmt) -> Splice:
        """Without the statement, and without the comments that stand right above it."""
        first = statement.lineno
        while first > 1 and self.line(first - 1).strip().startswith("#"):
            first -= 1
        return self.lines(first, statement.end_lineno or first)

    def block(self, statements: list[ast.stmt], after: int, depth: int) -> str:
        """The lines of a branch with its comments, moved left to `depth`; it begins behind line `after`."""
        held = [self.line(n) for n in range(after + 1, (statements[-1].end_lineno or after) + 1)]
        return "".join(line[statements[0].col_offset - depth :] if line.strip() else line for line in held)

    def spliced(self, splices: list[Splice]) -> "Text":
        """All of them at once. They must not overlap."""
        if not splices:
            return self
        raw = self._raw
        for one in sorted(splices, key=lambda one: one.start, reverse=True):
            raw = raw[: one.start] + one.new.encode() + raw[one.end :]
        return Text(raw.decode())
