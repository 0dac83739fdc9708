"""Batches of a few messages: the same rows as Arrow makes of them, in files that pyarrow reads as its own."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock import Message
from penstock.log.format import few_rows_file
from penstock.log.format.few_rows_file import encode_few_rows
from penstock.log.format.sealed import ROW_GROUP_ROWS, read_footer, read_rows, read_value, write_file
from penstock.log.lake import LogLake
from penstock.log.message.batch_rows import BatchRows, MessageIds, rows_of_messages
from penstock.log.message.few_rows import FEW_ROWS, FewRows, few_rows
from penstock.log.message.message import LOG_SCHEMA
from penstock.log.message.routing import Router
from penstock.log.stores.memory import MemoryStore
from penstock.log.topic.settings import TopicSettings

FOOTER = {"some.key": "é" + "v" * 300, "empty": ""}


def both(messages: list[Message], queues: dict[int, int], seed: int = 0) -> tuple[FewRows, BatchRows]:
    bodies, groups = [one.body for one in messages], [one.message_group for one in messages]
    labelled = {at: one for at, one in enumerate(messages) if one._replace(body=b"", message_group=None) != Message(b"")}
    given = {at: one.message_id for at, one in enumerate(messages) if one.message_id is not None}
    born_us = [1_700_000_000_000_000 + seed * at for at in range(len(messages))]
    few_router, router = (Router(4, first=seed % 4) for _ in range(2))
    ids = MessageIds(2**63 + seed, 70_000, given)
    few = few_rows(bodies, groups, labelled, queues, born_us, few_router, producer="p" * 32, ids=ids)
    assert few is not None
    rows = rows_of_messages(bodies, groups, labelled, queues, np.array(born_us), router, producer="p" * 32, ids=ids)
    assert few_router.route_few([None]) == router.route(pa.nulls(1, pa.string())).tolist(), "both go on in turn where they are"
    return few, rows


def drawn(chance: random.Random) -> Message:
    labels, rare = chance.random() < 0.4, chance.random() < 0.2
    return Message(
        chance.choice([None, b"", b"x", chance.randbytes(300)]),
        chance.choice([None, None, "a", "group-é", "g" * 200]),
        tag=chance.choice([None, "t"]) if labels else None,
        keys=tuple(f"k{number}" for number in range(chance.randrange(3))) if labels else (),
        properties={f"p{number}": chance.choice(["", "ü", "v"]) for number in range(chance.randrange(3))} if labels else {},
        key=chance.choice([None, b"", b"k"]) if rare else None,
        headers=tuple((f"h{number}", chance.choice([None, b"", b"v"])) for number in range(chance.randrange(3))) if rare else (),
        message_id=chance.choice([None, None, "my-id"]),
    )


@pytest.mark.parametrize("seed", range(60))
def test_few_rows_are_read_as_arrow_makes_them(seed: int) -> None:
    chance = random.Random(seed)
    messages = [drawn(chance) for _ in range(chance.choice([1, 1, 2, 5, FEW_ROWS]))]
    few, rows = both(messages, {0: 3} if chance.random() < 0.3 else {}, seed)
    file = encode_few_rows(few, FOOTER)
    assert file is not None
    assert read_rows(file, where="a file", schema=LOG_SCHEMA).equals(rows.table)
    assert few.table.equals(rows.table)
    assert {name: value for name, value in read_footer(file, where="a file").items() if name in FOOTER} == FOOTER
    assert read_value(file, "some.key", where="a file") == FOOTER["some.key"]
    assert few.places.rows == rows.places.rows
    assert [*few.places.ranks] == rows.places.ranks.tolist()
    assert [*few.places.order] == rows.places.order.tolist()
    assert (few.count, few.is_extended) == (rows.count, rows.is_extended)


@pytest.mark.parametrize("rare", [{}, {"key": b"k"}, {"headers": (("h", b"v"),)}, {"key": b"k", "headers": (("h", b"v"),)}])
def test_the_file_is_described_as_pyarrow_describes_its_own(rare: dict[str, Any]) -> None:
    few, rows = both([Message(b"x" * 100, "a", keys=("k",), properties={"p": "q"}, **rare), Message(b"y")], {})
    by_hand = encode_few_rows(few, {})
    assert by_hand is not None
    ours, own = (pq.ParquetFile(pa.BufferReader(file)) for file in (by_hand, write_file(rows.table, {})))
    assert ours.schema.equals(own.schema)
    assert (ours.metadata.created_by, ours.metadata.format_version) == (own.metadata.created_by, own.metadata.format_version)
    for number in range(own.metadata.num_columns):
        told, expected = (file.metadata.row_group(0).column(number).to_dict() for file in (ours, own))
        for what in ("data_page_offset", "total_compressed_size", "total_uncompressed_size"):
            told.pop(what), expected.pop(what)
        assert told == expected
    assert ours.metadata.num_rows < ROW_GROUP_ROWS


async def test_beside_a_pyarrow_whose_footers_have_another_form_it_writes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(few_rows_file, "_frame", lambda rare: None)
    async with LogLake(MemoryStore()) as lake:
        await lake.create_topic("orders", TopicSettings())
        await (await lake.producer("orders")).send(Message(b"x", tag="t"))
        assert [(one.body, one.tag) async for one in (await lake.reader("orders")).messages()] == [(b"x", "t")]


def test_rows_of_another_routing_are_made_anew_by_arrow() -> None:
    few, rows = both([Message(b"x", "a"), Message(b"y"), Message(b"z", "b")], {2: 1})
    assert few.routed_anew(Router(64)).table.equals(rows.routed_anew(Router(64)).table)


def test_a_delayed_message_is_not_of_the_few() -> None:
    labelled = {0: Message(b"x", delay=5)}
    assert few_rows([b"x"], [None], labelled, {}, [1], Router(1), producer="p", ids=MessageIds(1, 0)) is None
