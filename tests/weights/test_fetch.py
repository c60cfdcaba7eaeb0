"""The cache comes first, then the Hub, then an error that says what was sought. No test here reaches a network."""

import huggingface_hub
import pytest
import torch
from huggingface_hub import constants
from huggingface_hub.errors import LocalEntryNotFoundError

from cutaway.errors import ModelError
from cutaway.weights.fetch import FETCHED, cached, find
from cutaway.weights.safetensors import save_safetensors

REPO, COMMIT = "somebody/tiny", "a" * 40


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache, and a Hub that must not be asked."""

    def asked(*args, **options):
        raise AssertionError("the network was used")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", asked)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    return tmp_path / "hub"


@pytest.fixture
def snapshot(cache):
    """The folder of a model in the cache, laid out as the Hub's client does."""
    repo = cache / "models--somebody--tiny"
    folder = repo / "snapshots" / COMMIT
    folder.mkdir(parents=True)
    (repo / "refs").mkdir()
    (repo / "refs" / "main").write_text(COMMIT)
    (folder / "config.json").write_text("{}")
    save_safetensors(folder / "model.safetensors", {"a": torch.zeros(1)})
    return folder


@pytest.mark.parametrize("offline", [True, False])
@pytest.mark.parametrize("revision", [None, "main", COMMIT])
def test_the_cache_needs_no_network(cache, snapshot, offline, revision):
    assert find(REPO, revision, offline=offline, cache=cache) == snapshot


def test_the_cache_of_the_environment_is_the_default(cache, snapshot, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    assert find(REPO) == snapshot


def test_offline_says_what_was_sought_and_where(cache):
    with pytest.raises(ModelError) as caught:
        find(REPO, "v1", offline=True, cache=cache)
    for part in (REPO, str(cache), "network", "*.safetensors", f"https://huggingface.co/{REPO}", "v1"):
        assert part in str(caught.value)


def test_the_environment_can_forbid_the_network(cache, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(ModelError, match="not to be used"):
        find(REPO, cache=cache)


@pytest.mark.parametrize("missing", ["config.json", "model.safetensors"])
def test_half_a_model_in_the_cache_is_none(cache, snapshot, missing):
    (snapshot / missing).unlink()
    assert cached(REPO, cache=cache) is None
    with pytest.raises(ModelError):
        find(REPO, offline=True, cache=cache)


def test_another_revision_is_not_substituted(cache, snapshot):
    assert cached(REPO, "b" * 40, cache=cache) is None


def test_only_safe_files_are_fetched(cache, tmp_path, monkeypatch):
    asked = {}

    def download(repo_id, **options):
        asked.update(options, repo_id=repo_id)
        return str(tmp_path)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    assert find(REPO, "v1", cache=cache) == tmp_path
    assert (asked["repo_id"], asked["revision"], asked["cache_dir"]) == (REPO, "v1", cache)
    files = [
        "config.json", "model-00001-of-00002.safetensors", "model.safetensors.index.json", "merges.txt", "vocab.json", "vocab.bpe",
        "encoder.json", "dict.txt", "pytorch_model.bin", "tf_model.h5", "flax_model.msgpack", "rust_model.ot", "64.tflite", "run.py",
        "onnx/config.json",
    ]  # fmt: skip
    taken = huggingface_hub.utils.filter_repo_objects(
        files, allow_patterns=asked["allow_patterns"], ignore_patterns=asked["ignore_patterns"]
    )
    assert list(taken) == files[:8]
    assert asked["allow_patterns"] == list(FETCHED)


@pytest.mark.parametrize("error", [LocalEntryNotFoundError("no connection"), ConnectionError("no route"), TimeoutError()])
def test_a_network_that_is_not_there(cache, monkeypatch, error):
    def download(repo_id, **options):
        raise error

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    with pytest.raises(ModelError, match=f"{REPO} is not in the Hugging Face cache .*the Hub could not be used"):
        find(REPO, cache=cache)


@pytest.mark.parametrize("name", ["a/b/c", "../x", "a b/c"])
def test_a_name_that_cannot_be_one(cache, name):
    with pytest.raises(ModelError, match="owner/name"):
        find(name, cache=cache)


def test_a_download_shows_nothing_unless_asked(cache, tmp_path, monkeypatch, capsys):
    shown = {}

    def download(repo_id, *, tqdm_class, **options):
        shown["class"] = tqdm_class
        with tqdm_class(total=3, desc="Fetching", disable=False) as bar:
            bar.update(3)
        return str(tmp_path)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    find(REPO, cache=cache)
    assert capsys.readouterr() == ("", "")
    find(REPO, cache=cache, progress=huggingface_hub.utils.tqdm)
    assert shown["class"] is huggingface_hub.utils.tqdm
    assert "Fetching" in capsys.readouterr().err
