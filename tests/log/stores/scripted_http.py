"""An HTTP server that answers as told and keeps what it was asked: what the wire sees of a store."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True)
class Answer:
    """One answer; ``sent_bytes`` cuts the body short and breaks the connection."""

    status: int = 200
    code: str | None = None
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    sent_bytes: int | None = None
    silent: bool = False
    """Say nothing until the client gives up."""


@dataclass(frozen=True)
class Request:
    """One request as it came."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class ScriptedServer(ThreadingHTTPServer):
    """Gives the answers in turn, the last one for ever."""

    daemon_threads = True

    def __init__(self, answers: list[Answer]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers = answers
        self.requests: list[Request] = []
        self.released = threading.Event()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: ScriptedServer
    protocol_version = "HTTP/1.1"

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.requests.append(Request(self.command, self.path, headers, body))
        answer = self.server.answers.pop(0) if len(self.server.answers) > 1 else self.server.answers[0]
        if answer.silent:
            self.server.released.wait(30)
            self.close_connection = True
            return
        content = answer.body
        if answer.code:
            content = f"<Error><Code>{answer.code}</Code><Message>as scripted</Message></Error>".encode()
        self.send_response(answer.status)
        for name, value in {"ETag": '"tag"', "Last-Modified": "Fri, 02 Jan 2026 03:04:05 GMT", **answer.headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content[: answer.sent_bytes])
        if answer.sent_bytes is not None:
            self.close_connection = True

    do_PUT = do_GET = do_HEAD = do_DELETE = do_POST = _answer  # noqa: N815 - the names that the base class looks for

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextlib.contextmanager
def scripted_server(*answers: Answer) -> Iterator[ScriptedServer]:
    server = ScriptedServer(list(answers))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.released.set()
        server.shutdown()
        thread.join()
        server.server_close()
