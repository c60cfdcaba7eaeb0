"""Where the models that come with this package lie: beside it when installed, at the top of a checkout otherwise."""

from functools import cache
from pathlib import Path

HERE = Path(__file__).parent


@cache
def models_folder() -> Path:
    packaged = HERE / "models"
    return packaged if packaged.is_dir() else HERE.parents[1] / "models"


@cache
def shipped_names() -> tuple[str, ...]:
    folder = models_folder()
    return tuple(sorted(path.parent.name for path in folder.glob("*/model.safetensors"))) if folder.is_dir() else ()


def shipped_folder(name: str) -> Path:
    return models_folder() / name
