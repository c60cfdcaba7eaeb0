"""Chapter 3: how far a later word moves the pronoun's attention, as a chart, layer by layer. Nothing is computed here."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cutaway.charts import Chart
    from cutaway.lab.record import Record

TWINS = {"it": "the twin", "neutral": "its neutral twin"}


def charts(records: Sequence["Record"]) -> "Mapping[str, Chart]":
    """Of the records of all models, a column each; a causal model's line lies on 0."""
    rows = [row for record in records for row in layers(record)]
    return {title: drawn(rows) | {"title": title} for title in ("How far a later word moves the pronoun's attention",) if rows}


def layers(record: "Record") -> list[dict[str, Any]]:
    """A row for each layer of each set and twin, with its three quantiles."""
    kind = "causal" if record.model and record.model["causal"] else "bidirectional"
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in record.rows("it.abs_diff"):
        one = found.setdefault(
            (row["set"], row["twin"], row["layer"]),
            {"model": f"{row['model']} ({kind})", "layer": row["layer"], "moved by": f"{TWINS[row['twin']]}, {row['set']}"},
        )
        one[f"q{row['quantile']:g}"] = row["value"]
    return list(found.values())


def drawn(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The median as a line, 5 % to 95 % of pairs and heads as bars."""
    value = {"field": "q0.5", "type": "quantitative", "title": "largest change of a weight: median, 5 % to 95 %"}
    x = {"field": "layer", "type": "ordinal", "title": "layer", "axis": {"labelAngle": 0}}
    colour = {"field": "moved by", "type": "nominal", "legend": {"orient": "top", "labelLimit": 300}, "title": None}
    told = [{"field": name} for name in ("model", "moved by", "layer", "q0.05", "q0.5", "q0.95")]
    return {
        "data": {"values": rows},
        "facet": {"column": {"field": "model", "title": None}},
        "spec": {
            "width": 250,
            "height": 220,
            "encoding": {"x": x, "color": colour, "tooltip": told},
            "layer": [
                {
                    "mark": {"type": "rule", "strokeWidth": 2},
                    "encoding": {"xOffset": {"field": "moved by"}, "y": {**value, "field": "q0.05"}, "y2": {"field": "q0.95"}},
                },
                {"mark": {"type": "point", "filled": True, "size": 45}, "encoding": {"xOffset": {"field": "moved by"}, "y": value}},
            ],
        },
    }
