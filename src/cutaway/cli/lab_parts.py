"""What `cutaway lab` and `cutaway verify` share: options, the bar for what is running, and how it is said that something was left out."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cutaway.cli.progress import counted

if TYPE_CHECKING:
    from cutaway.lab.plan import Skipped, Task
    from cutaway.progress import Progress

OWN = "Experiments; ./mine.py is a file of your own, and its code is run."

Names = Annotated[list[str] | None, typer.Argument(metavar="NAME…", show_default=False, help=OWN)]
Listed = Annotated[list[str] | None, typer.Argument(metavar="NAME…", show_default=False, help="Experiments; default: all.")]
Models = Annotated[list[str] | None, typer.Option("--model", metavar="NAME", help="Again for several; default: all shipped that fit.")]
LedgerFile = Annotated[Path | None, typer.Option("--ledger", metavar="FILE", help="The file of records; or CUTAWAY_LEDGER.")]
Data = Annotated[Path | None, typer.Option("--data", metavar="DIR", help="The folder of data sets; or CUTAWAY_DATA.")]


def say(skip: "Skipped") -> str:
    why = skip.why if skip.why.endswith(".") else f"{skip.why}."
    return f"{skip.task}: {why}" if why.startswith("not measured") else f"{skip.task} is skipped: {why}"


@contextmanager
def told(count: int) -> Iterator[Callable[["Task"], "Progress"]]:
    """A bar on standard error for what is running, on a terminal only."""
    begun: list[str] = []
    with counted() as tell:

        def of(task: "Task") -> "Progress":
            begun.append(str(task))
            title = f"{len(begun)} of {count}: {task}"
            tell(title, 0, 0)
            return lambda what, done, total: tell(f"{title}: {what}", done, total)

        yield of
