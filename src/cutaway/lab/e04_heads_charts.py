"""The charts of `e04_heads`: how many heads are of each type, and what is lost without those that are missed most."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cutaway.charts import Chart
    from cutaway.lab.record import Record

COLUMN = {"field": "of", "title": None, "header": {"labelExpr": "split(datum.value, ';')"}}  # the model, and below it n


def charts(records: Sequence["Record"]) -> "Mapping[str, Chart]":
    typed = [row for record in records for row in record.rows("typed") if row["value"] is not None]
    missed = [row for record in records for row in record.rows("rise") if row["on"] == "text"]
    counts = [row | {"share": row["value"] / row["n"], "of": f"{row['model']};{row['n']} heads"} for row in typed]
    rises = [row | {"where": f"{row['layer']}.{row['head']}", "of": f"{row['model']};{row['n']} texts"} for row in missed]
    kinds, lost = "Heads of each type, a share of all", "Loss on ordinary text without a head (layer.head), those missed most"
    return {kinds: bars(counts, kinds), **({lost: ablations(rises, lost)} if rises else {})}


def bars(rows: Sequence[Mapping[str, Any]], title: str) -> dict[str, Any]:
    """A bar a type, a column a model, a row for what was read. The line is what chance gives."""
    share = {"field": "share", "type": "quantitative", "title": "share of heads", "axis": {"format": "%"}}
    return {
        "title": title,
        "data": {"values": [dict(row) for row in rows]},
        "facet": {"column": COLUMN, "row": {"field": "on", "title": None, "sort": None}},
        "spec": {
            "width": 150,
            "height": 110,
            "layer": [
                {
                    "mark": "bar",
                    "encoding": {
                        "y": {"field": "type", "type": "nominal", "sort": None, "title": None},
                        "x": share,
                        "tooltip": [{"field": name} for name in ("type", "value", "n")],
                    },
                },
                {"mark": {"type": "rule", "strokeDash": [4, 3]}, "encoding": {"x": {"datum": 0.01}}},
            ],
        },
    }


def ablations(rows: Sequence[Mapping[str, Any]], title: str) -> dict[str, Any]:
    """A dot with its interval for each way, side by side for each head, a column a model."""
    value = {"field": "value", "type": "quantitative", "title": "rise of the loss, nats a token"}
    return {
        "title": title,
        "data": {"values": [dict(row) for row in rows]},
        "facet": {"column": COLUMN},
        "spec": {
            "width": 240,
            "height": 240,
            "encoding": {
                "x": {"field": "where", "type": "nominal", "sort": None, "title": "layer.head", "axis": {"labelAngle": 0}},
                "xOffset": {"field": "how", "type": "nominal", "sort": None},
                "color": {"field": "how", "type": "nominal", "sort": None, "title": None},
                "tooltip": [{"field": name} for name in ("layer", "head", "how", "value", "low", "high", "n")],
            },
            "layer": [
                {"mark": {"type": "rule", "strokeWidth": 2}, "encoding": {"y": {**value, "field": "low"}, "y2": {"field": "high"}}},
                {"mark": {"type": "point", "filled": True, "size": 45}, "encoding": {"y": value}},
            ],
        },
        "resolve": {"scale": {"x": "independent", "xOffset": "independent"}},
    }
