"""The four ways to send and to consume, each stated by a test; and what one consumer does for several topics, filters and threads.

Handlers wait for each other instead of for time: where two must run at once, each waits for the other; where two must not, the books of
`Heard` would show it.
"""

from __future__ import annotations

import threading
from collections import Counter

import pytest

import penstock
from penstock import MessageView
from penstock.consumers.dead_letters import group_filter
from penstock.log.filter.filters import Filter, parse_filter
from tests.consumers.heard import FAILURE, SUCCESS, Heard, consuming, fill, send, settled, until_settled
from tests.lakes import TIMEOUT_S
from tests.waiting import wait_until

# --- With a message group, ORDERLY: strict order within each message group -----------------------------------------------------------------


def test_with_groups_and_orderly_each_message_group_is_strictly_in_order_and_others_run_beside_it(lake: penstock.Lake) -> None:
    fill(lake, "aababbaab")
    others = threading.Event()

    def answer(message: MessageView) -> object:
        if message.body == b"a0":
            assert others.wait(TIMEOUT_S), "message group b runs while a0 does, in the same queue"
        if message.body == b"b3":
            others.set()
        return SUCCESS

    heard = Heard(answer)
    with consuming(lake, heard, delivery_order="ORDERLY"):
        heard.until_done(9)
        until_settled(lake)
    assert heard.offsets("a") == [0, 1, 3, 6, 7]
    assert heard.offsets("b") == [2, 4, 5, 8]
    assert heard.most[0, "a"] == heard.most[0, "b"] == 1


def test_with_groups_and_orderly_a_message_that_fails_blocks_its_message_group_only(lake: penstock.Lake) -> None:
    fill(lake, "abaabb")
    others = threading.Event()

    def answer(message: MessageView) -> object:
        if message.body == b"a0" and message.delivery_attempt < 3:
            return FAILURE
        if message.body == b"a0":
            assert others.wait(TIMEOUT_S), "message group b runs on"
        if message.body == b"b2":
            others.set()
        return SUCCESS

    heard = Heard(answer)
    with consuming(lake, heard, delivery_order="ORDERLY"):
        heard.until_done(6)
        until_settled(lake)
    assert [(one.body, one.delivery_attempt) for one in heard.begun if one.message_group == "a"] == [
        (b"a0", 1),
        (b"a0", 2),
        (b"a0", 3),
        (b"a1", 1),
        (b"a2", 1),
    ]
    assert heard.offsets("b") == [1, 4, 5]


# --- With a message group, CONCURRENT: all side by side --------------------------------------------------------------------------------------


def test_with_groups_and_concurrent_messages_of_one_message_group_run_at_once(lake: penstock.Lake) -> None:
    fill(lake, "aaaaaa")
    together = threading.Barrier(6, timeout=TIMEOUT_S)

    def answer(message: MessageView) -> object:
        together.wait()
        return SUCCESS

    heard = Heard(answer)
    with consuming(lake, heard, delivery_order="CONCURRENT"):
        heard.until_done(6)
        until_settled(lake)
    assert heard.most[0, "a"] == 6


def test_with_groups_and_concurrent_a_message_that_fails_holds_up_nobody(lake: penstock.Lake) -> None:
    fill(lake, "aaaa")
    others = threading.Event()

    def answer(message: MessageView) -> object:
        if message.body != b"a0":
            return SUCCESS
        if message.delivery_attempt == 1:
            return FAILURE
        assert others.wait(TIMEOUT_S), "those behind it in its message group are done before it"
        return SUCCESS

    heard = Heard(answer)
    with consuming(lake, heard, delivery_order="CONCURRENT"):
        heard.until(lambda one: len(one.done) == 3, "all but the first")
        others.set()
        heard.until_done(4)
        until_settled(lake)
    assert heard.bodies()[-1] == "a0"
    assert Counter(heard.offsets()) == {0: 2, 1: 1, 2: 1, 3: 1}


# --- Without a message group, ORDERLY: in the order in which a queue stores ------------------------------------------------------------------


def test_without_groups_and_orderly_each_queue_is_in_its_own_order_and_queues_run_side_by_side(lake: penstock.Lake) -> None:
    fill(lake, " " * 12, queues=2)
    first = threading.Barrier(2, timeout=TIMEOUT_S)

    def answer(message: MessageView) -> object:
        if message.offset == 0:
            first.wait()  # the other queue's first runs at the same time
        return FAILURE if message.offset == 3 and message.delivery_attempt < 3 else SUCCESS

    heard = Heard(answer)
    with consuming(lake, heard, delivery_order="ORDERLY"):
        heard.until_done(12)
        until_settled(lake)
    for queue in (0, 1):
        assert heard.offsets(queue=queue) == [0, 1, 2, 3, 3, 3, 4, 5]
        assert heard.most[queue, None] == 1


# --- Without a message group, CONCURRENT: all side by side -----------------------------------------------------------------------------------


def test_without_groups_and_concurrent_all_run_at_once(lake: penstock.Lake) -> None:
    fill(lake, " " * 6, queues=2)
    together = threading.Barrier(6, timeout=TIMEOUT_S)

    def answer(message: MessageView) -> object:
        if message.delivery_attempt == 1:
            together.wait()
        return FAILURE if message.offset == 1 and message.delivery_attempt < 3 else SUCCESS

    heard = Heard(answer)
    with consuming(lake, heard, delivery_order="CONCURRENT"):
        heard.until_done(6)
        until_settled(lake)
    assert heard.most[None] == 6
    assert Counter((one.queue, one.offset) for one in heard.begun) == {(q, o): 3 if o == 1 else 1 for q in (0, 1) for o in range(3)}


