"""Receipt handles, and each reason for which one is refused."""

from __future__ import annotations

import base64
from dataclasses import replace

import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from penstock.consumers.limits import QueueLimits
from penstock.consumers.schedule.receive import ReceiveSchedule
from penstock.consumers.schedule.receive_request import ReceiveRequest
from penstock.coordinator.groups.record import DeadLetterPolicy, DeliveryOrder, GroupSettings
from penstock.coordinator.queues.cell import MessageState, QueueCell, Receive
from penstock.coordinator.queues.invisibility import (
    Acknowledgement,
    acknowledged,
    acknowledged_all,
    changed_invisible_duration,
    expired,
    returned,
    without_caught_up,
)
from penstock.coordinator.queues.offsets import OffsetSet
from penstock.coordinator.queues.receipt_handle import (
    AlreadySettled,
    ReceiptAhead,
    ReceiptExpired,
    ReceiptHandle,
    ReceiptOutdated,
    ReceiptRefused,
    is_genuine,
)
from penstock.coordinator.queues.receives import outstanding
from penstock.log.errors import InvalidArgument
from penstock.log.message.message import MessageView
from tests.consumers.test_receive_schedule import GROUP, TOPIC, message


def handed_out(
    *groups: str | None, orderly: bool = True, receives: int = 1, most: int = 32, receive: Receive | None = None
) -> tuple[QueueCell, ReceiveSchedule, list[MessageView]]:
    """The cell of a queue with these messages, after so many receives, and what they gave."""
    order = DeliveryOrder.ORDERLY if orderly else DeliveryOrder.CONCURRENT
    cell = QueueCell().taken_by("w")
    ready = ReceiveSchedule(GroupSettings(delivery_order=order), cell, limits=QueueLimits(), group=GROUP, topic=TOPIC)
    ready.load([message(offset, group) for offset, group in enumerate(groups)], OffsetSet(), len(groups))
    found: list[MessageView] = []
    for _ in range(receives):
        step, given = ready.plan(0, [ReceiveRequest(most, 10_000, receive)])
        cell = step.apply(cell)
        found += given[0]
    return cell, ready, found


def handle(message: MessageView) -> ReceiptHandle:
    return ReceiptHandle.decode(message.receipt_handle)


def test_a_later_receive_gives_nothing_of_a_message_group_that_is_out() -> None:
    _, _, found = handed_out("a", "b", "a", "c", receives=2, most=2)
    assert [one.offset for one in found] == [0, 1, 3]


def test_of_a_concurrent_group_everything_is_given_at_once() -> None:
    _, _, found = handed_out("a", "b", "a", "a", orderly=False, receives=2, most=2)
    assert [one.offset for one in found] == [0, 1, 2, 3]


def test_several_of_one_message_group_are_acknowledged_in_order() -> None:
    cell, _, (first, second, third) = handed_out("a", "a", "a")
    with pytest.raises(ReceiptAhead) as refused:
        acknowledged(cell, handle(third), now_ms=5)
    assert str(refused.value) == (
        "an earlier message of the same message group, from the same receive, is not acknowledged "
        "(operation: ack; object: orders, queue 0, offset 2, attempt 1; expected: offset 0; observed: offset 2). "
        "acknowledge the earlier one first"
    )
    for one in (first, second, third):
        cell = acknowledged(cell, handle(one), now_ms=5)
    assert without_caught_up(cell, [handle(third).lane or 0]).markers == {}
    assert cell.settled.floor == 3


def test_messages_without_a_message_group_are_one_lane() -> None:
    cell, _, (first, second) = handed_out(None, None)
    assert handle(first).lane == handle(second).lane == 0
    with pytest.raises(ReceiptAhead):
        acknowledged(cell, handle(second), now_ms=5)


@pytest.mark.parametrize("orderly", [True, False])
def test_a_message_is_acknowledged_once(orderly: bool) -> None:
    cell, _, (first,) = handed_out("a", orderly=orderly)
    cell = acknowledged(cell, handle(first), now_ms=5)
    for again in (cell, without_caught_up(cell, [handle(first).lane or 0])):
        with pytest.raises(AlreadySettled) as refused:
            acknowledged(again, handle(first), now_ms=5)
        assert "was acknowledged before" in str(refused.value)


@pytest.mark.parametrize("orderly", [True, False])
def test_too_late_is_refused_even_when_nobody_noticed_the_end_yet(orderly: bool) -> None:
    cell, _, (first,) = handed_out("a", orderly=orderly)
    with pytest.raises(ReceiptExpired, match="the invisible duration of the message has passed") as refused:
        acknowledged(cell, handle(first), now_ms=11_000)
    assert refused.value.observed == "1 s too late"
    after = expired(cell, 11_000, GroupSettings()).cell
    with pytest.raises(ReceiptExpired) as refused:
        acknowledged(after, handle(first), now_ms=11_000)
    assert refused.value.observed == "WAITING, attempt 1"


