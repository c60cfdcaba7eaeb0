"""Watches one download from outside: how far it is, whether it still lives, and when to give it up.

The Hub's client downloads, resumes and retries. What it lacks is an end: it obeys a server that says "wait an hour", and
takes what a server sends for ever. So it works in a thread, and this one waits beside it.
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
Progress = Callable[[str, int, int | None], None]  # the file, how many of its bytes are here, of how many

PATIENCE = 60.0  # seconds without a byte
LOOK = 0.2  # seconds between two looks
REPEATS = 3  # a file may be sent so often, in parts or anew


class Impatience(Exception):  # noqa: N818
    """Why a download was given up: a clause about the source."""


class Arrival:
    """The bytes of one file as they come."""

    def __init__(self, name: str, size: int | None, progress: Progress | None) -> None:
        self.name, self.size, self.progress = name, size, progress
        self.here = 0
        self.received = 0  # also what was thrown away and sent anew
        self.signs = 0  # of life, beside the file's own bytes
        self.stopped = False

    def add(self, count: int) -> None:
        """Called by the client, in its thread; what is raised here ends its work."""
        self.here += count
        self.received += max(count, 0)
        if self.stopped:
            raise Impatience("was not waited for")
        if self.size is not None and self.here > self.size:
            raise Impatience(f"sent more than the {self.size:,} bytes that {self.name} has")
        if self.size is not None and self.received > REPEATS * self.size:
            raise Impatience(f"sent {self.name} {REPEATS} times over, and never whole")
        if self.progress:
            self.progress(self.name, self.here, self.size)

    def bar(self) -> type[Any]:
        """In the client's terms: a class of progress bar, which shows nothing itself."""
        from huggingface_hub.utils.tqdm import tqdm

        arrival = self

        class Bar(tqdm):
            def __init__(self, *args: Any, **options: Any) -> None:
                super().__init__(*args, **{**options, "disable": True})  # type: ignore[no-untyped-call]
                arrival.here = int(options.get("initial") or 0)

            def update(self, n: float | None = 1) -> None:
                arrival.add(int(n or 0))

            def update_transfer(self, n: float) -> None:  # bytes on the line, which may be packed otherwise than the file
                arrival.signs += 1

            def set_transfer_postfix_str(self, *args: Any, **options: Any) -> None: ...

        return Bar


def patiently(work: Callable[[], T], arrival: Arrival, partial: Path) -> T:
    """What `work` returns or raises. Raises Impatience when for long not a byte came.

    partial: the folder of half-written files: another process may be fetching the same one, and then this one waits for it.
    """
    from huggingface_hub import constants

    patience = max(PATIENCE, 2 * constants.HF_HUB_DOWNLOAD_TIMEOUT)
    future: Future[T] = Future()
    thread = threading.Thread(target=_run, args=(work, future), name="cutaway-fetch", daemon=True)
    thread.start()
    last, since = _signs(arrival, partial), time.monotonic()
    try:
        while not wait([future], LOOK).done:
            if (signs := _signs(arrival, partial)) != last:
                last, since = signs, time.monotonic()
            if time.monotonic() - since > patience:
                raise Impatience(f"sent nothing of {arrival.name} for {patience:.0f} seconds")
        return future.result()
    finally:
        arrival.stopped = True
        thread.join(LOOK)  # so that it can clear away what it has half written


def _run(work: Callable[[], T], future: "Future[T]") -> None:
    try:
        future.set_result(work())
    except BaseException as error:
        future.set_exception(error)


def _signs(arrival: Arrival, partial: Path) -> tuple[Any, ...]:
    sizes = []
    for path in partial.glob("*.incomplete"):
        try:
            sizes.append((path.name, path.stat().st_size))
        except OSError:  # it was renamed meanwhile: whole
            continue
    return arrival.received, arrival.signs, sorted(sizes)
