"""A Hub on 127.0.0.1: it speaks the paths and headers that the client asks for, and misbehaves on demand. Not a mirror.

The protocol is written from the Hub's own: https://huggingface.co/docs/hub/api and what its client reads of an answer.
"""

import hashlib
import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

LARGE = (".safetensors", ".bin", ".h5", ".msgpack", ".onnx", ".ot")
INFO = "(info)"  # the name under which the description of a model can be made to fail


def blob_id(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


class Hub:
    """One model in one commit, and earlier commits that hold the same files. The fields are set by a test and read by the server's threads.

    faults: by file name or INFO, what to do with a request instead; a fault that returns False lets it pass.
    """

    def __init__(self, repo: str, commit: str, files: dict[str, bytes]) -> None:
        self.repo, self.commit, self.files = repo, commit, files
        self.earlier: set[str] = set()
        self.declared: dict[str, dict[str, Any]] = {}  # in place of the truth
        self.faults: dict[str, Callable[[Answer], bool]] = {}
        self.requests: list[tuple[str, str, str]] = []  # method, file, range
        self.closing = threading.Event()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._answer)
        self.server.daemon_threads = False  # so that closing waits for them
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02})
        self.thread.start()

    @property
    def port(self) -> int:
        return self.server.server_address[1]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def gets(self, name: str) -> list[str]:
        """The ranges of a file that were asked for; "" is the whole of it."""
        return [span for method, file, span in self.requests if method == "GET" and file == name]

    def close(self) -> None:
        self.closing.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def _answer(self, *args: Any) -> "Answer":
        return Answer(self, *args)

    def commit_of(self, revision: str) -> str | None:
        """What main, or a commit's own hash, stands for."""
        return {"main": self.commit, self.commit: self.commit, **{one: one for one in self.earlier}}.get(revision)

    def describe(self, commit: str) -> bytes:
        siblings = []
        for name, content in self.files.items():
            said: dict[str, Any] = {"rfilename": name, "size": len(content), "blobId": blob_id(content)}
            if name.endswith(LARGE):
                said["lfs"] = {"size": len(content), "sha256": hashlib.sha256(content).hexdigest(), "pointerSize": 134}
            siblings.append(said | self.declared.get(name, {}))
        return json.dumps({"id": self.repo, "sha": commit, "siblings": siblings}).encode()


