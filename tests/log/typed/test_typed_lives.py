"""What befalls typed topics: deleted and created anew under those who use them, crashes between two steps, rows that wait elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock.log import MessageType, TopicSettings
from penstock.log.errors import InvalidArgument, PenstockError, TopicDeleted
from penstock.log.lake import LogLake
from penstock.log.paths import TopicPaths
from penstock.log.schema.topic_schema import schema_of_source
from penstock.log.stores import MemoryStore
from penstock.log.stores.protocol import Put
from penstock.log.topic.settings import TopicRecord, encode_record
from tests.coordinator.timers.test_delivery import Played
from tests.lakes import TIMEOUT_S
from tests.log.typed.lakes import typed_lake

Message = penstock.Message


def test_bad_rows_of_columns_with_sequences_go_to_the_topic_beside_once() -> None:
    with typed_lake("id int not null, name string") as lake:
        data = pa.table({"id": [1, None, 3, None], "name": ["a", "b", "c", "d"], "sequence": [1, 2, 3, 4]})
        for rows, duplicates in ((data.slice(0, 2), 0), (data, 2), (data, 4)):
            with lake.lake.producer("orders", name="app", invalid="topic") as producer:
                done = producer.send_batch(rows).result(timeout=TIMEOUT_S)
                assert done.duplicates == duplicates
        assert [value["id"] for value in lake.values()] == [1, 3]
        assert [message.json()["name"] for message in lake.lake.reader("orders-invalid").messages()] == ["b", "d"]


@pytest.mark.parametrize("again", [None, "x string"], ids=["deleted", "made again"])
@pytest.mark.parametrize(
    "send",
    [
        lambda producer: producer.send_row({"id": 2}),
        lambda producer: producer.send_row({"id": "bad"}),
        lambda producer: producer.send_batch([{"id": 2}]),
        lambda producer: producer.send_batch(pa.table({"id": [2]})),
    ],
    ids=["row", "bad row", "rows", "columns"],
)
def test_a_producer_of_a_topic_that_was_deleted_is_told_so(send: Callable[[penstock.Producer], Any], again: str | None) -> None:
    with typed_lake("id int") as lake, penstock.connect(store=lake.store, runtime=lake.runtime, maintenance=False) as other:
        producer = lake.lake.producer("orders")
        producer.send_row({"id": 1}).result(timeout=TIMEOUT_S)
        reader = lake.lake.reader("orders")
        other.delete_topic("orders")
        if again is not None:
            other.create_topic("orders", queues=1, schema=again)
        with pytest.raises(TopicDeleted):
            send(producer).result(timeout=TIMEOUT_S)
        with pytest.raises(PenstockError, match="the topic was deleted"):
            producer.send_batch([{"id": 3}])
        with pytest.raises(TopicDeleted):
            list(reader.messages())
        if again is not None:
            lake.send({"x": "a"})
            assert lake.values() == [{"x": "a"}]


async def test_a_creation_that_a_crash_interrupted_is_finished_with_its_schema() -> None:
    store = MemoryStore()
    settings = penstock.aio.TopicSettings(queues=1, schema=schema_of_source("id int not null"))
    record = TopicRecord(settings=settings, incarnation="0" * 32)
    await store.put(TopicPaths.of("orders").settings, encode_record(record), mode=Put.CREATE)
    async with penstock.aio.Lake(store) as lake:
        producer = await lake.producer("orders")
        await producer.send_row({"id": 1})
        with pytest.raises(InvalidArgument, match="id; expected: int not null"):
            await producer.send_row({})
        found = await lake.topic_schema("orders")
        assert found is not None
        assert found.ddl == "id int not null"


def test_delayed_rows_fire_as_the_fields_they_were_sent_with_whatever_the_names_mean_by_then() -> None:
    found: list[Any] = []

    async def script(played: Played, lake: LogLake) -> None:
        schema = schema_of_source("id int not null, name string, gone int, part struct<a: int>")
        await lake.delete_topic("orders")
        await lake.create_topic("orders", TopicSettings(message_type=MessageType.DELAY, queues=1, schema=schema))
        producer = await lake.producer("orders")
        due = timedelta(seconds=5)
        await producer.send_row({"id": 1, "name": "n", "gone": 5, "part": {"a": 6}}, delay=due)
        await producer.send_batch([Message.of({"id": 2}, delay=due), Message(None, key=b"k", headers=[("h", b"1")], delay=due)])
        rename = {"name": "title", "part.a": "b"}
        wanted = "id bigint, title string, name int, part struct<b: bigint>"
        await lake.evolve_topic("orders", wanted, rename=rename, retire=["gone"])
        await lake.evolve_topic("orders", "id bigint, title string, part struct<b: bigint>", retire=["name"])
        await played.play_for(lake, 10)
        found.extend((one.value, one.key, one.headers) for one in await played.read(lake))

    Played("typed").run(script)
    nothing: dict[str, Any] = {"title": None, "part": None}
    assert found == [
        ({"id": 1, "title": "n", "part": {"b": 6}}, None, ()),
        ({"id": 2, **nothing}, None, ()),
        (None, b"k", (("h", b"1"),)),
    ]


def test_a_field_that_was_renamed_and_then_retired_is_stored_once() -> None:
    with typed_lake("id int, name string") as lake:
        lake.lake.evolve_topic("orders", "id int, title string", rename={"name": "title"})
        lake.lake.evolve_topic("orders", "id int", retire=["title"])
        lake.send({"id": 1, "name": "a"}, {"id": 2, "title": "b"}, {"id": 3})
        for _ in range(2):
            assert lake.values() == [{"id": 1}, {"id": 2}, {"id": 3}]
            lake.upkeep()


def test_a_player_fires_rows_of_a_version_that_another_process_brought() -> None:
    found: list[Any] = []

    async def script(played: Played, lake: LogLake) -> None:
        await lake.delete_topic("orders")
        schema = schema_of_source("id int")
        await lake.create_topic("orders", TopicSettings(message_type=MessageType.DELAY, queues=1, schema=schema))
        due = timedelta(seconds=5)
        async with LogLake(played.store, runtime=played.process.runtime) as player:
            playing = asyncio.ensure_future(played.play_for(player, 20))
            producer = await lake.producer("orders")
            await producer.send_row({"id": 1}, delay=due)
            fired = asyncio.Event()
            asyncio.get_running_loop().call_later(8, fired.set)
            await fired.wait()
            await lake.evolve_topic("orders", "id int, b string")
            await producer.send_row({"id": 2, "b": "x"}, delay=due)
            await playing
            found.extend(one.value for one in await played.read(lake))

    Played("typed").run(script)
    assert found == [{"id": 1, "b": None}, {"id": 2, "b": "x"}]
