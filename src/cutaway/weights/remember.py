"""Small tables that outlive a run, as JSON in the user's cache folder: what was fetched and verified, and what files hash to.

Losing one costs time and nothing else: a table that is corrupt is empty, and one that cannot be written is not. Of two
processes that write at once the last wins, and neither leaves half a file.
"""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from cutaway.writing import write_text


def cache_folder() -> Path:
    """Where the tables lie: CUTAWAY_CACHE in the environment, else the place that the system gives to caches."""
    if given := os.environ.get("CUTAWAY_CACHE"):
        return Path(given).expanduser()
    from platformdirs import user_cache_path

    return user_cache_path("cutaway", appauthor=False)


def recall(name: str) -> dict[str, Any]:
    """A table, {} if there is none that can be read."""
    try:
        table = json.loads((cache_folder() / name).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return table if isinstance(table, dict) else {}


def remember(name: str, table: Mapping[str, Any]) -> None:
    path = cache_folder() / name
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, json.dumps(table, indent=1, sort_keys=True) + "\n")
