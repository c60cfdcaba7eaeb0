"""A small experiment in a file of its own, as a user writes one, for the tests of the lab's machinery."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cutaway.lab.plan import Task

MINE = '''
import os, time
from cutaway.lab.claims import ANY, BIDIRECTIONAL, CAUSAL, Claim
from cutaway.lab.experiment import experiment
from cutaway.lab import data

def slow(n):
    with open(os.environ["SEEN"], "a") as file:
        file.write(f"{n}\\n")
    time.sleep(float(os.environ.get("SLOW", 0)))
    return n * n

def charts(records):
    rows = [row for record in records for row in record.rows("square")]
    mark = {"field": "value", "type": "quantitative"}
    return {"Squares <&>": {"data": {"values": rows}, "mark": "point", "encoding": {"x": {"field": "n"}, "y": mark}}}

claim = dict(reason="arithmetic", fails_if="squares were others")

@experiment("mine", chapter="03", version=1, question="Squares <b>?", needs=None, charts=charts, claims=(
    Claim(sentence="The sum is known", measurement="sum", compare="==", bound=30, **claim),
    Claim(sentence="The mean is above 1", measurement="mean", compare=">", bound=1, **claim),
    Claim(sentence="Never measured", measurement="nowhere", compare=">", bound=1, **claim),
))
def mine(run, *, many: int = 5, offset: float = 0.0, sizes: tuple[int, ...] = (1, 2)):
    squares = run.units("squares", range(many), slow)
    yield run.exact("sum", sum(squares))
    yield run.mean("mean", [offset + value + float(x) for value in squares for x in run.rng("noise").normal(size=20)])
    for n, value in enumerate(squares):
        yield run.exact("square", value, at={"n": n})
    yield run.absent("cube", f"see {os.environ['SEEN']}")

@experiment("causal_only", chapter="03", version=1, question="?", needs=CAUSAL, claims=(
    Claim(sentence="It has layers", measurement="layers", compare=">", bound=0, **claim),
    Claim(sentence="It is another", measurement="layers", compare="<", bound=0, of=BIDIRECTIONAL, **claim),
))
def causal_only(run):
    yield run.exact("layers", run.model.config.layers)

@experiment("trained", chapter="03", version=1, question="?", needs=None, trains=True, claims=(
    Claim(sentence="It is trained", measurement="trained", compare="==", bound=1, **claim),
))
def trained(run):
    folder = run.train_once("trained-by-a-test", lambda folder: (folder / "weights").write_text("1"))
    yield run.exact("trained", int((folder / "weights").read_text()))

@experiment("reads", chapter="03", version=1, question="?", needs=None, data=("udhr",), claims=(
    Claim(sentence="There are texts", measurement="texts", compare=">", bound=0, **claim),
))
def reads(run):
    yield run.exact("texts", len(data.find("udhr", run.data)))
'''


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The path of that file; what it did is written to `seen` beside it, and what it trained to `cache`."""
    monkeypatch.setenv("SEEN", str(tmp_path / "seen"))
    monkeypatch.setenv("CUTAWAY_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "mine.py"
    path.write_text(MINE, encoding="utf-8")
    return path


def task(path: Path, experiment: str = "mine", **changes: Any) -> Task:
    return replace(Task(str(path), experiment, None, command="cutaway lab run mine.py"), **changes)


def silent(task: Task) -> Callable[[str, int, int], None]:
    return lambda what, done, of: None
