"""A number that names exact weights: the sha256 of the files that hold them.

Hashes files as they are; two files with equal tensors and different headers have different hashes. A file is hashed once:
its hash is kept by its place, size and time of change.
"""

import hashlib
import time
from collections.abc import Sequence
from pathlib import Path

from cutaway.errors import WeightsError
from cutaway.weights.remember import recall, remember

TABLE = "hashes.json"  # {place: [[size, mtime_ns], sha256]}
SETTLED = 2_000_000_000  # ns: the coarsest clock of a file system (FAT); a younger file could change again and not show it


def weights_sha256(paths: Sequence[Path]) -> str:
    """One file: its sha256. Several: that of the sorted lines `<sha256>  <name>`.

    A shell agrees: `sha256sum *.safetensors | LC_ALL=C sort | sha256sum`. Raises WeightsError for a file that cannot be read.
    """
    sums = [(sha256(path), path.name) for path in paths]
    if len(sums) == 1:
        return sums[0][0]
    lines = sorted(f"{digest}  {name}\n" for digest, name in sums)
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def sha256(path: Path) -> str:
    """Of a file's bytes, in hex. Raises WeightsError if it cannot be read."""
    try:
        place, before = str(path.resolve()), _state(path)
        if (kept := recall(TABLE).get(place)) and _is_entry(kept) and kept[0] == before:
            return str(kept[1])
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if time.time_ns() - before[1] > SETTLED:
            still = {other: entry for other, entry in recall(TABLE).items() if Path(other).exists()}
            remember(TABLE, still | {place: [before, digest]})
    except OSError as error:
        raise WeightsError(f"{path} cannot be read: {error.strerror}", then="load the model again") from error
    return digest


def _state(path: Path) -> list[int]:
    stat = path.stat()
    return [stat.st_size, stat.st_mtime_ns]


def _is_entry(kept: object) -> bool:
    return isinstance(kept, list) and len(kept) == 2 and isinstance(kept[1], str) and len(kept[1]) == 64
