"""What is read beside the stream, while commits are in the log long before anybody can see them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from penstock.cdc.postgres import PostgresCapture
from penstock.cdc.postgres.visibility import VisibleTransactions
from penstock.log.errors import DataDamaged
from tests.cdc.postgres.conftest import Capturing, Database
from tests.cdc.postgres.judge import folded
from tests.postgres_server import PostgresServer, postgres_server
from tests.waiting import wait_until

BIG = "x" * 3000


@pytest.mark.parametrize(
    ("snapshot", "transaction", "contained"),
    [
        ("10:20:", 9, True),
        ("10:20:", 19, True),
        ("10:20:", 20, False),
        ("10:20:", 25, False),
        ("10:20:10,14", 14, False),
        ("10:20:10,14", 13, True),
        (f"{2**32 + 3}:{2**32 + 5}:{2**32 + 3}", 3, False),
        (f"{2**32 + 3}:{2**32 + 5}:{2**32 + 3}", 4, True),
        (f"{2**32 + 3}:{2**32 + 5}:", 2**32 - 1, True),
        (f"{2**32 - 2}:{2**32 - 1}:", 3, False),
    ],
)
def test_a_snapshot_contains_what_had_ended(snapshot: str, transaction: int, contained: bool) -> None:
    assert VisibleTransactions.read(snapshot).contains(transaction) is contained


@pytest.mark.parametrize(("snapshot", "oldest"), [("10:20:", 20), ("10:20:14,12", 12)])
def test_the_first_that_is_not_visible(snapshot: str, oldest: int) -> None:
    assert VisibleTransactions.read(snapshot).oldest == oldest


@pytest.mark.parametrize("text", ["", "10:20", "a:b:c"])
def test_what_is_no_snapshot(text: str) -> None:
    with pytest.raises(DataDamaged):
        VisibleTransactions.read(text)


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A server whose standby never answers: who commits with ``synchronous_commit = on`` waits, and is not visible until it is let go."""
    with postgres_server(synchronous_standby_names="nobody", synchronous_commit="local") as found:
        yield found


@pytest.fixture
def slow(server: PostgresServer, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Capturing]:
    name = f"db_{abs(hash(request.node.nodeid)) % 10**12}"
    with psycopg.connect(server.dsn, autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name}".encode())
        dsn = server.dsn.rpartition("/")[0] + f"/{name}"
        with psycopg.connect(dsn, autocommit=True) as connection:
            database = Database(dsn, connection, f"slot_{name}")
            yield Capturing(database, str(tmp_path / "lake"))
            database.drop_slot()


@contextmanager
def committing(database: Database, statement: str) -> Iterator[Callable[[], None]]:
    """A transaction that is in the log and nobody sees, until the given function lets it go on."""
    with (
        psycopg.connect(database.dsn, autocommit=True, options="-c synchronous_commit=on") as writer,
        ThreadPoolExecutor(1) as thread,
    ):
        [(pid,)] = writer.execute("SELECT pg_backend_pid()").fetchall()
        waits = f"SELECT 1 FROM pg_stat_activity WHERE pid = {pid} AND wait_event = 'SyncRep'"
        done: Future[Any] = thread.submit(writer.execute, statement.encode())
        wait_until(lambda: database.ask(waits) == [1], "it waits for the standby")

        def let_go() -> None:
            if not done.done():
                database.ask(f"SELECT pg_cancel_backend({pid})")
                done.result(30)

        try:
            yield let_go
        finally:
            let_go()


def capturing(patch: pytest.MonkeyPatch, pause: Callable[[], None], reached: Callable[[str], None] = lambda point: None) -> None:
    """Call ``pause`` where a capture waits."""
    patch.setattr(
        "penstock.cdc.postgres.PostgresCapture",
        lambda *args, **kwargs: PostgresCapture(*args, **{**kwargs, "pause": lambda seconds: pause(), "reached": reached}),
    )


@pytest.mark.postgres
@pytest.mark.slow
def test_a_large_value_is_read_once_its_transaction_is_visible(slow: Capturing, monkeypatch: pytest.MonkeyPatch) -> None:
    slow.database.run("CREATE TABLE t (id int PRIMARY KEY, v text, big text); ALTER TABLE t ALTER big SET STORAGE EXTERNAL")
    slow.database.run(f"INSERT INTO t VALUES (1, 'a', '{BIG}'), (1001, 'former', 'not this'); DELETE FROM t WHERE id = 1001")
    slow()
    with committing(slow.database, "UPDATE t SET id = id + 1000") as let_go, monkeypatch.context() as patch:
        capturing(patch, let_go)
        slow()
    assert folded(slow.events(), batches=1)["public.t"] == {(1001,): {"id": 1001, "v": "a", "big": BIG}}


@pytest.mark.postgres
@pytest.mark.slow
@pytest.mark.parametrize(
    ("after", "found"),
    [
        ("ALTER TABLE t DROP COLUMN other", {1001: BIG, 1002: BIG}),
        ("ALTER TABLE t ALTER id TYPE uuid USING gen_random_uuid()", {}),  # no row has its key any more: all are read anew
    ],
)
def test_large_values_of_a_row_whose_table_has_changed_since(
    database: Database, capture: Capturing, after: str, found: dict[int, str | None]
) -> None:
    database.run("CREATE TABLE t (id int PRIMARY KEY, big text, other text); ALTER TABLE t ALTER big SET STORAGE EXTERNAL")
    database.run(
        f"ALTER TABLE t ALTER other SET STORAGE EXTERNAL; INSERT INTO t SELECT i, '{BIG}', '{BIG}' FROM generate_series(1, 2) i"
    )
    capture()
    database.run(f"UPDATE t SET id = id + 1000; {after}")
    capture()
    made = [value for value in capture.values() if value["op"] == "c"]
    sent = {row["id"]: None if "big" in value["source"]["not_sent"] else row["big"] for value in made for row in [value["after"]]}
    assert sent == found
    assert all("other" in value["source"]["not_sent"] for value in made)


@pytest.mark.postgres
@pytest.mark.slow
def test_a_table_named_later_is_read_once_what_the_stream_has_told_is_visible(
    slow: Capturing, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow.database.run("CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE late (id int PRIMARY KEY)")
    slow.database.run("INSERT INTO late VALUES (1), (2)")
    slow("--table", "t")
    slow.database.run("INSERT INTO t VALUES (1)")
    slow("--table", "t")
    with ExitStack() as stack, monkeypatch.context() as patch:
        waits = list[Callable[[], None]]()

        def reached(point: str) -> None:
            if point == "slot created":
                waits.append(stack.enter_context(committing(slow.database, "DELETE FROM late WHERE id = 1")))

        def pause() -> None:
            for let_go in waits:
                let_go()

        capturing(patch, pause, reached)
        slow("--table", "t", "--table", "late")
    assert folded(slow.events(), batches=1)["public.late"].keys() == {(2,)}
