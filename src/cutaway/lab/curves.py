"""Charts of curves and of dots: values with their intervals against a number or a word. Specifications alone; nothing is computed here."""

from collections.abc import Sequence
from typing import Any

Rows = Sequence[dict[str, Any]]  # as `Record.rows` gives them: model, value, low, high and where each was taken
Spec = dict[str, Any]
DEPTH = "depth: 0 enters the first block, 1 leaves the last"
# A word's comma becomes a new line; what is too long for its place is cut.
LABELS = {"labelAngle": 0, "labelExpr": "split(datum.label, ', ')", "labelLimit": 92}


def curves(
    rows: Rows, title: str, *, x: str, y: str, colour: str, across: str = "", dashed: Rows = (), log: Sequence[str] = ("x",)
) -> Spec:
    """A line for each value of `colour` over the number `x`, and what theory says of the same as dashed lines.

    across, y: the titles of the axes; without the first, it is called as its number is.

    log: axes that are logarithmic, of "x" and "y"; on such an axis nothing at or below 0 is shown.
    """
    number = {"field": x, "type": "quantitative", "title": across or x, **scaled("x", log)}
    value = {"field": "value", "type": "quantitative", "title": y, **scaled("y", log)}
    told = [{"field": name} for name in ("model", x, colour, "value", "low", "high")]
    measured = [
        {"mark": {"type": "rule", "strokeWidth": 2}, "encoding": {"y": {**value, "field": "low"}, "y2": {"field": "high"}}},
        {"mark": {"type": "line", "point": True}, "encoding": {"y": value}},
    ]
    theory = {"data": {"values": list(dashed)}, "mark": {"type": "line", "strokeDash": [5, 4], "opacity": 0.7}, "encoding": {"y": value}}
    return {
        "title": title,
        "data": {"values": list(rows)},
        "width": 460,
        "height": 280,
        "encoding": {"x": number, "color": {"field": colour, "type": "nominal", "sort": None}, "tooltip": told},
        "layer": [*measured, *([theory] if dashed else [])],
    }


def scaled(axis: str, log: Sequence[str]) -> Spec:
    return {"scale": {"type": "log"}} if axis in log else {}


def dots(rows: Rows, title: str, *, x: str, y: str, colour: str, log: bool = False) -> Spec:
    """A dot with its interval for each value of the word `x`, side by side for each value of `colour`; `y` is the axis' title."""
    value = {"field": "value", "type": "quantitative", "title": y, **({"scale": {"type": "log"}} if log else {"scale": {"zero": False}})}
    return {
        "title": title,
        "data": {"values": list(rows)},
        "width": 460,
        "height": 280,
        "encoding": {
            "x": {"field": x, "type": "nominal", "sort": None, "title": None, "axis": LABELS},
            **({"xOffset": {"field": colour, "type": "nominal", "sort": None}} if colour != x else {}),
            "color": {"field": colour, "type": "nominal", "sort": None},
            "tooltip": [{"field": name} for name in ("model", x, colour, "value", "low", "high")],
        },
        "layer": [
            {"mark": {"type": "rule", "strokeWidth": 2}, "encoding": {"y": {**value, "field": "low"}, "y2": {"field": "high"}}},
            {"mark": {"type": "point", "filled": True, "size": 60}, "encoding": {"y": value}},
        ],
    }
