"""A PostgreSQL whose captures are killed; a second slot says what they must have told."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import psycopg

from tests.cdc.killing import TOPIC, CaptureRun, Source
from tests.cdc.postgres.judge import check_stream, comparable, events_of, expected_changes, folded, selected
from tests.cdc.postgres.writers import LOAD, SCHEMA, PostgresWriters
from tests.postgres_server import PostgresServer, postgres_server


class PostgresSource(Source):
    begins_at = ("published:1", "slot created:1")
    points = (
        "chunk planned:1",
        "chunk sent:3",
        "chunk durable:5",
        "table done:1",
        "snapshot done:1",
        "batch sent:20",
        "batch durable:1",
        "confirmed:2",
    )
    points_of_stream = ("batch sent", "batch durable", "confirmed")
    crashes = (signal.SIGQUIT, signal.SIGINT)
    batches_max = 25

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self._since_lsn = 0
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute(SCHEMA)
            connection.execute(LOAD)

    @property
    def server(self) -> PostgresServer:
        return self._server

    def command(self) -> Sequence[str]:
        return "postgres", self._server.dsn

    def environment(self) -> Mapping[str, str]:
        return {}

    @contextmanager
    def written(self, run: CaptureRun) -> Iterator[None]:
        writers = PostgresWriters(self._server.dsn, count=3, seed=run.chance.randrange(10_000))
        with writers:
            for point in self.begins_at:
                run.die_at(point)
            # A second slot, of before the snapshot, is the judge of what the first one told.
            with psycopg.connect(self._server.dsn, autocommit=True) as connection:
                reached = "SELECT pg_wal_lsn_diff(confirmed_flush_lsn, '0/0')::int8 FROM pg_replication_slots"
                [(self._since_lsn,)] = connection.execute(reached)
                connection.execute("SELECT pg_copy_logical_replication_slot('penstock', 'judge')")
            yield
            writers.commit_more()

    def change_seldom(self) -> None:
        with psycopg.connect(self._server.dsn, autocommit=True) as connection:
            connection.execute("TRUNCATE visits")

    def check(self, lake: str) -> None:
        events = events_of(lake, TOPIC)
        check_stream(events, expected_changes(self._server.dsn, "judge", "penstock", self._since_lsn))
        wanted = comparable(selected(self._server.dsn))
        for batches in (1, 7):
            assert comparable(folded(events, batches=batches)) == wanted
        kinds = Counter(event.op for event in events)
        assert all(kinds[op] > 5 for op in "rcud"), kinds
        assert kinds["t"], kinds


@contextmanager
def postgres_source(_: Path | None = None) -> Iterator[PostgresSource]:
    with postgres_server() as server:
        yield PostgresSource(server)
