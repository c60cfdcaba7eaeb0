"""A number that names exact weights: the sha256 of the files that hold them.

Hashes files as they are; two files with equal tensors and different headers have different hashes.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path


def weights_sha256(paths: Sequence[Path]) -> str:
    """One file: its sha256. Several: that of the sorted lines `<sha256>  <name>`.

    A shell agrees: `sha256sum *.safetensors | LC_ALL=C sort | sha256sum`.
    """
    sums = [(_sha256(path), path.name) for path in paths]
    if len(sums) == 1:
        return sums[0][0]
    lines = sorted(f"{digest}  {name}\n" for digest, name in sums)
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
