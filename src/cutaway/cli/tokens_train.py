"""`cutaway tokens --train`: learn a vocabulary from texts, in pure Python, and write it where --model finds it."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, cast

from cutaway.cli import output
from cutaway.cli.reading import decoded, file_bytes
from cutaway.cli.tokens_view import plain_table
from cutaway.errors import CutawayError, TextError
from cutaway.registry import no_such

if TYPE_CHECKING:
    from cutaway.text.learn import Merge
    from cutaway.text.train import Kind

SHOWN = 20


def run(texts: Sequence[str], vocab: int | None, kind: str, out: Path | None, *, force: bool, json: bool, every: bool) -> None:
    """Learn, write, print. Raises CutawayError before any counting for whatever is missing or in the way."""
    from cutaway.text.train import ALPHABETS, learn, write_vocabulary

    if kind not in ALPHABETS:
        raise no_such("kind of vocabulary", kind, list(ALPHABETS))
    if vocab is None:
        raise CutawayError("--train was given without --vocab", expected="--vocab N: how many pieces, control tokens aside")
    if out is None:
        raise CutawayError("--train was given without --out", expected="--out DIR: the folder to write vocab.json and merges.txt to")
    free(out, force)
    before, symbols, after = ALPHABETS[kind]
    merges = watched(learn(read(texts), cast("Kind", kind), vocab), vocab - len(symbols))
    try:
        write_vocabulary(merges, cast("Kind", kind), out)
    except OSError as error:
        raise CutawayError(f"{out} cannot be written to: {error.strerror}", then="name a folder that can be") from None
    if json:
        about = {"kind": kind, "files": list(texts), "folder": str(out), "symbols": len(symbols), "control": [*before, *after]}
        output.as_json(about | {"merges": [{"rank": rank} | asdict(merge) for rank, merge in enumerate(merges)]})
        return
    show(merges, every)
    control = len(before) + len(after)
    screen = output.console()
    total = len(symbols) + len(merges) + control
    named = f"{control} control token{'s' * (control != 1)}"
    screen.print(f"\n{total:,} tokens: {len(symbols)} single symbols, {len(merges):,} merges, {named}", style="bold")
    screen.print(f'{out} is ready: cutaway tokens "some text" --model "{as_model(out)}"', soft_wrap=True)


def read(names: Sequence[str]) -> list[str]:
    if not names:
        raise TextError("--train was given without a text", expected="one or more files to learn from")
    texts = [decoded(file_bytes(Path(name)), name) for name in names]
    for name, text in zip(names, texts, strict=True):
        if not text.strip():
            raise TextError(f"{name} is empty", expected="a text to learn from")
    return texts


def free(folder: Path, force: bool) -> None:
    """Raises CutawayError if a vocabulary, or no folder, is there already."""
    from cutaway.text.tokenizer import PAIRS

    if folder.exists() and not folder.is_dir():
        raise CutawayError(f"{folder} is a file", expected="a folder, or a name for a new one")
    names = [*(name for pair in PAIRS for name in pair), "tokenizer.json", "vocab.txt"]
    if not force and (there := [name for name in names if (folder / name).exists()]):
        raise CutawayError(f"{folder} holds {' and '.join(there)}", expected="a folder without a vocabulary", then="--force writes over it")


def watched(merges: "Iterator[Merge]", wanted: int) -> "list[Merge]":
    """All merges, with a bar on standard error while they are found."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    hidden = output.quiet or not sys.stderr.isatty()
    with Progress(*columns, console=Console(stderr=True), disable=hidden, transient=True) as progress:
        bar = progress.add_task("counting words", total=wanted)
        found: list[Merge] = []
        for merge in merges:
            found.append(merge)
            progress.update(bar, completed=len(found), description="merging")
    return found


def show(merges: "Sequence[Merge]", every: bool) -> None:
    from cutaway.render import visible

    rows = len(merges) if every else SHOWN
    table = plain_table((), ("rank", "count"))
    for name in ("pair", "new piece"):
        table.add_column(name, overflow="fold")
    for rank, merge in enumerate(merges[:rows]):
        table.add_row(f"{rank:,}", f"{merge.count:,}", " + ".join(map(visible, merge.pair)), visible(merge.token))
    screen = output.console()
    screen.print(table)
    if len(merges) > rows:
        screen.print(f"The first {rows} of {len(merges):,} merges; --all prints all, and --json too.", style="dim")


def as_model(folder: Path) -> str:
    """The folder as --model takes it: a path, which a bare name is not."""
    return str(folder) if folder.is_absolute() or len(folder.parts) > 1 else f"./{folder}"