@pytest.mark.parametrize("orderly", [True, False])
def test_a_message_that_died_of_its_expiry_says_so(orderly: bool) -> None:
    cell, _, (first,) = handed_out("a", orderly=orderly)
    found = expired(cell, 11_000, replace(GroupSettings(), max_attempts=1))
    assert [(lapse.offset, lapse.given_up) for lapse in found.lapses] == [(0, True)]
    assert found.cell.dead_letters.assigned == (0,)
    with pytest.raises(AlreadySettled, match="expired at its last attempt, and was given up"):
        acknowledged(found.cell, handle(first), now_ms=11_000)


def test_a_message_whose_group_was_parked_at_its_expiry_says_what_comes_next() -> None:
    cell, _, (first,) = handed_out("a")
    after = expired(cell, 11_000, GroupSettings(max_attempts=1, dead_letter_policy=DeadLetterPolicy.PARK)).cell
    with pytest.raises(ReceiptExpired, match=r"PARKED, attempt 1.*its message group is parked: release or skip it"):
        acknowledged(after, handle(first), now_ms=11_000)


@pytest.mark.parametrize("orderly", [True, False])
def test_after_a_reset_no_handle_of_before_counts(orderly: bool) -> None:
    cell, _, (first,) = handed_out("a", orderly=orderly)
    with pytest.raises(ReceiptOutdated, match="offsets were reset after the message was handed out"):
        acknowledged(cell.reset_to(0, 1), handle(first), now_ms=5)


def test_an_extension_is_no_retry_and_zero_is() -> None:
    cell, ready, (first,) = handed_out("a", orderly=False)
    cell = changed_invisible_duration(cell, handle(first), due_ms=50_000, now_ms=5)
    assert expired(cell, 49_999, ready.settings).lapses == ()
    cell = changed_invisible_duration(cell, handle(first), due_ms=6, now_ms=6)
    cell = expired(cell, 6, ready.settings).cell
    ready.adopt(cell)
    ready.reread([message(0, "a")], 0, 0)
    step, ((again,),) = ready.plan(6, [ReceiveRequest(1, 20_000)])
    assert again.delivery_attempt == 2
    acknowledged(step.apply(cell), handle(again), now_ms=7)


@pytest.mark.parametrize("orderly", [True, False])
def test_what_its_holder_lets_go_is_out_to_nobody_who_could_renew_it(orderly: bool) -> None:
    cell, _, (first, *_) = handed_out("a", "a", orderly=orderly, receive=Receive(attempt=5, holder=7))
    with pytest.raises(ReceiptRefused, match=r"is not out to this holder .*observed: another holder"):
        changed_invisible_duration(cell, handle(first), due_ms=50_000, now_ms=5, holder=8)
    cell = changed_invisible_duration(cell, handle(first), due_ms=20_000, now_ms=5, holder=7)
    cell = changed_invisible_duration(cell, handle(first), due_ms=8_000, now_ms=5, lets_go=True)
    with pytest.raises(ReceiptRefused, match="observed: no holder"):
        changed_invisible_duration(cell, handle(first), due_ms=50_000, now_ms=6, holder=7)
    assert [lapse.offset for lapse in expired(cell, 8_000, GroupSettings()).lapses] == [0]
    left = outstanding(cell, lambda receive: receive.holder == 7, 6)
    assert (list(left.alone), list(left.lanes)) == ([] if orderly else [1], []), "what is out beside it still is"
    acknowledged(cell, handle(first), now_ms=6)


def test_a_message_behind_others_of_its_message_group_is_not_let_go_alone() -> None:
    cell, _, (_, second) = handed_out("a", "a", receive=Receive(holder=7))
    cell = changed_invisible_duration(cell, handle(second), due_ms=20_000, now_ms=5, lets_go=True)
    changed_invisible_duration(cell, handle(second), due_ms=50_000, now_ms=6, holder=7)


def test_only_the_first_of_a_message_group_becomes_visible_sooner() -> None:
    cell, _, (first, second) = handed_out("a", "a")
    with pytest.raises(ReceiptAhead, match="so only the first one's end can come sooner"):
        changed_invisible_duration(cell, handle(second), due_ms=9_999, now_ms=5)
    cell = changed_invisible_duration(cell, handle(second), due_ms=30_000, now_ms=5)
    cell = changed_invisible_duration(cell, handle(second), due_ms=30_000, now_ms=6)
    acknowledged(cell, handle(first), now_ms=29_999)  # they end together


