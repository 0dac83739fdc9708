"""Rows of Parquet objects that cells name, made up by who may write there: right by their seal, wrong in columns, types, nulls or numbers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from penstock.coordinator.queues.spills import WaitingRows
from penstock.coordinator.registry.spill_objects import SpillObjects
from penstock.coordinator.timers.cell.state import DuePosition, TimerRun
from penstock.coordinator.timers.runs.recalls import RecallObjects, recalls_key
from penstock.coordinator.timers.runs.run_files import OpenRun, RunRowGroup, RunWriter
from penstock.log import Message
from penstock.log.errors import DataDamaged
from penstock.log.format.digest import digest
from penstock.log.format.sealed import write_file
from penstock.log.lake import LogLake
from penstock.log.message.message import MESSAGE_SCHEMA
from penstock.log.paths import TopicPaths
from penstock.log.produce.delays import waiting_messages
from penstock.log.runtime.runtime import Runtime
from penstock.log.stage.half_messages import half_key, read_half
from penstock.log.stores.memory import MemoryStore
from penstock.log.stores.protocol import Put
from tests.coordinator.test_spills import objects, waiting
from tests.coordinator.timers.test_delivery import Played
from tests.log.strategies import rows_of

INT64 = pa.int64()
_SECOND = timedelta(seconds=1)


def refused(read: Callable[[MemoryStore], Coroutine[Any, Any, object]], *, names: str) -> None:
    with pytest.raises(DataDamaged) as caught:
        asyncio.run(read(MemoryStore()))
    assert names in str(caught.value)


def table(**columns: Any) -> pa.Table:
    """Of whole numbers, but where a column brings its type along."""
    arrays = {name: one if isinstance(one, pa.Array) else pa.array(one, INT64) for name, one in columns.items()}
    fields = [pa.field(name, one.type, nullable=False) for name, one in arrays.items()]
    return pa.table(list(arrays.values()), schema=pa.schema(fields))


SPILLED = {"due_ms": [1, 2], "offset": [7, 8], "attempts": [1, 1], "strikes": [0, 0]}


@pytest.mark.parametrize(
    "change",
    [
        {"offset": pa.array(["7", "8"])},
        {"offset": pa.array([7.0, 8.5])},
        {"strikes": pa.array([0, 0], pa.int32())},
        {"offset": [-7, 8]},
        {"offset": [7, 7]},
        {"due_ms": [2, 1]},
        {"attempts": [1, -1]},
    ],
)
def test_what_waits_outside_of_a_cell(change: dict[str, Any]) -> None:
    async def read(store: MemoryStore) -> object:
        own: SpillObjects = objects(store)
        spill = WaitingRows.of(waiting(7, 8)).spill("a")
        await store.put(own.key("a"), write_file(table(**{**SPILLED, **change}), own._footer("a")), mode=Put.CREATE)
        return await own.read(spill)

    refused(read, names="waiting/orders/billing/2/a.parquet")


@pytest.mark.parametrize("offset", [[7, None], [7, 8]])
def test_what_waits_outside_of_a_cell_has_no_column_of_nulls(offset: list[int | None]) -> None:
    async def read(store: MemoryStore) -> object:
        own: SpillObjects = objects(store)
        rows = pa.table({name: pa.array(column, INT64) for name, column in {**SPILLED, "offset": offset}.items()})
        await store.put(own.key("a"), write_file(rows, own._footer("a")), mode=Put.CREATE)
        return await own.read(WaitingRows.of(waiting(7, 8)).spill("a"))

    refused(read, names="offset: int64 not null")


RECALLED = {"time_us": [1, 2], "offset": [7, 8]}


@pytest.mark.parametrize(
    "change",
    [
        {"offset": pa.array(["7", "8"])},
        {"offset": pa.array([7, None], INT64)},
        {"offset": [7, 9]},
        {"offset": [-7, 8]},
        {"time_us": [2, 1]},
        {"time_us": [2], "offset": [8]},
    ],
)
def test_recalled_messages_outside_of_a_cell(change: dict[str, Any]) -> None:
    async def read(store: MemoryStore) -> None:
        arrays = {**RECALLED, **change}
        crafted = pa.table({name: one if isinstance(one, pa.Array) else pa.array(one, INT64) for name, one in arrays.items()})
        await store.put(recalls_key("orders", "life", "a"), write_file(crafted, {}), mode=Put.CREATE)
        await RecallObjects(store, Runtime(), "orders", "life").keep_to((TimerRun("a", 2, 100, DuePosition(2, 8)),))

    refused(read, names=recalls_key("orders", "life", "a"))


ROW = {"queue": 0, "offset": 7, "message_id": "m", "body": b"", "born_timestamp": 1, "store_timestamp": 1, "delivery_timestamp": 5}


@pytest.mark.parametrize("change", [{"offset": 8}, {"offset": None}, {"message_id": None}, {"delivery_timestamp": None}])
def test_a_run_of_timers(change: dict[str, Any]) -> None:
    """Its footer says where each row group begins and ends."""

    async def read(store: MemoryStore) -> None:
        crafted = pa.Table.from_pylist([{**ROW, **change}], MESSAGE_SCHEMA)
        writer = RunWriter(group_bytes=10**6)
        writer._writer.write_table(crafted)
        writer._groups = [RunRowGroup(DuePosition(5, 7), DuePosition(5, 7), 1)]
        built = writer.close("a")
        assert built is not None
        run, data = built
        await store.put("a.parquet", data, mode=Put.CREATE)
        opened = await OpenRun.open(store, Runtime(), "a.parquet", run, whole_bytes_max=10**6)
        await opened.load()

    refused(read, names="a.parquet")


@pytest.mark.parametrize("change", [{"queue": pa.array(["0"])}, {"queue": pa.array([None], pa.int32())}, {"other": pa.array([1])}])
def test_half_messages(change: dict[str, pa.Array]) -> None:
    paths = TopicPaths.of("orders")

    async def read(store: MemoryStore) -> object:
        columns = dict(zip(rows_of({0: 1}).column_names, rows_of({0: 1}).columns, strict=True))
        data = write_file(pa.table({**columns, **change}), {})
        await store.put(half_key(paths, "job", 0), data, mode=Put.CREATE)
        return await read_half(store, paths, "job", 0, expected=digest(data))

    refused(read, names=half_key(paths, "job", 0))


def test_a_queue_that_the_topic_lacks_does_not_hold_up_its_timers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row of the timer log names it: its message goes where one without a queue would."""
    monkeypatch.setattr("penstock.log.produce.producer.check_queue", lambda *_: None)

    async def script(played: Played, lake: LogLake) -> None:
        producer = await lake.producer("orders")
        producer.send(Message(b"astray", delay=_SECOND), queue=4095)
        producer.send(Message(b"grouped", message_group="g", delay=_SECOND))
        producer.send(Message(b"named", delay=_SECOND), queue=1)
        await producer.close()
        await played.play_for(lake, 5)
        found = {one.body: one.queue for one in await played.read(lake)}
        assert found.keys() == {b"astray", b"grouped", b"named"}
        assert found[b"named"] == 1

    Played("astray").run(script)


def test_a_row_of_a_timer_log_without_a_time_is_listed_as_due_at_once() -> None:
    (found,) = waiting_messages("orders", pa.Table.from_pylist([{**ROW, "delivery_timestamp": None}], MESSAGE_SCHEMA))
    assert found.delivery_timestamp == datetime(1970, 1, 1, tzinfo=UTC)
