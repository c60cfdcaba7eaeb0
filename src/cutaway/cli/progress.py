"""Bars on standard error, on a terminal only: for each file that comes from the network, and for long work that counts its parts."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from cutaway.cli import output

if TYPE_CHECKING:
    from cutaway.model import Model
    from cutaway.progress import Progress as Counted
    from cutaway.weights.hub.arrival import Progress


def load(name: str, **options: Any) -> "Model":
    """`cutaway.load`, with something to look at while it lasts."""
    with output.busy(f"opening {name}") as hush, downloads(hush) as tell:
        import cutaway

        return cutaway.load(name, progress=tell, **options)


@contextmanager
def downloads(first: Callable[[], None] = lambda: None) -> "Iterator[Progress | None]":
    """What to give as `progress` to whatever may fetch; None under --quiet, and where standard error is no terminal.

    Nothing appears until the first byte is told; `first` is called then.
    """
    if output.quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TaskID, TextColumn, TimeRemainingColumn, TransferSpeedColumn
    from rich.progress import Progress as Bars

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    bars = Bars(*columns, console=Console(stderr=True), redirect_stdout=False)
    tasks: dict[str, TaskID] = {}

    def tell(name: str, here: int, size: int | None) -> None:
        if not tasks:
            first()
            bars.start()
        if name not in tasks:
            tasks[name] = bars.add_task(name, total=size)
        bars.update(tasks[name], completed=here, total=size)

    try:
        yield tell
    finally:
        bars.stop()


@contextmanager
def counted(doing: str = "starting") -> "Iterator[Counted]":
    """What to give as `progress` to work that counts; each thing done is timed for itself, and what has no number yet just moves."""
    if output.quiet or not sys.stderr.isatty():
        yield lambda what, done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Bars(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False) as bars:
        bar = bars.add_task(doing, total=None)

        def tell(what: str, done: int, total: int) -> None:
            if bars.tasks[0].description != what:
                bars.reset(bar, total=total or None, description=what)
            bars.update(bar, completed=done, total=total or None)

        yield tell
