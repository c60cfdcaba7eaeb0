"""`cutaway lab`: the experiments, run into records."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cutaway.cli import options, output
from cutaway.cli.progress import experiments as bars
from cutaway.errors import LabError

if TYPE_CHECKING:
    from cutaway.lab.experiment import Progress
    from cutaway.lab.ledger import Ledger
    from cutaway.lab.record import Record
    from cutaway.lab.runner import Task

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="The lab: experiments, their records and their claims.")

Names = Annotated[list[str] | None, typer.Argument(metavar="NAME…", show_default=False, help="Experiments; ./mine.py runs your own file.")]
Models = Annotated[list[str] | None, typer.Option("--model", metavar="NAME", help="Again for several; default: all shipped that fit.")]
LedgerFile = Annotated[Path | None, typer.Option("--ledger", metavar="FILE", help="The file of records; or CUTAWAY_LEDGER.")]
Data = Annotated[Path | None, typer.Option("--data", metavar="DIR", help="The folder of data sets; or CUTAWAY_DATA.")]


@app.command("list")
def show_list(json: options.Json = False, out: options.Out = None) -> None:
    """The experiments that have a name here.

    \b
    Example: cutaway lab list
    """
    from cutaway.lab.find import experiments

    rows: list[dict[str, Any]] = [
        {
            "name": e.name,
            "chapter": e.chapter,
            "needs": "no model" if e.needs is None else str(e.needs),
            "trains": e.trains,
            "claims": [str(claim) for claim in e.claims],
            "parameters": {name: p.default for name, p in e.parameters.items()},
            "question": e.question,
        }
        for e in experiments().values()
    ]
    if json or out:
        return output.as_json({"experiments": rows}, out)
    console = output.console()
    for row in rows:
        console.print(f"{row['name']}   chapter {row['chapter']} · {row['needs']} · {len(row['claims'])} claims", style="bold")
        console.print(f"    {row['question']}")
    return None


@app.command("run")
def run(
    names: Names = None,
    models: Models = None,
    every: Annotated[bool, typer.Option("--all", help="All experiments that fit this machine.")] = False,
    seed: Annotated[int, typer.Option("--seed", help="Of everything random.")] = 1,
    settings: Annotated[list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A parameter; again for several.")] = None,
    engine: Annotated[str, typer.Option("--engine", help="sequential or ray.")] = "sequential",
    address: Annotated[str | None, typer.Option("--address", help="Of a Ray cluster; default: one on this machine.")] = None,
    data: Data = None,
    dtype: options.Dtype = None,
    device: options.Device = "cpu",
    offline: options.Offline = False,
    ledger: LedgerFile = None,
    json: options.Json = False,
    out: options.Out = None,
) -> None:
    """Run experiments, and write a record of each into the ledger. A run that is stopped goes on where it was.

    \b
    Example: cutaway lab run e03_eight_lines --json
             cutaway lab run --all
             cutaway lab run ./mine.py --model ./SmolLM2-135M-Instruct.Q4_1.gguf
    """
    from cutaway.lab import runner
    from cutaway.lab.find import experiments, find
    from cutaway.lab.ledger import Ledger
    from cutaway.lab.parameters import parse

    targets = wanted(names, every)
    parameters = {e.name: parse(e, settings) for name in targets for e in find(name)} if settings else {}
    options_of: dict[str, Any] = {"seed": seed, "data": data, "dtype": dtype, "device": device, "offline": offline}
    with output.busy("reading the models"):
        tasks, skipped = runner.plan(targets or list(experiments()), models or [], every=every, **options_of)
    tasks = [replace(task, parameters=parameters.get(task.experiment, {})) for task in tasks]
    output.note(*(f"{skip.task} is skipped: {skip.why}." for skip in skipped))
    compute(tasks, skipped, engine, address, Ledger(ledger), json, out)


def compute(
    tasks: list["Task"], skipped: list[Any], engine: str, address: str | None, ledger: "Ledger", json: bool, out: Path | None
) -> None:
    """Run the tasks and show their records, even those that the ledger would not take."""
    from cutaway.lab.runner import NotKeptError

    made: list[Record] = []
    try:
        with bars() as progress:
            made.extend(records(engine, tasks, ledger, address, progress))
    except NotKeptError as error:
        present([*made, error.record], skipped, json, out)
        raise
    except KeyboardInterrupt:
        output.note("Stopped; what was finished is kept, and the same command goes on from there.")
        raise
    present(made, skipped, json, out)


def wanted(names: list[str] | None, every: bool) -> list[str]:
    if bool(names) == every:
        given = "Both names and --all were given" if names else "Neither a name nor --all was given"
        raise LabError(given, expected="one of the two", then="cutaway lab list shows the names")
    return names or []


def records(
    engine: str, tasks: list["Task"], ledger: "Ledger", address: str | None, progress: Callable[["Task"], "Progress"]
) -> Iterator["Record"]:
    from cutaway.lab.engine_ray import on_ray
    from cutaway.lab.runner import sequential

    if engine not in ("sequential", "ray"):
        raise LabError(f"There is no engine {engine!r}", expected="sequential or ray")
    return on_ray(tasks, ledger, address) if engine == "ray" else sequential(tasks, ledger, progress)


def present(made: list["Record"], skipped: list[Any], json: bool, out: Path | None) -> None:
    if json or out:
        rest = [{"task": skip.task, "why": skip.why} for skip in skipped]
        return output.as_json({"records": [record.to_dict() for record in made], "skipped": rest}, out)
    from cutaway.cli.lab_view import show_record

    for record in made:
        show_record(output.console(), record)
    return None


@app.command("publish")
def publish(
    to: Annotated[Path, typer.Option("--to", metavar="DIR", help="The folder of published records.")],
    names: Names = None,
    ledger: LedgerFile = None,
) -> None:
    """Write the newest record of each experiment and model as a file; one of changed, uncommitted code is refused.

    \b
    Example: cutaway lab publish --to records
    """
    from cutaway.lab import publish as writing
    from cutaway.lab.ledger import Ledger

    for path in writing.publish(Ledger(ledger), to, names or []):
        output.note(f"Wrote {path}")


@app.command("add")
def add(
    files: Annotated[list[Path], typer.Argument(metavar="FILE…", help="Records from other machines.")], ledger: LedgerFile = None
) -> None:
    """Take records from other machines into the ledger.

    \b
    Example: cutaway lab add theirs/*.json
    """
    from cutaway.lab.ledger import Ledger
    from cutaway.lab.publish import read

    for record in [read(path) for path in files]:  # all are read before the first is kept
        Ledger(ledger).add(record, origin="elsewhere")
