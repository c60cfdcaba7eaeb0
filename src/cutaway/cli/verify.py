"""`cutaway verify`: the claims, tested again."""

import secrets
from typing import Annotated, Any

import typer

from cutaway.cli import options, output
from cutaway.cli.lab_parts import Data, Models, Names, say, told


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
    fresh = secrets.randbelow(2**31) if seed is None else seed
    options_of: dict[str, Any] = {"data": data, "dtype": dtype, "device": device, "offline": offline, "may_train": full}
    with output.busy("looking at the models"):
        from cutaway.lab.find import experiments
        from cutaway.lab.plan import plan
        from cutaway.lab.verify import verify

        tasks, skipped = plan(names or list(experiments()), models or [], seeds=[fresh], skip_misfits=not names, **options_of)
    if models:
        output.note(*map(say, skipped))
    output.note(f"The seed is {fresh}; --seed {fresh} repeats this.")
    with told(len(tasks)) as progress:
        result = verify(tasks, progress)
    if json or out:
        output.as_json(result.to_dict(), out)
    else:
        from cutaway.cli.lab_view import show_verification

        show_verification(output.console(), result)
    if result.failed:
        raise typer.Exit(1)
