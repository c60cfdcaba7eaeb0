"""Names and what they stand for, with a suggestion for a miss."""

import difflib
from collections.abc import Sequence

from cutaway.errors import ModelError


def nearest(name: str, known: Sequence[str]) -> str | None:
    """The known name that is most like `name`, if one is like it at all."""
    near = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.5)
    return near[0] if near else None


def no_such(kind: str, name: str, known: Sequence[str]) -> ModelError:
    """There is no such thing: which is nearest, and which there are."""
    near = nearest(name, known)
    return ModelError(
        f"There is no {kind} {name!r}", expected="one of " + ", ".join(known), then=f"did you mean {near}?" if near else ""
    )
