"""Records what Debezium's engine tells of a MySQL: the batches of a stream that begins with empty tables, and the rows at its end.

    PENSTOCK_MYSQLD=… PENSTOCK_MYSQL_DRIVER=… python -m tests.cdc.debezium.recording FILE.jsonl.gz

A line each: what the server is and the rows in the end; then schemas by name, and batches.
"""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from penstock.cdc.debezium.engine import EmbeddedEngine, RecordBatch
from penstock.infra.cli.main import main as command_line
from tests.cdc.debezium.judge import comparable, selected
from tests.cdc.debezium.writers import SCHEMA, BinlogWriters
from tests.mariadb_server import PASSWORD, USER
from tests.mysql_server import find_mysql_driver, mysql_server
from tests.servers import die_with_parent
from tests.waiting import wait_until

_TRANSACTIONS = 250
_HEARTBEAT = '"values": ["{\\"ts_ms\\"'


def record(target: Path) -> None:
    """Play a shop, and keep what a capture is told of it."""
    with tempfile.TemporaryDirectory() as folder, mysql_server(max_binlog_size="65536") as server:
        journal, lake = Path(folder) / "journal", Path(folder) / "lake"
        server.run("USE shop", *SCHEMA)
        properties = Path(folder) / "shop.properties"
        properties.write_text(
            "connector.class=io.debezium.connector.mysql.MySqlConnector\n"
            f"database.hostname=127.0.0.1\ndatabase.port={server.port}\ndatabase.user={USER}\ndatabase.include.list=shop\n"
            "max.batch.size=20\n"
        )
        where = ["--lake", str(lake), "--topic", "changes", "--driver-jar", str(find_mysql_driver())]
        command = [sys.executable, "-m", __spec__.name, str(journal), "debezium", str(properties), *where]
        environment = {**os.environ, "PENSTOCK_DATABASE_PASSWORD": PASSWORD}
        process = subprocess.Popen([*die_with_parent(), *command], env=environment)
        writers = BinlogWriters(server, count=2, seed=1)
        try:
            wait_until(journal.exists, "the stream has begun", timeout_s=120)
            writers.start()
            wait_until(lambda: writers.committed >= _TRANSACTIONS, "the writers have written", timeout_s=120)
            writers.stop()
            server.run("INSERT INTO shop.visits (seen) VALUES ('the last')")
            wait_until(lambda: _HEARTBEAT in journal.read_text().partition("the last")[2], "all is told", timeout_s=120)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait()
        ((version,),) = server.ask("SELECT VERSION()")
        rows = {
            table: [[json.loads(json.dumps([*key], default=str)), row] for key, row in sorted(those.items())]
            for table, those in comparable(selected(server)).items()
        }
        with gzip.open(target, "wt") as file:
            file.write(json.dumps({"server": f"MySQL {version}", "rows": rows}, default=str) + "\n")
            file.write(journal.read_text())


def _noting(journal: Path) -> None:
    """Have each batch of the stream written down before it is taken."""
    taken = EmbeddedEngine.next
    known: set[str] = set()

    def write(said: dict[str, Any]) -> None:
        with journal.open("a") as file:
            file.write(json.dumps(said) + "\n")

    def noted(engine: EmbeddedEngine, timeout_s: float) -> RecordBatch | None:
        batch = taken(engine, timeout_s)
        if not engine._properties["schema.history.internal.file.filename"].endswith("stream.history"):
            return batch
        journal.touch()
        if batch is not None:
            new = {name: [one.key.decode(), one.value.decode()] for name, one in engine.schemas.items() if name not in known}
            known.update(new)
            keys, values = ([one.decode() for one in column] for column in (batch.keys, batch.values))
            write({"schemas": new, "keys": keys, "values": values, "of": batch.schemas, "offset": dict(batch.offset)})
        return batch

    EmbeddedEngine.next = noted  # type: ignore[assignment,method-assign]


if __name__ == "__main__":
    first, *arguments = sys.argv[1:]
    if arguments:
        _noting(Path(first))
        command_line(["capture", *arguments])
    else:
        record(Path(first))
