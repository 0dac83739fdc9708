"""What a producer makes of the rows of a batch: their ids, their queues, and the schema that they are of."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from tests.lakes import TIMEOUT_S
from tests.log.typed.lakes import typed_lake

MIXED: list[dict[str, Any]] = [{"id": "a"}, {"id": 1}, {"id": 2}, {"id": "b"}, {"id": 3}]


def test_each_row_has_the_id_that_its_sender_was_told_though_others_are_taken_out() -> None:
    with typed_lake("id int") as lake:
        sent = lake.send(*MIXED, invalid="topic", linger=0.2)
        assert [one.invalid is None for one in sent] == [isinstance(row["id"], int) for row in MIXED]
        told = {one.message_id: row["id"] for one, row in zip(sent, MIXED, strict=True)}
        kept = {message.message_id: message.value["id"] for message in lake.lake.reader("orders").messages()}
        beside = {
            message.properties["penstock-message-id"]: message.json()["id"]
            for message in lake.lake.reader("orders-invalid").messages()
        }
        assert kept | beside == told
        assert [one.offset for one in sent] == [None, 0, 1, None, 2]


def test_rows_that_are_sent_one_by_one_take_the_queues_in_turn() -> None:
    with typed_lake("id int", queues=3) as lake:
        sent = lake.send(*({"id": number} for number in range(6)), linger=0.2)
        assert {one.queue for one in sent} == {0, 1, 2}
        assert [one.queue for one in sent[:3]] == [one.queue for one in sent[3:]]


def test_an_open_producer_means_by_a_name_what_it_means_now() -> None:
    with typed_lake("id int, a string") as lake, lake.lake.producer("orders") as producer:
        producer.send_row({"id": 1, "a": "x"}).result(timeout=TIMEOUT_S)
        lake.lake.evolve_topic("orders", "id int, b string", rename={"a": "b"})
        lake.lake.evolve_topic("orders", "id int, b string, a string")
        producer.send_row({"id": 2, "a": "y"}).result(timeout=TIMEOUT_S)
        producer.send_batch(pa.table({"id": [3], "a": ["z"]})).result(timeout=TIMEOUT_S)
        assert [(value["a"], value["b"]) for value in lake.values()] == [(None, "x"), ("y", None), ("z", None)]


@pytest.mark.parametrize("field", ["extra", "invalid"])
def test_a_field_that_the_topic_has_by_now_is_not_left_out(field: str) -> None:
    """Rows gather by the schema of the first of their batch."""
    options: Any = {"extra": "ignore"} if field == "extra" else {"invalid": "topic"}
    with typed_lake("id int") as lake, lake.lake.producer("orders", linger=10, **options) as producer:
        receipts = [producer.send_row({"id": 1, "more": 1}) if field == "extra" else producer.send_row({"id": 1})]
        lake.lake.evolve_topic("orders", "id int, more int")
        receipts.append(producer.send_row({"id": 2, "more": 2}))
        producer.flush()
        assert [receipt.result(timeout=TIMEOUT_S).invalid for receipt in receipts] == [None, None]
        assert [value["more"] for value in lake.values()] == [1 if field == "extra" else None, 2]
