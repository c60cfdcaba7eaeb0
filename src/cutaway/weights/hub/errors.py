"""What went wrong between here and the Hub, in one sentence: the client has had three transports, each with errors of its own.

Knows the errors by status, number and name, so that no transport needs to be imported.
"""

import errno
from collections.abc import Iterator
from pathlib import Path

from cutaway.errors import ModelError

AGAIN = "run it again later"
ONCE = "run it once where the network is there, or give a folder that holds these files"


def unavailable(repo_id: str, cache: Path, why: str, *, files: str, revision: str, then: str = ONCE) -> ModelError:
    """The one message: what is not here, why, what was sought and where, and what to do."""
    return ModelError(
        f"{repo_id} is not in the Hugging Face cache ({cache}), and {why}",
        expected=f"{files} from {endpoint()}/{repo_id} at revision {revision}",
        then=then,
    )


def endpoint() -> str:
    """The Hub, or the mirror that stands for it."""
    from huggingface_hub import constants

    return str(constants.ENDPOINT)


def host() -> str:
    """The Hub by name; a mirror by name and as one."""
    place = endpoint()
    return "the Hub" if place == "https://huggingface.co" else f"the mirror {place} (HF_ENDPOINT)"


def explain(error: BaseException, repo_id: str) -> tuple[str, str]:
    """Why, and what to do next."""
    chain = list(_chain(error))
    status = next((code for one in chain if (code := _status(one))), 0)
    for kinds, why, then in _by_kind(repo_id):
        if any(type(one).__name__ in kinds for one in chain):
            return why, then
    if status:
        return _by_status(status)
    for one in chain:
        if isinstance(one, OSError) and (said := _by_number(one)):
            return said
    names = " ".join(type(one).__name__ for one in chain)
    for part, why in _BY_NAME.items():
        if part in names:
            return f"{host()} {why}", AGAIN
    text = str(error).strip().partition("\n")[0]
    return f"{host()} could not be used ({type(error).__name__}{text and ': '}{text})", ONCE


# Parts of the names of transports' errors, in the order in which they tell most.
_BY_NAME = {
    "Timeout": "did not answer in time",
    "Connect": "cannot be reached",
    "Proxy": "cannot be reached",
    "RemoteProtocol": "broke the connection off",
    "ReadError": "broke the connection off",
    "Chunked": "broke the connection off",
    "Redirects": "sends from one address to the next without end",
    "JSON": "answers with something that is no description of a model",
}


def _by_kind(repo_id: str) -> tuple[tuple[tuple[str, ...], str, str], ...]:
    page = f"{endpoint()}/{repo_id}"
    return (
        (("GatedRepoError",), "its owner asks for a log-in first", f"accept its terms at {page}, then log in: hf auth login"),
        (("RepositoryNotFoundError",), f"{host()} has no such model, or hides it", "check the name; for a private model: hf auth login"),
        (("RevisionNotFoundError",), f"{host()} has no such revision of it", f"see which there are: {page}/tree/main"),
        (("DisabledRepoError",), f"{host()} has disabled it", "take another model"),
        (("FileMetadataError",), f"{host()} does not answer as the Hub does", "see that HF_ENDPOINT and the proxy are right"),
        (("RemoteEntryNotFoundError", "EntryNotFoundError"), f"{host()} lists a file that it does not have", AGAIN),
    )


def _by_status(status: int) -> tuple[str, str]:
    if status == 401:
        return f"{host()} does not accept the log-in (HTTP 401)", "log in anew: hf auth login"
    if status == 403:
        return f"{host()} forbids it (HTTP 403)", "log in with an account that may read it: hf auth login"
    if status == 429:
        return f"{host()} asks to wait: too many requests came from here (HTTP 429)", "wait some minutes, or log in: hf auth login"
    if status >= 500:
        return f"{host()} has a fault of its own (HTTP {status})", AGAIN
    return f"{host()} refused (HTTP {status})", AGAIN


def _by_number(error: OSError) -> tuple[str, str] | None:
    where = f" ({error.filename})" if error.filename else ""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "the disk is full", "make room, or set HF_HOME to a folder on another disk"
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"the cache cannot be written{where}", "set HF_HOME to a folder that can be written"
    if "onsistency" in str(error):
        return f"{host()} sent a file that is longer or shorter than it said", AGAIN
    return None


def _status(error: BaseException) -> int:
    code = getattr(getattr(error, "response", None), "status_code", 0)
    return code if isinstance(code, int) and code >= 400 else 0


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error and what it came from, each once."""
    seen: set[int] = set()
    one: BaseException | None = error
    while one is not None and id(one) not in seen:
        seen.add(id(one))
        yield one
        one = one.__cause__ or one.__context__
