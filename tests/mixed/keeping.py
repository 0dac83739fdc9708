"""Processes that run beside the others of a run, and are killed or ended now and then."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.servers import die_with_parent
from tests.waiting import wait_until

PATIENCE_S: Final = 180.0


@dataclass
class Kept:
    """A place, and the process that fills it now. ``command`` is told how often it was started before."""

    name: str
    command: Callable[[int], Sequence[str]]
    folder: Path
    environment: dict[str, str] = field(default_factory=dict)
    starts: int = 0
    running: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [*die_with_parent(), *self.command(self.starts)]
        self.starts += 1
        with (self.folder / f"{self.name}.log").open("ab") as log:
            self.running = subprocess.Popen(
                command,
                env={**os.environ, **self.environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def end(self, number: signal.Signals) -> int:
        """Its exit code, after such a signal; 0 if there is none. Raises `RuntimeError` where it had ended by itself."""
        if (running := self.running) is None:
            return 0
        if (code := running.poll()) is not None:
            raise RuntimeError(f"{self.name} ended by itself with {code}: {self.said()}")
        running.send_signal(number)
        wait_until(lambda: running.poll() is not None, f"{self.name} ends", timeout_s=PATIENCE_S)
        self.running = None
        return running.returncode

    def run(self) -> None:
        """Start it, and return when it has ended well. Raises `RuntimeError`."""
        self.start()
        assert self.running is not None
        if code := self.running.wait(PATIENCE_S):
            raise RuntimeError(f"{self.name} ended with {code}: {self.said()}")
        self.running = None

    def said(self) -> str:
        return (self.folder / f"{self.name}.log").read_text(errors="replace")[-3_000:]

    def destroy(self) -> None:
        if self.running is not None:
            self.running.kill()
            self.running.wait()


def troubled(kept: Sequence[Kept], chance: random.Random, over: threading.Event, pause_s: tuple[float, float]) -> Counter[str]:
    """Kill or end one after the other, and start it again, until the run is ``over``. What was done."""
    done: Counter[str] = Counter()
    for one in kept:
        one.start()
    while not over.wait(chance.uniform(*pause_s)):
        one, how = chance.choice(kept), chance.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGTERM))
        one.end(how)
        one.start()
        done[f"{'kill' if how is signal.SIGKILL else 'restart'} {one.name}"] += 1
    return done
