"""RocketMQ's official SDKs as processes: one program in five languages, driven by lines of JSON (`clients/commands.md`).

They are pointed at a gateway or at a real RocketMQ, and know no difference.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

_SDKS = Path(os.environ.get("PENSTOCK_CACHE") or Path.home() / ".cache" / "penstock") / "sdks"
_CLIENTS = Path(__file__).parent / "clients"


def _digest(*files: Path) -> str:
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]


GO = _SDKS / f"go-5.1.3-{_digest(*(_CLIENTS / 'go' / name for name in ('client.go', 'go.mod', 'go.sum')))}"
"""The client program, compiled with the SDK by `make sdks`."""
JAVA = _SDKS / "java-5.2.0"
NODE = _SDKS / "node-1.0.8"
PYTHON = _SDKS / "python-5.1.2"
RUST = _SDKS / f"rust-5.0.0-{_digest(_CLIENTS / 'rust' / 'Cargo.toml', _CLIENTS / 'rust' / 'src' / 'main.rs')}"
"""The client program, compiled with the SDK by `make sdks-rust`."""
PUSHING = {"go": GO, "java": JAVA, "node": NODE, "python": PYTHON}
"""The SDKs that have all kinds of clients."""
SDKS = {**PUSHING, "rust": RUST}
THOROUGH = ("go", "node")
"""The SDKs whose tests one by one are left to `make test-all`; where all SDKs play at once they play too."""
PATIENCE_S = 120.0
"""How long a test waits for what should come, on a machine that is busy with other things."""


def in_turns(languages: Iterable[str]) -> list[Any]:
    """The parameters of tests that each SDK plays by itself."""
    return [pytest.param(one, marks=pytest.mark.thorough if one in THOROUGH else ()) for one in languages]


class SdkError(Exception):
    """What the SDK raised: its class, the protocol's code if it has one, and its text."""

    def __init__(self, refusal: dict[str, Any]) -> None:
        super().__init__(f"{refusal['type']}: {refusal['text']}")
        self.type: str = refusal["type"]
        self.code: int | None = refusal.get("code")


class Sdk:
    """A running client program. Commands may be called from any thread; events come in the order in which they were printed."""

    def __init__(self, language: str, command: list[str], folder: Path) -> None:
        self.language = language
        environment = {**os.environ, "HOME": str(folder), "PYTHONPATH": str(PYTHON), "PYTHONWARNINGS": "ignore"}
        environment["rocketmq.client.logRoot"] = str(folder / "logs")  # Go's, which else writes into the root's folder
        self._log = (folder / "log").open("wb")
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, env=environment, cwd=folder, text=True
        )
        self._numbers = itertools.count(1)
        self._asked: dict[int, Future[Any]] = {}
        self._events: queue.Queue[dict[str, Any]] = queue.Queue()
        self.seen: list[dict[str, Any]] = []
        """All events so far that `event` or `until` took."""
        self._writing = threading.Lock()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def start(self, op: str, **arguments: Any) -> Future[Any]:
        """Send a command, and give what will be its answer."""
        answer: Future[Any] = Future()
        with self._writing:
            number = next(self._numbers)
            self._asked[number] = answer
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps({"id": number, "op": op, **arguments}) + "\n")
            self._process.stdin.flush()
        return answer

    def call(self, op: str, **arguments: Any) -> Any:
        """Carry out a command. Raises `SdkError` with what the SDK raised."""
        return self.start(op, **arguments).result(PATIENCE_S)

    def event(self, timeout_s: float = PATIENCE_S) -> dict[str, Any]:
        """The next event. Raises `queue.Empty` when none comes."""
        event = self._events.get(timeout=timeout_s)
        self.seen.append(event)
        return event

    def until(self, enough: Callable[[list[dict[str, Any]]], bool]) -> list[dict[str, Any]]:
        """Take events until those so far are enough, and give them all."""
        while not enough(self.seen):
            self.event()
        return self.seen

    def drain_events(self) -> None:
        """Take the events that there are."""
        self.seen += self.take()

    def take(self) -> Iterator[dict[str, Any]]:
        """The events that there are, kept nowhere."""
        with contextlib.suppress(queue.Empty):
            while True:
                yield self._events.get_nowait()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            said = json.loads(line)
            if "event" in said:
                self._events.put(said)
            elif "error" in said:
                self._asked.pop(said["id"]).set_exception(SdkError(said["error"]))
            else:
                self._asked.pop(said["id"]).set_result(said.get("ok"))
        for answer in self._asked.values():
            answer.set_exception(EOFError(f"the {self.language} client ended"))

    def kill(self) -> None:
        self._process.kill()

    def end(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.kill()  # a client that is closed waits for its long polls: a test that wants that says "close"
        self._process.wait()
        self._reader.join()
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.stdout.close()
        self._log.close()


@contextlib.contextmanager
def sdk(language: str, endpoints: str, folder: Path) -> Iterator[Sdk]:
    """The client program in a language (``go``, ``java``, ``node``, ``python`` or ``rust``), for as long as the block."""
    folder.mkdir(parents=True, exist_ok=True)
    running = Sdk(language, _command(language, endpoints), folder)
    try:
        yield running
    finally:
        running.end()


def _command(language: str, endpoints: str) -> list[str]:
    if language == "java":
        class_path = os.pathsep.join([str(JAVA / "*"), str(_compiled())])
        # One core for its compiler and collector: the tests' machines are small, and the programs short.
        flags = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Xmx512m"]
        return ["java", *flags, "-cp", class_path, "Client", endpoints]
    if language == "go":
        return [str(GO / "client"), endpoints]
    if language == "rust":
        return [str(RUST / "client"), endpoints]
    if language == "node":
        return ["node", str(_CLIENTS / "client.mjs"), endpoints, str(NODE)]
    return [sys.executable, "-S", str(_CLIENTS / "client.py"), endpoints]


def _compiled() -> Path:
    """The classes of Client.java, compiled once for each version of it."""
    source = _CLIENTS / "Client.java"
    target = _SDKS / f"classes-{_digest(source)}"
    if not target.exists():
        scratch = tempfile.mkdtemp(dir=_SDKS)
        subprocess.run(["javac", "-cp", str(JAVA / "*"), "-d", scratch, str(source)], check=True)
        try:
            os.rename(scratch, target)
        except OSError:  # another process was quicker
            shutil.rmtree(scratch)
    return target
