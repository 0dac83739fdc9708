"""Processes that are started, killed, paused and started again; what is done to each is written down."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from tests.processes.consuming.disturbed import FENCED, KILL, STOP, Disturbed
from tests.processes.consuming.orders import Order, Orders
from tests.servers import die_with_parent
from tests.tree import ROOT
from tests.waiting import wait_until


@dataclass
class Place:
    """A place in the run, and the process that fills it now. ``command`` is told how often it was started before."""

    name: str
    command: Callable[[int], list[str]]
    errors: Path
    orders: Orders
    starts: int = 0
    running: subprocess.Popen[bytes] | None = None
    stopped_s: float | None = None
    former: list[tuple[str, subprocess.Popen[bytes], float]] = field(default_factory=list)
    """Processes whose name another took, and since when."""

    @property
    def process(self) -> str:
        """The name of the process that fills it now."""
        return f"{self.name}.{self.starts - 1}"

    @property
    def lives(self) -> bool:
        return self.running is not None and self.running.poll() is None

    def start(self) -> None:
        self.orders.write(Order.START, self.name)
        command = [*die_with_parent(), *self.command(self.starts)]
        self.starts += 1
        with self.errors.open("ab") as errors:
            # In a session of its own: a Ctrl-C is for who drives the run.
            self.running = subprocess.Popen(
                command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=errors, stderr=errors, start_new_session=True
            )

    def revive(self, *, unless: Iterable[int] = ()) -> bool:
        """Start again if the process has ended by itself, but in one of these ways. Whether it had to be."""
        if self.running is not None and (self.running.poll() is None or self.running.returncode in unless):
            return False
        if self.running is not None:
            self._note_end(self.running.returncode)
        self.start()
        return True

    def kill(self) -> None:
        assert self.running is not None, "it was started"
        from_s = self._begin(KILL)
        self.running.kill()
        self.running.wait()
        self.orders.over(Disturbed(KILL, self.process, from_s, time.monotonic()))

    def take_name(self) -> None:
        """Start another process beside it that goes by the same name; the former one ends by itself when it finds that out."""
        assert self.running is not None, "it was started"
        self.former.append((self.process, self.running, self._begin(FENCED)))
        self.start()

    def end_former(self, patience_s: float) -> None:
        """Those that lost their name, and had nothing to do since, do not know it: ask them to end."""
        for process, running, from_s in self.former:
            running.send_signal(signal.SIGTERM)
            wait_until(partial(_has_ended, running), f"{process} ends", timeout_s=patience_s)
            self._note_end(running.returncode)
            self.orders.over(Disturbed(FENCED, process, from_s, time.monotonic()))
        self.former.clear()

    def step_clock(self) -> None:
        """Set its wall clock ahead or back."""
        if self.lives and self.running is not None:
            self.running.send_signal(signal.SIGUSR1)

    def stop(self) -> None:
        assert self.running is not None, "it was started"
        self.stopped_s = self._begin(STOP)
        self.running.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """After a stop; else nothing."""
        if self.stopped_s is not None and self.running is not None:
            self.running.send_signal(signal.SIGCONT)
            self.orders.over(Disturbed(STOP, self.process, self.stopped_s, time.monotonic()))
        self.stopped_s = None

    def end(self, patience_s: float, meanwhile: Callable[[], object] = lambda: None) -> None:
        """Ask it to end, and wait until it has, doing something ``meanwhile``, again and again."""
        running = self.running
        if running is None or running.poll() is not None:
            return
        running.send_signal(signal.SIGTERM)

        def has_ended() -> bool:
            meanwhile()
            return running.poll() is not None

        wait_until(has_ended, f"{self.process} ends", timeout_s=patience_s)
        self._note_end(running.returncode)

    def _begin(self, kind: str) -> float:
        from_s = time.monotonic()
        self.orders.begun(kind, self.process, from_s)
        return from_s

    def _note_end(self, code: int) -> None:
        self.orders.write(Order.ENDED, self.name, code)

    def destroy(self) -> None:
        """Whatever state it is in."""
        for running in (self.running, *(one for _, one, _ in self.former)):
            if running is not None:
                running.kill()
                running.wait()


def _has_ended(running: subprocess.Popen[bytes]) -> bool:
    return running.poll() is not None
