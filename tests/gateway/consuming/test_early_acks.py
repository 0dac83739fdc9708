"""Acknowledgements that came before those of earlier messages of their message group."""

from __future__ import annotations

from penstock.coordinator.queues.receipt_handle import ReceiptHandle
from penstock.gateway.rocketmq.consuming.early_acks import EarlyAcks


def handle(offset: int, *, lane: int | None = 7, queue: int = 0) -> ReceiptHandle:
    return ReceiptHandle(
        group="billing", topic="orders", queue=queue, offset=offset, generation=0, attempt=1, lane=lane, following=None
    )


def test_they_are_carried_out_in_order_when_an_earlier_one_is_settled() -> None:
    ahead = EarlyAcks()
    ahead.add(handle(3), "third")
    ahead.add(handle(2), "second")
    ahead.add(handle(2), "second")
    ahead.add(handle(2, queue=1), "elsewhere")
    assert ahead.pop_next(handle(1, lane=8)) is None
    assert [ahead.pop_next(handle(1)) for _ in range(3)] == ["second", "third", None]
    assert len(ahead) == 1


def test_messages_outside_any_lane_wait_for_nothing() -> None:
    ahead = EarlyAcks()
    ahead.add(handle(2, lane=None), "alone")
    assert (len(ahead), ahead.pop_next(handle(1, lane=None))) == (0, None)


def test_their_number_is_bounded() -> None:
    ahead = EarlyAcks(most=2)
    for offset in (2, 3, 4):
        ahead.add(handle(offset), str(offset))
    assert [ahead.pop_next(handle(1)) for _ in range(3)] == ["3", "4", None]


def test_of_a_message_the_last_one_counts() -> None:
    ahead = EarlyAcks()
    ahead.add(handle(2), "of the first delivery")
    ahead.add(handle(2), "of the second")
    ahead.add(handle(3), "third")
    assert (len(ahead), ahead.pop(handle(2)), ahead.pop(handle(2)), ahead.pop(handle(2, lane=None))) == (
        2,
        "of the second",
        None,
        None,
    )
    assert (ahead.pop_next(handle(1)), len(ahead)) == ("third", 0)
