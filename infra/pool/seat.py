"""A worker's own side of the pool: its number, and the channel to its parent."""

from __future__ import annotations

import json
import logging
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ..metrics import metrics_server, metrics_text
from ..terminal.parent_input import ParentLines

if TYPE_CHECKING:
    from ...log.metrics import MemoryMetrics

log = logging.getLogger("penstock.pool")

WORKER_VARIABLE: Final = "PENSTOCK_WORKER"
"""The environment variable with a worker's number, for handlers."""


@dataclass(frozen=True, slots=True)
class Seat:
    """The place of a worker process in its pool."""

    number: int
    """Counted from 1. A worker that is replaced leaves it to the next one."""
    channel: int
    """The open file that leads to the parent."""

    def __str__(self) -> str:
        return f"{self.number}:{self.channel}"

    @staticmethod
    def parse(text: str) -> Seat:
        """Raises `ValueError`."""
        number, _, channel = text.partition(":")
        return Seat(int(number), int(channel))


class ParentLink:
    """What a process tells the parent of its pool. One without a parent tells nobody."""

    def __init__(self, seat: Seat | None, metrics_port: int | None = None) -> None:
        self._seat = seat
        self._writing = threading.Lock()
        self.metrics_port = metrics_port
        """The port where this process itself serves metrics."""

    @property
    def has_parent(self) -> bool:
        return self._seat is not None

    def ready(self) -> None:
        """Tell that all is open, and the work begins."""
        self._say(said="ready")

    def finished(self) -> None:
        """Tell that the work is done, so that nobody takes this worker's place."""
        self._say(said="finished")

    def answer(self, question: dict[str, object], metrics: MemoryMetrics) -> None:
        """Answer the parent."""
        self._say(said="metrics", id=question["id"], text=metrics_text(metrics))

    def _say(self, **what: object) -> None:
        if self._seat is None:
            return
        line = json.dumps(what).encode() + b"\n"
        with self._writing:
            try:
                while line:
                    line = line[os.write(self._seat.channel, line) :]
            except (BrokenPipeError, ConnectionResetError):
                return  # the parent is gone, which the listening thread hears too


@contextmanager
def parent_link(seat: Seat | None, metrics: MemoryMetrics, metrics_port: int | None, metrics_host: str) -> Iterator[ParentLink]:
    """The link to the parent inside the block.

    A process without one serves its own metrics, if there is a port for them. A worker answers its parent, and gets SIGTERM when the parent ends.
    """
    if seat is None:
        with metrics_server(metrics, metrics_port, metrics_host) as shown:
            yield ParentLink(None, shown)
        return
    os.set_inheritable(seat.channel, False)
    link = ParentLink(seat)
    threading.Thread(target=_hear, args=(seat.channel, link, metrics), name="penstock-parent", daemon=True).start()
    yield link


def _hear(channel: int, link: ParentLink, metrics: MemoryMetrics) -> None:
    for line in ParentLines(channel):
        try:
            link.answer(json.loads(line), metrics)
        except Exception:
            log.exception("the parent's question cannot be answered")
    os.kill(os.getpid(), signal.SIGTERM)
