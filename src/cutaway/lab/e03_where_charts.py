"""Chapter 3: where it is known, as charts: what a probe reads and what patching moves, by place and depth. Nothing is computed here."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cutaway.lab.e03_where_places import PLACES

if TYPE_CHECKING:
    from cutaway.charts import Chart
    from cutaway.lab.record import Record

Rows = list[dict[str, Any]]
ORDER = {"scale": {"domain": list(PLACES)}, "axis": {"labelAngle": -35}}


def charts(records: Sequence["Record"]) -> "Mapping[str, Chart]":
    """Of the records of all models, a column each."""
    probes = [row for record in records for row in record.rows("probe.above_embedding") if row["tier"] == "late"]
    controls = [row for record in records for row in record.rows("probe.above_shuffled") if row["tier"] == "late"]
    patches = [row for record in records for row in record.rows("patch.effect")]
    drawn = {
        "What a probe reads above the same probe on the embedding": lines(probes, "accuracy above the embedding's"),
        "What a probe reads above the same probe on shuffled labels": lines(controls, "accuracy above shuffled labels'"),
        "How far a patched place moves the answer to the twin's": heat(patches),
    }
    return {title: spec | {"title": title} for title, spec in drawn.items()}


def lines(rows: Rows, title: str) -> dict[str, Any]:
    """A line a depth with its intervals; the pronoun is one place of several."""
    x = {"field": "place", "type": "nominal", "title": None, **ORDER}
    value = {"field": "value", "type": "quantitative", "title": title}
    colour = {"field": "depth", "type": "ordinal", "title": "depth", "scale": {"scheme": "viridis"}}
    interval = {"y": {**value, "field": "low"}, "y2": {"field": "high"}}
    told = [{"field": name} for name in ("place", "depth", "value", "low", "high")]
    return {
        "data": {"values": rows},
        "facet": {"column": {"field": "model", "title": None}},
        "spec": {
            "width": 250,
            "height": 220,
            "encoding": {"x": x, "xOffset": {"field": "depth"}, "color": colour, "tooltip": told},
            "layer": [
                {"mark": {"type": "rule", "strokeWidth": 2}, "encoding": interval},
                {"mark": {"type": "point", "filled": True, "size": 55}, "encoding": {"y": value}},
            ],
        },
    }


def heat(rows: Rows) -> dict[str, Any]:
    """A cell for each place and depth; a row for each direction, the neutral twin's among them."""
    scale = {"scheme": "purpleorange", "domain": [-1, 1], "reverse": True}
    colour = {"field": "value", "type": "quantitative", "title": "effect", "scale": scale}
    return {
        "data": {"values": rows},
        "facet": {
            "column": {"field": "model", "title": None},
            "row": {"field": "direction", "title": None, "sort": ["denoising", "noising", "neutral"]},
        },
        "spec": {
            "width": 250,
            "height": {"step": 24},
            "mark": "rect",
            "encoding": {
                "x": {"field": "place", "type": "nominal", "title": None, **ORDER},
                "y": {"field": "depth", "type": "ordinal", "title": "depth", "sort": "descending"},
                "color": colour,
                "tooltip": [{"field": name} for name in ("place", "depth", "value", "low", "high")],
            },
        },
    }
