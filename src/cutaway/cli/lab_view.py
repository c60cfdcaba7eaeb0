"""Experiments, records and verdicts on a terminal, at most 100 columns wide."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.padding import Padding

if TYPE_CHECKING:
    from cutaway.lab.record import Record
    from cutaway.lab.verify import Checked, Verification

COLOURS = {"holds": "green", "fails": "bold red", "undecided": "yellow", "not measured here": "dim"}
MOST_ROWS = 40
INDENT = 4


def show_experiments(console: Console, rows: Sequence[Mapping[str, Any]]) -> None:
    for row in rows:
        claims = len(row["claims"])
        said = [f"chapter {row['chapter']}", f"needs {row['needs']}", f"{claims} claim{'s' * (claims != 1)}"]
        said += ["trains models"] if row["trains"] else []
        published = ", ".join(row["published"])
        console.print(row["name"], style="bold", end="   ")
        console.print(" · ".join(said), style="dim")
        indented(console, row["question"])
        indented(console, f"published on {published}" if published else f"not published yet; cutaway lab run {row['name']}", style="dim")
    console.print("A model that is not shipped is given to --model as its folder or file.", style="dim")


def indented(console: Console, text: str, style: str = "") -> None:
    from rich.text import Text

    console.print(Padding(Text(text, style=style), (0, 0, 0, INDENT), expand=False))


def show_record(console: Console, record: "Record") -> None:
    console.print(f"{record.experiment}   {named(record.model)}", style="bold")
    for m in record.measurements[:MOST_ROWS]:
        indented(console, f"{m.key}: {m}")
    if len(record.measurements) > MOST_ROWS:
        indented(console, f"and {len(record.measurements) - MOST_ROWS} more; --json has all")
    shaped = [f"seed {record.seed}", f"intervals at {record.level:.4g}", f"{record.facts['seconds']} s"]
    indented(console, " · ".join([*facts(record.model, record.facts["threads"]), *shaped]), style="dim")


def named(model: Mapping[str, Any] | None) -> str:
    if model is None:
        return "no model"
    return f"{model['model']} (nano: a small model of this project)" if model["nano"] else str(model["model"])


def facts(model: Mapping[str, Any] | None, threads: int) -> list[str]:
    """What shaped the numbers."""
    said = [f"weights sha256 {(model['weights_sha256'] or 'none')[:12]}", model["dtype"], model["device"]] if model else []
    kernel = [f"attention: {model['kernel']}"] if model and "kernel" in model else []
    return [*said, f"{threads} thread{'s' * (threads != 1)}", *kernel]


def show_verification(console: Console, result: "Verification") -> None:
    for c in result.claims:
        show_checked(console, c)
    for one in result.facts:
        console.print(" · ".join([named(one), *facts(one, one["threads"])]), style="dim")
    console.print(f"{result.summary}. Seed {result.seed}; each statistic at a confidence of {result.level:.6g}.")


def show_checked(console: Console, c: "Checked") -> None:
    on = f" ({c.model})" if c.model else ""
    console.print(c.verdict, style=COLOURS[c.verdict])
    indented(console, f"{c.claim.sentence}{on}")
    indented(console, c.said, style="dim")
    indented(console, c.measured, style="dim")
    if c.verdict == "fails":
        indented(console, f"Reason: {c.claim.reason}. It fails if {c.claim.fails_if}.")
