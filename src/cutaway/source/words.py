"""What is said beside the code: docstrings and comments keep what is true of one model.

Three conventions of the core's docstrings carry this: a line with ", where `condition`" is said, with the deeper lines below it, of
models for which the condition on `Config` holds; a line "name: …" of a function is about a parameter; capital letters are sizes.
"""

import ast
import inspect
import re
import textwrap
import tokenize
from collections.abc import Mapping
from io import StringIO
from typing import Any

from cutaway.core.config import Config
from cutaway.source.decide import value_of
from cutaway.source.program import core_text
from cutaway.source.splice import Splice, Text

WHERE = re.compile(r", where `([^`]+)`")
PARAMETER = re.compile(r"(\w+)(?: \([^)]*\))?: ")
MARKER = re.compile(r"\s*\[(?:region [\w-]+|end)\]")  # for those who quote the core's text
JOINED = "\N{NO-BREAK SPACE}"  # which no line is broken at
ERROR = re.compile(r"\b(?!ValueError)[A-Z]\w+Error\b")


def reworded(definition: str, config: Config) -> str:
    """A folded definition with its docstrings and comments made true of this model."""
    text = Text(definition)
    documented = [node for node in text.nodes if isinstance(node, ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node)]
    said = text.spliced([_docstring(text, node, config) for node in documented]).text
    lines = said.splitlines()
    for token in tokenize.generate_tokens(StringIO(said).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            kept = MARKER.sub("", token.string)
            kept = "" if kept.startswith("# noqa") or kept == "#" else _sizes(kept, config)
            lines[row - 1] = (lines[row - 1][:column] + kept).rstrip()
    return "\n".join(lines) + "\n"


def _docstring(text: Text, node: ast.ClassDef | ast.FunctionDef, config: Config) -> Splice:
    place = node.body[0]
    assert isinstance(place, ast.Expr)
    lines = true_of(inspect.cleandoc(text.of(place)[3:-3]), config).splitlines()
    if isinstance(node, ast.FunctionDef):
        has = {arg.arg for arg in (*node.args.args, *node.args.kwonlyargs)}
        lines = [line for line in lines if not (about := PARAMETER.match(line)) or about[1] in has]
    indent = " " * place.col_offset
    said = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()
    said = _sizes(ERROR.sub("ValueError", said), config).replace("\n", f"\n{indent}")
    closing = f"\n{indent}" if "\n" in said else ""
    return text.put(place, re.sub(r"[ ]+\n", "\n", f'"""{said}{closing}"""'))


def true_of(said: str, config: Config) -> str:
    """The lines of a docstring that are said of this model."""
    known = config.to_dict()
    kept: list[str] = []
    hidden: int | None = None  # how deep a line stood that is not said: deeper ones go with it
    for line in said.splitlines():
        depth = len(line) - len(line.lstrip())
        if hidden is not None and line.strip() and depth > hidden:
            continue
        hidden = depth if (found := WHERE.search(line)) and not _holds(found[1], known) else None
        if hidden is None:
            kept.append(WHERE.sub("", line))
    return "\n".join(kept)


def _holds(condition: str, known: Mapping[str, Any]) -> bool:
    return bool(value_of(ast.parse(condition, mode="eval").body, known))


def _sizes(said: str, config: Config) -> str:
    """G heads of keys are H where each head has its own."""
    return re.sub(r"\bG\b", "H", said) if config.key_heads == config.heads else said


def introduction(body: str, config: Config, width: int) -> str:
    """What the core says of the transformer before its first line, as far as `body` has it: the letters, and how parts are wired."""
    tree = ast.parse(core_text("transformer"))
    _, legend, *rest = re.split(r"\n{2,}", true_of(ast.get_docstring(tree) or "", config))
    letters = [entry for entry in re.split(r"\s{3,}", legend.strip()) if re.search(rf"\b{entry[0]}\b", body)]
    lines = textwrap.wrap("   ".join(entry.replace(" ", JOINED) for entry in letters), width - 4, break_long_words=False)
    return "\n\n".join(["\n".join(f"    {line.replace(JOINED, ' ')}" for line in lines), *rest]).strip("\n")


def meanings() -> dict[str, str]:
    """What the core says of each field of a configuration, beside it."""
    text = core_text("config")
    found = {}
    for line in text[text.index("class Config") : text.index("def __post_init__")].splitlines():
        if field := re.match(r"    (\w+): [^#]*?(?:  # (.*))?$", line):
            found[field[1]] = field[2] or ""
    return found
