"""A test that failed while its process or its disk stood still is run once more: what needs a running clock was not tried.

Where machines are shared, one is halted for seconds now and then, or its disk is. A consumer that stood still for longer than its lease, or
could not renew it in a file for so long, has lost it, as it should (the simulation tests that), and a test of something else fails. What
was run again is named at the end of the run. A process that was busy itself did not stand still: a test that kept every other thread from
running stays failed.
"""

from __future__ import annotations

import tempfile
import threading
import time
from dataclasses import dataclass
from os import fsync  # not by the name that tests put something of their own in place of

import pytest
from _pytest.runner import runtestprotocol

from tests.figures import FIGURES

STALL_S = 2.0
_TICK_S = 0.1
_DISK_TICK_S = 1.0
_BUSY_SHARE = 0.5
_SHORTEST_S = 0.005
"""pytest's list of the slowest has nothing shorter."""


@dataclass(frozen=True, slots=True)
class Stall:
    """A time in which no thread of this process ran, or nothing could be made durable."""

    until_s: float
    length_s: float


def stall_between(before_s: float, after_s: float, cpu_s: float, *, meant_s: float = _TICK_S) -> Stall | None:
    """What two looks at the clocks, meant to be so far apart, say; ``cpu_s`` is what the process used between them."""
    length_s = after_s - before_s - meant_s
    return Stall(after_s, length_s) if length_s >= STALL_S and cpu_s < _BUSY_SHARE * length_s else None


def is_read(report: pytest.TestReport) -> bool:
    """Whether anybody reads it. What comes before and after a test is, if it failed, said something, or took time."""
    return report.when == "call" or not report.passed or bool(report.sections) or report.duration >= _SHORTEST_S


class Stalls:
    """Watches clock and disk, each in a thread, and runs tests again."""

    def __init__(self) -> None:
        self._stalls: list[Stall] = []
        self._over = threading.Event()

    def pytest_sessionstart(self) -> None:
        threading.Thread(target=self._watch, name="stalls", daemon=True).start()
        threading.Thread(target=self._watch_disk, name="stalls-disk", daemon=True).start()

    def pytest_sessionfinish(self) -> None:
        self._over.set()

    def _watch(self) -> None:
        before_s, cpu_before_s = time.monotonic(), time.process_time()
        while not self._over.wait(_TICK_S):
            after_s, cpu_after_s = time.monotonic(), time.process_time()
            stall = stall_between(before_s, after_s, cpu_after_s - cpu_before_s)
            if stall is not None:
                self._stalls.append(stall)
            before_s, cpu_before_s = after_s, cpu_after_s

    def _watch_disk(self) -> None:
        with tempfile.TemporaryFile(buffering=0) as file:
            while not self._over.wait(_DISK_TICK_S):
                before_s, cpu_before_s = time.monotonic(), time.process_time()
                file.write(b".")
                fsync(file.fileno())
                stall = stall_between(before_s, time.monotonic(), time.process_time() - cpu_before_s, meant_s=0.0)
                if stall is not None:
                    self._stalls.append(stall)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        # With xdist each message costs two processes as much as a small test, and no line waits to be begun or ended by these.
        is_worker = hasattr(item.config, "workerinput")
        if not is_worker:
            item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        began_s = time.monotonic()
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
        stalls = [stall for stall in self._stalls if stall.until_s > began_s]
        if stalls and any(report.failed for report in reports):
            item._initrequest()  # type: ignore[attr-defined]
            reports = runtestprotocol(item, log=False, nextitem=nextitem)
            longest_s = max(stall.length_s for stall in stalls)
            text = f"run again: its process or its disk had stood still\n{item.nodeid} ({longest_s:.1f} s)"
            for report in reports:
                if report.when == "call":
                    report.user_properties.append((FIGURES, text))
        for report in reports:
            if not is_worker or is_read(report):
                item.ihook.pytest_runtest_logreport(report=report)
        if not is_worker:
            item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True
