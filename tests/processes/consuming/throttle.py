"""A proxy before a DynamoDB that throttles: some requests always, most of them in bursts."""

from __future__ import annotations

import http.client
import json
import random
import threading
import time
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

KINDS = ("ProvisionedThroughputExceededException", "ThrottlingException", "RequestLimitExceeded")
ALWAYS, BURST = 0.05, 0.9
"""Of all requests, and of those in a burst."""
EVERY_S, BURST_S = 8.0, 1.5


class Throttle:
    """Whether the next request is refused, and how."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._lock = threading.Lock()
        self.refused = 0

    def decide(self) -> str | None:
        """The kind of error, or None."""
        with self._lock:
            share = BURST if time.monotonic() % EVERY_S < BURST_S else ALWAYS
            if self._chance.random() >= share:
                return None
            self.refused += 1
            return self._chance.choice(KINDS)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: Any) -> None:
        """A client that was killed is no error."""


@contextmanager
def throttled(endpoint: str, seed: int) -> Iterator[tuple[str, Throttle]]:
    """The endpoint of the proxy, until the block ends."""
    throttle, behind = Throttle(seed), urllib.parse.urlsplit(endpoint)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            kind = throttle.decide()
            if kind is not None:
                text = json.dumps({"__type": f"com.amazonaws.dynamodb.v20120810#{kind}", "message": "slow down"}).encode()
                return self._answer(400, text)
            connection = http.client.HTTPConnection(str(behind.hostname), behind.port, timeout=30)
            try:
                connection.request("POST", self.path, body, dict(self.headers.items()))
                answer = connection.getresponse()
                return self._answer(answer.status, answer.read())
            finally:
                connection.close()

        def _answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/x-amz-json-1.0")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    with _Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", throttle
        finally:
            server.shutdown()
            thread.join()
