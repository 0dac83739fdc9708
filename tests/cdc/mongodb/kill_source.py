"""A MongoDB whose captures are killed; its own stream of changes says what they must have told."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from penstock.cdc.mongodb.positions import ClusterTime
from tests.cdc.killing import TOPIC, CaptureRun, Source
from tests.cdc.mongodb.judge import begun_at, check_stream, events_of, folded, found_in, told_by
from tests.cdc.mongodb.writers import DATABASE, MongoWriters, load
from tests.mongodb_server import MongoDBServer, mongodb_server


class MongoSource(Source):
    begins_at = ("begun:1",)
    points = (
        "chunk planned:1",
        "chunk sent:2",
        "chunk durable:3",
        "table done:1",
        "rows done:1",
        "batch sent:4",
        "batch durable:2",
        "place saved:2",
    )
    points_of_stream = ("batch sent", "batch durable", "place saved", "chunk planned", "chunk sent")
    crashes = (signal.SIGKILL, signal.SIGTERM)
    chunk_rows = 60

    def __init__(self, server: MongoDBServer, *, imaged: bool = False) -> None:
        """``imaged``: only documents are changed whose changes tell them as they are then."""
        load(server)
        self._server = server
        self._imaged = imaged
        self.begin = ClusterTime(0, 0)
        """What the capture tells changes behind."""

    @property
    def server(self) -> MongoDBServer:
        return self._server

    def command(self) -> Sequence[str]:
        return "mongodb", self._server.url(DATABASE), "--heartbeat"

    def environment(self) -> Mapping[str, str]:
        return {}

    @contextmanager
    def written(self, run: CaptureRun) -> Iterator[None]:
        for point in self.begins_at:
            run.die_at(point)
        self.begin = begun_at(run.lake)
        with MongoWriters(self._server, count=2, seed=run.chance.randrange(10_000), imaged=self._imaged):
            yield

    def check(self, lake: str) -> None:
        events, told = events_of(lake, TOPIC), told_by(self._server, self.begin)
        check_stream(events, told)
        wanted = found_in(self._server)
        for batches in (1, 7):
            assert folded(events, batches=batches) == wanted
        kinds = Counter(event.op for event in events)
        assert all(kinds[op] > 2 for op in "rcud"), kinds


@contextmanager
def mongodb_source(_: Path | None = None) -> Iterator[MongoSource]:
    with mongodb_server() as server:
        yield MongoSource(server)
