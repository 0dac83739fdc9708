"""The rows that tables have at the beginning, chunk by chunk, and again after an end on the way. Without a server."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Self

import pytest

from penstock.cdc.capture import chunks
from penstock.cdc.postgres.captured_tables import CapturedTables
from penstock.cdc.postgres.catalog import check_history
from penstock.cdc.postgres.catalog_tables import CatalogTable
from penstock.cdc.postgres.envelopes import EnvelopeEncoder, EventOrigin
from penstock.cdc.postgres.errors import SlotLost
from penstock.cdc.postgres.event_sender import EventSender
from penstock.cdc.postgres.pgoutput import RelationColumn
from penstock.cdc.postgres.positions import base_of
from penstock.cdc.postgres.snapshot import SnapshotReader
from penstock.cdc.postgres.state import CapturedTable, Chunk, PostgresState
from penstock.cdc.postgres.tables import SourceTable
from penstock.cdc.postgres.values import TypeConversions
from penstock.log.errors import LimitExceeded

ENTRY = CapturedTable("public", "t", 7, 8, numbers=(1,))
STATE = PostgresState("life", "system", "db", "publication", (ENTRY,))
READ = replace(ENTRY, is_read=True)
TABLE = SourceTable("public", "t", "d", True, ("id",))
LSN = 8_000


class Catalog:
    """A table of numbered rows, of which COPY gives those behind a key."""

    def __init__(self, rows: int, lsn: int = 0) -> None:
        self._rows = rows
        self._lsn = lsn
        self.oid = 7
        self.queries: list[str] = []

    def lives(self, publication: str, oids: Sequence[int]) -> list[CatalogTable]:
        return [CatalogTable("public", "t", self.oid, 8, (), "d", ("id",), 9, (1,), 0)]

    def columns(self, *_: object) -> tuple[list[RelationColumn], None]:
        return [RelationColumn("id", 20, True), RelationColumn("name", 25, False)], None

    def current_lsn(self) -> int:
        return self._lsn

    def connect(self) -> Self:
        return self

    cursor = connect

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def execute(self, query: str, values: object = None) -> Self:
        self.queries.append(query)
        return self

    def fetchone(self) -> tuple[int, str]:
        return self.oid, "10:10:"

    @contextmanager
    def copy(self, query: Any) -> Iterator[Self]:
        self.queries.append(query.as_string(None))
        yield self

    def rows(self) -> Iterator[tuple[str, str]]:
        after = self.queries[-1].partition(" > ('")[2].partition("'")[0]
        yield from ((str(row), "x") for row in range(int(after or 0) + 1, self._rows + 1))


class Saved:
    """The producer and the state's object: what a snapshot leaves behind."""

    def __init__(self, last_sequence: int = -1) -> None:
        self.last_sequence = last_sequence
        self.states: list[PostgresState] = []
        self.batches: list[list[tuple[str, int | None]]] = []

    def save(self, state: PostgresState) -> None:
        self.states.append(state)

    def send_batch(self, table: Any, *, through: int | None = None) -> Future[None]:
        values = [json.loads(body)["value"] for body in table["body"].to_pylist()]
        self.batches.append([(value["op"], (value["after"] or {}).get("id")) for value in values])
        self.last_sequence = table["sequence"].to_pylist()[-1]
        sent: Future[None] = Future()
        sent.set_result(None)
        return sent


def read(
    saved: Saved, state: PostgresState, rows: int, *, lsn: int = LSN, stop_after: int = 1_000, oid: int = 7
) -> tuple[PostgresState, Catalog]:
    catalog = Catalog(rows)
    catalog.oid = oid
    tables = CapturedTables(catalog, saved, "p")  # type: ignore[arg-type]
    tables.state = state
    envelopes = EnvelopeEncoder(
        EventOrigin("db", "slot"),
        TypeConversions(lambda oid: None),
        keys=lambda _: ("id",),
        reread=lambda *_: None,
        now_ms=lambda: 1,
    )
    reading = SnapshotReader(
        catalog,  # type: ignore[arg-type]
        envelopes,
        saved,  # type: ignore[arg-type]
        tables,
        publication="p",
        reached=lambda point: None,
        stopped=lambda: len(saved.batches) >= stop_after,
        sender=EventSender(saved),  # type: ignore[arg-type]
    )
    reading.read([TABLE], lsn)
    return tables.known, catalog


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "CHUNK_ROWS_MAX", 2)


