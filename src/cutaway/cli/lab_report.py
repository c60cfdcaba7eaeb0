"""`cutaway lab report` and `cutaway lab figures`: what the records say, as a page, as Markdown, and as the docs' pictures."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cutaway.cli import options, output
from cutaway.cli.lab_parts import LedgerFile, Listed
from cutaway.errors import LabError
from cutaway.registry import no_such

if TYPE_CHECKING:
    from cutaway.lab.report import Report


def report(
    names: Listed = None,
    html: Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Write one self-contained page, with charts.")] = None,
    markdown: Annotated[Path | None, typer.Option("--markdown", metavar="FILE", help="Write Markdown, the charts beside it.")] = None,
    source: Annotated[str, typer.Option("--from", metavar="WHERE", help="records, the published ones, or ledger, yours.")] = "records",
    ledger: LedgerFile = None,
    json: options.Json = False,
    out: options.Out = None,
) -> None:
    """What was measured: each experiment's question, claims with their verdicts, measurements, charts, and what shaped them.

    \b
    Example: cutaway lab report --html report.html
             cutaway lab report e03_trophy --from ledger
    """
    with output.busy("reading the records"):
        found = collected(names or [], source, ledger)
    if html:
        output.write(html, found.page())
    if markdown:
        write_markdown(found, markdown)
    if json or out:
        output.as_json(found.to_dict(), out)
    elif not html and not markdown:
        output.console().print(found.markdown({}), soft_wrap=True, end="")


def collected(names: list[str], source: str, ledger: Path | None) -> "Report":
    from cutaway.lab.ledger import Ledger
    from cutaway.lab.published import records
    from cutaway.lab.report import report as make

    if source not in ("records", "ledger"):
        raise no_such("source of records", source, ["records", "ledger"])
    found = Ledger(ledger).newest() if source == "ledger" else records()
    known = sorted({record.experiment for record in found})
    if missing := [name for name in names if name not in known]:
        then = f"cutaway lab run {missing[0]} makes one"
        raise LabError(f"There is no record of {missing[0]}", expected="one of " + (", ".join(known) or "none yet"), then=then)
    told = "Records that this machine's ledger holds" if source == "ledger" else "Published records"
    return make([record for record in found if not names or record.experiment in names], told)


def write_markdown(found: "Report", path: Path) -> None:
    """The text, and a picture for each chart beside it."""
    links: dict[str, list[str]] = {}
    for section in found.sections:
        for n, (_, picture, _) in enumerate(section.pictures(), start=1):
            file = path.with_name(f"{path.stem}.{section.name}.{n}.svg")
            output.write(file, picture)
            links.setdefault(section.name, []).append(file.name)
    output.write(path, found.markdown(links))


def figures(
    to: Annotated[Path, typer.Option("--to", metavar="DIR", help="A folder with one page an experiment, <name>.md.")],
    check: Annotated[bool, typer.Option("--check", help="Write nothing; fail if a picture is not what the records say.")] = False,
) -> None:
    """Draw the charts of the published records beside the pages of their experiments.

    \b
    Example: cutaway lab figures --to docs/experiments
    """
    from cutaway.lab import document

    if not to.is_dir():
        raise LabError(f"There is no folder {to}", expected="a folder with one page an experiment")
    if not check:
        output.note(*(f"Wrote {path}" for path in document.draw(to)))
    elif wrong := document.stale(to):
        raise LabError(f"{', '.join(wrong)} in {to} is not what the published records say", then=f"cutaway lab figures --to {to}")
