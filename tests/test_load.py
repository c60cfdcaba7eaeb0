"""Loading is whole or not at all: what does not fit is refused before room is made for it."""

import json
from pathlib import Path

import pytest
import torch

import cutaway
from tests.conftest import oracle


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    oracle("gpt2").save_pretrained(tmp_path)
    return tmp_path


def configure(folder: Path, **changes: object) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | changes), encoding="utf-8")


@pytest.mark.parametrize("changes", ({"n_layer": 10**7}, {"vocab_size": 10**9}))
def test_a_configuration_far_larger_than_its_file(folder: Path, changes: dict[str, int]) -> None:
    configure(folder, **changes)
    with pytest.raises(cutaway.CutawayError, match=r"config\.json asks for .* numbers"):
        cutaway.load(folder)


@pytest.mark.parametrize("card", ("{", "[]"))
def test_a_card_that_is_none(folder: Path, card: str) -> None:
    (folder / "card.json").write_text(card, encoding="utf-8")
    with pytest.raises(cutaway.CutawayError, match=r"card\.json"):
        cutaway.load(folder)


def test_somebody_elses_card_makes_no_nano_model(folder: Path) -> None:
    (folder / "card.json").write_text('{"words": []}', encoding="utf-8")
    assert cutaway.load(folder).origin.card == {}


@pytest.mark.parametrize("dtype", ("int8", torch.int8, "float8"))
def test_a_dtype_that_cannot_be(folder: Path, dtype: object) -> None:
    with pytest.raises(cutaway.CutawayError, match="no dtype"):
        cutaway.load(folder, dtype=dtype)  # type: ignore[arg-type]


@pytest.mark.parametrize("changes", ({"width": 96}, {"layers": 3}, {"context": 128}, {"head": "none"}))
def test_a_change_that_moves_a_shape(folder: Path, changes: dict[str, object]) -> None:
    with pytest.raises(cutaway.CutawayError, match="do not fit"):
        cutaway.load(folder).with_config(**changes)
