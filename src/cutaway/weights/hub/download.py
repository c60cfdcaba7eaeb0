"""A model's files from the Hub into its cache, each verified before the next is asked for.

Transport, resuming, locks and the cache's layout are the Hub client's. Here: which files, whether they fit on the disk,
whether they are the right ones, and one clear message when it fails. Opens none of them.
"""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import signature
from logging import ERROR
from pathlib import Path
from typing import Any

from cutaway.errors import CutawayError, ModelError
from cutaway.weights.hub.arrival import Arrival, Impatience, Progress, patiently
from cutaway.weights.hub.errors import AGAIN, endpoint, explain, host, unavailable
from cutaway.weights.hub.verify import Declared, record, refuse_unpinned, verify
from cutaway.weights.hub.wanted import CONFIG, wanted, weights_in

STEP = 1 << 20  # bytes between two writes: what is lost when the line breaks, and how smooth the progress is
COMMIT = 40  # hex digits
KINDS = "config.json, the tokenizer's files"


@dataclass(frozen=True)
class Order:
    """What is to be fetched."""

    repo_id: str
    revision: str
    cache: Path
    pins: Mapping[str, str]
    tokenizer_only: bool = False

    @property
    def files(self) -> str:
        return KINDS if self.tokenizer_only else f"{KINDS} and model.safetensors or pytorch_model.bin"

    @property
    def folder(self) -> Path:
        """The model's part of the cache, as its documentation describes it."""
        return self.cache / f"models--{self.repo_id.replace('/', '--')}"

    def fails(self, why: str, then: str = AGAIN) -> ModelError:
        return unavailable(self.repo_id, self.cache, why, files=self.files, revision=self.revision, then=then)


@dataclass(frozen=True)
class Listing:
    """What the Hub has of a model: a commit, and what it declares of the files in it."""

    commit: str
    files: Mapping[str, Declared]


def download(order: Order, progress: Progress | None = None) -> Path:
    """The folder with the files. Raises ModelError; what was in the cache before stays."""
    with _client(order):
        listing = _listing(order)
        names = _choose(order, listing)
        _check_space(order, [listing.files[name] for name in names if not _cached(order, listing.commit, name)])
        for name in names:
            _fetch(order, listing, name, progress)
        return _point(order, listing.commit)


def _listing(order: Order) -> Listing:
    from huggingface_hub import HfApi, constants

    def work() -> Any:
        api, timeout = HfApi(endpoint=endpoint()), constants.HF_HUB_ETAG_TIMEOUT
        return api.model_info(order.repo_id, revision=order.revision, files_metadata=True, timeout=timeout)

    info = patiently(work, Arrival("its list of files", None, None), order.folder / "blobs")
    if not isinstance(info.sha, str) or len(info.sha) != COMMIT:
        raise order.fails(f"{host()} does not say which commit {order.revision} is")
    return Listing(info.sha, {one.rfilename: _declared(one) for one in info.siblings or ()})


def _declared(sibling: Any) -> Declared:
    sha256 = sibling.lfs.sha256 if sibling.lfs else None
    return Declared(sibling.size, sha256, None if sha256 else sibling.blob_id)


def _choose(order: Order, listing: Listing) -> tuple[str, ...]:
    """The files to fetch, once it is known that they are all there and that declared hashes do not contradict the pins."""
    source = f"{endpoint()}/{order.repo_id} at {listing.commit}"
    names = wanted(listing.files, tokenizer_only=order.tokenizer_only)
    if CONFIG not in names or not (order.tokenizer_only or weights_in(names)):
        has = ", ".join(sorted(listing.files)[:12]) or "no files"
        raise order.fails(f"{source} is no model of a format that is fetched: it has {has}", "give a folder that holds these files")
    if not order.tokenizer_only:
        refuse_unpinned(names, order.pins, source)
    for name in names:
        declared, pin = listing.files[name].sha256, order.pins.get(name)
        if declared and pin and declared != pin:
            raise order.fails(f"{source} has another {name} than the pinned one: sha256 {declared}, not {pin}", "take the pinned revision")
    return names


def _check_space(order: Order, files: list[Declared]) -> None:
    needed = sum(one.size or 0 for one in files)
    there = next(folder for folder in (order.cache, *order.cache.absolute().parents) if folder.exists())
    free = shutil.disk_usage(there).free
    if needed > free:
        raise order.fails(
            f"the download needs {readable(needed)} where {readable(free)} are free",
            "make room (cutaway models --remove), or set HF_HOME to a folder on another disk",
        )


def _fetch(order: Order, listing: Listing, name: str, progress: Progress | None) -> None:
    declared = listing.files[name]
    path = _get(order, name, listing.commit, Arrival(name, declared.size, progress))
    source = f"{endpoint()}/{order.repo_id}/resolve/{listing.commit}/{name}"
    record(order.repo_id, listing.commit, {name: verify(path, declared, source, order.pins.get(name))})
    if progress:
        progress(name, path.stat().st_size, path.stat().st_size)


def _point(order: Order, commit: str) -> Path:
    """Only now is the branch said to be at this commit: an earlier one, if it is there, was good until here."""
    folder = _get(order, CONFIG, order.revision, Arrival(CONFIG, None, None)).parent
    if folder.name != commit:
        raise order.fails(f"{host()} changed its {order.revision} while it was fetched", "run it again")
    return folder


def _get(order: Order, name: str, revision: str, coming: Arrival) -> Path:
    """One file, in the cache or brought there by the client."""
    from huggingface_hub import hf_hub_download

    # Older clients take no class of bar: with them no progress is shown, and the rest is as it is here.
    bar: dict[str, Any] = {"tqdm_class": coming.bar()} if "tqdm_class" in signature(hf_hub_download).parameters else {}

    def work() -> Path:
        return Path(hf_hub_download(order.repo_id, name, revision=revision, cache_dir=order.cache, endpoint=endpoint(), **bar))

    return patiently(work, coming, order.folder / "blobs")


def _cached(order: Order, commit: str, name: str) -> bool:
    return (order.folder / "snapshots" / commit / name).is_file()


@contextmanager
def _client(order: Order) -> Iterator[None]:
    """The Hub's client with smaller steps and without words of its own; its errors become ours."""
    from huggingface_hub import constants
    from huggingface_hub.utils import logging

    step, verbosity = constants.DOWNLOAD_CHUNK_SIZE, logging.get_verbosity()
    constants.DOWNLOAD_CHUNK_SIZE = min(step, STEP)
    logging.set_verbosity(max(verbosity, ERROR))
    try:
        yield
    except CutawayError:
        raise
    except Impatience as error:
        raise order.fails(f"{host()} {error}") from error
    except Exception as error:  # the client's own errors, its transport's (requests once, httpx now) and the disk's
        raise order.fails(*explain(error, order.repo_id)) from error
    finally:
        constants.DOWNLOAD_CHUNK_SIZE = step
        logging.set_verbosity(verbosity)


def readable(size: int) -> str:
    """Bytes as people say them, in powers of ten as disks are sold: 548 MB."""
    for unit, step in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= step:
            return f"{size / step:.3g} {unit}"
    return f"{size} bytes"
