"""A record: what one run of an experiment measured, and everything that shaped it. Never the host, the user or a path."""

import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Self

import cutaway
from cutaway.errors import LabError
from cutaway.lab.measurement import Measurement

SCHEMA = "cutaway.record/1"
NAME = re.compile(r"\w[\w-]*")  # of an experiment: it becomes the name of a file
ABSOLUTE = re.compile(r"(?<![\w:/.\\-])(?:/|[A-Za-z]:[/\\])(?:[^\s/\\:]+[/\\])+")  # the folders of a path; an address has its own //
LIBRARIES = ("torch", "numpy", "scipy", "scikit-learn", "tokenizers", "tiktoken")


@dataclass(frozen=True)
class Record:
    """One run of one experiment on one model, or on none.

    `model`: name, weights_sha256, causal, head, nano, dtype, device, kernel. `facts`: data sets, threads, versions, commit,
    whether the tree was dirty, machine, command, start (UTC), seconds.
    """

    experiment: str
    version: int
    parameters: Mapping[str, Any]
    model: Mapping[str, Any] | None
    seed: int
    level: float
    measurements: tuple[Measurement, ...]
    facts: Mapping[str, Any]

    @property
    def model_name(self) -> str:
        return str(self.model["model"]) if self.model else "none"

    @property
    def file_name(self) -> str:
        """
        >>> Record("e03_lookup", 1, {}, {"model": "./SmolLM2-135M.gguf"}, 1, 0.95, (), {}).file_name
        'e03_lookup.SmolLM2-135M.gguf.json'
        """
        model = "".join(c if c.isalnum() or c in "-_." else "_" for c in Path(self.model_name).name)
        return f"{self.experiment}.{model}.json"

    def find(self, key: str) -> Measurement | None:
        return next((m for m in self.measurements if m.key == key), None)

    def rows(self, name: str) -> list[dict[str, Any]]:
        """The measurements of this name as rows for a chart: model, value, low, high, n and where each was taken."""
        found = [m for m in self.measurements if m.name == name and m.value is not None]
        ends = [m.interval or (m.value, m.value) for m in found]
        return [
            {"model": self.model_name, "value": m.value, "low": low, "high": high, "n": m.n, **m.at}
            for m, (low, high) in zip(found, ends, strict=True)
        ]

    def to_dict(self) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "experiment": self.experiment,
            "version": self.version,
            "parameters": dict(self.parameters),
            "model": dict(self.model) if self.model else None,
            "seed": self.seed,
            "level": self.level,
            "measurements": [m.to_dict() for m in self.measurements],
            "facts": dict(self.facts),
        }

    @classmethod
    def from_dict(cls, given: Any) -> Self:
        """Raises LabError if this is no record, or one of a newer version."""
        if not isinstance(given, dict) or given.get("schema") != SCHEMA:
            found = given.get("schema") if isinstance(given, dict) else type(given).__name__
            raise LabError(f"This is no record: its schema is {found!r}", expected=SCHEMA)
        rest = {name: value for name, value in given.items() if name != "schema"}
        try:
            made = cls(**{**rest, "measurements": tuple(Measurement.from_dict(m) for m in rest["measurements"])})
            made.check()
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise LabError(f"This record is damaged: {error}", expected=SCHEMA) from None
        return made

    def check(self) -> None:
        """Raises ValueError where a field is not of its type: a record may come from anywhere, and its name becomes a file's."""
        kinds = {"experiment": str, "version": int, "parameters": dict, "seed": int, "level": float, "facts": dict}
        wrong = [name for name, kind in kinds.items() if not isinstance(getattr(self, name), kind)]
        wrong += [] if self.model is None or isinstance(self.model.get("model"), str) else ["model"]
        if wrong or not NAME.fullmatch(self.experiment):
            raise ValueError(f"{', '.join(wrong) or 'experiment'} cannot be read")

    def as_written(self) -> Self:
        """What a file or another process gives back: tuples as lists, numbers of NumPy as plain ones, and no path in any text.

        Raises LabError for NaN, an infinity, or what is no JSON.
        """
        try:
            text = json.dumps(self.to_dict(), allow_nan=False, default=lambda number: number.item())
        except (ValueError, TypeError, AttributeError) as error:
            raise LabError(f"{self.experiment} measured what no record can hold: {error}", expected="finite numbers and texts") from None
        return self.from_dict(scrubbed(json.loads(text)))

    def _repr_html_(self) -> str:
        from cutaway.lab import tables
        from cutaway.render import render

        return render("record.html", record=self, measured=tables.measured([self]), shaped=tables.facts([self]))


def scrubbed(given: Any) -> Any:
    """The same without the folders of any path.

    >>> scrubbed({"note": "there is no file /home/ada/sets/wsc.json; see https://example.org/a/b"})
    {'note': 'there is no file wsc.json; see https://example.org/a/b'}
    """
    if isinstance(given, str):
        return ABSOLUTE.sub("", given)
    if isinstance(given, dict):
        return {name: scrubbed(value) for name, value in given.items()}
    return [scrubbed(value) for value in given] if isinstance(given, list) else given


@cache
def versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def machine() -> dict[str, Any]:
    """What computed it; nothing that names the host or its user."""
    import psutil

    return {
        "cpu": cpu(),
        "cores": os.cpu_count(),
        "ram_gib": round(psutil.virtual_memory().total / 2**30),
        "os": platform.system(),
    }


@cache
def cpu() -> str:
    """The processor's model, where the system says it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def commit(code: Path | None = None) -> dict[str, Any]:
    """The commit of the checkout that this code runs from, and whether its tree differs from it; None where it is installed.

    code: an experiment's file of somebody's own. Then that is asked about as well: what lies in no repository has no commit.
    """
    root = Path(cutaway.__file__).parents[2]
    ours = state(root, "src", "models", "pyproject.toml") if (root / "pyproject.toml").is_file() else (None, None)
    if code is None:
        return dict(zip(("commit", "dirty"), ours, strict=True))
    theirs = state(code.resolve().parent, code.name)
    return {"commit": theirs[0], "dirty": theirs[1] or ours[1], "cutaway_commit": ours[0]}


def state(folder: Path, *what: str) -> tuple[str | None, bool | None]:
    """The commit of a folder's repository, and whether something below `what` differs from it."""
    try:
        head, changes = (
            subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True, check=True, timeout=30).stdout.strip()
            for words in (("rev-parse", "HEAD"), ("status", "--porcelain", "--", *what))
        )
    except (OSError, subprocess.SubprocessError):
        return None, None
    return head, bool(changes)


def command() -> str:
    """The command line without its paths: of each the last part alone."""
    words = [re.sub(r"[^=]*[/\\](?=[^/\\])", "", word) for word in sys.argv[1:]]
    return " ".join(["cutaway", *words])
