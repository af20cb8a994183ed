"""A stand-in for the Hugging Face hub: dataset repositories over HTTP on the loopback address.

It speaks as much of the hub's protocol as a client needs to find and fetch the files of a dataset:
the API's description of a revision, and the files with ETag, commit, linked size and ranges; large
files sit behind a redirect to another host, as on the hub. Faults can be switched on, and every
request is logged.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

LARGE = 1000
"""Files of this many bytes or more are stored as LFS, known by their SHA-256."""


@dataclass
class Fault:
    """What goes wrong with the next `times` requests of a method whose path `match` is found in."""

    match: str
    times: int = 10**9
    method: str = "GET"
    status: int = 0
    """Answer with this status instead of the content."""
    headers: dict[str, str] = field(default_factory=dict)
    cut: float = 0.0
    """Close the connection after this share of what was asked for."""
    length: bool = True
    """Whether the answer says how long it is."""
    ignore_range: bool = False
    content: bytes | None = None
    """Send this instead of the file."""
    wait: threading.Event | None = None
    """Send nothing until the event is set."""


@dataclass
class Request:
    """A request as it came in; `host` is the port it came to."""

    method: str
    path: str
    headers: dict[str, str]
    port: int


class Hub:
    """Repositories by name; each has commits by revision and files by commit."""

    def __init__(self) -> None:
        self.commits: dict[tuple[str, str], str] = {}
        self.files: dict[tuple[str, str], dict[str, bytes]] = {}
        self.token = ""
        self.faults: list[Fault] = []
        self.moves: dict[str, str] = {}
        self.log: list[Request] = []
        self.lock = threading.Lock()
        self.servers = [_server(self), _server(self)]
        self.url, self.cdn = (f"http://127.0.0.1:{s.server_port}" for s in self.servers)

    def push(self, repo: str, files: dict[str, bytes], revision: str = "main") -> str:
        """Commit files, and let a revision stand for the commit."""
        content = hashlib.sha1(f"{repo} {len(self.files)}".encode())
        for name, data in sorted(files.items()):
            content.update(name.encode() + data)
        commit = content.hexdigest()
        self.files[repo, commit] = dict(files)
        self.commits[repo, revision] = commit
        self.commits[repo, commit] = commit
        return commit

    def fault(self, match: str, **what: Any) -> Fault:
        self.faults.append(Fault(match, **what))
        return self.faults[-1]

    def move(self, old: str, new: str) -> None:
        """Answer with a redirect where a path begins with `old`, as for a repository renamed."""
        self.moves[old] = new

    def take_fault(self, method: str, path: str) -> Fault | None:
        with self.lock:
            for fault in self.faults:
                if fault.times and fault.method == method and re.search(fault.match, path):
                    fault.times -= 1
                    return fault
        return None

    def requests(self, match: str = "", method: str = "GET") -> list[Request]:
        return [r for r in self.log if re.search(match, r.path) and r.method == method]

    def close(self) -> None:
        for server in self.servers:
            server.shutdown()
            server.server_close()


@contextmanager
def running() -> Iterator[Hub]:
    """Run the stand-in for the length of a block."""
    hub = Hub()
    try:
        yield hub
    finally:
        hub.close()


def digest(content: bytes) -> str:
    """Give the hash by which the hub knows a file: SHA-256 if large, else Git's SHA-1."""
    if len(content) >= LARGE:
        return hashlib.sha256(content).hexdigest()
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def _server(hub: Hub) -> ThreadingHTTPServer:
    handler = type("Handler", (_Handler,), {"hub": hub})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    return server


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: Hub

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def log_message(self, *_: Any) -> None:
        pass

    def _answer(self) -> None:
        path = unquote(urlsplit(self.path).path)
        port = self.server.server_address[1]
        self.hub.log.append(Request(self.command, self.path, dict(self.headers), port))
        fault = self.hub.take_fault(self.command, path)
        if fault and fault.wait:
            fault.wait.wait(30)
        if fault and fault.status:
            return self._send(fault.status, b"", fault.headers)
        for old, new in self.hub.moves.items():
            if self.path.startswith(old):
                return self._send(307, b"", {"Location": self.path.replace(old, new, 1)})
        parts = path.strip("/").split("/")
        if parts[0] == "cdn":
            return self._file(self.hub.files["/".join(parts[1:3]), parts[3]][parts[4]], {}, fault)
        if self.hub.token and self.headers.get("Authorization") != f"Bearer {self.hub.token}":
            return self._send(401, b"", {"X-Error-Message": "Invalid username or password."})
        if parts[:2] == ["api", "datasets"]:
            revision = parts[5] if len(parts) > 5 else "main"
            return self._describe("/".join(parts[2:4]), revision, fault)
        if parts[0] == "datasets" and parts[3] == "resolve":
            return self._resolve("/".join(parts[1:3]), parts[4], "/".join(parts[5:]), fault)
        return self._send(404, b"", {})

    def _commit(self, repo: str, revision: str) -> str | None:
        """Find a commit, or answer that there is none."""
        if not any(name == repo for name, _ in self.hub.commits):
            self._send(404, b"", {"X-Error-Code": "RepoNotFound"})
            return None
        commit = self.hub.commits.get((repo, revision))
        if commit is None:
            self._send(404, b"", {"X-Error-Code": "RevisionNotFound"})
        return commit

    def _describe(self, repo: str, revision: str, fault: Fault | None) -> None:
        commit = self._commit(repo, revision)
        if commit is None:
            return
        siblings = []
        for name, content in self.hub.files[repo, commit].items():
            entry: dict[str, Any] = {"rfilename": name, "size": len(content)}
            entry["blobId"] = hashlib.sha1(content).hexdigest()
            if len(content) >= LARGE:
                entry["lfs"] = {
                    "size": len(content), "sha256": digest(content), "pointerSize": 134
                }  # fmt: skip
            else:
                entry["blobId"] = digest(content)
            siblings.append(entry)
        answer = {"id": repo, "sha": commit, "siblings": siblings}
        content = json.dumps(answer).encode() if not fault or not fault.content else fault.content
        self._send(200, content, {"Content-Type": "application/json"})

    def _resolve(self, repo: str, revision: str, name: str, fault: Fault | None) -> None:
        commit = self._commit(repo, revision)
        if commit is None:
            return
        content = self.hub.files[repo, commit].get(name)
        headers = {"X-Repo-Commit": commit}
        if content is None:
            self._send(404, b"", {**headers, "X-Error-Code": "EntryNotFound"})
            return
        headers["ETag"] = f'"{digest(content)}"'
        if len(content) >= LARGE:
            headers["X-Linked-Size"] = str(len(content))
            headers["X-Linked-Etag"] = f'"{digest(content)}"'
            headers["Location"] = f"{self.hub.cdn}/cdn/{repo}/{commit}/{name}"
            self._send(302, b"", headers)
        else:
            self._file(content, headers, fault)

    def _file(self, content: bytes, headers: dict[str, str], fault: Fault | None) -> None:
        fault = fault or Fault("")
        content = content if fault.content is None else fault.content
        status, start, whole = 200, 0, len(content)
        asked = self.headers.get("Range", "")
        if asked.startswith("bytes=") and not fault.ignore_range:
            start = int(asked[6:].partition("-")[0])
            if start >= whole:
                self._send(416, b"", {"Content-Range": f"bytes */{whole}"})
                return
            status = 206
            headers = {**headers, "Content-Range": f"bytes {start}-{whole - 1}/{whole}"}
        self._send(status, content[start:], {**headers, **fault.headers}, fault)

    def _send(
        self, status: int, content: bytes, headers: dict[str, str], fault: Fault | None = None
    ) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if fault is None or fault.length:
            self.send_header("Content-Length", str(len(content)))
        else:
            self.send_header("Connection", "close")
            self.close_connection = True
        self.end_headers()
        if self.command == "HEAD":
            return
        if fault and fault.cut:
            content = content[: int(len(content) * fault.cut)]
            self.close_connection = True
        self.wfile.write(content)
