"""`penstock capture mariadb`, as its own process that writes down the points it reaches, and may kill itself at one of them.

    python -m tests.cdc.debezium.worker JOURNAL POINT:COUNT CHUNK_ROWS mariadb URL --topic …

COUNT: the how manyeth time; POINT may be ``never``.
"""

from __future__ import annotations

import functools
import sys
from pathlib import Path

from penstock.cdc import debezium
from penstock.cdc.capture import chunks
from penstock.cdc.debezium import capture, follower
from penstock.infra.cli.main import main
from tests.cdc.postgres.worker import Points

SAVE_S = 0.1

if __name__ == "__main__":
    journal, fatal, chunk_rows, *arguments = sys.argv[1:]
    chunks.CHUNK_ROWS_MAX = int(chunk_rows)
    follower._SAVE_S = SAVE_S
    follower._SIGNALS_S = 0.5
    points = Points(Path(journal), fatal)
    debezium.EngineCapture = functools.partial(capture.EngineCapture, reached=points.reached)  # type: ignore[assignment,misc]
    main(["capture", *arguments])
