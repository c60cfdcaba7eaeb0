"""A name becomes the place where a model's files lie, and the tokenizer there. Nothing is substituted silently; no torch is loaded.

    a known name or alias   nano-gpt2, gpt2, roberta, openai-community/gpt2 …   shipped, in the Hub's cache, or fetched
    a path                  ./folder, folder/, weights.safetensors              a separator, a dot or a file suffix tells
    owner/name              any other model on the Hub
"""

import re
from collections.abc import Collection
from functools import partial
from pathlib import Path

from cutaway.errors import ModelError, TokenizerError, WeightsError
from cutaway.families import PUBLISHED, Family, find_known
from cutaway.registry import no_such
from cutaway.shipped import shipped_folder, shipped_names
from cutaway.text.tokenizer import Tokenizer, fitting, load_tokenizer
from cutaway.weights.fetch import find
from cutaway.weights.files import find_weights
from cutaway.weights.hub.arrival import Progress

HUB_ID = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")


def locate(
    source: str, *, offline: bool = False, tokenizer_only: bool = False, progress: Progress | None = None
) -> tuple[str, Path, tuple[str, ...]]:
    """The name, the place of the files, and what is to be said about the choice. Fetches what is known and not here.

    tokenizer_only: without the weights. progress: as of `weights.fetch.find`.
    """
    path = Path(source).expanduser()
    fetched = partial(find, offline=offline, tokenizer_only=tokenizer_only, progress=progress)
    also = (f"{source} is also a folder here; the known model was meant. Write ./{source} for the folder.",) if path.is_dir() else ()
    if source in shipped_names():
        return source, shipped_folder(source), also
    if known := find_known(source):
        try:
            return known.name, fetched(known.repo, known.revision), also
        except ModelError as error:
            then = f"{error.then}; {_stand_in(known.family)} is shipped and runs now"
            raise ModelError(error.given, expected=error.expected, then=then) from None
    here = path.exists() or path.with_name(f"{path.name}.index").is_file()  # TensorFlow names a checkpoint by what its files share
    if here and is_path(source):
        return source, path, ()
    if HUB_ID.fullmatch(source):
        return source, fetched(source), ()
    if is_path(source):
        raise ModelError(f"There is no file or folder {source}", expected="a folder with weights, a weights file, or a known name")
    if path.is_dir():
        raise ModelError(f"{source!r} is not a known model", then=f"write ./{source} for the folder of that name")
    raise no_such("model", source, [*shipped_names(), *(name for known in PUBLISHED for name in (known.name, *known.aliases))])


def tokenizer_at(path: Path, kinds: Collection[str] = ()) -> Tokenizer | None:
    """The tokenizer that came with the weights at a place, None if none did.

    A GGUF file holds its own; for all else its files lie in the same folder. kinds: as of `load_tokenizer`.
    Raises TokenizerError for files that contradict each other.
    """
    folder = path if path.is_dir() else path.parent
    if found := _gguf_at(path):
        from cutaway.text.embedded import embedded_tokenizer
        from cutaway.weights.gguf_header import read_gguf

        return fitting(embedded_tokenizer(read_gguf(found).metadata, str(found)), kinds, found)
    try:
        return load_tokenizer(folder, kinds=kinds)
    except TokenizerError as error:
        if "no tokenizer files" in error.given:
            return None
        raise


def _gguf_at(path: Path) -> Path | None:
    try:
        found = find_weights(path)
    except WeightsError:
        return None
    return found.entrance if found.format == "gguf" else None


def is_path(source: str) -> bool:
    """A path has a separator, a dot or a file suffix; a name has none."""
    return bool(set(source) & set("/\\.~"))


def _stand_in(family: Family) -> str:
    return f"nano-{family.name}"
