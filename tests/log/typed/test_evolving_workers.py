"""Workers of a topic whose schema evolves: rows have the names of the version that is known when they are read."""

from __future__ import annotations

import asyncio
from queue import Queue
from typing import Any

import penstock
from tests.lakes import TIMEOUT_S
from tests.log.typed.lakes import typed_lake


def test_a_worker_sees_rows_that_were_sent_before_a_rename_by_the_new_name() -> None:
    with typed_lake("id int, customer string") as lake:
        found: Queue[Any] = Queue()

        def listen(message: penstock.MessageView) -> penstock.ConsumeResult:
            found.put(message.value)
            return penstock.ConsumeResult.SUCCESS

        with lake.lake.producer("orders") as old:
            old.send_row({"id": 1, "customer": "a"}).result(timeout=TIMEOUT_S)
            lake.lake.evolve_topic("orders", "id bigint, buyer string", rename={"customer": "buyer"})
            with lake.lake.push_consumer("orders", group="books", listener=listen):
                old.send_row({"id": 2, "customer": "b"}).result(timeout=TIMEOUT_S)
                assert found.get(timeout=TIMEOUT_S) == {"id": 1, "buyer": "a"}
                assert found.get(timeout=TIMEOUT_S) == {"id": 2, "buyer": "b"}
                lake.lake.evolve_topic("orders", "id bigint, buyer string, note string")
                lake.send({"id": 3, "note": "n"})
                assert found.get(timeout=TIMEOUT_S) == {"id": 3, "buyer": None, "note": "n"}


def test_the_asynchronous_lake_reaches_as_far() -> None:
    async def run() -> list[Any]:
        async with penstock.aio.connect("memory://") as lake:
            settings = penstock.aio.TopicSettings(queues=1, schema=penstock.TopicSchema.of("id int, name string"), keys=("name",))
            await lake.create_topic("orders", settings)
            options = penstock.log.ProducerOptions(invalid="topic", extra="ignore")
            producer = await lake.producer("orders", options=options)
            results = [await producer.send_row(row) for row in ({"id": 1, "name": "a", "more": 1}, {"id": "x"})]
            assert [result.invalid for result in results] == [None, "id: expected int, found the str 'x'"]
            assert (await lake.evolve_topic("orders", "id bigint, name string", dry_run=True)).version == 2
            assert (await lake.evolve_topic("orders", "id bigint, name string")).ddl == "id bigint, name string"
            assert [version.version for version in await lake.schema_history("orders")] == [1, 2]
            reader = await lake.reader("orders")
            return [message.value async for message in reader.messages()] + [one.keys for one in await reader.lookup(key="a")]

    assert asyncio.run(run()) == [{"id": 1, "name": "a"}, ("a",)]
