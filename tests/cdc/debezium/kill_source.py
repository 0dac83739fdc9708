"""A MariaDB, or a MySQL, whose captures are killed: rows that count their updates show a change that is missing."""

from __future__ import annotations

import random
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from tests.cdc.debezium.commands import QUICK_JAVA
from tests.cdc.debezium.judge import check_stream, comparable, events_of, folded, selected
from tests.cdc.debezium.writers import LOAD, SCHEMA, BinlogWriters
from tests.cdc.killing import TOPIC, CaptureRun, Source
from tests.mariadb_server import PASSWORD, MariaDBServer, mariadb_server
from tests.mysql_server import find_mysql_driver, mysql_server

SERVERS: dict[str, Callable[..., AbstractContextManager[MariaDBServer]]] = {"mariadb": mariadb_server, "mysql": mysql_server}


class BinlogSource(Source):
    points = (
        "renewed:1",
        "place known:1",
        "history durable:1",
        "begun:1",
        "chunk planned:1",
        "chunk sent:2",
        "chunk durable:3",
        "table done:1",
        "rows done:1",
        "batch sent:4",
        "batch durable:2",
        "place saved:2",
    )
    points_of_stream = ("batch sent", "batch durable", "place saved")
    crashes = (signal.SIGKILL, signal.SIGTERM)

    def __init__(self, server: MariaDBServer, java: str = QUICK_JAVA) -> None:
        self._server = server
        self._java = java

    @property
    def server(self) -> MariaDBServer:
        return self._server

    def command(self) -> Sequence[str]:
        driver = ("--driver-jar", str(find_mysql_driver())) if self._server.kind == "mysql" else ()
        return self._server.kind, f"{self._server.url}/shop", *driver

    def environment(self) -> Mapping[str, str]:
        return {"PENSTOCK_DATABASE_PASSWORD": PASSWORD, "JAVA_TOOL_OPTIONS": self._java}

    @contextmanager
    def written(self, run: CaptureRun) -> Iterator[None]:
        self._server.run("USE shop", *SCHEMA, *LOAD)
        writers = BinlogWriters(self._server, count=2, seed=run.chance.randrange(10_000))
        with writers:
            yield
            writers.commit_more()

    def check(self, lake: str) -> None:
        events = events_of(lake, TOPIC)
        check_stream(events)
        wanted = comparable(selected(self._server))
        for batches in (1, 7):
            found = comparable(folded(events, batches=batches))
            assert found.keys() == wanted.keys()
            for table, rows in wanted.items():
                differs = {
                    key: (found[table].get(key), rows.get(key))
                    for key in {*found[table], *rows}
                    if found[table].get(key) != rows.get(key)
                }
                assert not differs, (table, differs)
        kinds = Counter(event.op for event in events)
        assert all(kinds[op] > 5 for op in "rcud"), kinds


@contextmanager
def binlog_source(kind: str, shared: Path | None = None) -> Iterator[BinlogSource]:
    """``shared``: a folder for an archive of the classes that a capture loads, which halves its start."""
    java = QUICK_JAVA if shared is None else archived_classes(shared, kind)
    with SERVERS[kind](max_binlog_size="262144") as server:
        yield BinlogSource(server, java)


def archived_classes(folder: Path, kind: str) -> str:
    """Options of a Java that finds the classes that a capture loads in an archive, made by a capture that nobody kills."""
    archive = folder / "classes.jsa"
    if not archive.exists():
        with SERVERS[kind]() as server:
            server.run("USE shop", *SCHEMA, "INSERT INTO orders VALUES (1, 0, NULL, NULL, NULL, NULL)")
            java = f"{QUICK_JAVA} -XX:ArchiveClassesAtExit={archive}"
            CaptureRun(BinlogSource(server, java), folder, random.Random(0)).finish()
    return f"{QUICK_JAVA} -XX:SharedArchiveFile={archive}"
