"""`cutaway verify`: the claims of the experiments, tested again."""

import secrets
from typing import Annotated, Any

import typer

from cutaway.cli import options, output
from cutaway.cli.lab import Data, Models, Names
from cutaway.cli.progress import experiments as bars


def command(
    names: Names = None,
    models: Models = None,
    full: Annotated[bool, typer.Option("--full", help="Also train what experiments train, if it was not.")] = False,
    seed: Annotated[int | None, typer.Option("--seed", help="Repeat a run; default: a fresh one, which is printed.")] = None,
    data: Data = None,
    dtype: options.Dtype = None,
    device: options.Device = "cpu",
    offline: options.Offline = False,
    json: options.Json = False,
    out: options.Out = None,
) -> None:
    """Test the claims again, with a fresh seed: which hold, which fail, which were not measured here. Exits with 1 if one fails.

    \b
    Example: cutaway verify
             cutaway verify e03_eight_lines --seed 7 --json
    """
    from cutaway.lab import runner
    from cutaway.lab.find import experiments
    from cutaway.lab.verify import level_for
    from cutaway.lab.verify import verify as check

    fresh = secrets.randbelow(2**31) if seed is None else seed
    options_of: dict[str, Any] = {"seed": fresh, "data": data, "dtype": dtype, "device": device, "offline": offline}
    with output.busy("reading the models"):
        tasks, _ = runner.plan(names or list(experiments()), models or [], may_train=full, **options_of)
    output.note(f"Seed {fresh}.")
    with bars() as progress:
        checked = list(check(tasks, progress))
    if json or out:
        output.as_json({"seed": fresh, "level": level_for(tasks), "claims": [c.to_dict() for c in checked]}, out)
    else:
        from cutaway.cli.lab_view import show_checked

        show_checked(output.console(), checked, fresh, level_for(tasks))
    if any(c.verdict == "fails" for c in checked):
        raise typer.Exit(1)