class Answer(BaseHTTPRequestHandler):
    """One request. `Connection: close` ends each, so that no thread waits for a next one."""

    protocol_version = "HTTP/1.1"
    stop: int | None = None  # so many bytes of a body are sent, whatever was said

    def __init__(self, hub: Hub, *args: Any) -> None:
        self.hub = hub
        super().__init__(*args)

    def log_message(self, *args: Any) -> None: ...

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        revision = path.removeprefix(f"/api/models/{self.hub.repo}/revision/")
        name = INFO if self.hub.commit_of(revision) else path.rpartition("/")[2]
        self.hub.requests.append((self.command, name, self.headers.get("Range", "")))
        try:
            if (fault := self.hub.faults.get(name)) and fault(self):
                return
            if name == INFO:
                self.send(200, self.hub.describe(self.hub.commit_of(revision) or ""), {"Content-Type": "application/json"})
            elif path.startswith("/api/"):
                self.refuse(404, "RevisionNotFound" if path.startswith(f"/api/models/{self.hub.repo}/revision/") else "RepoNotFound")
            elif name in self.hub.files:
                self.send_file(name, self.hub.files[name])
            else:
                self.refuse(404, "EntryNotFound")
        except OSError:  # the client has hung up
            self.close_connection = True

    do_HEAD = do_GET  # noqa: N815

    def send_file(self, name: str, content: bytes, headers: dict[str, str] | None = None) -> None:
        true = self.hub.files[name]
        etag = hashlib.sha256(true).hexdigest() if name.endswith(LARGE) else blob_id(true)
        commit = self.hub.commit_of(self.path.split("/")[-2]) or self.hub.commit
        about = {"ETag": f'"{etag}"', "X-Repo-Commit": commit, "X-Linked-Size": str(len(true)), "Accept-Ranges": "bytes"}
        if name.endswith(LARGE):
            about["X-Linked-ETag"] = f'"{etag}"'
        span = self.headers.get("Range")
        if span is None:
            return self.send(200, content, about | (headers or {}))
        start = int(span.removeprefix("bytes=").removesuffix("-"))
        if start >= len(content):
            return self.send(416, b"", about | {"Content-Range": f"bytes */{len(content)}"})
        about["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
        return self.send(206, content[start:], about | (headers or {}))

    def refuse(self, status: int, code: str = "", headers: dict[str, str] | None = None) -> None:
        self.send(status, b"", ({"X-Error-Code": code} if code else {}) | (headers or {}))

    def send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for key, value in ({"Content-Length": str(len(body)), "Connection": "close"} | headers).items():
            self.send_header(key, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body[: self.stop])
            self.wfile.flush()
        self.close_connection = True


# Faults. Each is made for a test and says what the server does with a request.


def status(code: int, error: str = "", *, method: str = "", headers: dict[str, str] | None = None) -> Callable[[Answer], bool]:
    """Refuses; `method` limits it to GET or HEAD."""

    def fault(answer: Answer) -> bool:
        if method and answer.command != method:
            return False
        answer.refuse(code, error, headers)
        return True

    return fault


def cut(at: int, times: int, *, ranges: bool = True) -> Callable[[Answer], bool]:
    """Sends `at` bytes and hangs up, so often. Without `ranges` it begins again from the first byte each time."""
    left = [times]

    def fault(answer: Answer) -> bool:
        if answer.command != "GET" or not left[0]:
            return False
        left[0] -= 1
        if not ranges:
            del answer.headers["Range"]
        answer.stop, name = at, answer.path.rpartition("/")[2]
        answer.send_file(name, answer.hub.files[name])
        return True

    return fault


def stall(*, after: int = 0, method: str = "GET") -> Callable[[Answer], bool]:
    """Says nothing until the server closes; or before that, the headers and so many bytes."""

    def fault(answer: Answer) -> bool:
        if answer.command != method:
            return False
        content = answer.hub.files.get(answer.path.rpartition("/")[2], b"x" * 100)
        if after and not answer.headers.get("Range"):
            answer.send_response(200)
            answer.send_header("Content-Length", str(len(content)))
            answer.end_headers()
            answer.wfile.write(content[:after])
        answer.hub.closing.wait(30)
        answer.close_connection = True
        return True

    return fault


def serve(content: bytes, **headers: str) -> Callable[[Answer], bool]:
    """Sends these bytes in place of the file's, with headers that may lie about them."""

    def fault(answer: Answer) -> bool:
        lies = {name.replace("_", "-"): value for name, value in headers.items()}
        answer.send_file(answer.path.rpartition("/")[2], content, lies)
        return True

    return fault


def endless(chunk: bytes) -> Callable[[Answer], bool]:
    """Sends for ever, and never says how much."""

    def fault(answer: Answer) -> bool:
        if answer.command != "GET":
            return False
        answer.send_response(200)
        answer.send_header("Transfer-Encoding", "chunked")
        answer.end_headers()
        while not answer.hub.closing.is_set():
            answer.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
        return True

    return fault


def redirect(to: Callable[[Answer], str]) -> Callable[[Answer], bool]:
    """To another address, with the headers that the Hub gives when a file lies on its delivery network."""

    def fault(answer: Answer) -> bool:
        target = to(answer)
        if answer.path == urlsplit(target).path:
            return False
        name = answer.path.rpartition("/")[2]
        true = answer.hub.files.get(name, b"")
        etag = hashlib.sha256(true).hexdigest()
        about = {"X-Linked-ETag": f'"{etag}"', "X-Linked-Size": str(len(true)), "X-Repo-Commit": answer.hub.commit}
        answer.send(302, b"", about | {"Location": target})
        return True

    return fault
