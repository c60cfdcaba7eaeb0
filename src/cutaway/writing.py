"""A file is there whole or not at all: written under another name first, then renamed."""

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cutaway.errors import CutawayError


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """The name to write under; it becomes `path` at the end, and is gone if that fails. A link stays one: what it names is written.

    Raises OSError for what is no plain file (a device, a pipe, a folder): renaming would put a file in its place.
    """
    target = path.resolve() if path.is_symlink() else path
    if target.exists() and not target.is_file():
        raise OSError(errno.EINVAL, "it is a folder" if target.is_dir() else "it is no plain file")
    new = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        yield new
        with new.open("rb+") as file:
            os.fsync(file.fileno())
        new.replace(target)
    finally:
        new.unlink(missing_ok=True)


def unwritable(path: Path, error: Exception) -> CutawayError:
    why = getattr(error, "strerror", None) or error
    return CutawayError(f"{path} cannot be written: {why}", then="name a file in a folder that is there and has room")


def write_text(path: Path, text: str) -> None:
    """UTF-8 with LF line ends; half a surrogate pair becomes a question mark. Raises OSError."""
    with replacing(path) as new:
        new.write_text(text, encoding="utf-8", errors="replace", newline="\n")


def write_bytes(path: Path, data: bytes) -> None:
    """Raises OSError."""
    with replacing(path) as new:
        new.write_bytes(data)
