"""Acknowledgements that came before those of earlier messages of their message group."""

from __future__ import annotations

from penstock.coordinator.queues.receipt_handle import ReceiptHandle
from penstock.gateway.consuming.ahead import Ahead


def handle(offset: int, *, lane: int | None = 7, queue: int = 0) -> ReceiptHandle:
    return ReceiptHandle(
        group="billing", topic="orders", queue=queue, offset=offset, generation=0, attempt=1, lane=lane, following=None
    )


def test_they_are_carried_out_in_order_when_an_earlier_one_is_settled() -> None:
    ahead = Ahead()
    ahead.keep(handle(3), "third")
    ahead.keep(handle(2), "second")
    ahead.keep(handle(2), "second")
    ahead.keep(handle(2, queue=1), "elsewhere")
    assert ahead.after(handle(1, lane=8)) is None
    assert [ahead.after(handle(1)) for _ in range(3)] == ["second", "third", None]
    assert len(ahead) == 1


def test_messages_outside_any_lane_wait_for_nothing() -> None:
    ahead = Ahead()
    ahead.keep(handle(2, lane=None), "alone")
    assert (len(ahead), ahead.after(handle(1, lane=None))) == (0, None)


def test_their_number_is_bounded() -> None:
    ahead = Ahead(most=2)
    for offset in (2, 3, 4):
        ahead.keep(handle(offset), str(offset))
    assert [ahead.after(handle(1)) for _ in range(3)] == ["3", "4", None]


def test_of_a_message_the_last_one_counts() -> None:
    ahead = Ahead()
    ahead.keep(handle(2), "of the first delivery")
    ahead.keep(handle(2), "of the second")
    ahead.keep(handle(3), "third")
    assert (len(ahead), ahead.taken(handle(2)), ahead.taken(handle(2)), ahead.taken(handle(2, lane=None))) == (
        2,
        "of the second",
        None,
        None,
    )
    assert (ahead.after(handle(1)), len(ahead)) == ("third", 0)
