"""Records and verdicts on a terminal, at most 100 columns wide."""

from collections import Counter
from collections.abc import Sequence

from rich.console import Console

from cutaway.lab.measurement import Measurement
from cutaway.lab.record import Record
from cutaway.lab.verify import Checked

COLOURS = {"holds": "green", "fails": "bold red", "undecided": "yellow", "not measured here": "dim"}
MOST_ROWS = 40


def number(m: Measurement | None) -> str:
    """A measurement with its interval and n, or why there is none."""
    if m is None or m.value is None:
        return m.note if m else "–"
    value = f"{m.value:,}" if isinstance(m.value, int) else f"{m.value:.6g}"
    interval = f" ({m.interval[0]:.4g} to {m.interval[1]:.4g})" if m.interval else ""
    return " ".join(part for part in (f"{value}{interval}", m.unit, f"n = {m.n}" if m.n else "") if part)


def show_record(console: Console, record: Record) -> None:
    model = record.model
    nano = " (nano: a small model of this project)" if model and model["nano"] else ""
    console.print(f"{record.experiment}   {record.model_name if model else 'no model'}{nano}", style="bold")
    for m in record.measurements[:MOST_ROWS]:
        console.print(f"    {m.key}: {number(m)}")
    if len(record.measurements) > MOST_ROWS:
        console.print(f"    and {len(record.measurements) - MOST_ROWS} more; --json has all")
    threads = record.facts["threads"]
    facts = [f"seed {record.seed}", f"intervals at {record.level:.4g}", f"{threads} thread{'s' * (threads != 1)}"]
    facts += [f"weights sha256 {(model['weights_sha256'] or 'none')[:12]}", model["dtype"], model["device"]] if model else []
    console.print("    " + " · ".join([*facts, f"{record.facts['seconds']} s"]), style="dim")


def show_checked(console: Console, checked: Sequence[Checked], seed: int, level: float) -> None:
    for c in checked:
        on = f" on {c.model}" if c.model else ""
        console.print(f"{c.verdict:<18}", style=COLOURS[c.verdict], end="")
        console.print(f"{c.claim.sentence}{on}")
        console.print(f"{'':<18}{c.said}", style="dim")
        console.print(f"{'':<18}{number(c.found) if c.found and c.found.value is not None else c.why}", style="dim")
        if c.verdict == "fails":
            console.print(f"{'':<18}expected because {c.claim.reason}; it fails if {c.claim.fails_if}")
    counts = Counter[str](c.verdict for c in checked)
    said = ", ".join(f"{counts[verdict]} {verdict}" for verdict in COLOURS if counts[verdict])
    console.print(f"{len(checked)} claims: {said}. Seed {seed}, intervals at {level:.6g}.")
