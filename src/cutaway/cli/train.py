"""`cutaway train`: make a nano model again, from nothing."""

from pathlib import Path
from typing import Annotated

import typer

from cutaway.cli import output


def command(
    name: Annotated[str, typer.Argument(help="nano-gpt1, nano-gpt2 or nano-roberta; or lstm, the baseline that is only scored.")],
    out: Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Where to; default: a folder of that name here.")] = None,
    steps: Annotated[int | None, typer.Option("--steps", min=1, help="Fewer than the recipe's, for a trial.")] = None,
) -> None:
    """Train one of the nano models from nothing, or go on where the folder left off.

    \b
    Example: cutaway train nano-gpt2 --out "my models/nano-gpt2"
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from cutaway.registry import no_such
    from cutaway.train.loop import Step
    from cutaway.train.nano import RECIPES, retrain

    if name not in RECIPES:
        raise no_such("recipe", name, list(RECIPES))
    folder = out or Path(name)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), disable=output.quiet) as progress:
        bar = progress.add_task(name, total=steps or RECIPES[name].schedule.steps)

        def on_step(step: Step) -> None:
            progress.update(bar, completed=step.number, description=f"{name}: {step.loss:.3f} nats, {step.tokens:,} tokens")

        retrain(name, folder, on_step, steps=steps)
    print(folder)