def test_what_nobody_took_comes_back_without_a_strike() -> None:
    cell, _, (first, second) = handed_out("a", "a")
    cell = returned(returned(cell, handle(second)), handle(first))
    (marker,) = cell.markers.values()
    assert (marker.tries.state, marker.tries.strikes, marker.head) == (MessageState.WAITING, 0, 0)
    acked = acknowledged(handed_out("a")[0], handle(first), now_ms=5)
    assert returned(acked, handle(first)) is acked


# --- Handles ----------------------------------------------------------------------------------------------------------------------

HANDLE = ReceiptHandle(
    group=GROUP, topic="%DLQ%billing", queue=3, offset=1 << 40, generation=2, attempt=17, lane=2**64 - 1, following=(1 << 40) + 9
)

SECRET = "0123456789abcdef" * 2


@pytest.mark.parametrize("given", [HANDLE, structs.replace(HANDLE, lane=None, following=None), structs.replace(HANDLE, lane=0)])
def test_a_handle_is_text_and_comes_back(given: ReceiptHandle) -> None:
    text = given.encode(SECRET)
    assert ReceiptHandle.decode(text) == given
    assert text.replace("-", "").replace("_", "").isalnum()


TEXT = HANDLE.encode(SECRET)


@pytest.mark.parametrize("text", ["", "x", "nonsense!", TEXT[:-1], TEXT[1:], TEXT + "A", TEXT[:-3] + "AAA"])
def test_what_is_no_handle_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="this is not a receipt handle, or only a part of one"):
        ReceiptHandle.decode(text)


def test_a_handle_of_another_kind_is_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"a receipt handle is a string \(observed: bytes\)"):
        ReceiptHandle.decode(b"x")


def test_a_handle_is_sealed_with_its_groups_secret() -> None:
    other = SECRET[:-1] + "0"
    assert is_genuine(TEXT, SECRET)
    assert not is_genuine(TEXT, other)
    for forged in (
        structs.replace(HANDLE, offset=HANDLE.offset + 1),
        structs.replace(HANDLE, attempt=18),
        structs.replace(HANDLE, group="billinh"),
    ):
        assert not is_genuine(forged.encode(other), SECRET)
        assert ReceiptHandle.decode(forged.encode(other)) == forged
        data, said = (base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)) for text in (TEXT, forged.encode(SECRET)))
        moved = said[:-16] + data[-16:-4]
        text = base64.urlsafe_b64encode(moved + xxhash.xxh32_digest(moved)).decode().rstrip("=")
        assert ReceiptHandle.decode(text) == forged
        assert not is_genuine(text, SECRET), "the seal of another"


def test_a_handle_beyond_what_its_lane_has_out_is_refused() -> None:
    cell, _, (first, second) = handed_out("a", "a")
    beyond = structs.replace(handle(second), offset=2)
    for operation in (acknowledged, lambda *args, now_ms: changed_invisible_duration(*args, due_ms=9_000, now_ms=now_ms)):
        with pytest.raises(ReceiptExpired, match="not handed out"):
            operation(cell, beyond, now_ms=5)
    assert acknowledged(cell, handle(first), now_ms=5) != cell


def test_a_message_behind_those_that_are_out_is_not_handed_out() -> None:
    """Its group is: what an earlier delivery of the same number gave is not given by this one."""
    cell, _, (first,) = handed_out("a", "a", most=1)
    beyond = structs.replace(handle(first), offset=1)
    with pytest.raises(ReceiptExpired) as refused:
        acknowledged(cell, beyond, now_ms=5)
    assert refused.value.observed == "not handed out"
    with pytest.raises(ReceiptExpired):
        changed_invisible_duration(cell, beyond, due_ms=30_000, now_ms=5)


@pytest.mark.parametrize("orderly", [True, False])
@given(data=st.data())
def test_many_acknowledgements_are_one_after_the_other(orderly: bool, data: st.DataObject) -> None:
    cell, _, found = handed_out("a", "b", "a", None, "c", "a", "b", orderly=orderly, receives=3, most=3)
    chosen = data.draw(st.lists(st.sampled_from(found), max_size=12))
    acks = [Acknowledgement(handle(one), data.draw(st.sampled_from((5, 10_000))), data.draw(st.integers(0, 1))) for one in chosen]
    after, refused = cell, {}
    for place, ack in enumerate(acks):
        try:
            after = acknowledged(after, ack.handle, now_ms=ack.now_ms, known=ack.known)
        except ReceiptRefused as refusal:
            refused[place] = str(refusal)
    together, refusals = acknowledged_all(cell, acks)
    assert together == after
    assert {place: str(refusal) for place, refusal in refusals.items()} == refused
    assert (together is cell) == (len(refused) == len(acks))
