"""What an experiment measured: one number with its unit, how sure it is, and where it was taken."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self

Kind = Literal["exact", "statistic", "timing"]
Value = float | int | bool


@dataclass(frozen=True)
class Measurement:
    """One number.

    `kind`: exact, an integer or an equality inside one run, the same on every machine; statistic, with n and an
    interval at confidence `level`; timing, a ratio inside one run. `at` says where: {"d": 64, "scaled": True} for one.
    A value of None was not measured here, and `note` says why.
    """

    name: str
    value: Value | None
    unit: str = ""
    kind: Kind = "exact"
    interval: tuple[float, float] | None = None
    level: float | None = None
    n: int | None = None
    at: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""

    @property
    def key(self) -> str:
        """
        >>> Measurement("entropy", 3.2, "nats", at={"d": 64, "scaled": True}).key
        'entropy[d=64,scaled=True]'
        """
        return f"{self.name}[{','.join(f'{name}={value}' for name, value in self.at.items())}]" if self.at else self.name

    def to_dict(self) -> dict[str, Any]:
        """JSON: what is empty is left out, but for the value."""
        whole: dict[str, Any] = {"name": self.name, "at": dict(self.at), "value": self.value, "unit": self.unit, "kind": self.kind}
        whole |= {"interval": list(self.interval) if self.interval else None, "level": self.level, "n": self.n, "note": self.note}
        return {name: value for name, value in whole.items() if name == "value" or value not in (None, "", {})}

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Self:
        interval = given.get("interval")
        return cls(**{**given, "interval": tuple(interval) if interval else None})
