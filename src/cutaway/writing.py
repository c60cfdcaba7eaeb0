"""A text file is there whole or not at all: written under another name first, then renamed."""

import os
from pathlib import Path


def write_text(path: Path, text: str) -> None:
    """UTF-8 with LF line ends; half a surrogate pair becomes a question mark. Raises OSError."""
    new = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        new.write_text(text, encoding="utf-8", errors="replace", newline="\n")
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)