# --- More than one of anything ----------------------------------------------------------------------------------------------------------------


def test_two_groups_of_either_order_consume_one_topic_each_by_itself(lake: penstock.Lake) -> None:
    fill(lake, "abab")
    orderly, concurrent = Heard(), Heard()
    with consuming(lake, orderly, group="one"), consuming(lake, concurrent, group="two", delivery_order="CONCURRENT"):
        orderly.until_done(4)
        concurrent.until_done(4)
        until_settled(lake, "one")
        until_settled(lake, "two")
    assert sorted(orderly.bodies()) == sorted(concurrent.bodies()) == ["a0", "a1", "b0", "b1"]


def test_one_consumer_of_several_topics_with_a_filter_each(lake: penstock.Lake) -> None:
    fill(lake, "aabb", tags="xyxy")
    fill(lake, "ccdd", topic="payments", tags="xyzz")
    fill(lake, "ee", topic="returns")
    heard = Heard()
    with consuming(lake, heard, topic={"orders": "x", "payments": "y || z", "returns": None}):
        heard.until_done(7)
        until_settled(lake)
    assert sorted((one.topic, one.body.decode()) for one in heard.done) == [
        ("orders", "a0"),
        ("orders", "b0"),
        ("payments", "c1"),
        ("payments", "d0"),
        ("payments", "d1"),
        ("returns", "e0"),
        ("returns", "e1"),
    ]


def test_a_condition_on_properties_is_the_groups_filter(lake: penstock.Lake) -> None:
    lake.create_topic("orders", message_type="FIFO", queues=2)
    with lake.producer("orders") as producer:
        for price in ("5", "15", "much", "25"):
            producer.send(penstock.Message(price.encode(), message_group="a", properties={"price": price}))
        producer.send(penstock.Message(b"none", message_group="b"))
    heard = Heard()
    with consuming(lake, heard, filter="SQL92: price > 10"):
        heard.until_done(2)
        until_settled(lake)
    assert heard.bodies() == ["15", "25"]
    assert lake.describe_group("billing").settings.filters == {"orders": "SQL92: price > 10"}
    other = pytest.raises(penstock.InvalidArgument, match=r"another filter of orders.*SQL92: price > 10.*SQL92: price > 11")
    with other, consuming(lake, heard, filter="SQL92: price > 11"):
        pass


def test_a_condition_is_not_parsed_anew_with_every_batch_and_is_when_an_operator_changes_it(
    lake: penstock.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(lake, "")
    parsed: list[str | None] = []

    def noted(text: str | None) -> Filter:
        parsed.append(text)
        return parse_filter(text)

    monkeypatch.setattr(group_filter, "parse_filter", noted)
    heard = Heard()
    with consuming(lake, heard, filter="SQL92: price > 10"), lake.producer("orders") as producer:

        def offer(price: str) -> int:
            producer.send(penstock.Message(price.encode(), message_group="a", properties={"price": price})).result(TIMEOUT_S)
            until_settled(lake)
            return len(heard.done)

        assert [offer("11") for _ in range(5)] == [1, 2, 3, 4, 5]
        assert parsed == ["SQL92: price > 10"]
        lake.alter_group("billing", filters={"orders": "SQL92: price > 20"})
        wait_until(lambda: len(heard.done) == offer("11"), "a message that is left out")
        assert parsed[-1] == "SQL92: price > 20"


@pytest.mark.parametrize("order", ["ORDERLY", "CONCURRENT"])
def test_messages_that_a_filter_leaves_out_advance_the_floor(lake: penstock.Lake, order: str) -> None:
    fill(lake, "abababab", tags="xyyyyyyy")
    heard = Heard()
    with consuming(lake, heard, filter="x", delivery_order=order):
        until_settled(lake)
        send(lake, "cc", tags="xy")
        heard.until_done(2)
        until_settled(lake)
        (queue,) = lake.describe_group("billing").queues
    assert (queue.committed_offset, queue.next_offset) == (10, 10)
    assert heard.bodies() == ["a0", "c0"]


@pytest.mark.parametrize("threads", [1, 3])
def test_no_more_handlers_run_at_once_than_there_are_threads(lake: penstock.Lake, threads: int) -> None:
    fill(lake, "abcdefgh" * 3, queues=4)
    together = threading.Barrier(threads, timeout=TIMEOUT_S)

    def answer(message: MessageView) -> object:
        together.wait()
        return SUCCESS

    heard = Heard(answer)
    with consuming(lake, heard, threads=threads, delivery_order="CONCURRENT"):
        heard.until_done(24)
        until_settled(lake)
    assert heard.most[None] == threads


def test_two_consumers_of_a_group_share_the_queues_and_nothing_is_done_twice(lake: penstock.Lake) -> None:
    fill(lake, "", queues=4)
    one, two = Heard(), Heard()
    with consuming(lake, one) as first, consuming(lake, two) as second:
        wait_until(lambda: len(first.statistics().queues) == len(second.statistics().queues) == 2, "two queues each")
        send(lake, "abcdefghijkl" * 4)
        wait_until(lambda: len(one.done) + len(two.done) == 48 and settled(lake), "all done")
    assert one.done
    assert two.done
    assert not {(m.queue, m.offset) for m in one.begun} & {(m.queue, m.offset) for m in two.begun}
    assert not {m.message_group for m in one.begun} & {m.message_group for m in two.begun}
