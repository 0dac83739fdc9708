"""Transactions to topics with a schema: rows are checked when they are sent, and everybody who finishes one knows them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

import penstock
from penstock.coordinator.transactions.members.state import Decider, Decision
from penstock.coordinator.transactions.service import Transactions
from penstock.log import MessageType
from penstock.log.errors import InvalidArgument
from penstock.log.schema.topic_schema import schema_of_source
from penstock.log.stores import MemoryStore
from tests.log.typed.lakes import TypedLake, typed_lake

Message = penstock.Message
UNKNOWN = penstock.TransactionResolution.UNKNOWN
SCHEMA = "id int not null, name string"


@pytest.fixture
def orders() -> Iterator[TypedLake]:
    with typed_lake(SCHEMA, message_type="TRANSACTION") as lake, lake.lake.check_transactions("shop", lambda _: UNKNOWN):
        yield lake


def test_rows_of_a_transaction_are_read_once_it_is_committed(orders: TypedLake) -> None:
    with orders.lake.transaction(producer_group="shop") as transaction:
        rows: list[Any] = [{"id": 1, "name": "a"}, {"id": 2}]
        transaction.send("orders", *map(Message.of, rows), Message(None, key=b"gone"))
        orders.lake.evolve_topic("orders", "id bigint, title string, more int", rename={"name": "title"})
        transaction.send("orders", Message.of({"id": 3, "more": 4})._replace(headers=[("h", b"1")]), queue=0)
        assert orders.values() == []
        transaction.commit()
    expected = [
        {"id": 1, "title": "a", "more": None},
        {"id": 2, "title": None, "more": None},
        None,
        {"id": 3, "title": None, "more": 4},
    ]
    for _ in range(2):
        assert orders.values() == expected
        found = list(orders.lake.reader("orders").messages())
        assert (found[2].key, found[3].headers) == (b"gone", (("h", b"1"),))
        orders.upkeep()


def test_a_bad_row_is_refused_at_send_and_the_transaction_goes_on(orders: TypedLake) -> None:
    with orders.lake.transaction(producer_group="shop") as transaction:
        good = Message.of({"id": 1})
        with pytest.raises(InvalidArgument, match=r"1 of 2 rows do not fit.*message 1, id; expected: int not null; observed: NULL"):
            transaction.send("orders", good, Message.of({"name": "a"}))
        with pytest.raises(InvalidArgument, match="takes rows and no bodies"):
            transaction.send("orders", Message(b"{}"))
        transaction.send("orders", good)
        transaction.commit()
    assert orders.values() == [{"id": 1, "name": None}]
    orders.lake.create_topic("plain", message_type="TRANSACTION", queues=1)
    with orders.lake.transaction(producer_group="shop") as transaction:
        with pytest.raises(InvalidArgument, match="the topic has no schema, so it takes no rows"):
            transaction.send("plain", good)
        transaction.rollback()


def test_a_sender_that_has_not_heard_of_a_field_looks_before_it_refuses(orders: TypedLake) -> None:
    with penstock.connect(store=orders.store, runtime=orders.runtime, maintenance=False) as other:
        with orders.lake.transaction(producer_group="shop") as transaction:
            transaction.send("orders", Message.of({"id": 1}))
            other.evolve_topic("orders", SCHEMA + ", more int")
            transaction.send("orders", Message.of({"id": 2, "more": 5}))
            transaction.commit()
        assert orders.values() == [{"id": 1, "name": None, "more": None}, {"id": 2, "name": None, "more": 5}]


async def test_another_process_shows_the_rows_and_its_link_is_read() -> None:
    expected = [{"id": 7, "name": None, "more": None}, {"id": 1 << 40, "name": None, "more": 8}]
    async with penstock.aio.Lake(MemoryStore()) as lake, penstock.aio.Lake(lake.store) as other:
        settings = penstock.aio.TopicSettings(message_type=MessageType.TRANSACTION, queues=1, schema=schema_of_source(SCHEMA))
        await lake.create_topic("orders", settings)
        await other.reader("orders")  # it has the topic open from before the evolution
        async with lake.transaction(producer_group="shop", checker=lambda _: UNKNOWN) as transaction:
            await transaction.send("orders", Message.of({"id": 7}))
            await lake.evolve_topic("orders", "id bigint, name string, more int")
            await transaction.send("orders", Message.of({"id": 1 << 40, "more": 8})._replace(headers=[("h", None)]))
            assert transaction.id is not None
            service = Transactions(other, other.coordination)
            assert [message.value for message in await service.messages(transaction.id)] == expected
            await service.decide(transaction.id, Decision.COMMITTED, Decider.OPERATOR)
            await service.finish(transaction.id)
            await transaction.commit()
        reader = await other.reader("orders")
        found = [one async for one in reader.messages()]
        assert ([one.value for one in found], found[1].headers) == (expected, (("h", None),))


async def test_what_a_typed_topic_that_is_gone_was_sent_is_left_out() -> None:
    async with penstock.aio.Lake(MemoryStore()) as lake:
        settings = penstock.aio.TopicSettings(message_type=MessageType.TRANSACTION, queues=1)
        await lake.create_topic("orders", replace(settings, schema=schema_of_source(SCHEMA)))
        async with lake.transaction(producer_group="shop", checker=lambda _: UNKNOWN) as transaction:
            await transaction.send("orders", Message.of({"id": 7}))
            assert transaction.id is not None
            service = Transactions(lake, lake.coordination)
            for made_again in (replace(settings, schema=schema_of_source("name int")), settings):
                await lake.delete_topic("orders")
                assert await service.messages(transaction.id) == []
                await lake.create_topic("orders", made_again)
                assert await service.messages(transaction.id) == []
            assert (await transaction.commit()).topics["orders"].gone


def test_keys_headers_and_tombstones_without_a_schema_are_kept() -> None:
    with penstock.connect("memory://", maintenance=False) as lake:
        lake.create_topic("plain", message_type="TRANSACTION", queues=1)
        with lake.check_transactions("shop", lambda _: UNKNOWN), lake.transaction(producer_group="shop") as transaction:
            transaction.send("plain", Message(b"a", key=b"k"), Message(None), Message(b"", headers=[("h", b"1")]))
            transaction.commit()
        found = list(lake.reader("plain").messages())
        assert [(one.body, one.key, one.headers) for one in found] == [
            (b"a", b"k", ()),
            (None, None, ()),
            (b"", None, (("h", b"1"),)),
        ]
