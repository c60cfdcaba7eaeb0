"""A file from the Hub is what it should be, or it goes: checked against the pin, else against what the Hub declares, and recorded.

    pin         a sha256 in this project's own tables                      the strongest: it does not come with the file
    sha256      declared for large files                                   as good as the Hub's word
    blob id     git's hash, which is SHA-1, declared for small files       the same, weaker

Uses no network.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cutaway.errors import ModelError
from cutaway.weights.hash import sha256
from cutaway.weights.hub.wanted import tensor_files
from cutaway.weights.remember import recall, remember


@dataclass(frozen=True)
class Declared:
    """What the Hub says of a file; None where it says nothing."""

    size: int | None = None
    sha256: str | None = None
    blob_id: str | None = None


def verify(path: Path, declared: Declared, source: str, pin: str | None = None) -> dict[str, Any]:
    """What is to be recorded of a file that has been fetched.

    Raises ModelError for one that is not what was declared or pinned, after taking it out of the cache: the next run
    fetches it anew, and nothing opens it until then.
    """
    size = path.stat().st_size
    if declared.size is not None and size != declared.size:
        raise _discard(path, source, f"{declared.size} bytes", f"{size} bytes")
    found, expected = sha256(path), pin or declared.sha256
    if expected and found != expected:
        raise _discard(path, source, f"sha256 {expected}, as {'pinned' if pin else 'the Hub declares'}", f"sha256 {found}")
    if not expected and declared.blob_id and (blob := _blob_id(path)) != declared.blob_id:
        raise _discard(path, source, f"git's blob {declared.blob_id}, as the Hub declares", f"blob {blob} (sha256 {found})")
    by = "pin" if pin else "sha256" if expected else "blob id" if declared.blob_id else None
    when = datetime.now(UTC).isoformat(timespec="seconds") if by else None
    return {"size": size, "sha256": found, "declared": declared.sha256, "verified": when, "by": by, "source": source}


def check_pins(folder: Path, names: tuple[str, ...], pins: Mapping[str, str]) -> None:
    """Files that lie in the cache already, whoever put them there, against their pins. Raises ModelError and removes nothing."""
    refuse_unpinned(names, pins, str(folder))
    for name in pins.keys() & {*names}:
        if (found := sha256(folder / name)) != pins[name]:
            raise ModelError(
                f"{folder / name} has the sha256 {found}",
                expected=f"{pins[name]}, as pinned",
                then="take the model out of the cache (cutaway models --remove), and it is fetched anew",
            )


def refuse_unpinned(names: tuple[str, ...], pins: Mapping[str, str], source: str) -> None:
    """Where a model is pinned by hash, weights that no pin covers are not its weights."""
    if pins and (loose := [name for name in tensor_files(names) if name not in pins]):
        raise ModelError(f"{source} has the weights {', '.join(loose)}, for which there is no pin", expected=", ".join(sorted(pins)))


def record(repo_id: str, commit: str, entries: Mapping[str, Mapping[str, Any]]) -> None:
    """Add what was verified to the model's table: {commit: {file: {size, sha256, declared, verified, by, source}}}."""
    table = recall(_table(repo_id))
    before = table.get(commit)
    remember(_table(repo_id), table | {commit: (before if isinstance(before, dict) else {}) | dict(entries)})


def recorded(repo_id: str, commit: str) -> dict[str, dict[str, Any]]:
    """What is recorded of a commit's files, by name; {} if nothing is."""
    return _commits(repo_id).get(commit, {})


def last_recorded(repo_id: str) -> dict[str, dict[str, Any]]:
    """What is recorded of the commit that was verified last; {} if none was."""
    return max(_commits(repo_id).values(), key=lambda files: max(str(entry["verified"]) for entry in files.values()), default={})


def _commits(repo_id: str) -> dict[str, dict[str, dict[str, Any]]]:
    return {commit: files for commit, files in recall(_table(repo_id)).items() if _is_record(files)}


def _is_record(files: object) -> bool:
    entries = list(files.values()) if isinstance(files, dict) else []
    return bool(entries) and all(isinstance(entry, dict) and type(entry.get("size")) is int and "verified" in entry for entry in entries)


def _table(repo_id: str) -> str:
    return f"fetched/{repo_id.replace('/', '--')}.json"


def _discard(path: Path, source: str, expected: str, found: str) -> ModelError:
    for one in {path.resolve(), path}:  # the blob, and the link to it
        one.unlink(missing_ok=True)
    return ModelError(
        f"{path.name} is not what it should be: it came from {source} with {found}, and was taken out of the cache",
        expected=expected,
        then="run it again; if that does not help, the source is not to be trusted",
    )


def _blob_id(path: Path) -> str:
    """Git's name for a file's content: the SHA-1 of its kind, its size and its bytes."""
    content = path.read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
