"""A local server that speaks OpenAI's protocol of files and batches, and counts what is paid.

with BatchServer() as server:
    server.validate = lambda lines: [{"code": "token_limit_exceeded", "message": "full"}]
    ... run with engine "batch" at server.base_url ...
    assert not server.paid
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections import Counter
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from llm_server import Answer, Asked, sensible

Lines = list[dict[str, Any]]


class BatchServer:
    """The server.

    Attributes
    ----------
    behave : callable
        The reply to each request, as in `llm_server`.
    validate : callable
        The errors of a batch's lines, by which it fails; none lets it pass.
    status : callable
        The status of a batch that has passed, from how often it was looked at (from 1).
    asked_of : callable
        Whether a request is asked before the batch ends; what is not, expires.
    trouble : callable
        For (method, path): None, "before" or "after" (hang up before or after it is done), or an
        `Answer` to send instead.
    paid : Counter
        How often each custom_id was answered.
    """

    def __init__(self) -> None:
        self.behave: Callable[[Asked], Answer] = sensible
        self.validate: Callable[[Lines], Lines] = lambda lines: []
        self.status: Callable[[int], str] = lambda looks: "completed"
        self.asked_of: Callable[[str], bool] = lambda custom_id: True
        self.trouble: Callable[[str, str], str | Answer | None] = lambda method, path: None
        self.paid: Counter[str] = Counter()
        self.files: dict[str, tuple[str, bytes]] = {}
        self.batches: dict[str, dict[str, Any]] = {}
        self.seen: list[tuple[str, str]] = []
        self._looks: Counter[str] = Counter()
        self._lock = threading.Lock()

    def __enter__(self) -> BatchServer:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: object) -> None:
                pass

            def do_GET(self) -> None:
                outer.handle(self)

            do_POST = do_DELETE = do_GET  # noqa: N815

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    @property
    def uploaded(self) -> list[int]:
        """How many requests each batch was made of, in order."""
        return [one["lines"] for one in self.batches.values()]

    def handle(self, http: Any) -> None:
        content = http.rfile.read(int(http.headers.get("content-length") or 0))
        method, path = http.command, http.path.partition("?")[0].removeprefix("/v1")
        with self._lock:
            self.seen.append((method, path))
            trouble = self.trouble(method, path)
            if trouble == "before":
                http.close_connection = True
                return
            if isinstance(trouble, Answer):
                status, body = trouble.status, trouble.body
            else:
                status, body = self._do(method, path, content, http.headers)
        if trouble == "after":
            http.close_connection = True
            return
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        http.send_response(status)
        kind = "application/octet-stream" if isinstance(body, bytes) else "application/json"
        http.send_header("content-type", kind)
        http.send_header("content-length", str(len(raw)))
        http.end_headers()
        http.wfile.write(raw)

    def _do(self, method: str, path: str, content: bytes, headers: Any) -> tuple[int, Any]:
        if (method, path) == ("POST", "/files"):
            mark = b"--" + re.search("boundary=(.*)", headers["content-type"]).group(1).encode()
            part = next(one for one in content.split(mark) if b"filename=" in one)
            head, _, data = part.partition(b"\r\n\r\n")
            name = re.search(rb'filename="([^"]*)"', head).group(1).decode()
            return 200, self._file(self._add(name, data.removesuffix(b"\r\n")))
        if (method, path) == ("GET", "/files"):
            told = [self._file(one) for one in reversed(self.files)]
            return 200, {"object": "list", "data": told, "has_more": False}
        if (method, path) == ("POST", "/batches"):
            return 200, self._make(json.loads(content))
        if (method, path) == ("GET", "/batches"):
            told = list(reversed(self.batches.values()))
            return 200, {"object": "list", "data": told, "has_more": False}
        kind, name, *rest = path.strip("/").split("/")
        if kind == "batches" and name in self.batches:
            return 200, self._look(self.batches[name])
        if kind == "files" and name in self.files:
            if method == "DELETE":
                del self.files[name]
                return 200, {"id": name, "object": "file", "deleted": True}
            return 200, self.files[name][1] if rest else self._file(name)
        return 404, {"error": {"message": f"no such {kind}: {name}", "code": None}}

    def _add(self, name: str, data: bytes) -> str:
        file_id = f"file-{len(self.seen)}-{len(self.files)}"
        self.files[file_id] = name, data
        return file_id

    def _file(self, file_id: str) -> dict[str, Any]:
        name, data = self.files[file_id]
        told = {"id": file_id, "object": "file", "bytes": len(data), "filename": name}
        return {**told, "created_at": int(time.time()), "purpose": "batch", "status": "processed"}

    def _make(self, told: dict[str, Any]) -> dict[str, Any]:
        assert told["completion_window"] == "24h"
        lines = self.files[told["input_file_id"]][1].count(b"\n")
        batch = {
            **{"id": f"batch_{len(self.batches) + 1}", "object": "batch", "status": "validating"},
            **{"created_at": int(time.time()), "lines": lines, **told},
        }
        self.batches[batch["id"]] = batch
        return batch

    def _look(self, batch: dict[str, Any]) -> dict[str, Any]:
        if batch["status"] not in ("validating", "in_progress"):
            return batch
        _, data = self.files[batch["input_file_id"]]
        lines = [json.loads(line) for line in data.splitlines()]
        errors = self.validate(lines)
        if errors:
            told = [{"line": None, "param": None, **one} for one in errors]
            batch.update(status="failed", errors={"object": "list", "data": told})
            return batch
        self._looks[batch["id"]] += 1
        batch["status"] = self.status(self._looks[batch["id"]])
        if batch["status"] in ("completed", "expired", "cancelled"):
            self._answer(batch, lines)
        return batch

    def _answer(self, batch: dict[str, Any], lines: Lines) -> None:
        good, bad = [], []
        for number, line in enumerate(lines, 1):
            told = {"id": f"r{number}", "custom_id": line["custom_id"], "error": None}
            if not self.asked_of(line["custom_id"]):
                late = {"code": "batch_expired", "message": "not executed in time"}
                bad.append({**told, "response": None, "error": late})
                continue
            answer = self.behave(Asked(line["body"], {}, number, self.paid[line["custom_id"]]))
            response = {"status_code": answer.status, "request_id": "q", "body": answer.body}
            (good if answer.status == 200 else bad).append({**told, "response": response})
            self.paid[line["custom_id"]] += answer.status == 200
        counts = {"total": len(lines), "completed": len(good), "failed": len(bad)}
        batch["request_counts"] = counts
        for name, found in (("output_file_id", reversed(good)), ("error_file_id", bad)):
            data = b"".join(json.dumps(one).encode() + b"\n" for one in found)
            if data:
                batch[name] = self._add(f"{batch['id']}_{name}.jsonl", data)
