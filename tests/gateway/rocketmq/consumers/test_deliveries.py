"""What is out to clients: whether they have it, which handles are renewed, and when."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from penstock.gateway.rocketmq.consumers.deliveries import (
    INVISIBLE_DURATION_S,
    RENEW_AHEAD_S,
    RENEW_MAX_S,
    RENEW_UNSEEN_MAX_S,
    WAY_S,
    Deliveries,
    SentReceive,
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
    deliveries: Deliveries,
    *messages: MessageView,
    client: str = "c",
    attempt: str = "first",
    peer: str = "one",
    in_order: bool = False,
    now_s: float = 0.0,
    is_whole: bool = True,
) -> SentReceive:
    """A client is given these."""
    sent = deliveries.add_receive(client, PLACE, attempt, peer, messages, in_order=in_order, now_s=now_s)
    sent.is_whole = is_whole
    return sent


def adopted(deliveries: Deliveries, *messages: MessageView, in_order: bool = False, now_s: float = 0.0) -> int:
    """Another gateway gave the client these."""
    return deliveries.adopt("c", PLACE, messages, in_order=in_order, now_s=now_s, due_s=now_s + INVISIBLE_DURATION_S)


def asks(deliveries: Deliveries, attempt: str, *, peer: str = "one", now_s: float = 0.0) -> list[str]:
    """The client asks for messages. Gives what is lost by that."""
    return deliveries.on_request("c", PLACE, attempt, peer, now_s)


def unseen(deliveries: Deliveries) -> list[str]:
    """What its client may not have, or has not."""
    return sorted(handle for handle, renewal in deliveries._renewals.items() if renewal.is_given_up or not renewal.is_seen)


def unconfirmed(deliveries: Deliveries) -> list[str]:
    """The attempt ids of the receives of which it is not known yet whether their client has them."""
    return [attempt for receives in deliveries._receives.values() for attempt in receives]


# --- When handles are renewed -----------------------------------------------------------------------------------------------------


def test_a_handle_is_renewed_when_half_its_time_is_over() -> None:
    deliveries = Deliveries()
    given(deliveries, message(1), message(2))
    assert deliveries.due(INVISIBLE_DURATION_S - RENEW_AHEAD_S) == {}
    late_s = INVISIBLE_DURATION_S - RENEW_AHEAD_S + 1
    assert deliveries.due(late_s) == {PLACE: [["h0-1"], ["h0-2"]]}
    deliveries.mark_renewed("h0-1", late_s + INVISIBLE_DURATION_S)
    assert deliveries.due(late_s) == {PLACE: [["h0-2"]]}


def test_messages_that_become_visible_together_are_renewed_together() -> None:
    deliveries = Deliveries()
    given(deliveries, message(3, "b"), message(1, "a"), message(2, "a"), message(1, "a", queue=1), in_order=True)
    assert deliveries.due(59) == {PLACE: [["h0-1", "h0-2"], ["h1-1"], ["h0-3"]]}
    deliveries.mark_renewed("h0-1", 120)
    deliveries.forget("h0-1")
    assert deliveries.due(59) == {PLACE: [["h1-1"], ["h0-3"]]}, "its second was renewed with it"
    assert deliveries.due(91) == {PLACE: [["h1-1"], ["h0-2"], ["h0-3"]]}


def test_messages_of_no_group_of_one_queue_become_visible_together_too() -> None:
    deliveries = Deliveries()
    given(deliveries, message(1), message(2), in_order=True)
    assert deliveries.due(59) == {PLACE: [["h0-1", "h0-2"]]}


def test_a_repeated_receive_changes_nothing() -> None:
    deliveries = Deliveries()
    assert not given(deliveries, message(1)).is_repeated
    assert given(deliveries, message(1), now_s=50).is_repeated
    assert deliveries.due(59) == {PLACE: [["h0-1"]]}


def test_what_hangs_is_not_renewed_for_ever() -> None:
    deliveries = Deliveries()
    given(deliveries, message(1))
    deliveries.mark_renewed("h0-1", RENEW_MAX_S + 1)
    assert deliveries.due(RENEW_MAX_S) == {}
    assert len(deliveries) == 0


def test_a_client_that_ends_leaves_its_handles_by_message_group() -> None:
    deliveries = Deliveries()
    given(deliveries, message(1, "a"), message(2, "a"), message(5, "b"), in_order=True)
    given(deliveries, message(7, "c"), client="other", in_order=True)
    assert deliveries.end_client("c") == {PLACE: [["h0-1", "h0-2"], ["h0-5"]]}
    assert (deliveries.clients(), deliveries.client_of("h0-1"), deliveries.client_of("h0-7")) == (["other"], None, "other")
    assert deliveries.end_client("c") == {}


def test_what_a_client_has_perhaps_is_renewed_for_two_minutes() -> None:
    deliveries = Deliveries()
    assert adopted(deliveries, message(1)) + adopted(deliveries, message(2)) == 2
    deliveries.mark_renewed("h0-1", RENEW_UNSEEN_MAX_S)
    deliveries.mark_renewed("h0-2", RENEW_UNSEEN_MAX_S)
    given(deliveries, message(1), now_s=1)
    assert deliveries.due(RENEW_UNSEEN_MAX_S) == {PLACE: [["h0-1"]]}, "its receive was repeated"
    assert adopted(deliveries, message(2), now_s=RENEW_UNSEEN_MAX_S) == 0
    assert deliveries.due(RENEW_UNSEEN_MAX_S) == {PLACE: [["h0-1"]]}, "it is not found once more"
    given(deliveries, message(2), now_s=RENEW_UNSEEN_MAX_S)
    assert deliveries.due(RENEW_UNSEEN_MAX_S) == {PLACE: [["h0-1"], ["h0-2"]]}


def test_what_was_doubted_later_is_renewed_for_two_minutes_from_then_on() -> None:
    deliveries = Deliveries()
    given(deliveries, message(1), attempt="first")
    given(deliveries, message(2), attempt="second")
    deliveries.on_stream_end("c", 100)
    deliveries.mark_renewed("h0-1", 130)
    deliveries.mark_renewed("h0-2", 130)
    given(deliveries, message(2), attempt="second")
    deliveries.mark_broken(given(deliveries, message(3), attempt="third"), 200)
    asks(deliveries, "fourth", peer="two", now_s=200)
    assert unseen(deliveries) == ["h0-1", "h0-2", "h0-3"]
    assert deliveries.due(101 + RENEW_UNSEEN_MAX_S) == {PLACE: [["h0-2"]]}, "a doubt is not begun anew by another"


def test_what_is_lost_is_neither_renewed_nor_found_once_more() -> None:
    deliveries = Deliveries()
    lost = given(deliveries, message(1, "a"), message(2, "a"), message(9, "c"), in_order=True, is_whole=False)
    given(deliveries, message(3, "b"), in_order=True, attempt="second", is_whole=False)
    deliveries.mark_broken(lost, 1)
    deliveries.forget("h0-9")
    assert asks(deliveries, "third") == ["h0-1", "h0-2", "h0-9"]
    assert adopted(deliveries, message(1, "a"), message(2, "a"), in_order=True, now_s=5) == 0
    assert deliveries.due(59) == {PLACE: [["h0-3"]]}
    assert deliveries.end_client("c") == {PLACE: [["h0-3"]]}
    assert len(deliveries) == 0


def test_what_is_renewed_at_once_is_what_is_known() -> None:
    deliveries = Deliveries()
    given(deliveries, message(2, "a"), message(1, "a"), in_order=True)
    assert deliveries.runs(["h0-2", "gone", "h0-1"]) == {PLACE: [["h0-1", "h0-2"]]}


# --- Whether a client has what it was given ---------------------------------------------------------------------------------------


def test_an_answer_has_arrived_when_its_client_asks_for_more_by_the_same_connection() -> None:
    deliveries = Deliveries()
    given(deliveries, message(1), message(2))
    assert asks(deliveries, "second") == []
    assert unconfirmed(deliveries) == []
    deliveries.on_stream_end("c", 0)
    assert asks(deliveries, "third", peer="two") == []
    assert unseen(deliveries) == []


@pytest.mark.parametrize(("left_s", "has_arrived"), [(WAY_S + 0.1, True), (WAY_S - 0.1, False), (-1.0, False)])
def test_an_answer_that_was_written_late_may_have_come_when_its_client_waited_no_longer(left_s: float, has_arrived: bool) -> None:
    """Its connection is good then, and by that the client asks for other messages."""
    deliveries = Deliveries()
    sent = deliveries.add_receive("c", PLACE, "first", "one", [message(1)], in_order=False, now_s=0, until_s=100.0)
    sent.mark_written(100.0 - left_s)
    for attempt in ("second", "third"):
        asks(deliveries, attempt)
        assert unseen(deliveries) == ([] if has_arrived else ["h0-1"])
    assert unconfirmed(deliveries) == ([] if has_arrived else ["first"])


def test_an_answer_that_is_under_way_has_not_arrived_when_its_client_asks_for_more_beside_it() -> None:
    deliveries = Deliveries()
    sent = given(deliveries, message(1), is_whole=False)
    assert (asks(deliveries, "second"), unseen(deliveries)) == ([], [])
    deliveries.mark_broken(sent, 0)
    assert unseen(deliveries) == ["h0-1"]
    assert asks(deliveries, "third") == ["h0-1"]


def test_an_answer_that_was_written_whole_is_open_when_its_connection_broke_behind_it() -> None:
    """The client may have it: it asks in the same way for the messages behind those that it handles."""
    deliveries = Deliveries()
    given(deliveries, message(1), message(2))
    deliveries.on_stream_end("c", 0)
    assert asks(deliveries, "second", peer="two") == []
    assert unseen(deliveries) == ["h0-1", "h0-2"]
    deliveries.settle("h0-2")
    assert (unseen(deliveries), len(deliveries)) == ([], 1)


@pytest.mark.parametrize("is_balanced", [False, True])
def test_a_poll_by_another_connection_shows_what_was_written_to_the_former_one(is_balanced: bool) -> None:
    deliveries = Deliveries(is_balanced=is_balanced)
    given(deliveries, message(1), attempt="first")
    given(deliveries, message(2), attempt="beside", peer="two")
    given(deliveries, message(3), attempt="under way", is_whole=False)
    for attempt in ("second", "third"):
        assert asks(deliveries, attempt, peer="two") == []
        assert unseen(deliveries) == ([] if is_balanced else ["h0-1"])
    assert unconfirmed(deliveries) == ["first", "under way"]


@pytest.mark.parametrize("is_balanced", [False, True])
def test_it_has_arrived_when_only_the_stream_broke(is_balanced: bool) -> None:
    """Behind a balancer, whose own connection goes on, the poll shows nothing of that."""
    deliveries = Deliveries(is_balanced=is_balanced)
    given(deliveries, message(1))
    deliveries.on_stream_end("c", 0)
    assert unseen(deliveries) == ["h0-1"]
    assert asks(deliveries, "second") == []
    assert unseen(deliveries) == (["h0-1"] if is_balanced else [])


def test_one_that_broke_off_is_lost_when_its_client_asks_for_others() -> None:
    deliveries = Deliveries()
    sent = given(deliveries, message(1), is_whole=False)
    deliveries.mark_broken(sent, 0)
    assert [asks(deliveries, attempt) for attempt in ("second", "third")] == [["h0-1"], []]
    given(deliveries, message(1), attempt="fourth")
    deliveries.mark_broken(sent, 0)
    assert unseen(deliveries) == [], "it is known already"


def test_an_answer_that_is_asked_for_again_is_not_lost() -> None:
    deliveries = Deliveries()
    deliveries.mark_broken(given(deliveries, message(1), is_whole=False), 0)
    assert asks(deliveries, "first", peer="two") == []
    given(deliveries, message(1), peer="two")
    assert asks(deliveries, "second", peer="two") == []
    assert (unseen(deliveries), unconfirmed(deliveries)) == ([], [])


def test_an_end_that_is_noticed_late_says_nothing_of_the_answer_that_was_given_again() -> None:
    deliveries = Deliveries()
    before = given(deliveries, message(1), is_whole=False)
    given(deliveries, message(1), peer="two")
    deliveries.mark_broken(before, 0)
    assert unseen(deliveries) == [], "the client has it"


def test_a_poll_by_another_connection_says_nothing_by_itself() -> None:
    deliveries = Deliveries()
    sent = given(deliveries, message(1), is_whole=False)
    assert asks(deliveries, "second", peer="two") == [], "a balancer shares the calls of one client among connections"
    deliveries.mark_broken(sent, 0)
    assert asks(deliveries, "third", peer="two") == ["h0-1"], "it only came to be known late"


def test_a_client_that_settles_a_message_has_all_of_its_receive() -> None:
    deliveries = Deliveries()
    given(deliveries, message(1), message(2))
    deliveries.settle("h0-1")
    deliveries.on_stream_end("c", 0)
    assert (unseen(deliveries), unconfirmed(deliveries)) == ([], [])
    deliveries.settle("h0-2")
    assert len(deliveries) == 0


def test_one_that_was_settled_elsewhere_shows_that_its_receive_arrived_when_its_client_settles_it_too() -> None:
    deliveries = Deliveries()
    adopted(deliveries, message(1), message(2))
    deliveries.forget("h0-1")
    assert unseen(deliveries) == ["h0-2"]
    deliveries.settle("h0-1")
    assert unseen(deliveries) == []


def test_what_another_gateway_gave_is_neither_lost_nor_seen_until_some_of_it_is_settled() -> None:
    deliveries = Deliveries()
    assert [adopted(deliveries, message(1), message(2)) for _ in range(2)] == [2, 0]
    deliveries.on_stream_end("c", 0)
    for peer in ("one", "two"):
        assert asks(deliveries, "second", peer=peer) == []
    assert (unseen(deliveries), len(unconfirmed(deliveries))) == (["h0-1", "h0-2"], 1)
    deliveries.settle("h0-2")
    assert (unseen(deliveries), unconfirmed(deliveries)) == ([], [])


def test_receives_of_other_topics_and_clients_are_left_alone_and_there_are_not_many() -> None:
    deliveries = Deliveries()
    given(deliveries, message(1))
    given(deliveries, message(2), client="other")
    assert deliveries.on_request("c", ("billing", "payments"), "second", "one", 0) == []
    assert deliveries.on_request("other", PLACE, "first", "one", 0) == []
    assert unconfirmed(deliveries) == ["first", "first"]
    for number in range(200):
        given(deliveries, message(number + 3), attempt=str(number))
    assert len(unconfirmed(deliveries)) == 65
    deliveries.end_client("c")
    deliveries.end_client("other")
    assert (len(deliveries), deliveries._receives, deliveries._receive_of, dict(deliveries._of_client)) == (0, {}, {}, {})


def test_what_another_gateway_gave_of_a_queue_does_not_show_that_what_came_of_another_queue_arrived() -> None:
    """Two gateways may have given them under one attempt id, the first in an answer that was lost."""
    deliveries = Deliveries()
    adopted(deliveries, message(1, queue=0), message(2, queue=1), message(3, queue=1))
    deliveries.settle("h1-2")
    assert unseen(deliveries) == ["h0-1"]


def test_what_other_gateways_gave_takes_no_room_from_what_this_one_gives() -> None:
    deliveries = Deliveries()
    own = given(deliveries, message(500, queue=99), is_whole=False)
    for first in range(0, 500, 100):
        adopted(deliveries, *[message(first + 2 * queue + one, queue=queue) for queue in range(16) for one in (0, 1)])
    deliveries.mark_broken(own, 1.0)
    assert asks(deliveries, "second", now_s=2.0) == ["h99-500"]
    deliveries.settle("h0-0")
    assert "h0-1" not in unseen(deliveries)


def test_a_receive_is_forgotten_with_the_last_of_its_deliveries() -> None:
    deliveries = Deliveries()
    adopted(deliveries, message(1), message(2))
    given(deliveries, message(3))
    for handle in ("h0-1", "h0-2", "h0-3"):
        assert unconfirmed(deliveries)
        deliveries.forget(handle)
    assert (unconfirmed(deliveries), deliveries._receive_of) == ([], {})


def test_what_has_arrived_is_not_doubted_as_another_gateway_gave_it_too() -> None:
    deliveries = Deliveries()
    given(deliveries, message(1), message(2))
    asks(deliveries, "second")
    assert (unseen(deliveries), unconfirmed(deliveries)) == ([], [])
    assert adopted(deliveries, message(1), message(2)) == 0
    assert unconfirmed(deliveries) == []
