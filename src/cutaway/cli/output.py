"""Where things are printed: data to standard output, all else to standard error. A console that lacks a sign gets another."""

import codecs
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cutaway.writing import unwritable, write_text

if TYPE_CHECKING:
    from rich.console import Console

quiet = False  # set once, by --quiet

WIDTH = 100
ESCAPED = "cutaway"  # our way to treat what a console's encoding lacks
PLAIN = str.maketrans("␣⏎⇥█▀▄▓▒░·−–×→…’“”�", "_|>####*+---x>~'\"\"?")


def escape(error: UnicodeError) -> tuple[str, int]:
    """A plainer sign where there is one, else its number."""
    assert isinstance(error, UnicodeEncodeError)
    lacking = error.object[error.start : error.end].translate(PLAIN)
    return lacking.encode("ascii", "backslashreplace").decode(), error.end


codecs.register_error(ESCAPED, escape)


def console() -> "Console":
    """Standard output, at most 100 columns wide; colours on a terminal only."""
    from rich.console import Console

    found = Console(highlight=False, markup=False, emoji=False)
    found.width = min(found.width, WIDTH) if found.is_terminal else WIDTH
    return found


def as_json(result: Mapping[str, Any], out: Path | None = None) -> None:
    """The result, to standard output or a file. NaN is refused: it is no JSON."""
    text = json.dumps(result, ensure_ascii=False, indent=2, allow_nan=False) + "\n"
    if out:
        write(out, text)
    elif (sys.stdout.encoding or "").lower().replace("-", "").startswith("utf"):
        sys.stdout.write(text)
    else:  # \\u escapes, which every JSON reader undoes
        sys.stdout.write(json.dumps(result, indent=2, allow_nan=False) + "\n")


def write(path: Path, text: str) -> None:
    try:
        write_text(path, text)
    except (OSError, ValueError) as error:
        raise unwritable(path, error) from None
    note(f"Wrote {path}")


def page(path: Path, body: str, title: str) -> None:
    """A result's HTML as a page that stands alone."""
    from cutaway.render import render

    write(path, render("page.html", body=body, title=title))


def note(*lines: str) -> None:
    """Something worth knowing, on standard error."""
    if not quiet:
        for line in lines:
            print(f"Note: {line}", file=sys.stderr)


def error(message: str) -> None:
    print(f"Error: {message}", file=sys.stderr)


@contextmanager
def busy(doing: str) -> Iterator[Callable[[], None]]:
    """Says what takes its time, on standard error, while it lasts or until what it yields is called; on a terminal only."""
    if quiet or not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.console import Console

    with Console(stderr=True).status(doing) as status:
        yield status.stop
