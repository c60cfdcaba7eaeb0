"""What an experiment measured: one number with its unit, how sure it is, and where it was taken."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Literal, Self, get_args

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

    def __str__(self) -> str:
        """
        >>> str(Measurement("accuracy", 0.5, "share", interval=(0.41, 0.59), n=120)), str(Measurement("layers", 12_000))
        ('0.5 (0.41 to 0.59) share, n = 120', '12,000')
        """
        if self.value is None:
            return f"not measured: {self.note}" if self.note else "not measured"
        ends = f" ({shown(self.interval[0])} to {shown(self.interval[1])})" if self.interval else ""
        unit, n = f" {self.unit}" if self.unit else "", f", n = {self.n:,}" if self.n else ""
        return f"{shown(self.value)}{ends}{unit}{n}"

    def to_dict(self) -> dict[str, Any]:
        """JSON: what is empty is left out, but for the value."""
        whole: dict[str, Any] = {"name": self.name, "at": dict(self.at), "value": self.value, "unit": self.unit, "kind": self.kind}
        whole |= {"interval": list(self.interval) if self.interval else None, "level": self.level, "n": self.n, "note": self.note}
        return {name: value for name, value in whole.items() if name == "value" or value not in (None, "", {})}

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Self:
        """Raises ValueError or TypeError for what is no measurement."""
        interval = given.get("interval")
        made = cls(**{**given, "interval": tuple(interval) if interval else None})
        numbers = [x for x in (made.value, made.level, *(made.interval or ())) if x is not None]
        for right, what in (
            (isinstance(made.name, str) and isinstance(made.unit, str) and isinstance(made.note, str), "name, unit or note"),
            (all(isinstance(x, (int, float)) and isfinite(x) for x in numbers), "value, level or interval"),
            (made.kind in get_args(Kind), "kind"),
            (made.interval is None or len(made.interval) == 2, "interval"),
            (made.n is None or isinstance(made.n, int), "n"),
            (isinstance(made.at, dict) and all(isinstance(x, (str, int, float)) for x in made.at.values()), "at"),
        ):
            if not right:
                raise ValueError(f"the {what} of {made.name} cannot be read")
        return made


def shown(value: Value) -> str:
    """
    >>> shown(True), shown(31002), shown(0.0), shown(0.123456), shown(1e-9)
    ('yes', '31,002', '0', '0.1235', '1e-09')
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"
