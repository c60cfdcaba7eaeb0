"""The charts of `e05_floors`: each over the floors of a model, a line a model."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cutaway.lab.curves import DEPTH, curves

if TYPE_CHECKING:
    from cutaway.charts import Chart
    from cutaway.lab.record import Record


def charts(records: Sequence["Record"]) -> "Mapping[str, Chart]":
    kl, skip = "How far what the head reads is from the model's answer", "Loss without one block"
    both = "The referent: readable by the head, and carried by its place"
    rows = {name: [share(row, record) for record in records for row in record.rows(name)] for name in ("kl", "skip.rise", "referent")}
    found: dict[str, Chart] = {}
    if rows["kl"]:
        found[kl] = curves(rows["kl"], kl, x="depth", across=DEPTH, y="KL from the last floor's answer, nats", colour="model", log=())
        found[skip] = curves(rows["skip.rise"], skip, x="depth", across=DEPTH, y="rise of the loss, nats a token", colour="model", log=())
    if rows["referent"]:
        named = [row | {"what": f"{row['model']}, {row['by']}"} for row in rows["referent"]]
        found[both] = curves(named, both, x="depth", across=DEPTH, y="share of sentences right; effect of the patch", colour="what", log=())
    return found


def share(row: Mapping[str, Any], record: "Record") -> dict[str, Any]:
    """depth: from 0, what enters the first block, to 1, what the last one leaves; a block is where it ends."""
    last = max(other["floor"] for other in record.rows("length"))
    return dict(row) | {"depth": (row["floor"] if "floor" in row else row["block"] + 1) / last}
