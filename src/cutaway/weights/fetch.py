"""Published models live on the Hugging Face Hub, and after the first use in its cache on this machine.

Brings files here and opens none of them. Pickled weights are never fetched.
"""

from pathlib import Path
from typing import Any

from cutaway.errors import ModelError, WeightsError
from cutaway.weights.files import weight_files

FETCHED = ("*.safetensors", "*.json", "merges.txt", "vocab.*", "encoder.json", "dict.txt")


def find(
    repo_id: str,
    revision: str | None = None,
    *,
    offline: bool = False,
    cache: Path | None = None,
    progress: type[Any] | None = None,
) -> Path:
    """The folder with a model's configuration, weights and tokenizer files: in the cache, or else from the Hub.

    offline: forbids the network, as HF_HUB_OFFLINE in the environment does.
    progress: a class like tqdm that shows how a download gets on; without it, nothing is shown.
    Raises ModelError, saying what was sought and where.
    """
    from huggingface_hub import constants

    if folder := cached(repo_id, revision, cache=cache):
        return folder
    if offline or constants.HF_HUB_OFFLINE:
        raise _absent(repo_id, revision, cache, "the network is not to be used")
    return _download(repo_id, revision, cache, progress or _silent())


def cached(repo_id: str, revision: str | None = None, *, cache: Path | None = None) -> Path | None:
    """The folder in the Hugging Face cache, if it holds a configuration and whole weights. No network."""
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        config = try_to_load_from_cache(repo_id, "config.json", cache_dir=cache, revision=revision)
    except HFValidationError as error:
        raise ModelError(f"{repo_id!r} cannot be a model on the Hub", expected="owner/name", then="for a folder, write ./name") from error
    if not isinstance(config, str):  # None, or a mark that the Hub has no such file
        return None
    folder = Path(config).parent
    try:
        return folder if all(path.is_file() for path in weight_files(folder)) else None
    except WeightsError:
        return None


def _download(repo_id: str, revision: str | None, cache: Path | None, progress: type[Any]) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError, RevisionNotFoundError

    try:
        folder = snapshot_download(
            repo_id,
            revision=revision,
            cache_dir=cache,
            allow_patterns=list(FETCHED),
            ignore_patterns=["*/*"],  # an onnx folder has .json files too
            tqdm_class=progress,
        )
    except GatedRepoError as error:
        raise _absent(repo_id, revision, cache, "its owner asks for a log-in first") from error
    except (RepositoryNotFoundError, RevisionNotFoundError) as error:
        raise _absent(repo_id, revision, cache, "the Hub has no such model or revision") from error
    except Exception as error:  # the client's own errors, its transport's (requests once, httpx now) and the disk's
        raise _absent(repo_id, revision, cache, f"the Hub could not be used ({type(error).__name__})") from error
    return Path(folder)


def _silent() -> type[Any]:
    from huggingface_hub.utils.tqdm import tqdm

    class Silent(tqdm):  # the client makes its bars with `disable` of its own
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **{**options, "disable": True})  # type: ignore[no-untyped-call]

    return Silent


def _absent(repo_id: str, revision: str | None, cache: Path | None, why: str) -> ModelError:
    from huggingface_hub import constants

    return ModelError(
        f"{repo_id} is not in the Hugging Face cache ({cache or constants.HF_HUB_CACHE}), and {why}",
        expected=f"{', '.join(FETCHED)} from {constants.ENDPOINT}/{repo_id} at revision {revision or 'main'}",
        then="run it once where the network is there, or give a folder that holds these files",
    )
