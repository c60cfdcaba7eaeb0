"""`cutaway lab`: the experiments, run into records; the records, published and reported."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cutaway.cli import lab_report, options, output
from cutaway.cli import verify as verifying
from cutaway.cli.lab_parts import Data, LedgerFile, Listed, Models, Names, say, told
from cutaway.errors import CutawayError, LabError

if TYPE_CHECKING:
    from cutaway.lab.ledger import Keeper
    from cutaway.lab.plan import Skipped, Task
    from cutaway.lab.record import Record

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="The lab: experiments, their records and their claims.")
app.command("report")(lab_report.report)
app.command("figures")(lab_report.figures)
verify = verifying.command


@app.command("list")
def show_list(json: options.Json = False, out: options.Out = None) -> None:
    """The experiments that have a name here.

    \b
    Example: cutaway lab list
    """
    with output.busy("reading the experiments"):
        from cutaway.lab.find import experiments
        from cutaway.lab.published import records

        rows: list[dict[str, Any]] = [
            {
                "name": e.name,
                "chapter": e.chapter,
                "version": e.version,
                "needs": "no model" if e.needs is None else str(e.needs),
                "trains": e.trains,
                "data": list(e.data),
                "claims": [str(claim) for claim in e.claims],
                "parameters": {name: p.default for name, p in e.parameters.items()},
                "published": [record.model_name for record in records(e.name)],
                "question": e.question,
            }
            for e in experiments().values()
        ]
    if json or out:
        return output.as_json({"experiments": rows}, out)
    from cutaway.cli.lab_view import show_experiments

    return show_experiments(output.console(), rows)


@app.command("run")
def run(
    names: Names = None,
    models: Models = None,
    every: Annotated[bool, typer.Option("--all", help="All experiments that fit this machine; those that train only by name.")] = False,
    seeds: Annotated[list[int] | None, typer.Option("--seed", help="Of everything random; again for several. [default: 1]")] = None,
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
             cutaway lab run ./mine.py --model ./SmolLM2-135M-Instruct.Q4_1.gguf --set twins=100
    """
    from cutaway.lab.ledger import Keeper, Ledger

    if engine not in ("sequential", "ray"):
        raise LabError(f"There is no engine {engine!r}", expected="sequential or ray")
    options_of: dict[str, Any] = {"seeds": seeds or [1], "data": data, "dtype": dtype, "device": device, "offline": offline}
    with output.busy("looking at the models"):
        tasks, skipped = planned(names or [], models or [], every, settings or [], options_of)
    output.note(*map(say, skipped))
    keeper = Keeper(Ledger(ledger))
    if keeper.error:
        output.note(f"{keeper.error} What is measured now is shown, and kept nowhere.")
    compute(tasks, skipped, engine, address, keeper, json, out)


def planned(
    names: list[str], models: list[str], every: bool, settings: list[str], options_of: dict[str, Any]
) -> tuple[list["Task"], list["Skipped"]]:
    from cutaway.lab.find import experiments, find
    from cutaway.lab.parameters import parse
    from cutaway.lab.plan import plan

    if bool(names) == every:
        given = "Both names and --all were given" if names else "Neither a name nor --all was given"
        raise LabError(given, expected="one of the two", then="cutaway lab list shows the names")
    targets = names or list(experiments())
    parameters = {e.name: parse(e, settings) for name in targets for e in find(name)} if settings else {}
    tasks, skipped = plan(targets, models, skip_misfits=every, skip_training=every, **options_of)
    return [replace(task, parameters=parameters.get(task.experiment, {})) for task in tasks], skipped


def compute(
    tasks: list["Task"], skipped: list["Skipped"], engine: str, address: str | None, keeper: "Keeper", json: bool, out: Path | None
) -> None:
    """Run the tasks and show their records: those before a failure too, and those that the ledger would not take."""
    from cutaway.lab.engine_ray import on_ray
    from cutaway.lab.plan import Skipped
    from cutaway.lab.runner import sequential

    made: list[Record] = []
    failure: CutawayError | None = None
    try:
        with told(len(tasks)) as progress:
            found = on_ray(tasks, keeper, progress, address) if engine == "ray" else sequential(tasks, keeper, progress)
            for one in found:
                if isinstance(one, Skipped):
                    output.note(say(one))
                    skipped = [*skipped, one]
                else:
                    made.append(one)
    except CutawayError as error:
        failure = error
    except KeyboardInterrupt:
        kept = "nothing is kept" if keeper.error else "what was finished is kept, and the same command goes on where it stopped"
        raise KeyboardInterrupt(f"stopped; {kept}") from None
    present(made, skipped, keeper.error is None, json, out)
    if failure or keeper.error:
        raise failure or keeper.error or AssertionError


def present(made: list["Record"], skipped: list["Skipped"], kept: bool, json: bool, out: Path | None) -> None:
    if json or out:
        rest = [{"task": skip.task, "why": skip.why} for skip in skipped]
        return output.as_json({"records": [record.to_dict() for record in made], "skipped": rest}, out)
    from cutaway.cli.lab_view import show_record

    console = output.console()
    for record in made:
        show_record(console, record)
    left = f", {len(skipped)} skipped" if skipped else ""
    console.print(f"{len(made)} record{'s' * (len(made) != 1)} {'made' if kept else 'measured, and not all kept'}{left}.")
    return None


@app.command("publish")
def publish(
    to: Annotated[Path, typer.Option("--to", metavar="DIR", help="The folder of published records.")],
    names: Listed = None,
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
    """Take records from other machines into the ledger; they stay marked as such.

    \b
    Example: cutaway lab add theirs/*.json
    """
    from cutaway.lab.ledger import Ledger
    from cutaway.lab.publish import read

    for record in [read(path) for path in files]:  # all are read before the first is kept
        Ledger(ledger).add(record, origin="elsewhere")
        output.note(f"Added {record.experiment} on {record.model_name}")
