"""The command as a process: consoles that are not UTF-8, exit codes, a pipe that closes, and a quick answer to --help (pitfalls 26, 28)."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import cutaway

LATIN = (
    {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    {"PYTHONIOENCODING": "cp1252"},
    {"PYTHONIOENCODING": "ascii"},
)
ODD = "é ― 😀 box"


def cutaway_process(*args: object, env: dict[str, str] | None = None, **options: object) -> "subprocess.CompletedProcess[bytes]":
    command = [sys.executable, "-m", "cutaway", *map(str, args)]
    home = {"PYTHONPATH": str(Path(cutaway.__file__).parents[1])}
    return subprocess.run(command, capture_output=True, env=os.environ | home | (env or {}), check=False, **options)  # type: ignore[call-overload,no-any-return]


@pytest.mark.parametrize("env", LATIN, ids=("C", "cp1252", "ascii"))
def test_any_console_can_be_printed_on(gpt2: Path, tmp_path: Path, env: dict[str, str]) -> None:
    file = tmp_path / "text.txt"
    file.write_text(ODD, encoding="utf-8")
    for source in ((ODD,), ("--file", file)):
        shown = cutaway_process("tokens", *source, "--model", gpt2, env=env)
        assert (shown.returncode, shown.stderr) == (0, b"")
        printed = cutaway_process("tokens", *source, "--model", gpt2, "--json", env=env)
        assert json.loads(printed.stdout)["text"] == ODD
    assert cutaway_process("tokens", "\udce9", "--model", gpt2, env=env).returncode == 0


def test_the_real_exit_codes(gpt2: Path) -> None:
    assert cutaway_process("--version").stdout.decode().strip() == f"cutaway {cutaway.__version__}"
    wrong = cutaway_process("next", "hi", "--model", "gpt22")
    assert (wrong.returncode, wrong.stdout) == (2, b"")
    assert wrong.stderr.startswith(b"Error: ")
    assert cutaway_process("next", "--no-such-option").returncode == 2


def test_a_closed_pipe_is_no_accident(gpt2: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "cutaway", "tokens", "box " * 20_000, "--model", str(gpt2), "--json"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ | {"PYTHONPATH": str(Path(cutaway.__file__).parents[1])},
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.read(10)
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    process.wait()


def test_help_answers_at_once() -> None:
    """0.2 s on an idle machine; tests run beside others, so the best of five, and no torch or rich at all."""
    times = []
    for _ in range(5):
        start = time.perf_counter()
        done = cutaway_process("--help")
        times.append(time.perf_counter() - start)
        assert done.returncode == 0
    assert min(times) <= 0.3
    code = "import sys; from cutaway.cli.main import app; app(['--help'], standalone_mode=False); print({'torch', 'rich'} & {*sys.modules})"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert loaded.stdout.splitlines()[-1] == "set()"


@pytest.mark.parametrize("command", ("trophy", "next", "tokens", "models", "train"))
def test_every_command_has_help_with_an_example(command: str) -> None:
    done = cutaway_process(command, "--help", env={"COLUMNS": "100"})
    assert done.returncode == 0
    assert f"cutaway {command}" in done.stdout.decode().partition("Options:")[0].partition("\n")[2]
    assert b"'--" not in done.stdout  # single quotes mean nothing to cmd
