"""How long work tells how far it is: the library calls, the command line shows."""

from collections.abc import Callable

Progress = Callable[[str, int, int], None]  # what is done, how many, of how many


def silent(what: str, done: int, total: int) -> None:
    """No progress is told."""
