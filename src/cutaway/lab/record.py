"""A record: what one run of an experiment measured, and everything that shaped it. Never the host, the user or a path."""

import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Self

import cutaway
from cutaway.errors import LabError
from cutaway.lab.measurement import Measurement

SCHEMA = "cutaway.record/1"
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
        """The measurements of this name as rows for a chart: model, value, low, high and where each was taken."""
        found = [m for m in self.measurements if m.name == name and m.value is not None]
        ends = [m.interval or (m.value, m.value) for m in found]
        return [
            {"model": self.model_name, "value": m.value, "low": low, "high": high, **m.at}
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
            return cls(**{**rest, "measurements": tuple(Measurement.from_dict(m) for m in rest["measurements"])})
        except (KeyError, TypeError, ValueError) as error:
            raise LabError(f"This record is damaged: {error}", expected=SCHEMA) from None


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


def cpu() -> str:
    """The processor's model, where the system says it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def commit() -> dict[str, Any]:
    """The commit of the checkout that this code runs from, and whether its tree differs from it; None where it is installed."""
    root = Path(cutaway.__file__).parents[2]
    if not (root / "pyproject.toml").is_file():
        return {"commit": None, "dirty": None}
    try:
        head, changes = (
            subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, check=True, timeout=30).stdout.strip()
            for words in (("rev-parse", "HEAD"), ("status", "--porcelain", "--", "src", "models", "pyproject.toml"))
        )
    except (OSError, subprocess.SubprocessError):
        return {"commit": None, "dirty": None}
    return {"commit": head, "dirty": bool(changes)}


def command() -> str:
    """The command line without its paths: of each the last part alone."""
    words = [Path(word).name if os.sep in word else word for word in sys.argv[1:]]
    return " ".join(["cutaway", *words])
