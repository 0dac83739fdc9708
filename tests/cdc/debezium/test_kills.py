"""A capture by Debezium's engine that is killed again and again, on a server that crashes: nothing is lost, nothing doubled."""

from __future__ import annotations

import random
import signal
from pathlib import Path

import pytest

from tests.cdc.debezium.judge import check_stream, comparable, events_of, folded, selected
from tests.cdc.debezium.killing import POINTS, Run, running
from tests.mariadb_server import mariadb_server

pytestmark = [pytest.mark.mariadb, pytest.mark.processes, pytest.mark.slow, pytest.mark.timeout(900)]


def test_nothing_is_lost_or_doubled(tmp_path: Path) -> None:
    with running(tmp_path, random.Random(1)) as run:
        run.die_at("batch sent:3")


@pytest.mark.thorough
@pytest.mark.timeout(3600)
def test_nothing_is_lost_or_doubled_wherever_it_is_killed(tmp_path: Path) -> None:
    with running(tmp_path, random.Random(2)) as run:
        for point in POINTS:
            run.die_at(point)
        run.crash_server(signal.SIGKILL, signal.SIGTERM)
        Run.die_anywhere(run)


@pytest.mark.thorough
def test_columns_are_learnt_wherever_it_is_killed(tmp_path: Path) -> None:
    points = ("columns known", "columns noted", "rows done", "columns durable", "columns taken up")
    with mariadb_server() as server:
        there = "CREATE OR REPLACE TABLE there (PRIMARY KEY (id)) SELECT id, v FROM a"
        server.run("USE shop", "CREATE TABLE a (id INT PRIMARY KEY, v INT)", "INSERT INTO a VALUES (1, 1), (2, 2)", there)
        run = Run(server, tmp_path, random.Random(3))
        run.finish()
        for number, point in enumerate(points):
            gone = f"CREATE TABLE gone{number} (PRIMARY KEY (id)) SELECT id, v FROM a", f"DROP TABLE gone{number}"
            server.run("USE shop", "SET SESSION binlog_format = 'STATEMENT'", there, *gone)
            server.run("USE shop", f"UPDATE there SET v = 10 + {number}", f"INSERT INTO a VALUES (10 + {number}, 0)")
            run.die_at(f"{point}:1")
            server.run("USE shop", f"DELETE FROM there WHERE id = {number}", f"UPDATE a SET v = v + 1 WHERE id > {number}")
        run.finish()
        events = events_of(run.lake, "changes")
        check_stream(events)
        assert comparable(folded(events, batches=3)) == comparable(selected(server))
