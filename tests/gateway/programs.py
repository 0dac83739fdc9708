"""Clients' programs as processes that tests drive: commands are lines of JSON on their input, answers and events on their output."""

from __future__ import annotations

import contextlib
import itertools
import json
import queue
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any

PATIENCE_S = 120.0
"""How long a test waits for what should come, on a machine that is busy with other things."""


class ProgramError(Exception):
    """What the client raised: its class, the protocol's code if it has one, and its text."""

    def __init__(self, refusal: dict[str, Any]) -> None:
        super().__init__(f"{refusal['type']}: {refusal['text']}")
        self.type: str = refusal["type"]
        self.code: int | None = refusal.get("code")


class Program:
    """A running client program. Commands may be called from any thread; events come in the order in which they were printed."""

    def __init__(self, name: str, command: list[str], folder: Path, environment: Mapping[str, str]) -> None:
        self.name = name
        self._log = (folder / "log").open("wb")
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, env=dict(environment), cwd=folder, text=True
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
        """Carry out a command. Raises `ProgramError` with what the client raised."""
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
                self._asked.pop(said["id"]).set_exception(ProgramError(said["error"]))
            else:
                self._asked.pop(said["id"]).set_result(said.get("ok"))
        for answer in self._asked.values():
            answer.set_exception(EOFError(f"the {self.name} client ended"))

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
