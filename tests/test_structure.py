"""The house rules: imports go down only, the core knows no model by name, budgets hold, nothing heavy loads early."""

import ast
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

import cutaway
from cutaway.core.config import Config

SRC = Path(cutaway.__file__).parent
FILES = sorted(SRC.rglob("*.py"))
BASE = ("errors", "progress", "registry", "writing")
# Each room, and what it may import besides itself and BASE. Verbs share `model` and what is below it.
BELOW = {
    "text": set(),
    "core": set(),
    "weights": set(),
    "worlds": set(),
    "families": {"core", "text", "weights.names"},
    "shipped": set(),
    "locate": {"families", "shipped", "text", "weights"},
    "render": set(),
    "charts": set(),
    "settings": set(),
    "trace": {"core", "text", "render", "weights"},  # a trace file is read by the strict reader of safetensors
    "model": {"core", "text", "weights", "trace", "predict"},  # its methods reach the verbs when they are called
    "load": {"core", "families", "locate", "model", "settings", "text", "weights"},
    "sample": {"model", "text"},
    "predict": {"model", "render", "sample"},
    "fill": {"model", "render", "sample"},
    "invariance": {"core", "model", "trace", "render"},
    "finding_out": {"model", "trace", "worlds"},
    "patterns": {"charts", "render"},
    "attend": {"core", "model", "patterns", "text", "trace"},
    "shapes": {"core", "model", "render", "text", "trace"},
    "trophy": {"finding_out", "invariance", "model", "render", "text", "worlds"},
    "tokens": {"locate", "text", "render"},
    "catalog": {"charts", "core", "families", "render", "shipped", "weights"},
    "about": {"charts", "core", "families", "locate", "render", "settings", "shipped", "weights"},
    "source": {"about", "core", "families", "render"},
    "diff_models": {"about", "core", "families", "render", "source"},
    "train": {"core", "families", "text", "weights", "worlds"},
    "lab": {
        *("about", "charts", "core", "diff_models", "families", "finding_out", "invariance", "load", "locate", "model", "render"),
        *("shipped", "text", "tokens", "trace", "train", "trophy", "weights", "worlds"),
    },
}


def room(path: Path) -> str:
    return path.relative_to(SRC).parts[0].removesuffix(".py")


def imports(path: Path) -> set[str]:
    """The modules of this package that a file imports, wherever in it, but for the names of types."""
    found = set()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    typing = {n for node in ast.walk(tree) if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test) for n in ast.walk(node)}
    for node in ast.walk(tree):
        if node not in typing and isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("cutaway."):
            found.add(node.module.removeprefix("cutaway."))
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SRC)))
def test_imports_go_down_only(path: Path) -> None:
    if room(path) in ("cli", "__init__", "__main__", *BASE):
        return
    allowed = {room(path), *BASE, *BELOW[room(path)]}
    for module in imports(path):
        assert any(module == name or module.startswith(f"{name}.") for name in allowed), f"{path.name} imports {module}"


def test_nothing_imports_the_command_line() -> None:
    others = [path for path in FILES if room(path) != "cli" and path.name != "__main__.py"]
    assert [path.name for path in others if any(module.startswith("cli") for module in imports(path))] == []


def test_the_core_is_nameless() -> None:
    for path in (SRC / "core").glob("*.py"):
        assert not re.search(r"gpt|bert|llama|openai", path.read_text(encoding="utf-8").lower()), path.name


def test_budgets() -> None:
    assert len((SRC / "core/transformer.py").read_text(encoding="utf-8").splitlines()) <= 250
    assert len(fields(Config)) <= 26
    assert not list(SRC.rglob("utils.py"))
    for path in FILES:
        assert len(path.read_text(encoding="utf-8").splitlines()) <= 400, path
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                assert node.end_lineno is not None
                assert node.end_lineno - node.lineno < 40, f"{path.name}: {node.name}"


def test_every_file_says_what_it_is_for() -> None:
    assert [path for path in FILES if not ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))] == []


def test_only_the_command_line_prints() -> None:
    for path in FILES:
        if room(path) != "cli":
            calls = [n for n in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(n, ast.Call)]
            assert not [c for c in calls if isinstance(c.func, ast.Name) and c.func.id == "print"], path


@pytest.mark.parametrize(
    "statement", [f"import cutaway{module}" for module in ("", ".cli.main", ".catalog", ".about", ".tokens")]
)
def test_no_torch_is_loaded_early(statement: str) -> None:
    code = f"{statement}; import sys; print('torch' in sys.modules, 'transformers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split() == ["False", "False"]


def test_the_public_names() -> None:
    assert cutaway.__all__ == sorted(cutaway.__all__)
    for name in cutaway.__all__:
        assert getattr(cutaway, name).__doc__, name
    assert set(cutaway.__all__) <= set(dir(cutaway))
