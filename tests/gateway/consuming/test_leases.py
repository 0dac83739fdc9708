"""Which handles are renewed, and when."""

from __future__ import annotations

from datetime import UTC, datetime

from penstock.gateway.rocketmq.consuming.leases import (
    RENEW_BEFORE_S,
    RENEW_MAX_S,
    RENEW_UNSEEN_MAX_S,
    RENEWED_FOR_S,
    DeliveryLeases,
)
from penstock.log import MessageView

PLACE = ("billing", "orders")
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


def message(offset: int, group: str | None = None, *, queue: int = 0) -> MessageView:
    return MessageView(
        "orders",
        queue,
        offset,
        f"m{offset}",
        group,
        None,
        (),
        {},
        b"",
        EPOCH,
        EPOCH,
        None,
        "p",
        receipt_handle=f"h{queue}-{offset}",
    )


def given(
    leases: DeliveryLeases,
    *messages: MessageView,
    client: str = "c",
    in_order: bool = False,
    now_s: float = 0.0,
    is_seen: bool = True,
) -> None:
    leases.add(client, PLACE, messages, in_order=in_order, now_s=now_s, due_s=now_s + RENEWED_FOR_S, is_seen=is_seen)


def test_a_handle_is_renewed_when_half_its_time_is_over() -> None:
    leases = DeliveryLeases()
    given(leases, message(1), message(2))
    assert leases.due(RENEWED_FOR_S - RENEW_BEFORE_S) == {}
    late_s = RENEWED_FOR_S - RENEW_BEFORE_S + 1
    assert leases.due(late_s) == {PLACE: [["h0-1"], ["h0-2"]]}
    leases.renewed("h0-1", late_s + RENEWED_FOR_S)
    assert leases.due(late_s) == {PLACE: [["h0-2"]]}


def test_messages_that_become_visible_together_are_renewed_together() -> None:
    leases = DeliveryLeases()
    given(leases, message(3, "b"), message(1, "a"), message(2, "a"), message(1, "a", queue=1), in_order=True)
    assert leases.due(59) == {PLACE: [["h0-1", "h0-2"], ["h1-1"], ["h0-3"]]}
    leases.renewed("h0-1", 120)
    leases.end("h0-1")
    assert leases.due(59) == {PLACE: [["h1-1"], ["h0-3"]]}, "its second was renewed with it"
    assert leases.due(91) == {PLACE: [["h1-1"], ["h0-2"], ["h0-3"]]}


def test_messages_of_no_group_of_one_queue_become_visible_together_too() -> None:
    leases = DeliveryLeases()
    given(leases, message(1), message(2), in_order=True)
    assert leases.due(59) == {PLACE: [["h0-1", "h0-2"]]}


def test_a_repeated_receive_changes_nothing() -> None:
    leases = DeliveryLeases()
    given(leases, message(1))
    given(leases, message(1), now_s=50)
    assert leases.due(59) == {PLACE: [["h0-1"]]}


def test_what_hangs_is_not_renewed_for_ever() -> None:
    leases = DeliveryLeases()
    given(leases, message(1))
    leases.renewed("h0-1", RENEW_MAX_S + 1)
    assert leases.due(RENEW_MAX_S) == {}
    assert len(leases) == 0


def test_a_client_that_ends_leaves_its_handles_by_message_group() -> None:
    leases = DeliveryLeases()
    given(leases, message(1, "a"), message(2, "a"), message(5, "b"), in_order=True)
    given(leases, message(7, "c"), client="other", in_order=True)
    assert leases.end_client("c") == {PLACE: [["h0-1", "h0-2"], ["h0-5"]]}
    assert leases.clients() == ["other"]
    assert leases.end_client("c") == {}


def test_what_a_client_has_perhaps_is_renewed_for_two_minutes() -> None:
    leases = DeliveryLeases()
    given(leases, message(1), message(2), is_seen=False)
    leases.renewed("h0-1", RENEW_UNSEEN_MAX_S)
    leases.renewed("h0-2", RENEW_UNSEEN_MAX_S)
    leases.seen(["h0-1"])
    assert leases.due(RENEW_UNSEEN_MAX_S) == {PLACE: [["h0-1"]]}
    given(leases, message(2), is_seen=False, now_s=RENEW_UNSEEN_MAX_S)
    assert leases.due(RENEW_UNSEEN_MAX_S) == {PLACE: [["h0-1"]]}, "it is not found once more"
    given(leases, message(2), now_s=RENEW_UNSEEN_MAX_S)
    assert leases.due(RENEW_UNSEEN_MAX_S) == {PLACE: [["h0-1"], ["h0-2"]]}, "its receive was repeated"


def test_what_was_doubted_later_is_renewed_for_two_minutes_from_then_on() -> None:
    leases = DeliveryLeases()
    given(leases, message(1), message(2))
    leases.mark_unconfirmed(["h0-1", "h0-2", "gone"], 100)
    leases.renewed("h0-1", 130)
    leases.renewed("h0-2", 130)
    leases.seen(["h0-2"])
    leases.mark_unconfirmed(["h0-1"], 200)
    assert leases.due(101 + RENEW_UNSEEN_MAX_S) == {PLACE: [["h0-2"]]}, "a doubt is not begun anew by another"


def test_what_is_given_up_is_neither_renewed_nor_found_once_more() -> None:
    leases = DeliveryLeases()
    given(leases, message(1, "a"), message(2, "a"), message(3, "b"), in_order=True)
    leases.stop_renewing(["h0-1", "h0-2", "gone"])
    given(leases, message(1, "a"), message(2, "a"), in_order=True, is_seen=False, now_s=5)
    assert leases.due(59) == {PLACE: [["h0-3"]]}
    assert leases.end_client("c") == {PLACE: [["h0-3"]]}
    assert len(leases) == 0
