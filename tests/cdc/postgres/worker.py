"""`penstock capture`, as its own process that writes down the points it reaches, and may kill itself at one of them.

    python -m tests.cdc.postgres.worker JOURNAL POINT:COUNT CHUNK_ROWS postgres DSN --topic …

COUNT: the how manyeth time; POINT may be ``never``.
"""

from __future__ import annotations

import functools
import os
import signal
import sys
from collections import Counter
from pathlib import Path

from penstock.cdc import postgres
from penstock.cdc.capture import chunks
from penstock.cdc.postgres import follower, outbox
from penstock.infra.cli.main import main

BATCH_EVENTS_MAX = 40
CONFIRM_S = 0.05


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


if __name__ == "__main__":
    journal, fatal, chunk_rows, *arguments = sys.argv[1:]
    chunks.CHUNK_ROWS_MAX = int(chunk_rows)
    outbox.BATCH_EVENTS_MAX = BATCH_EVENTS_MAX
    follower._CONFIRM_S = CONFIRM_S
    points = Points(Path(journal), fatal)
    postgres.PostgresCapture = functools.partial(postgres.PostgresCapture, reached=points.reached)  # type: ignore[assignment,misc]
    main(["capture", *arguments])
