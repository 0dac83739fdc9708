"""`penstock capture`, as its own process that writes down the points it reaches, and may kill itself at one of them.

    python -m tests.cdc.worker JOURNAL POINT:COUNT CHUNK_ROWS postgres DSN --topic …

COUNT: at which of its occurrences; POINT may be ``never``. Behind CHUNK_ROWS stands what `penstock capture` takes.
"""

from __future__ import annotations

import functools
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from penstock.cdc import debezium, mongodb, postgres
from penstock.cdc.capture import chunks
from penstock.cdc.capture import follower as source_follower
from penstock.cdc.mongodb import follower as stream_follower
from penstock.cdc.postgres import event_sender
from penstock.cdc.postgres import follower as slot_follower
from penstock.infra.cli.main import main
from tests.cdc.capture.resources import observed


class Points:
    """Where the process has been."""

    def __init__(self, journal: Path, fatal: str) -> None:
        self._journal = journal
        self._point, _, count = fatal.partition(":")
        self._count = int(count or 1)
        self._reached: Counter[str] = Counter()

    def reached(self, point: str) -> None:
        with self._journal.open("a") as journal:
            journal.write(point + "\n")
        self._reached[point] += 1
        if point == self._point and self._reached[point] == self._count:
            os.kill(os.getpid(), signal.SIGKILL)


def be_quick(reached: Callable[[str], None]) -> None:
    """Small batches and short waits, so that a life of seconds comes to every point; ``reached`` is told of each."""
    event_sender.BATCH_EVENTS_MAX = 40
    slot_follower._CONFIRM_S = 0.05
    source_follower.SAVE_S = 0.1
    source_follower._SIGNALS_S = 0.5
    stream_follower._GATHERED_MAX = 20
    postgres.PostgresCapture = functools.partial(postgres.PostgresCapture, reached=reached)  # type: ignore[assignment,misc]
    debezium.EngineCapture = observed(debezium.EngineCapture, reached)  # type: ignore[misc]
    mongodb.MongoCapture = observed(mongodb.MongoCapture, reached)  # type: ignore[misc]


if __name__ == "__main__":
    journal, fatal, chunk_rows, *arguments = sys.argv[1:]
    chunks.CHUNK_ROWS_MAX = int(chunk_rows)
    be_quick(Points(Path(journal), fatal).reached)
    main(["capture", *arguments])
