"""Undocumented means failing: every command, tap, field, public name and error stands in the docs."""

from dataclasses import fields
from pathlib import Path

import pytest

import cutaway
from cutaway import errors
from cutaway.core.config import Config
from cutaway.core.tap import tap_names
from tests.conftest import worded

ROOT = Path(__file__).parent.parent
REFERENCE = (ROOT / "docs/reference.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")


def commands() -> list[str]:
    from cutaway.cli.main import app

    grouped = [(group.name, group.typer_instance) for group in app.registered_groups]
    within = [f"{name} {command.name}" for name, group in grouped if group for command in group.registered_commands]
    return [command.name or "" for command in app.registered_commands] + within


def test_commands() -> None:
    assert {"trophy", "next", "tokens", "models", "train", "verify", "lab run"} <= set(commands())
    for command in commands():
        assert f"### `cutaway {command}`" in REFERENCE


@pytest.mark.parametrize("kind", ("gpt1", "gpt2", "roberta", "classifier", "bert", "llama"))
def test_taps(kind: str) -> None:
    for tap in tap_names(worded(kind).config):
        general = tap.replace("blocks.0.", "blocks.N.").replace("blocks.1.", "blocks.N.")
        assert f"| `{general}` |" in REFERENCE, tap


def test_config_fields() -> None:
    for field in fields(Config):
        assert f"| `{field.name}` |" in REFERENCE


def test_errors() -> None:
    for error in vars(errors).values():
        if isinstance(error, type):
            assert error.__name__ in REFERENCE


def test_public_edits() -> None:
    for name in ("zero", "mean", "resample", "scale", "add", "replace", "patch"):
        assert name in cutaway.__all__
        assert f"`{name}`" in README
