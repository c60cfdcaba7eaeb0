"""The catalogue of models, and the charts that it and others are drawn as."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import altair
import pytest
import torch
from huggingface_hub import constants

from cutaway import charts
from cutaway.catalog import catalog, fetched, forget
from cutaway.core.transformer import Transformer
from cutaway.errors import CutawayError, ModelError
from cutaway.families import FAMILIES, PUBLISHED
from cutaway.families.size import parameters, part_of
from cutaway.shipped import shipped_names


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "hub"


def placed(cache: Path, repo: str) -> Path:
    """A model in the cache, laid out as the Hub's client documents it."""
    folder = cache / f"models--{repo.replace('/', '--')}"
    snapshot = folder / "snapshots" / ("0" * 40)
    snapshot.mkdir(parents=True)
    (folder / "refs").mkdir()
    (folder / "refs/main").write_text("0" * 40)
    for name in ("config.json", "model.safetensors"):
        (snapshot / name).write_bytes(b"{}")
    return folder


def test_the_seven_fossils_their_relatives_and_the_nano_models() -> None:
    found = catalog()
    fossils = [one.name for one in found.models if not one.nano and not one.parent]
    assert fossils == ["openai-gpt", "gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl", "roberta-base", "roberta-large"]
    assert [one.name for one in found.models if one.nano] == list(shipped_names())
    assert all(one.name.startswith("nano-") for one in found.models if one.nano)
    assert {one.parent for one in found.models} - {""} == {"gpt2", "roberta-base", "roberta-large"}
    assert [one.model_type for one in found.relatives] == ["bert", "llama"]
    assert json.loads(json.dumps(found.to_dict()))["models"][4]["parts"]["position embedding"] == 1024 * 1600


def test_what_is_here(cache: Path) -> None:
    assert not any(one.folder for one in catalog().models if not one.nano)
    placed(cache, "openai-community/gpt2-medium")
    assert [one.name for one in catalog().models if one.folder and not one.nano] == ["gpt2-medium"]


def test_a_fetched_model_is_forgotten_and_no_other(cache: Path) -> None:
    gone, stays = placed(cache, "openai-community/gpt2"), placed(cache, "somebody/tiny")
    assert forget("gpt2") > 0
    assert not gone.exists()
    assert stays.exists()
    assert fetched("somebody/tiny") == "somebody/tiny"
    with pytest.raises(ModelError, match="not in the Hugging Face cache"):
        forget("gpt2")
    with pytest.raises(ModelError, match="did you mean gpt2-xl"):
        forget("gpt2xl")
    for name in shipped_names():
        with pytest.raises(ModelError, match="came with cutaway"):
            forget(name)


@pytest.mark.parametrize("known", [PUBLISHED[0], PUBLISHED[1], PUBLISHED[6], PUBLISHED[-1]], ids=lambda known: known.name)
@pytest.mark.parametrize("changes", ({}, {"tied": False, "kv_heads": 4}, {"activation": "swiglu", "norm": "rms"}, {"bias": False}), ids=str)
def test_each_part_is_as_large_as_the_core_makes_it(known, changes):  # type: ignore[no-untyped-def]
    config = known.config.with_(**changes)
    with torch.device("meta"):
        held = dict.fromkeys(parameters(config), 0)
        for name, parameter in Transformer(config).named_parameters():
            held[part_of(name)] += parameter.numel()
    assert held == parameters(config)


# Charts


def test_the_chart_is_drawn_with_every_model_and_each_part() -> None:
    found = catalog()
    assert altair.HConcatChart.from_dict(found.chart().to_dict())
    drawn = charts.svg(found.chart())
    for one in found.models:
        assert f">{one.name}<" in drawn
        assert f">{one.parameters:,}<" in drawn
    parts = {part for one in found.models for part, count in one.parts.items() if count}
    assert all(f">{part}<" in drawn for part in parts)
    shown = drawn.count("share of the parameters:")  # a label a bar, for who cannot see them
    assert shown >= sum(bool(count) for one in found.models for count in one.parts.values())
    assert len(set(re.findall(r">(1M|10M|100M|1B)<", drawn))) == 4
    page = found.page()
    assert page.startswith("<!doctype html>")
    assert all(family.title in page for family in FAMILIES.values())


def test_a_chart_becomes_a_file_or_an_error(tmp_path: Path) -> None:
    spec = charts.bars({"a": 1, "b": 0, "c": 3999}, "Title", "tokens").to_dict()
    charts.write_chart(spec, tmp_path / "chart.svg")
    drawn = (tmp_path / "chart.svg").read_text(encoding="utf-8")
    assert "3,999 · " in drawn
    assert "&lt; 0.1 %" in drawn
    assert ">b<" not in drawn
    with pytest.raises(CutawayError, match="chart.gif is no kind of chart.*\\.html or \\.svg"):
        charts.write_chart(spec, tmp_path / "chart.gif")
    with pytest.raises(CutawayError, match="cannot be written"):
        charts.write_chart(spec, tmp_path / "nowhere" / "chart.svg")
    assert [path.name for path in tmp_path.iterdir()] == ["chart.svg"]


@pytest.mark.long
def test_a_page_brings_its_scripts_along(tmp_path: Path) -> None:
    charts.write_chart(charts.bars({"a": 1, "b": 2}, "Title", "tokens"), tmp_path / "chart.html", "a < b")
    page = (tmp_path / "chart.html").read_text(encoding="utf-8")
    assert "<title>a &lt; b · cutaway</title>" in page
    assert not re.search(r"<(script|link)[^>]+(src|href)=", page)
    if browser := shutil.which("chromium"):
        asked = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", "--virtual-time-budget=5000"]
        shown = subprocess.run([*asked, (tmp_path / "chart.html").as_uri()], capture_output=True, text=True, timeout=120).stdout
        assert 'aria-roledescription="bar"' in shown
