"""The cache comes first, then the Hub, then an error that says what was sought.

The Hub is a server on 127.0.0.1 that fails on demand; what it should give is known here, and hashed here.
"""

import errno
import hashlib
import io
import json
import os
import random
import subprocess
import sys
import threading
import time
from collections import namedtuple
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace

import huggingface_hub
import pytest
from huggingface_hub import constants, file_download
from huggingface_hub.utils import _http

from cutaway.cli import output, progress
from cutaway.errors import ModelError
from cutaway.weights import fetch
from cutaway.weights.fetch import cached, cached_size, find, remove
from cutaway.weights.hub import arrival, download
from cutaway.weights.hub.verify import recorded
from cutaway.weights.hub.wanted import has_weights, wanted
from tests.weights import hub_server
from tests.weights.hub_server import INFO, Hub

REPO, COMMIT = "somebody/tiny", "a" * 40
WEIGHTS = random.Random(0).randbytes(2_500_000)  # two steps and a half
SHA = hashlib.sha256(WEIGHTS).hexdigest()
SMALL = {"config.json": b"{}", "vocab.json": b'{"a": 0}', "merges.txt": b"#version: 0.2\n"}
FILES = SMALL | {"model.safetensors": WEIGHTS}


@pytest.fixture(autouse=True)
def own_table(tmp_path, monkeypatch):
    monkeypatch.setenv("CUTAWAY_CACHE", str(tmp_path / "own"))


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache, and a Hub that must not be asked."""

    def asked(*args, **options):
        raise AssertionError("the network was used")

    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", asked)
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", asked)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    return tmp_path / "hub"


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A Hub with one model, and a client that waits a hundred times shorter than it would."""
    server = Hub(REPO, COMMIT, dict(FILES))
    server.cache = tmp_path / "hub"
    quick = SimpleNamespace(sleep=lambda seconds: time.sleep(min(seconds / 100, 1)), time=time.time)
    monkeypatch.setattr(file_download, "time", quick)
    monkeypatch.setattr(_http, "time", quick)
    monkeypatch.setattr(constants, "ENDPOINT", server.url)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", server.url + "/{repo_id}/resolve/{revision}/{filename}")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_IMPLICIT_TOKEN", True)
    monkeypatch.setattr(arrival, "LOOK", 0.02)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
    _http.close_session()  # one made before would not know
    yield server
    server.close()
    for thread in threading.enumerate():
        if thread.name == "cutaway-fetch":
            thread.join(10)
            assert not thread.is_alive()


def placed(cache, files, commit=COMMIT):
    """The folder of a model in the cache, laid out as the Hub's client documents it."""
    repo = cache / "models--somebody--tiny"
    folder = repo / "snapshots" / commit
    folder.mkdir(parents=True)
    (repo / "refs").mkdir(exist_ok=True)
    (repo / "refs" / "main").write_text(commit)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


@contextmanager
def timeouts(seconds):
    """Of a client that gives a silent server so long."""
    with pytest.MonkeyPatch.context() as patched:
        for name in ("HF_HUB_ETAG_TIMEOUT", "HF_HUB_DOWNLOAD_TIMEOUT"):
            patched.setattr(constants, name, seconds)
        patched.setattr(file_download, "_ETAG_RETRY_TIMEOUT", seconds)
        yield


def partial(cache):
    return list(cache.rglob("*.incomplete"))


# From the cache


@pytest.mark.parametrize("offline", [True, False])
@pytest.mark.parametrize("revision", [None, "main", COMMIT])
def test_the_cache_needs_no_network(cache, offline, revision):
    folder = placed(cache, FILES)
    assert find(REPO, revision, offline=offline, cache=cache) == folder


