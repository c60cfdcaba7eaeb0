"""Published models live on the Hugging Face Hub, and after the first use in its cache on this machine.

What is in the cache is used without asking; what is not is fetched once. Opens no weights.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from cutaway.errors import ModelError
from cutaway.weights.hub.arrival import Progress
from cutaway.weights.hub.download import Order, download, readable
from cutaway.weights.hub.errors import ONCE
from cutaway.weights.hub.verify import check_pins, last_recorded, recorded
from cutaway.weights.hub.wanted import CONFIG, TOKENIZER_FILES, has_tokenizer, has_weights, wanted


def find(
    repo_id: str,
    revision: str | None = None,
    *,
    offline: bool = False,
    cache: Path | None = None,
    tokenizer_only: bool = False,
    pins: Mapping[str, str] | None = None,
    progress: Progress | None = None,
) -> Path:
    """The folder with a model's configuration, weights and tokenizer files: in the cache, or else from the Hub.

    offline: forbids the network, as HF_HUB_OFFLINE in the environment does.
    tokenizer_only: without the weights.
    pins: the sha256 of files by name. Every file of weights must then have one; what differs is an error.
    progress: is called with a file's name, how many of its bytes are here, and how many it has (None if nobody says).
    Raises ModelError, saying what was sought and where.
    """
    from huggingface_hub import constants

    pins = pins or {}
    order = Order(repo_id, revision or "main", _cache(cache), pins, tokenizer_only)
    folder = cached(repo_id, revision, cache=cache, tokenizer_only=tokenizer_only)
    forbidden = offline or constants.HF_HUB_OFFLINE
    if folder and not forbidden and not (has_tokenizer(folder) or recorded(repo_id, folder.name)):
        folder = _completed(order, folder, progress)
    elif not folder and forbidden:
        raise _offline(order)
    elif not folder:
        return download(order, progress)
    if not tokenizer_only:
        check_pins(folder, wanted({path.name for path in folder.iterdir()}), pins)
    return folder


def cached(repo_id: str, revision: str | None = None, *, cache: Path | None = None, tokenizer_only: bool = False) -> Path | None:
    """The folder in the Hugging Face cache, if it holds a configuration and whole weights, or a whole tokenizer. No network."""
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    def place(name: str) -> Path | None:
        found = try_to_load_from_cache(repo_id, name, cache_dir=cache, revision=revision)
        return Path(found) if isinstance(found, str) else None  # None, or a mark that the Hub has no such file

    try:
        if not tokenizer_only:
            config = place(CONFIG)
            return config.parent if config and has_weights(config.parent) else None
        path = next(filter(None, map(place, TOKENIZER_FILES)), None)
    except HFValidationError as error:
        raise ModelError(f"{repo_id!r} cannot be a model on the Hub", expected="owner/name", then="for a folder, write ./name") from error
    return path.parent if path and has_tokenizer(path.parent) else None


def cached_size(repo_id: str, *, cache: Path | None = None) -> int:
    """Bytes on this machine's disk, of all revisions and of what is half fetched; 0 if the model is not in the cache."""
    folder = Order(repo_id, "main", _cache(cache), {}).folder
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def remove(repo_id: str, *, cache: Path | None = None) -> int:
    """Take a model out of the Hugging Face cache, every revision of it. The bytes freed. Raises ModelError if it is not there."""
    from huggingface_hub import scan_cache_dir
    from huggingface_hub.errors import CacheNotFound

    before = cached_size(repo_id, cache=cache)
    try:
        info = scan_cache_dir(_cache(cache))
    except CacheNotFound:
        repos = []
    else:
        repos = [repo for repo in info.repos if (repo.repo_type, repo.repo_id) == ("model", repo_id)]
    if not repos:
        raise ModelError(f"{repo_id} is not in the Hugging Face cache ({_cache(cache)})", then="see what is there: cutaway models")
    hashes = [revision.commit_hash for revision in repos[0].revisions]
    replace(info, repos=frozenset(repos)).delete_revisions(*hashes).execute()  # of this model alone, should two share a hash
    freed = before - cached_size(repo_id, cache=cache)
    if repos[0].repo_path.exists():
        raise ModelError(f"{repos[0].repo_path} could not be removed whole", then="close what uses the model, and run it again")
    return freed


def _completed(order: Order, folder: Path, progress: Progress | None) -> Path:
    """Another program fetched the weights and no tokenizer. Where it cannot be had now, the weights can still be used."""
    try:
        return download(replace(order, revision=folder.name, tokenizer_only=True), progress)
    except ModelError:
        return folder


def _offline(order: Order) -> ModelError:
    known = recorded(order.repo_id, order.revision) or last_recorded(order.repo_id)
    sizes = [entry["size"] for name, entry in known.items() if not order.tokenizer_only or name in (CONFIG, *TOKENIZER_FILES)]
    size = f"; {readable(sum(sizes))} when it was fetched last" if sizes else ""
    return order.fails(f"the network is not to be used (offline){size}", ONCE)


def _cache(cache: Path | None) -> Path:
    from huggingface_hub import constants

    return Path(cache or constants.HF_HUB_CACHE).expanduser()
