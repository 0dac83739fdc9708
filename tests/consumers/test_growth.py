"""Consumer groups of topics that get more queues: all is consumed, and message groups keep their order."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterable
from datetime import timedelta

import pytest

import penstock
from penstock import Message, MessageView
from penstock.coordinator import QueueProgress
from penstock.log.message.routing import queue_of
from penstock.log.message.routing_type import Routing
from tests.consumers.heard import FAILURE, SUCCESS, Heard, consuming, until_settled
from tests.lakes import TIMEOUT_S, send_all
from tests.waiting import wait_until

LETTERS = "abcdefghijklmnopqrstuvwxyz"
MINUTE = timedelta(minutes=1)
NOW = timedelta(0)


def moving(before: int, now: int) -> list[str]:
    """Message groups whose queue is another one behind the growth from queue 0."""
    return [one for one in LETTERS if queue_of(one, before, Routing.XXHASH64) == 0 != queue_of(one, now, Routing.XXHASH64)]


def staying(before: int, now: int) -> list[str]:
    return [one for one in LETTERS if queue_of(one, before, Routing.XXHASH64) == 0 == queue_of(one, now, Routing.XXHASH64)]


def by_group(messages: Iterable[MessageView]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for one in messages:
        found[one.message_group or ""].append(one.body.decode())
    return found


def numbered(groups: Iterable[str], first: int, limit: int) -> list[Message]:
    return [Message(f"{group}{number}".encode(), message_group=group) for number in range(first, limit) for group in groups]


def in_order(groups: Iterable[str], limit: int) -> dict[str, list[str]]:
    return {group: [f"{group}{number}" for number in range(limit)] for group in groups}


def create(lake: penstock.Lake, queues: int) -> None:
    lake.create_topic("orders", message_type="FIFO", queues=queues)


@pytest.mark.parametrize("order", ["ORDERLY", "CONCURRENT"])
def test_a_running_group_consumes_the_new_queues(lake: penstock.Lake, order: str) -> None:
    create(lake, 2)
    heard = Heard()
    with consuming(lake, heard, delivery_order=order):
        send_all(lake, numbered(LETTERS, 0, 2), "orders")
        lake.alter_topic("orders", queues=4)
        send_all(lake, numbered(LETTERS, 2, 4), "orders")
        lake.alter_topic("orders", queues=8)
        send_all(lake, numbered(LETTERS, 4, 6), "orders")
        heard.until_done(6 * len(LETTERS))
        until_settled(lake)
    assert {one.queue for one in heard.done} == set(range(8))
    if order == "ORDERLY":
        assert by_group(heard.begun) == in_order(LETTERS, 6)


def test_a_group_that_comes_when_all_is_sent_has_it_in_order(lake: penstock.Lake) -> None:
    create(lake, 2)
    for step, queues in enumerate((4, 8, 16)):
        send_all(lake, numbered(LETTERS, 2 * step, 2 * step + 2), "orders")
        lake.alter_topic("orders", queues=queues)
    send_all(lake, numbered(LETTERS, 6, 8), "orders")
    heard = Heard()
    with consuming(lake, heard, threads=16):
        heard.until_done(8 * len(LETTERS))
        until_settled(lake)
        lake.reset_offsets("billing", "orders", "earliest")
        heard.until_done(16 * len(LETTERS))
    assert by_group(heard.begun) == {group: 2 * found for group, found in in_order(LETTERS, 8).items()}


def test_nothing_of_a_new_queue_runs_while_the_former_one_has_work(lake: penstock.Lake) -> None:
    create(lake, 1)
    first, other = moving(1, 2)[0], staying(1, 2)[0]
    send_all(lake, numbered([first], 0, 1), "orders")
    lake.alter_topic("orders", queues=2)
    send_all(lake, numbered([first, other], 1, 2), "orders")
    goes_on = threading.Event()
    heard = Heard(lambda message: SUCCESS if message.body != f"{first}0".encode() or goes_on.wait(TIMEOUT_S) else FAILURE)
    with consuming(lake, heard):
        heard.until(lambda heard: len(heard.begun) == 2, "the former queue's first, and what stays there")
        wait_until(
            lambda: [one.waits_text for one in lake.describe_group("billing").queues] == ["", "waits for queue 0"], "it waits"
        )
        (traced,) = [one for one in lake.trace(newest(lake, 1)).places if one.message.queue == 1]
        assert [(one.fate.value, one.former_queue) for one in traced.groups] == [("waits for a former queue", 0)]
        goes_on.set()
        heard.until_done(3)
        until_settled(lake)
    assert by_group(heard.begun)[first] == [f"{first}0", f"{first}1"]


def newest(lake: penstock.Lake, queue: int) -> str:
    return [one.message_id for one in lake.reader("orders").messages(queue=queue)][-1]


def test_a_parked_message_group_waits_in_its_new_queue_and_nobody_else_does(lake: penstock.Lake) -> None:
    create(lake, 1)
    parked, free = moving(1, 4)[:2]
    send_all(lake, numbered([parked, free], 0, 2), "orders")
    heard = Heard(lambda message: FAILURE if message.body == f"{parked}0".encode() else SUCCESS)
    with consuming(lake, heard, dead_letter_policy="park", max_attempts=2):
        wait_until(lambda: len(lake.parked("billing")) == 1, "it is parked")
        lake.alter_topic("orders", queues=2)
        send_all(lake, numbered([parked, free], 2, 4), "orders")
        lake.alter_topic("orders", queues=4)
        send_all(lake, numbered([parked, free], 4, 6), "orders")
        heard.until(lambda heard: len(by_group(heard.done)[free]) == 6, "all others")
        home = queue_of(parked, 4, Routing.XXHASH64)
        wait_until(lambda: described(lake, home).waiting_groups == 1, "it waits by name")
        stands = described(lake, home)
        assert (stands.blocked, stands.parked, stands.waits_for) == (0, 0, None)
        assert stands.waits_text == "message groups that wait for a former queue: 1"
        assert [one.offset for one in lake.parked("billing")] == [0]
        assert [one.offset for one in lake.skip("billing")] == [0]
        heard.until(lambda heard: f"{parked}5" in by_group(heard.done)[parked], "all of it")
        until_settled(lake)
    assert by_group(heard.done) == {parked: in_order([parked], 6)[parked][1:], free: in_order([free], 6)[free]}
    assert max(one.delivery_attempt for one in heard.done) == 1


def described(lake: penstock.Lake, queue: int) -> QueueProgress:
    return lake.describe_group("billing").queues[queue]


def test_what_is_received_holds_its_message_group_up_in_the_new_queue(lake: penstock.Lake) -> None:
    create(lake, 1)
    out, free = moving(1, 2)[:2]
    send_all(lake, numbered([out, free], 0, 1), "orders")
    with lake.simple_consumer("orders", group="audit") as simple:
        handles = received(simple, 2)
        simple.ack(handles[f"{free}0"])
        lake.alter_topic("orders", queues=2)
        send_all(lake, numbered([out, free], 1, 3), "orders")
        later = received(simple, 2)
        assert set(later) == {f"{free}1", f"{free}2"}
        simple.ack(*later.values())
        assert simple.receive(8, MINUTE, NOW) == []
        simple.ack(handles[f"{out}0"])
        assert list(received(simple, 2)) == [f"{out}1", f"{out}2"]


def received(simple: penstock.SimpleConsumer, count: int) -> dict[str, MessageView]:
    found: dict[str, MessageView] = {}
    while len(found) < count:
        more = simple.receive(count - len(found), MINUTE, timedelta(seconds=TIMEOUT_S))
        assert more, f"only {found}"
        found |= {one.body.decode(): one for one in more}
    return found


def test_a_former_queue_that_is_reset_alone_closes_its_new_queue_again(lake: penstock.Lake) -> None:
    create(lake, 1)
    group = moving(1, 2)[0]
    send_all(lake, numbered([group], 0, 1), "orders")
    lake.alter_topic("orders", queues=2)
    send_all(lake, numbered([group], 1, 2), "orders")
    again = threading.Event()
    heard = Heard(lambda message: SUCCESS if message.delivery_attempt == 1 else FAILURE)
    with consuming(lake, heard):
        heard.until_done(2)
        until_settled(lake)
        lake.reset_offsets("billing", "orders", "earliest", queues=[0])
        heard.until_done(3)
        wait_until(lambda: described(lake, 1).waits_for is None, "the new queue is open")
        send_all(lake, numbered([group], 2, 3), "orders")
        heard.until_done(4)
        again.set()
    assert by_group(heard.begun)[group] == [f"{group}0", f"{group}1", f"{group}0", f"{group}2"]


def test_a_group_that_begins_at_the_latest_waits_for_nothing_before(lake: penstock.Lake) -> None:
    create(lake, 1)
    send_all(lake, numbered(LETTERS, 0, 1), "orders")
    lake.alter_topic("orders", queues=2)
    heard = Heard()
    with consuming(lake, heard, start="latest"):
        send_all(lake, numbered(LETTERS, 1, 2), "orders")
        heard.until_done(len(LETTERS))
    assert by_group(heard.begun) == {one: [f"{one}1"] for one in LETTERS}


def test_a_reset_reaches_queues_that_no_member_has_seen_yet(lake: penstock.Lake) -> None:
    create(lake, 1)
    heard = Heard()
    send_all(lake, numbered(LETTERS, 0, 1), "orders")
    with consuming(lake, heard):
        heard.until_done(len(LETTERS))
        until_settled(lake)
    lake.alter_topic("orders", queues=2)
    send_all(lake, numbered(LETTERS, 1, 2), "orders")
    assert lake.describe_group("billing").lag == len(LETTERS)
    assert set(lake.reset_offsets("billing", "orders", "latest")) == {0, 1}
    assert lake.describe_group("billing").lag == 0
    with consuming(lake, heard):
        send_all(lake, numbered(LETTERS, 2, 3), "orders")
        heard.until_done(2 * len(LETTERS))
    assert {one.body[1:] for one in heard.done} == {b"0", b"2"}


def test_a_broadcast_has_every_message_group_in_order(lake: penstock.Lake) -> None:
    create(lake, 1)
    send_all(lake, numbered(LETTERS, 0, 2), "orders")
    heard = Heard()
    with lake.broadcast_consumer("orders", group="screens", member="one", listener=heard):
        heard.until_done(len(LETTERS))
        lake.alter_topic("orders", queues=2)
        send_all(lake, numbered(LETTERS, 2, 3), "orders")
        heard.until_done(3 * len(LETTERS))
    lake.alter_topic("orders", queues=4)
    send_all(lake, numbered(LETTERS, 3, 4), "orders")
    with lake.broadcast_consumer("orders", group="screens", member="one", listener=heard):
        heard.until_done(4 * len(LETTERS))
    assert by_group(heard.begun) == in_order(LETTERS, 4)


def test_a_pull_consumer_polls_the_new_queues(lake: penstock.Lake) -> None:
    create(lake, 1)
    found: list[MessageView] = []

    def polled() -> bool:
        found.extend(pull.poll())
        return len(found) == 2 * len(LETTERS)

    with lake.pull_consumer("orders", group="copies") as pull:
        send_all(lake, numbered(LETTERS, 0, 1), "orders")
        lake.alter_topic("orders", queues=2)
        send_all(lake, numbered(LETTERS, 1, 2), "orders")
        wait_until(polled, "everything polled")
        pull.commit()
    assert lake.describe_group("copies").lag == 0


def test_a_topic_made_again_with_fewer_queues_grows_to_those_it_had(lake: penstock.Lake) -> None:
    create(lake, 4)
    heard = Heard()
    send_all(lake, numbered(LETTERS, 0, 1), "orders")
    with consuming(lake, heard):
        heard.until_done(len(LETTERS))
        until_settled(lake)
    lake.delete_topic("orders")
    create(lake, 2)
    send_all(lake, numbered(LETTERS, 1, 2), "orders")
    with consuming(lake, heard):
        heard.until_done(2 * len(LETTERS))
        lake.alter_topic("orders", queues=4)
        send_all(lake, numbered(LETTERS, 2, 3), "orders")
        heard.until_done(3 * len(LETTERS))
        until_settled(lake)
    assert by_group(heard.begun) == in_order(LETTERS, 3)