def test_the_cache_of_the_environment_is_the_default(cache, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    folder = placed(cache, FILES)
    assert find(REPO) == folder


INDEX = b'{"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}'
SHARDS = {"model.safetensors.index.json": INDEX, "model-00001-of-00002.safetensors": b"1", "model-00002-of-00002.safetensors": b"2"}
OLD_SHARDS = {name.replace("model", "pytorch_model").replace("safetensors", "bin"): content for name, content in SHARDS.items()}
OLD_SHARDS["pytorch_model.bin.index.json"] = INDEX.replace(b"model-", b"pytorch_model-").replace(b"safetensors", b"bin")


KINDS = ({"model.safetensors": b"1"}, SHARDS, {"pytorch_model.bin": b"1"}, OLD_SHARDS)


@pytest.mark.parametrize("weights", KINDS, ids=lambda files: next(iter(files)))
def test_half_a_model_in_the_cache_is_none(cache, weights):
    folder = placed(cache, SMALL | weights)
    assert cached(REPO, cache=cache) == folder
    for name in ("config.json", *weights):
        content = (folder / name).read_bytes()
        (folder / name).unlink()
        assert cached(REPO, cache=cache) is None, name
        with pytest.raises(ModelError):
            find(REPO, offline=True, cache=cache)
        (folder / name).write_bytes(content)


@pytest.mark.parametrize("index", [b"", b"[]", b'{"weight_map": {}}', b'{"weight_map": 1}', b"\xff", b"[" * 100_000])
def test_an_index_that_is_none_makes_no_weights(tmp_path, index):
    for name, content in (SHARDS | {"model.safetensors.index.json": index}).items():
        (tmp_path / name).write_bytes(content)
    assert not has_weights(tmp_path)


def test_another_revision_is_not_substituted(cache):
    placed(cache, FILES)
    assert cached(REPO, "b" * 40, cache=cache) is None


def test_a_tokenizer_needs_no_weights(cache):
    folder = placed(cache, SMALL)
    assert find(REPO, cache=cache, tokenizer_only=True) == folder
    assert cached(REPO, cache=cache) is None
    (folder / "merges.txt").unlink()
    assert cached(REPO, cache=cache, tokenizer_only=True) is None


@pytest.mark.parametrize("name", ["a/b/c", "../x", "a b/c"])
@pytest.mark.parametrize("tokenizer_only", [True, False])
def test_a_name_that_cannot_be_one(cache, name, tokenizer_only):
    with pytest.raises(ModelError, match="owner/name"):
        find(name, cache=cache, tokenizer_only=tokenizer_only)


# Without the network


def test_offline_says_what_was_sought_and_where(cache):
    with pytest.raises(ModelError) as caught:
        find(REPO, "v1", offline=True, cache=cache)
    for part in (REPO, str(cache), "network", "model.safetensors", f"https://huggingface.co/{REPO}", "v1"):
        assert part in str(caught.value)


def test_the_environment_can_forbid_the_network(cache, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(ModelError, match="not to be used"):
        find(REPO, cache=cache)


def test_offline_says_how_large_it_was(hub):
    find(REPO, cache=hub.cache)
    remove(REPO, cache=hub.cache)
    asked = len(hub.requests)
    with pytest.raises(ModelError, match=r"2\.5 MB when it was fetched last.*from http://127"):
        find(REPO, cache=hub.cache, offline=True)
    with pytest.raises(ModelError, match="24 bytes when"):
        find(REPO, cache=hub.cache, offline=True, tokenizer_only=True)
    assert len(hub.requests) == asked


# From the Hub


def test_a_model_is_fetched_once_and_recorded(hub):
    folder = find(REPO, cache=hub.cache)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == FILES
    asked = len(hub.requests)
    assert find(REPO, cache=hub.cache) == find(REPO, COMMIT, cache=hub.cache) == folder
    assert len(hub.requests) == asked
    known = recorded(REPO, COMMIT)
    assert known.keys() == FILES.keys()
    entry = known["model.safetensors"]
    assert (entry["size"], entry["sha256"], entry["declared"], entry["by"]) == (len(WEIGHTS), SHA, SHA, "sha256")
    assert entry["source"].startswith(hub.url) and entry["verified"]
    assert known["config.json"]["by"] == "blob id"


OTHERS = ("tf_model.h5", "flax_model.msgpack", "rust_model.ot", "model.onnx", "64.tflite", "run.py", "onnx/config.json", "README.md")


@pytest.mark.parametrize(
    ("have", "taken"),
    [
        ({"model.safetensors", "pytorch_model.bin"}, {"model.safetensors"}),
        ({"model.safetensors", *SHARDS}, {"model.safetensors"}),
        ({*SHARDS, "pytorch_model.bin"}, {*SHARDS}),
        ({"pytorch_model.bin", *OLD_SHARDS}, {"pytorch_model.bin"}),
        ({*OLD_SHARDS}, {*OLD_SHARDS}),
        ({"training_args.bin", "optimizer.bin", "adapter_model.safetensors"}, set()),
    ],
)
def test_one_format_of_weights_is_taken_and_nothing_else(have, taken):
    names = {*SMALL, *OTHERS, *have}
    assert {*wanted(names)} == {*SMALL} | taken
    assert {*wanted(names, tokenizer_only=True)} == {*SMALL}


def test_what_is_taken_is_what_is_asked_for(hub):
    hub.files |= OLD_SHARDS | dict.fromkeys(OTHERS, b"x")
    del hub.files["model.safetensors"]
    find(REPO, cache=hub.cache)
    assert {name for method, name, _ in hub.requests if method == "GET"} == {INFO, *SMALL, *OLD_SHARDS}


def test_a_tokenizer_is_fetched_alone_and_the_rest_follows(hub):
    folder = find(REPO, cache=hub.cache, tokenizer_only=True)
    assert {path.name for path in folder.iterdir()} == {*SMALL}
    assert find(REPO, cache=hub.cache) == folder
    assert [len(hub.gets(name)) for name in FILES] == [1, 1, 1, 1]


def test_weights_that_another_program_fetched_get_their_tokenizer(hub):
    hub.earlier = {"b" * 40}  # theirs: the branch has moved on since
    folder = placed(hub.cache, {"config.json": b"{}", "model.safetensors": WEIGHTS}, "b" * 40)
    hub.faults[INFO] = hub_server.status(500)
    assert find(REPO, cache=hub.cache) == folder  # nothing is lost where it cannot be had
    hub.faults.clear()
    assert find(REPO, cache=hub.cache) == folder
    assert {path.name for path in folder.iterdir()} == {*FILES}
    assert hub.gets("model.safetensors") == []


def test_a_model_that_has_no_tokenizer_is_not_asked_for_one_for_ever(hub):
    hub.files = {name: FILES[name] for name in ("config.json", "model.safetensors")}
    find(REPO, cache=hub.cache)
    asked = len(hub.requests)
    find(REPO, cache=hub.cache)
    assert len(hub.requests) == asked


@pytest.mark.parametrize("missing", ["config.json", "model.safetensors"])
def test_a_repository_that_is_no_model(hub, missing):
    del hub.files[missing]
    hub.files["model.gguf"] = b"GGUF"
    with pytest.raises(ModelError, match=r"no model of a format that is fetched: it has .*model\.gguf"):
        find(REPO, cache=hub.cache)
    assert len(hub.requests) == 1


def test_the_mirror_of_the_environment_is_used_and_named(hub, tmp_path):
    code = f"from cutaway.weights.fetch import find; find({REPO!r}); find({REPO!r}, 'nowhere')"
    names = {"HF_ENDPOINT": hub.url, "HF_HUB_DISABLE_XET": "1", "HF_HOME": str(tmp_path / "home"), "HF_HUB_OFFLINE": "0"}
    ran = subprocess.run([sys.executable, "-W", "error", "-c", code], env=os.environ | names, capture_output=True, text=True)
    assert (tmp_path / "home/hub/models--somebody--tiny/snapshots" / COMMIT / "model.safetensors").read_bytes() == WEIGHTS
    assert f"the mirror {hub.url} (HF_ENDPOINT) has no such revision" in ran.stderr


def test_a_file_on_a_delivery_network_is_followed(hub):
    hub.faults["model.safetensors"] = hub_server.redirect(lambda answer: f"http://localhost:{hub.port}/cdn/model.safetensors")
    assert (find(REPO, cache=hub.cache) / "model.safetensors").read_bytes() == WEIGHTS


# Lines that break


def test_a_line_that_breaks_is_resumed_where_it_broke(hub):
    hub.faults["model.safetensors"] = hub_server.cut(1_300_000, 1)
    folder = find(REPO, cache=hub.cache)
    assert (folder / "model.safetensors").read_bytes() == WEIGHTS
    assert hub.gets("model.safetensors") == ["", f"bytes={1 << 20}-"]


def test_a_server_that_begins_anew_after_each_break_is_given_up(hub):
    hub.faults["model.safetensors"] = hub_server.cut(1_300_000, 10**9, ranges=False)
    refused(hub, "sent model.safetensors 3 times over, and never whole")
    assert len(hub.gets("model.safetensors")) <= 9


def test_a_download_that_broke_off_is_not_taken_for_whole(hub):
    hub.faults["model.safetensors"] = hub_server.cut(900_000, 10**9)
    refused(hub, "broke the connection off")
    hub.faults.clear()
    assert (find(REPO, cache=hub.cache) / "model.safetensors").read_bytes() == WEIGHTS
    assert len(hub.gets("config.json")) == 1  # what had come is kept


def refused(hub, why, **options):
    """It fails with one clear error, soon, and leaves neither half a file nor a model that is not whole."""
    start = time.monotonic()
    with pytest.raises(ModelError, match=why) as caught:
        find(REPO, cache=hub.cache, **options)
    assert time.monotonic() - start < 10
    assert cached(REPO, cache=hub.cache) is None
    for part in (REPO, hub.url):
        assert part in str(caught.value)
    assert "could not be used" not in str(caught.value)  # which is said of what nobody thought of
    return str(caught.value)


BAD_TOKEN = {"X-Error-Message": "Invalid credentials in Authorization header"}
LONGER = {"X_Linked_Size": str(len(WEIGHTS) + 1)}
FAULTS = {
    "no such model": (INFO, hub_server.status(404, "RepoNotFound"), "no such model"),
    "hidden": (INFO, hub_server.status(401, "RepoNotFound"), "no such model, or hides it"),
    "log-in refused": (INFO, hub_server.status(401, headers=BAD_TOKEN), "HTTP 401"),
    "gated": (INFO, hub_server.status(403, "GatedRepo"), "asks for a log-in.*accept its terms"),
    "forbidden": (INFO, hub_server.status(403), "HTTP 403"),
    "too many": (INFO, hub_server.status(429, headers={"Retry-After": "3600"}), "asks to wait"),
    "fault": (INFO, hub_server.status(500), "HTTP 500"),
    "silent": (INFO, hub_server.stall(), "did not answer in time"),
    "no description": (INFO, lambda answer: answer.send(200, b"<html>", {}) or True, "no description of a model"),
    "no commit": (INFO, lambda answer: answer.send(200, b'{"id": "x"}', {}) or True, "which commit"),
    "half a commit": (INFO, lambda answer: answer.send(200, b'{"id": "x", "sha": "aaaa", "siblings": []}', {}) or True, "which commit"),
    "round and round": (INFO, lambda answer: answer.send(307, b"", {"Location": answer.path}) or True, "without end"),
    "file not there": ("model.safetensors", hub_server.status(404, "EntryNotFound"), "lists a file that it does not have"),
    "file gated": ("model.safetensors", hub_server.status(403, "GatedRepo"), "asks for a log-in"),
    "file fault": ("model.safetensors", hub_server.status(503), "HTTP 503"),
    "file silent": ("model.safetensors", hub_server.stall(method="HEAD"), "did not answer in time"),
    "file not described": ("model.safetensors", lambda answer: answer.send(200, b"", {}) or True, "does not answer as the Hub does"),
    "stall": ("model.safetensors", hub_server.stall(), "did not answer in time"),
    "stall midway": ("model.safetensors", hub_server.stall(after=1_300_000), "did not answer in time"),
    "bytes refused": ("model.safetensors", hub_server.status(500, method="GET"), "HTTP 500"),
    "too short": ("model.safetensors", hub_server.serve(WEIGHTS[:-1]), "longer or shorter than it said"),
    "too long": ("model.safetensors", hub_server.serve(WEIGHTS + b"x", **LONGER), "more than the 2,500,000 bytes"),
    "claims more": ("model.safetensors", hub_server.serve(WEIGHTS, Content_Length="2500100"), "broke the connection|HTTP 416"),
    "claims less": ("model.safetensors", hub_server.serve(WEIGHTS, Content_Length="2400000"), "longer or shorter"),
    "endless": ("model.safetensors", hub_server.endless(b"x" * 100_000), "more than the 2,500,000 bytes"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_each_failure_is_one_clear_error_soon(hub, fault):
    name, hub.faults[name], why = FAULTS[fault]
    older = placed(hub.cache, FILES, "b" * 40)
    (hub.cache / "models--somebody--tiny/refs/main").unlink()
    with timeouts(0.1) if "silent" in fault or "stall" in fault else nullcontext():
        refused(hub, why)
    assert {path.name: path.read_bytes() for path in older.iterdir()} == FILES
    assert partial(hub.cache) == []
    hub.faults.clear()
    assert (find(REPO, cache=hub.cache) / "model.safetensors").read_bytes() == WEIGHTS


def test_a_server_that_says_wait_an_hour_is_not_waited_for(hub, monkeypatch):
    monkeypatch.setattr(arrival, "PATIENCE", 2)
    monkeypatch.setattr(constants, "HF_HUB_DOWNLOAD_TIMEOUT", 1)
    hub.faults["model.safetensors"] = hub_server.status(429, method="GET", headers={"Retry-After": "3600"})
    refused(hub, "sent nothing of model.safetensors for 2 seconds")


def test_a_file_that_another_process_fetches_is_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(arrival, "PATIENCE", 0.6)
    monkeypatch.setattr(constants, "HF_HUB_DOWNLOAD_TIMEOUT", 0.1)
    monkeypatch.setattr(arrival, "LOOK", 0.02)

    def work():
        for size in range(6):
            (tmp_path / "blob.incomplete").write_bytes(b"x" * size)
            time.sleep(0.15)
        return "done"

    assert arrival.patiently(work, arrival.Arrival("f", 1, None), tmp_path) == "done"
    monkeypatch.setattr(arrival, "PATIENCE", 0.1)
    with pytest.raises(arrival.Impatience, match="sent nothing of f"):
        arrival.patiently(lambda: time.sleep(0.5), arrival.Arrival("f", 1, None), tmp_path)


def test_what_was_given_up_comes_to_an_end(tmp_path, monkeypatch):
    monkeypatch.setattr(arrival, "PATIENCE", 0.1)
    monkeypatch.setattr(arrival, "LOOK", 0.02)
    monkeypatch.setattr(constants, "HF_HUB_DOWNLOAD_TIMEOUT", 0.05)
    coming, waited, ended = arrival.Arrival("f", 10**9, None), threading.Event(), threading.Event()

    def work():
        waited.wait(10)
        try:
            coming.bar()(total=10**9).update(1)
        except arrival.Impatience:
            ended.set()

    with pytest.raises(arrival.Impatience):
        arrival.patiently(work, coming, tmp_path)
    waited.set()
    assert ended.wait(10)


def test_nobody_listens(hub):
    hub.close()
    refused(hub, "cannot be reached")


def test_a_branch_that_moves_meanwhile_is_noticed(hub):
    def moves(answer):
        if "/resolve/main/" in answer.path:
            hub.commit = "c" * 40
        return False

    hub.faults["config.json"] = moves
    with pytest.raises(ModelError, match="changed its main while it was fetched"):
        find(REPO, cache=hub.cache)


# The right bytes


def test_wrong_bytes_are_taken_out_and_fetched_anew(hub):
    hub.faults["model.safetensors"] = hub_server.serve(b"x" + WEIGHTS[1:])
    wrong = hashlib.sha256(b"x" + WEIGHTS[1:]).hexdigest()
    message = refused(hub, "model.safetensors is not what it should be")
    assert SHA in message and wrong in message and f"{hub.url}/{REPO}/resolve/{COMMIT}/model.safetensors" in message
    assert not [path for path in hub.cache.rglob("*") if path.is_file() and path.stat().st_size == len(WEIGHTS)]
    assert "model.safetensors" not in recorded(REPO, COMMIT)
    hub.faults.clear()
    assert (find(REPO, cache=hub.cache) / "model.safetensors").read_bytes() == WEIGHTS


def test_wrong_bytes_of_a_small_file(hub):
    hub.faults["merges.txt"] = hub_server.serve(b"#version: 0.3\n")
    refused(hub, "merges.txt is not what it should be.*git's blob")


def test_a_size_that_was_not_declared(hub):
    hub.declared["vocab.json"] = {"size": 9}
    refused(hub, "vocab.json is not what it should be.*8 bytes.*Expected: 9 bytes")


def test_what_nobody_declares_is_recorded_as_unverified(hub):
    hub.declared["model.safetensors"] = {"lfs": None, "size": None, "blobId": None}
    find(REPO, cache=hub.cache)
    entry = recorded(REPO, COMMIT)["model.safetensors"]
    assert (entry["sha256"], entry["declared"], entry["verified"], entry["by"]) == (SHA, None, None, None)


def test_a_pin_counts_more_than_what_comes_with_the_file(hub):
    other = b"x" + WEIGHTS[1:]
    hub.files["model.safetensors"] = other
    message = refused(hub, "has another model.safetensors than the pinned one", pins={"model.safetensors": SHA})
    assert hashlib.sha256(other).hexdigest() in message and SHA in message
    assert hub.gets("model.safetensors") == []
    hub.declared["model.safetensors"] = {"lfs": None}
    refused(hub, "as pinned", pins={"model.safetensors": SHA})
    hub.files["model.safetensors"] = WEIGHTS
    find(REPO, cache=hub.cache, pins={"model.safetensors": SHA})
    assert recorded(REPO, COMMIT)["model.safetensors"]["by"] == "pin"


def test_what_lies_in_the_cache_is_held_to_the_pin_too(cache):
    folder = placed(cache, FILES)
    assert find(REPO, cache=cache, pins={"model.safetensors": SHA}) == folder
    with pytest.raises(ModelError, match=f"{SHA}.*Expected: {'0' * 64}"):
        find(REPO, cache=cache, pins={"model.safetensors": "0" * 64})
    assert (folder / "model.safetensors").read_bytes() == WEIGHTS
    with pytest.raises(ModelError, match="no pin"):
        find(REPO, cache=cache, pins={"pytorch_model.bin": SHA})
    assert find(REPO, cache=cache, pins={"pytorch_model.bin": SHA}, tokenizer_only=True) == folder


def test_weights_that_no_pin_covers_are_not_fetched(hub):
    refused(hub, "model.safetensors, for which there is no pin", pins={"pytorch_model.bin": SHA})
    assert len(hub.requests) == 1


@pytest.mark.parametrize("table", ["", "[]", "{", '{"x": 1}', f'{{"{COMMIT}": {{"model.safetensors": 1}}}}', f'{{"{COMMIT}": []}}', "\x00"])
def test_a_corrupt_record_is_ignored_and_written_anew(hub, tmp_path, table):
    path = tmp_path / "own/fetched/somebody--tiny.json"
    path.parent.mkdir(parents=True)
    path.write_text(table)
    with pytest.raises(ModelError, match="not to be used"):
        find(REPO, cache=hub.cache, offline=True)
    find(REPO, cache=hub.cache)
    assert json.loads(path.read_text())[COMMIT]["model.safetensors"]["sha256"] == SHA


# The disk


def test_a_download_that_does_not_fit_is_not_begun(hub, monkeypatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(download.shutil, "disk_usage", lambda path: usage(9, 9, 1_000_000))
    refused(hub, "needs 2.5 MB where 1 MB are free")
    assert len(hub.requests) == 1
    monkeypatch.setattr(download.shutil, "disk_usage", lambda path: usage(9, 9, 2_500_024))
    find(REPO, cache=hub.cache)


@pytest.mark.parametrize(
    ("number", "why"), [(errno.ENOSPC, "the disk is full"), (errno.EACCES, "cannot be written"), (errno.EROFS, "cannot be written")]
)
def test_a_disk_that_refuses(hub, monkeypatch, number, why):
    def full(*args, **options):
        raise OSError(number, os.strerror(number), "somewhere")

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", full)
    refused(hub, why)


def test_removing_frees_what_it_says_and_leaves_the_others(hub):
    find(REPO, cache=hub.cache)
    other = hub.cache / "models--somebody--other" / "snapshots" / COMMIT / "config.json"
    other.parent.mkdir(parents=True)
    other.write_bytes(b"{}")
    size = sum(path.stat().st_size for path in (hub.cache / "models--somebody--tiny/blobs").iterdir())
    assert cached_size(REPO, cache=hub.cache) - size in range(200)  # and the few bytes that say where main is
    assert remove(REPO, cache=hub.cache) >= size == sum(map(len, FILES.values()))
    assert (cached_size(REPO, cache=hub.cache), cached(REPO, cache=hub.cache)) == (0, None)
    assert other.is_file()
    with pytest.raises(ModelError, match="is not in the Hugging Face cache"):
        remove(REPO, cache=hub.cache)
    with pytest.raises(ModelError, match="is not in the Hugging Face cache"):
        remove(REPO, cache=hub.cache / "nowhere")


# What is shown


def test_progress_tells_how_far_each_file_is(hub, capsys):
    told = []
    hub.faults["model.safetensors"] = hub_server.cut(1_300_000, 1)
    find(REPO, cache=hub.cache, progress=lambda *news: told.append(news))
    sizes = {name: len(content) for name, content in FILES.items()}
    assert list(dict.fromkeys(name for name, *_ in told)) == [*FILES]
    assert {name: (here, size) for name, here, size in told} == {name: (size, size) for name, size in sizes.items()}
    assert (1 << 20) in [here for name, here, _ in told if name == "model.safetensors"]
    assert capsys.readouterr() == ("", "")


def test_an_older_client_shows_each_file_when_it_is_there(hub, monkeypatch):
    get = huggingface_hub.hf_hub_download

    def older(repo_id, filename, *, revision, cache_dir, endpoint):
        return get(repo_id, filename, revision=revision, cache_dir=cache_dir, endpoint=endpoint)

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", older)
    told = []
    find(REPO, cache=hub.cache, progress=lambda *news: told.append(news))
    assert told == [(name, len(content), len(content)) for name, content in FILES.items()]


def test_a_bar_shows_file_size_speed_and_time_left(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(sys, "stderr", shown := Terminal())
    monkeypatch.setattr(sys, "stdout", data := io.StringIO())
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TERM", "xterm")
    with progress.downloads() as tell:
        tell("model.safetensors", 0, 548_000_000)
        tell("model.safetensors", 274_000_000, 548_000_000)
        time.sleep(0.15)
        tell("model.safetensors", 280_000_000, 548_000_000)
        print("42")
    for part in ("model.safetensors", "280.0/548.0 MB", "/s", "0:0"):
        assert part in shown.getvalue()
    assert data.getvalue() == "42\n"


@pytest.mark.parametrize("quiet", [True, False])
def test_no_bar_where_nobody_sees_it(monkeypatch, capsys, quiet):
    monkeypatch.setattr(output, "quiet", quiet)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: quiet)
    with progress.downloads() as tell:
        assert tell is None
    assert capsys.readouterr() == ("", "")


def test_the_client_is_left_as_it_was(hub, monkeypatch):
    monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 7 << 20)
    huggingface_hub.utils.logging.set_verbosity_info()
    before = constants.DOWNLOAD_CHUNK_SIZE, huggingface_hub.utils.logging.get_verbosity()
    hub.faults[INFO] = hub_server.status(500)
    with pytest.raises(ModelError):
        find(REPO, cache=hub.cache)
    assert (constants.DOWNLOAD_CHUNK_SIZE, huggingface_hub.utils.logging.get_verbosity()) == before
    huggingface_hub.utils.logging.set_verbosity_warning()


def test_nothing_heavy_is_loaded():
    code = "import cutaway.weights.fetch, sys; print(*(name in sys.modules for name in ('torch', 'huggingface_hub')))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["False", "False"]
    assert fetch.find is find
