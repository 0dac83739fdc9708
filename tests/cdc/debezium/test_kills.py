"""A capture by Debezium's engine that is killed as it learns the columns of tables that no binlog tells rows of."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.cdc.debezium.judge import check_stream, comparable, events_of, folded, selected
from tests.cdc.debezium.kill_source import BinlogSource
from tests.cdc.killing import TOPIC, CaptureRun
from tests.mariadb_server import mariadb_server

pytestmark = [pytest.mark.mariadb, pytest.mark.processes, pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.mark.thorough
def test_columns_are_learnt_wherever_it_is_killed(tmp_path: Path) -> None:
    points = ("columns known", "columns noted", "rows done", "columns durable", "columns taken up")
    with mariadb_server() as server:
        there = "CREATE OR REPLACE TABLE there (PRIMARY KEY (id)) SELECT id, v FROM a"
        server.run("USE shop", "CREATE TABLE a (id INT PRIMARY KEY, v INT)", "INSERT INTO a VALUES (1, 1), (2, 2)", there)
        run = CaptureRun(BinlogSource(server), tmp_path, random.Random(3))
        run.finish()
        for number, point in enumerate(points):
            gone = f"CREATE TABLE gone{number} (PRIMARY KEY (id)) SELECT id, v FROM a", f"DROP TABLE gone{number}"
            server.run("USE shop", "SET SESSION binlog_format = 'STATEMENT'", there, *gone)
            server.run("USE shop", f"UPDATE there SET v = 10 + {number}", f"INSERT INTO a VALUES (10 + {number}, 0)")
            run.die_at(f"{point}:1")
            server.run("USE shop", f"DELETE FROM there WHERE id = {number}", f"UPDATE a SET v = v + 1 WHERE id > {number}")
        run.finish()
        events = events_of(run.lake, TOPIC)
        check_stream(events)
        assert comparable(folded(events, batches=3)) == comparable(selected(server))
