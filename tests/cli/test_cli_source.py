"""`cutaway source` and `cutaway diff-models`: what is printed can be run, and what is written is there whole."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer import Typer
from typer.testing import CliRunner, Result

from cutaway.cli import diff_models, output, source
from cutaway.cli.main import Commands
from cutaway.diff_models import diff_models as compare
from cutaway.source import source as print_source

app = Typer(cls=Commands)
app.command("source")(source.command)
app.command("diff-models")(diff_models.command)


def run(*args: object) -> Result:
    output.quiet = False
    return CliRunner().invoke(app, [str(arg) for arg in args])


def test_the_file_is_printed_as_it_is() -> None:
    found = run("source", "gpt2")
    assert found.exit_code == 0
    assert found.stdout == print_source("gpt2").text
    assert "\x1b" not in found.stdout
    assert found.stderr == ""


def test_colours_change_no_letter(monkeypatch: pytest.MonkeyPatch) -> None:
    from rich.console import Console

    text = print_source("gpt2").text
    screen = Console(force_terminal=True, color_system="truecolor", width=60, record=True, file=open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115
    monkeypatch.setattr(output, "console", lambda: screen)
    monkeypatch.setattr(source, "sys", type("Terminal", (), {"stdout": type("Out", (), {"isatty": staticmethod(lambda: True)})}))
    source.show(text)
    screen.file.close()
    assert "\x1b[" in screen.export_text(styles=True, clear=False)
    assert screen.export_text() == text


def test_a_folder_to_a_file(gpt2: Path, tmp_path: Path) -> None:
    place = tmp_path / "model.py"
    found = run("source", gpt2, "--out", place)
    assert (found.exit_code, found.stdout) == (0, "")
    assert place.read_text(encoding="utf-8") == print_source(str(gpt2)).text
    assert subprocess.run([sys.executable, "-m", "py_compile", place], check=False).returncode == 0


def test_nothing_is_written_where_it_cannot_be(tmp_path: Path) -> None:
    found = run("source", "gpt2", "--out", tmp_path / "nowhere" / "model.py")
    assert found.exit_code == 2
    assert "cannot be written" in found.stderr
    assert list(tmp_path.iterdir()) == []


def test_json() -> None:
    assert json.loads(run("source", "roberta", "--json").stdout) == json.loads(json.dumps(print_source("roberta").to_dict()))
    assert json.loads(run("diff-models", "gpt2", "gpt1", "--json").stdout) == json.loads(json.dumps(compare("gpt2", "gpt1").to_dict()))


@pytest.mark.parametrize("args", [("source", "gpt22"), ("diff-models", "gpt2", "gpt22"), ("source", "./nowhere"), ("source", "no/such")])
def test_a_name_that_is_not_there(args: tuple[str, ...]) -> None:
    found = run(*args)
    assert found.exit_code == 2
    assert found.stderr.startswith("Error: ")
    assert found.stderr.count("\n") == 1


def test_the_difference_in_a_terminal_width() -> None:
    found = run("diff-models", "gpt1", "roberta")
    table, _, code = found.stdout.partition("--- openai-gpt")
    assert found.exit_code == 0
    assert max(map(len, table.splitlines())) <= 100
    assert all(word in table for word in ("causal", "yes", "no", "position_offset", "116,534,784", "how many tokens there are"))
    assert f"--- openai-gpt{code}" == compare("gpt1", "roberta").code


def test_fields_alone() -> None:
    found = run("diff-models", "gpt2", "gpt2-xl", "--fields").stdout
    assert found.startswith("gpt2 and gpt2-xl are the same architecture")
    assert "@@" not in found
    assert "1,557,611,200" in found
