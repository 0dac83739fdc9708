"""Plays the requests at a server and prints, or keeps, what it answered."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.benchmarks.peers.servers import KAFKA_PORT, kafka
from tests.gateway.kafka.serving import served

from .played import PLAYS, play_all
from .table import KAFKA


@asynccontextmanager
async def server(given: argparse.Namespace) -> AsyncIterator[str]:
    """Its address."""
    if given.endpoint is not None:
        yield given.endpoint
    elif given.kafka:
        with tempfile.TemporaryDirectory() as folder, kafka(Path(folder)):
            yield f"127.0.0.1:{KAFKA_PORT}"
    else:
        async with served(create_topics=True) as gateway:
            yield f"127.0.0.1:{gateway.port}"


async def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.gateway.kafka.side_by_side", description=__doc__)
    parser.add_argument("--endpoint", help="a server that runs, HOST:PORT (default: a gateway of its own)")
    parser.add_argument("--kafka", action="store_true", help="start a Kafka from Maven Central, which needs Java and Maven")
    parser.add_argument("--only", help="plays, by their names")
    parser.add_argument("--keep", choices=["kafka", "penstock"], help="keep the outcomes under this name in outcomes.json")
    parser.add_argument("--page", action="store_true", help="write the page of the documents anew from outcomes.json")
    given = parser.parse_args()
    if given.page:
        KAFKA.page.write_text(KAFKA.written())
        return
    plays = [play for play in PLAYS if given.only is None or play.name in given.only.split(",")]
    async with server(given) as address:
        found = await play_all(plays, address, f"p{int(time.time()) % 100_000}")
    json.dump(found, sys.stdout, indent=1, ensure_ascii=False)
    if given.keep is not None:
        KAFKA.kept_in.write_text(KAFKA.kept(given.keep, found))


if __name__ == "__main__":
    asyncio.run(main())
