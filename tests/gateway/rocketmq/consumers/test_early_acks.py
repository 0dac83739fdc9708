"""Acknowledgements that came before those of earlier messages of their message group."""

from __future__ import annotations

from penstock.coordinator.queues.receipt_handle import ReceiptHandle
from penstock.gateway.rocketmq.consumers.early_acks import EarlyAcks


def handle(offset: int, *, lane: int | None = 7, queue: int = 0, attempt: int = 1) -> str:
    return ReceiptHandle(
        group="billing", topic="orders", queue=queue, offset=offset, generation=0, attempt=attempt, lane=lane, following=None
    ).encode("00" * 16)


def test_they_are_carried_out_in_order_when_an_earlier_one_is_settled() -> None:
    early = EarlyAcks()
    for one in (handle(3), handle(2), handle(2), handle(2, queue=1)):
        early.add(one)
    assert early.pop_next(handle(1, lane=8)) is None
    assert [early.pop_next(handle(1)) for _ in range(3)] == [handle(2), handle(3), None]
    assert len(early) == 1


def test_messages_outside_any_lane_wait_for_nothing() -> None:
    early = EarlyAcks()
    early.add(handle(2, lane=None))
    assert (len(early), early.pop_next(handle(1, lane=None))) == (0, None)
    early.add(handle(2))
    assert (len(early), early.pop_next(handle(1, lane=None))) == (1, None)


def test_their_number_is_bounded() -> None:
    early = EarlyAcks(most=2)
    for offset in (2, 3, 4):
        early.add(handle(offset))
    assert [early.pop_next(handle(1)) for _ in range(3)] == [handle(3), handle(4), None]


def test_of_a_message_the_last_one_counts() -> None:
    early = EarlyAcks()
    for one in (handle(2), handle(2, attempt=2), handle(3)):
        early.add(one)
    assert len(early) == 2
    assert [early.pop(handle(2)), early.pop(handle(2)), early.pop(handle(2, lane=None))] == [handle(2, attempt=2), None, None]
    assert (early.pop_next(handle(1)), len(early)) == (handle(3), 0)


def test_where_there_are_none_no_handle_is_read() -> None:
    """So an acknowledgement costs nothing more, of a group whose clients settle in order."""
    early = EarlyAcks()
    assert (early.pop("no handle"), early.pop_next("no handle")) == (None, None)
