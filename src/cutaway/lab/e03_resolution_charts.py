"""Chapter 3: which referent is preferred, as charts: items right, and twins with both right. Nothing is computed here."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cutaway.charts import Chart
    from cutaway.lab.record import Record

ASKED = {"accuracy": ("Items right", 0.5), "both": ("Twins with both right", 0.25)}  # and what a coin gets of two candidates


def charts(records: Sequence["Record"]) -> "Mapping[str, Chart]":
    """Of the records of all models; a column for each set."""
    found = {}
    for name, (title, coin) in ASKED.items():
        rows = [row | {"score": said(row), "chance": chance(record, row, coin)} for record in records for row in record.rows(name)]
        if rows:
            found[title] = drawn(rows, title.lower()) | {"title": title}
    return found


def said(row: Mapping[str, Any]) -> str:
    return f"{row['method']} a token" if row.get("per") == "token" else str(row["method"])


def chance(record: "Record", row: Mapping[str, Any], coin: float) -> float:
    """Of items the set's own, where there are more candidates than two."""
    found = record.find(f"chance[set={row['set']}]")
    return float(found.value) if coin == ASKED["accuracy"][1] and found is not None and found.value is not None else coin


def drawn(rows: list[dict[str, Any]], title: str) -> dict[str, Any]:
    """A point with its interval for each model and score; a rule where chance is."""
    x = {"field": "value", "type": "quantitative", "title": title, "scale": {"domain": [0, 1]}, "axis": {"format": "%"}}
    y = {"field": "score", "type": "nominal", "title": None}
    colour = {"field": "model", "type": "nominal", "title": None, "legend": {"orient": "top", "labelLimit": 300}}
    where = {"y": y, "yOffset": {"field": "model"}, "color": colour}
    told = [{"field": name} for name in ("model", "set", "score", "value", "low", "high")]
    rule = {"strokeDash": [4, 4], "color": "#63666d", "type": "rule"}
    return {
        "data": {"values": rows},
        "facet": {"column": {"field": "set", "title": None}},
        "spec": {
            "width": 250,
            "height": {"step": 44, "for": "position"},
            "layer": [
                {"mark": rule, "encoding": {"x": {"aggregate": "mean", "field": "chance", "type": "quantitative", "title": title}}},
                {
                    "mark": {"type": "rule", "strokeWidth": 2},
                    "encoding": {"x": {**x, "field": "low"}, "x2": {"field": "high"}, **where},
                },
                {
                    "mark": {"type": "point", "filled": True, "size": 55},
                    "encoding": {"x": x, **where, "tooltip": told},
                },
            ],
        },
    }
