"""A record: what one run of an experiment measured, and everything that shaped it. Never the host, the user or a path."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cutaway.lab.measurement import Measurement


@dataclass(frozen=True)
class Record:
    """One run of one experiment on one model, or on none."""

    experiment: str
    version: int
    parameters: Mapping[str, Any]
    model: Mapping[str, Any] | None  # name, weights_sha256, causal, head, dtype, device, kernel
    seed: int
    level: float
    measurements: tuple[Measurement, ...]
    facts: Mapping[str, Any]  # data sets, threads, versions, commit, machine, command, start, seconds, notes

    @property
    def model_name(self) -> str:
        return str(self.model["model"]) if self.model else "none"

    def __getitem__(self, key: str) -> Measurement:
        """The measurement with this key. Raises KeyError."""
        return next(m for m in self.measurements if m.key == key)
