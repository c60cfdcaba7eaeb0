"""A file that is not what it should be: one way to say so, for all formats. No torch."""

from pathlib import Path

from cutaway.errors import WeightsError


def corrupt(path: Path, reason: str, kind: str = "safetensors") -> WeightsError:
    """The file is damaged or of another kind, and why."""
    return WeightsError(f"{path}: {reason}", expected=f"a whole {kind} file", then="download or save it again")
