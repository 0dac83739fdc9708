"""What happens between programs that know different versions of a schema."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock.log.errors import InvalidArgument, LimitExceeded, PenstockError, TopicExists
from penstock.log.format.header import Evolved
from penstock.log.format.schema_form import schema_form
from penstock.log.schema.fields import PrimitiveType
from penstock.log.schema.topic_schema import TopicSchema
from penstock.log.stores import MemoryStore
from tests.lakes import TIMEOUT_S
from tests.log.typed.lakes import typed_lake
from tests.waiting import wait_until


def test_of_two_evolutions_at_once_one_comes_after_the_other() -> None:
    """Each is judged by what the other left: what both want holds, and what no longer can be is refused by name."""

    async def run() -> tuple[list[Any], list[Any]]:
        store = MemoryStore()
        async with penstock.aio.connect(store=store) as one, penstock.aio.connect(store=store) as other:
            await one.create_topic("orders", penstock.aio.TopicSettings(queues=1, schema=penstock.TopicSchema.of("id int, a int")))
            for lake in (one, other):
                await lake.topic_schema("orders")
            same = await asyncio.gather(*(lake.evolve_topic("orders", "id int, a bigint") for lake in (one, other)))
            differing = await asyncio.gather(
                one.evolve_topic("orders", "id int, a bigint, b string"),
                other.evolve_topic("orders", "id int, a bigint, b int"),
                return_exceptions=True,
            )
            return [schema.version for schema in same], list(differing)

    versions, differing = asyncio.run(run())
    assert versions == [2, 2]
    (won,) = [one for one in differing if isinstance(one, penstock.TopicSchema)]
    (lost,) = [one for one in differing if isinstance(one, PenstockError)]
    assert won.version == 3
    assert isinstance(lost, InvalidArgument)
    assert lost.object == "b"
    assert lost.message == "the field's type cannot change in this way"


def test_of_two_evolutions_at_once_in_one_process_both_hold_in_the_end() -> None:
    """Their actions may reach the log in one entry, where only the first can hold."""

    async def run() -> tuple[list[Any], Any]:
        async with penstock.aio.connect("memory://") as lake:
            await lake.create_topic("orders", penstock.aio.TopicSettings(queues=1, schema=penstock.TopicSchema.of("id int")))
            texts = ("id int, b string", "id int, b string, c int")
            made = await asyncio.gather(*(lake.evolve_topic("orders", text) for text in texts))
            lost = await asyncio.gather(
                *(lake.evolve_topic("orders", f"id int, b string, c int, {name} int") for name in "de"), return_exceptions=True
            )
            assert isinstance(lost[1], InvalidArgument)
            return [*made, lost[0]], await lake.topic_schema("orders")

    made, now = asyncio.run(run())
    assert [schema.version for schema in made] == [2, 3, 4]
    assert made[-1] == now


def test_an_open_producer_goes_on_under_former_names() -> None:
    with typed_lake("id int not null, customer string, note string") as lake:
        with lake.lake.producer("orders") as old:
            old.send_row({"id": 1, "customer": "a", "note": "n"}).result(timeout=TIMEOUT_S)
            lake.lake.evolve_topic("orders", "id bigint, buyer string", rename={"customer": "buyer"}, retire=["note"])
            old.send_row({"id": 2, "customer": "b", "note": "m"}).result(timeout=TIMEOUT_S)
            with pytest.raises(InvalidArgument, match="nobody; expected: a field of the schema"):
                old.send_row({"id": 3, "nobody": 1}).result(timeout=TIMEOUT_S)
        assert lake.values() == [{"id": 1, "buyer": "a"}, {"id": 2, "buyer": "b"}]


def test_a_reader_that_slept_across_three_evolutions_shows_one_schema() -> None:
    with typed_lake("id int, a string") as lake:
        reader = lake.lake.reader("orders")
        lake.send({"id": 1, "a": "x"})
        assert [message.value for message in reader.messages()] == [{"id": 1, "a": "x"}]
        with penstock.connect(store=lake.store, runtime=lake.runtime, maintenance=False) as other:
            other.evolve_topic("orders", "id bigint, b string", rename={"a": "b"})
            other.evolve_topic("orders", "id bigint, b string, c int")
            other.evolve_topic("orders", "id bigint, c int", retire=["b"])
            with other.producer("orders") as producer:
                producer.send_row({"id": 2**40, "c": 7}).result(timeout=TIMEOUT_S)
        assert [message.value for message in reader.messages()] == [{"id": 1, "c": None}, {"id": 2**40, "c": 7}]
        lake.upkeep()
        assert [message.value for message in reader.messages()] == [{"id": 1, "c": None}, {"id": 2**40, "c": 7}]


def test_fields_are_asked_for_by_former_names_too() -> None:
    with typed_lake("id int, a string, part struct<b: int>") as lake:
        lake.send({"id": 1, "a": "x", "part": {"b": 1}}, {"id": 2, "a": "y", "part": {"b": 2}})
        reader = lake.lake.reader("orders")
        asked: Any = {"columns": ["value.id"], "where": "value.a = 'y' AND value.part.b > 1"}
        following = reader.read(follow=True, columns=["value.a"])
        assert next(following).num_rows == 2
        lake.lake.evolve_topic("orders", "id int, c string, d struct<e: int>", rename={"a": "c", "part": "d", "part.b": "e"})
        assert reader.to_arrow(**asked)["value"].to_pylist() == [{"id": 2}]
        lake.upkeep()
        assert reader.to_arrow(**asked)["value"].to_pylist() == [{"id": 2}]
        lake.send({"a": "z"})
        assert next(following)["value"].to_pylist() == [{"c": "z"}]


def test_bad_rows_go_to_the_topic_beside_after_both_were_altered() -> None:
    with typed_lake("id int") as lake:
        lake.send({"id": "x"}, invalid="topic")
        lake.lake.alter_topic("orders", retention=timedelta(days=9))
        (sent,) = lake.send({"id": "y"}, invalid="topic")
        assert sent.invalid == "id: expected int, found the str 'y'"
        lake.lake.delete_topic("orders-invalid")
        lake.lake.create_topic("orders-invalid", message_type="FIFO")
        with pytest.raises(TopicExists, match="rows that do not fit orders go there: it must be of type NORMAL, without a schema"):
            lake.send({"id": "y"}, invalid="topic")


def test_a_name_that_leaves_no_room_for_the_topic_beside_is_refused() -> None:
    with typed_lake("id int") as lake:
        lake.lake.create_topic("o" * 242, schema="id int")
        with pytest.raises(
            LimitExceeded, match=r"takes the rows that do not fit \(.*expected: at most 241 characters; observed: 242\)"
        ):
            lake.lake.producer("o" * 242, invalid="topic")


ADDED: list[Any] = [pa.table({"id": pa.array([2], pa.int32()), "b": ["x"]}), [{"id": 2, "b": "x"}]]


@pytest.mark.parametrize("data", ADDED, ids=["columns", "rows"])
def test_a_batch_with_a_field_that_another_process_added_is_taken_in_the_end(data: Any) -> None:
    """What the schema is now, another process may know first; whoever is refused finds out."""
    with typed_lake("id int") as lake, lake.lake.producer("orders") as producer:
        with penstock.connect(store=lake.store, runtime=lake.runtime, maintenance=False) as other:
            other.evolve_topic("orders", "id int, b string")

        def tried() -> penstock.log.BatchReceipt | None:
            try:
                return producer.send_batch(data)
            except InvalidArgument:
                return None

        receipt = wait_until(tried, "the schema is read")
        assert receipt is not None
        receipt.result(timeout=TIMEOUT_S)
        assert lake.values() == [{"id": 2, "b": "x"}]


@pytest.mark.parametrize("sequences", [False, True])
@pytest.mark.parametrize("bad", [pa.array([2**40, 1], pa.int64()), [{"id": 2**40}, {"id": 1}]], ids=["columns", "rows"])
def test_rows_that_a_later_version_holds_do_not_go_to_the_topic_beside(bad: Any, sequences: bool) -> None:
    with typed_lake("id int") as lake:
        options: Any = {"invalid": "topic", **({"name": "n"} if sequences else {})}
        if sequences:
            with lake.lake.producer("orders", name="n") as producer:
                producer.send_row({"id": 0}, sequence=0).result(timeout=TIMEOUT_S)
        with lake.lake.producer("orders", **options) as producer:
            with penstock.connect(store=lake.store, runtime=lake.runtime, maintenance=False) as other:
                other.evolve_topic("orders", "id bigint")
            if not isinstance(bad, list):
                columns = {"id": pa.concat_arrays([pa.array([0]), bad]), "sequence": pa.array([0, 1, 2])}
                bad = pa.table(columns if sequences else {"id": bad})
            assert producer.send_batch(bad).result(timeout=TIMEOUT_S).invalid == 0
        assert [value["id"] for value in lake.values()][-2:] == [2**40, 1]
        assert list(lake.lake.reader("orders-invalid").messages()) == []


def test_the_order_of_fields_is_part_of_what_differs() -> None:
    with typed_lake("id int, a string") as lake, pytest.raises(TopicExists, match="observed: in another order: a, id"):
        lake.lake.create_topic("orders", schema="a string, id int", queues=1)


def test_a_forged_or_damaged_evolution_changes_nothing() -> None:
    """The fold judges what is in the log, whoever wrote it: no schema that readers would not survive ever holds."""

    async def run() -> tuple[list[Any], list[int]]:
        async with penstock.aio.connect("memory://") as lake:
            settings = penstock.aio.TopicSettings(queues=1, schema=penstock.TopicSchema.of("id bigint not null, a string"))
            await lake.create_topic("orders", settings)
            producer = await lake.producer("orders")
            await producer.send_row({"id": 1, "a": "x"})
            topic = await lake.topic("orders", writable=True)
            first = topic.schema
            number, text = first.fields
            for fields, last_id in (
                ((replace(number, type=PrimitiveType.STRING), text), 2),
                ((number,), 2),
                ((number, replace(text, nullable=False)), 2),
                ((number, text, replace(text, name="b", stored_name="b", id=2)), 3),
            ):
                forged = TopicSchema(2, fields, last_id)
                await topic.act(Evolved(topic.tail.state.generation, schema_form(forged), ("forged",)))
                assert await lake.topic_schema("orders") == first
            await lake.evolve_topic("orders", "id bigint, a string, b int")
            await producer.send_row({"id": None, "a": "y", "b": 2})
            reader = await lake.reader("orders")
            return [one.value async for one in reader.messages()], [one.version for one in await lake.schema_history("orders")]

    values, versions = asyncio.run(run())
    assert values == [{"id": 1, "a": "x", "b": None}, {"id": None, "a": "y", "b": 2}]
    assert versions == [1, 2]
