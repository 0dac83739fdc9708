"""Messages whose sender gave them an id keep it, on every way into the log."""

from __future__ import annotations

from datetime import timedelta

import pytest

import penstock
from penstock.log import Message
from tests.lakes import TIMEOUT_S, read_all
from tests.log.producers import connect

ID = "01A2B3C4D5E6F708090A0B0C0D0E0F1011"


def test_a_given_id_is_the_messages_and_its_neighbours_get_one() -> None:
    with connect(message_type="NORMAL") as lake, lake.producer("orders") as producer:
        receipts = [producer.send(Message(b"%d" % at, message_id=ID if at == 1 else None)) for at in range(3)]
        results = [one.result(timeout=TIMEOUT_S) for one in receipts]
        assert receipts[1].message_id == results[1].message_id == ID
        assert sorted(one.message_id for one in read_all(lake)) == sorted(one.message_id for one in results)
        assert len({one.message_id for one in results}) == 3


def test_a_batch_of_messages_keeps_given_ids() -> None:
    with connect(message_type="NORMAL") as lake, lake.producer("orders") as producer:
        producer.send_batch([Message(b"a", message_id=ID), Message(b"b")]).result(timeout=TIMEOUT_S)
        stored = {one.body: one.message_id for one in read_all(lake)}
    assert stored[b"a"] == ID
    assert len(stored[b"b"]) == 32


def test_a_delayed_message_keeps_its_id_in_its_recall_handle() -> None:
    with connect(message_type="DELAY") as lake, lake.producer("orders") as producer:
        result = producer.send(Message(b"a", delay=timedelta(hours=1), message_id=ID)).result(timeout=TIMEOUT_S)
        assert result.recall_handle is not None
        assert lake.recall(result.recall_handle).message_id == result.message_id == ID


def test_a_half_message_keeps_its_id() -> None:
    with connect(message_type="TRANSACTION") as lake:
        with lake.transaction(producer_group="shop", checker=lambda _: penstock.TransactionResolution.UNKNOWN) as begun:
            assert begun.send("orders", Message(b"a", message_id=ID)) == [ID]
            begun.commit()
        assert [one.message_id for one in read_all(lake)] == [ID]


@pytest.mark.parametrize("bad", ["", " ", "a b", "ä", "x" * 129, 7])
def test_what_is_no_id_is_refused(bad: object) -> None:
    with (
        connect(message_type="NORMAL") as lake,
        lake.producer("orders") as producer,
        pytest.raises(penstock.InvalidArgument, match="id is no id"),
    ):
        producer.send(Message(b"a", message_id=bad))  # type: ignore[arg-type]


def test_rows_keep_given_ids_one_by_one_and_refuse_them_in_a_batch() -> None:
    with penstock.connect("memory://") as lake:
        lake.create_topic("typed", schema="n INT")
        with lake.producer("typed") as producer:
            row = Message.of({"n": 1})._replace(message_id=ID)
            assert producer.send(row).result(timeout=TIMEOUT_S).message_id == ID
            with pytest.raises(penstock.InvalidArgument, match="no ids of their own"):
                producer.send_batch([row])
        assert [one.message_id for one in read_all(lake, "typed")] == [ID]
