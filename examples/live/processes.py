"""Commands in processes of their own, as a user starts them, and when each of them is killed."""

from __future__ import annotations

import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from .errors import DemoFailedError

PENSTOCK = [sys.executable, "-c", "from penstock.infra.cli import main; main(prog_name='penstock')"]
GOODBYE_S = 30.0
SYNC_IN = 3
"""Of so many kills one hits the sync: whoever takes over from it first waits until its lease is over, some six seconds."""


class Service:
    """One command, which should run until it is ended, and is started again when it was killed."""

    def __init__(self, name: str, command: Sequence[str], folder: Path, *, shown: str) -> None:
        """``shown``: the command as people type it."""
        self.name, self.kills = name, 0
        self._command, self._folder, self._log, self._shown = command, folder, folder / f"{name}.log", shown
        self._process: subprocess.Popen[bytes] | None = None

    @classmethod
    def of_penstock(cls, name: str, words: Sequence[str], folder: Path) -> Self:
        return cls(name, [*PENSTOCK, *words], folder, shown=shlex.join(["penstock", *words]))

    def __str__(self) -> str:
        return self._shown

    def start(self) -> None:
        # What is killed leaves its temporary files.
        environment = {**os.environ, "PYTHONUNBUFFERED": "1", "TMPDIR": str(self._folder)}
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                ending_with_us(self._command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,
            )

    def check(self) -> None:
        """Raise `DemoFailedError` if it has ended by itself."""
        if self._process is not None and (code := self._process.poll()) is not None:
            raise DemoFailedError(f"`{self}` ended by itself, with exit code {code}: {self.said()}")

    def kill(self) -> None:
        """As kill -9 does it, and start it again."""
        self.check()
        assert self._process is not None, "it was started"
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        self.kills += 1
        self.start()

    def end(self) -> None:
        """Let it end in order. What does not is killed."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(GOODBYE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def said(self) -> str:
        """The end of what it said."""
        return self._log.read_text(errors="replace")[-1000:].strip()


@dataclass(frozen=True)
class Kill:
    """Who is killed, and when, from the opening of the shop on."""

    at_s: float
    service: str


def kills(seconds: float, every_s: float, chance: random.Random) -> list[Kill]:
    """When `capture` and `sync` are killed. Each is killed at least once."""
    if every_s <= 0:
        return []
    count = max(2, int(seconds / every_s))
    return [
        Kill((number + chance.uniform(0.3, 0.7)) * seconds / count, "sync" if number % SYNC_IN == 1 else "capture")
        for number in range(count)
    ]


def ending_with_us(command: Sequence[str]) -> list[str]:
    """The command, so that its process ends with the demo even if that is killed (Linux)."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "KILL", *command] if setpriv else [*command]


def end_by_signals() -> None:
    """Have the first SIGINT or SIGTERM end the demo in order; another one does not disturb that."""
    for one in (signal.SIGINT, signal.SIGTERM):
        signal.signal(one, _ended_by)


def _ended_by(number: int, _: object) -> None:
    for one in (signal.SIGINT, signal.SIGTERM):
        signal.signal(one, signal.SIG_IGN)
    raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(128 + number)