def test_a_table_is_sent_in_chunks_that_are_written_down_before_they_are_sent() -> None:
    saved = Saved()
    state, _ = read(saved, STATE, 5)
    assert saved.batches == [[("r", 1), ("r", 2)], [("r", 3), ("r", 4)], [("r", 5)]]
    chunks = [one.chunk for one in saved.states]
    assert chunks == [
        Chunk("public.t", None, ("2",), 1, 2, 7),
        Chunk("public.t", ("2",), ("4",), 3, 4, 7),
        Chunk("public.t", ("4",), ("5",), 5, 5, 7),
        None,
    ]
    assert state == replace(STATE, tables=(READ,))


def test_a_chunk_has_so_many_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "CHUNK_ROWS_MAX", 100)
    saved, size = Saved(), 0

    def keep(table: Any, *, through: int | None = None) -> Future[None]:
        nonlocal size
        size = len(table["body"][0].as_py())
        return Saved.send_batch(saved, table)

    saved.send_batch = keep  # type: ignore[method-assign]
    read(saved, STATE, 1)
    saved.batches.clear()
    monkeypatch.setattr(chunks, "CHUNK_BYTES_MAX", size)
    read(saved, STATE, 2)
    assert [len(batch) for batch in saved.batches] == [1, 1]


@pytest.mark.parametrize(("last", "batches"), [(2, [[("r", 3)]]), (0, [[("r", 1), ("r", 2)], [("r", 3)]])])
def test_it_goes_on_behind_a_chunk_that_is_there_and_with_one_that_is_not(last: int, batches: list[Any]) -> None:
    saved = Saved(last)
    read(saved, replace(STATE, chunk=Chunk("public.t", None, ("2",), 1, 2, 7)), 3)
    assert saved.batches == batches


def test_a_chunk_of_another_table_says_nothing_of_this_one() -> None:
    saved = Saved(2)
    read(saved, replace(STATE, chunk=Chunk("public.other", None, ("2",), 1, 2, 6)), 2)
    assert saved.batches == [[("r", 1), ("r", 2)]]


@pytest.mark.parametrize("rows", [0, 1])
def test_a_snapshot_again_empties_each_table_once(rows: int) -> None:
    saved = Saved(7)
    state, _ = read(saved, replace(STATE, renewing=True), rows)
    assert saved.batches == [[("t", None), *[("r", 1)] * rows]]
    chunk = saved.states[0]
    assert chunk.chunk == Chunk("public.t", None, ("1",) if rows else None, 8, 8 + rows, 7)
    assert state.done == ("public.t",)
    # It ended once the chunk was sent: what is there is not sent again.
    again = Saved(8 + rows)
    state, _ = read(again, chunk, rows)
    assert (again.batches, state.done) == ([], ("public.t",))


def test_a_table_without_rows_has_no_chunk() -> None:
    saved = Saved()
    state, _ = read(saved, STATE, 0)
    assert (saved.batches, state.done) == ([], ("public.t",))


def test_nothing_is_read_of_a_table_that_was_made_again() -> None:
    saved = Saved()
    state, _ = read(saved, STATE, 5, oid=8)
    assert (saved.batches, state) == ([], STATE)


def test_rows_that_the_topic_may_have_go_first() -> None:
    saved = Saved()
    read(saved, replace(STATE, tables=(replace(ENTRY, is_told=True),)), 1)
    assert saved.batches == [[("t", None), ("r", 1)]]


def test_it_ends_early_when_it_is_told_to() -> None:
    saved = Saved()
    state, _ = read(saved, STATE, 5, stop_after=1)
    assert len(saved.batches) == 1
    assert (state.done, state.chunk) == ((), Chunk("public.t", None, ("2",), 1, 2, 7))


def test_positions_end_before_the_slot_s_place() -> None:
    limit = base_of(LSN)
    read(Saved(limit - 3), STATE, 2)  # the limit itself lies between transactions, and is no row's
    with pytest.raises(LimitExceeded, match="more rows than there are positions"):
        read(Saved(limit - 3), STATE, 3)


@pytest.mark.parametrize(("server", "lost"), [(799, True), (800, False), (801, False)])
def test_a_server_that_has_not_reached_what_the_topic_has_was_set_back(server: int, lost: bool) -> None:
    def check() -> None:
        check_history(Catalog(0, server), "slot", last_position=5, place_of=lambda position: 160 * position)  # type: ignore[arg-type]

    if lost:
        with pytest.raises(SlotLost, match="the topic has changes up to 0/320, the server is at 0/31F"):
            check()
    else:
        check()
