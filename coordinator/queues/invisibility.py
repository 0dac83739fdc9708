"""Messages handed out by ``receive``, in their queue's cell. Pure.

Any holder of the handle may acknowledge or extend. Only the owner lets a delivery expire.

A tracked message (CONCURRENT), or in an ORDERLY group the marker of its lane, is `MessageState.OUT` until due. A lane's messages handed out together
are acknowledged in order, and expire together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from msgspec import Struct
from msgspec.structs import replace

from ...log.errors import InternalError
from ..groups.record import DeadLetterPolicy, GroupSettings
from ..limits import LETTERS_MAX
from .cell import Marker, MessageState, QueueCell, Tries
from .offsets import OffsetSet
from .receipt_handle import (
    AlreadySettled,
    DeadLettersWait,
    ReceiptAhead,
    ReceiptExpired,
    ReceiptHandle,
    ReceiptOutdated,
    ReceiptRefused,
)

_ACK = "ack"
_CHANGE = "change_invisible_duration"
_GIVE_UP = "dead_letter"


@dataclass(frozen=True, slots=True)
class ExpiredDelivery:
    """A failed attempt."""

    offset: int
    attempts: int
    parked: bool = False
    given_up: bool = False
    """Whether it becomes a dead letter. Else, unless parked, it may be handed out again at once."""


@dataclass(frozen=True, slots=True)
class Expiry:
    """A cell with expired deliveries."""

    cell: QueueCell
    lapses: tuple[ExpiredDelivery, ...] = ()
    left: bool = False
    """Whether due deliveries stay out, as their dead letters have no room."""


class Acknowledgement(Struct, frozen=True, gc=False):
    """What an acknowledgement says, and when."""

    handle: ReceiptHandle
    now_ms: int
    known: int = 0
    """The group's present generation, which the cell may lag behind."""


def acknowledged(cell: QueueCell, handle: ReceiptHandle, *, now_ms: int, known: int = 0) -> QueueCell:
    """The message is settled for good. Raises `ReceiptOutdated`, `AlreadySettled`, `ReceiptExpired`, or `ReceiptAhead` when an earlier message of its
    lane is still out.
    """
    after, refusals = acknowledged_all(cell, (Acknowledgement(handle, now_ms, known),))
    for refusal in refusals.values():
        raise refusal
    return after


def acknowledged_all(cell: QueueCell, acks: Sequence[Acknowledgement]) -> tuple[QueueCell, dict[int, ReceiptRefused]]:
    """`acknowledged` for one after the other, with one copy of what the cell tracks. Returns the refusals by place, and the same cell if all are."""
    tries, markers = dict(cell.tries), dict(cell.markers)
    draft = replace(cell, tries=tries, markers=markers)
    refusals: dict[int, ReceiptRefused] = {}
    for place, ack in enumerate(acks):
        handle = ack.handle
        try:
            lane, generation = handle.lane, handle.generation
            if lane is None:
                one = tries.get(handle.offset)
            elif (at := markers.get(lane)) is not None and at.head == handle.offset < at.limit:
                one = at.tries
            else:
                one = None
            if (
                one is not None
                and generation == cell.generation >= ack.known
                and one.state is MessageState.OUT
                and one.attempts == handle.attempt
                and ack.now_ms < one.due_ms
            ):  # as of most: the checks would find nothing
                if lane is None:
                    del tries[handle.offset]
                else:
                    markers[lane] = _behind_head(markers[lane], handle)
            elif (marker := _acknowledge(draft, ack)) is None:
                del tries[handle.offset]
            else:
                markers[handle.lane or 0] = marker
        except ReceiptRefused as refusal:
            refusals[place] = refusal
    return cell if len(refusals) == len(acks) else draft, refusals  # listed messages count as settled already


def _acknowledge(cell: QueueCell, ack: Acknowledgement) -> Marker | None:
    """The lane's marker behind the message; None for a message that is out alone."""
    handle = ack.handle
    _check_generation(max(cell.generation, ack.known), handle, _ACK)
    if handle.lane is None:
        _check_alone(cell, handle, ack.now_ms, _ACK)
        return None
    marker = _checked_marker(cell, handle, ack.now_ms, _ACK)
    if handle.offset != marker.head:
        raise _ahead(marker, handle, _ACK, "acknowledge the earlier one first")
    return _behind_head(marker, handle)


def given_up(
    cell: QueueCell,
    handle: ReceiptHandle,
    *,
    policy: DeadLetterPolicy,
    now_ms: int,
    known: int = 0,
    letters_max: int = LETTERS_MAX,
) -> QueueCell:
    """The message becomes a dead letter, or its message group parked. Raises as `acknowledged`, and `DeadLettersWait` for more than ``letters_max``
    unwritten dead letters.
    """
    _check_generation(max(cell.generation, known), handle, _GIVE_UP)
    if handle.lane is None:
        _check_alone(cell, handle, now_ms, _GIVE_UP)
        return _with_refused(cell.with_settled(OffsetSet(handle.offset, 1)), handle, letters_max)
    marker = _checked_marker(cell, handle, now_ms, _GIVE_UP)
    if handle.offset != marker.head:
        raise _ahead(marker, handle, _GIVE_UP, "settle the earlier one first")
    if policy is DeadLetterPolicy.PARK:
        return cell.with_marker(handle.lane, replace(marker, tries=_waiting(marker.tries, MessageState.PARKED)))
    return _with_refused(cell.with_marker(handle.lane, _behind_head(marker, handle)), handle, letters_max)


def _with_refused(cell: QueueCell, handle: ReceiptHandle, letters_max: int) -> QueueCell:
    if len(cell.dead_letters.assigned) >= letters_max:
        raise DeadLettersWait(
            "too many dead letters of the queue are still to be written",
            operation=_GIVE_UP,
            object=handle.where,
            expected=f"fewer than {letters_max}",
            observed=len(cell.dead_letters.assigned),
            hint="try again, or let the message expire; the owner of the queue logs why letters cannot be written",
        )
    return replace(cell, dead_letters=cell.dead_letters.with_refused(handle.offset, handle.attempt))


def changed_invisible_duration(
    cell: QueueCell,
    handle: ReceiptHandle,
    *,
    due_ms: int,
    now_ms: int,
    known: int = 0,
    holder: int | None = None,
    lets_go: bool = False,
) -> QueueCell:
    """All messages of the lane that are out together get another end; a handle other than the first can only extend.

    An end now is a failed attempt. ``lets_go``: the message leaves its receive. Raises as `acknowledged`, and `ReceiptRefused` where the message is
    not out to ``holder``.
    """
    _check_generation(max(cell.generation, known), handle, _CHANGE)
    if handle.lane is None:
        tries = _check_alone(cell, handle, now_ms, _CHANGE)
        _check_holder(tries, handle, holder)
        return cell.with_tries(handle.offset, _with_end(tries, due_ms, lets_go=lets_go))
    marker = _checked_marker(cell, handle, now_ms, _CHANGE)
    _check_holder(marker.tries, handle, holder)
    is_first = handle.offset == marker.head
    if not is_first and due_ms < marker.tries.due_ms:
        raise _ahead(marker, handle, _CHANGE, "they become visible together, so only the first one's end can come sooner")
    return cell.with_marker(handle.lane, replace(marker, tries=_with_end(marker.tries, due_ms, lets_go=lets_go and is_first)))


def _with_end(tries: Tries, due_ms: int, *, lets_go: bool) -> Tries:
    return replace(tries, due_ms=due_ms, receive=None if lets_go else tries.receive)


def returned(cell: QueueCell, handle: ReceiptHandle) -> QueueCell:
    """An untaken message is visible again, without a strike. The same cell when it is not out."""
    tries = cell.tries.get(handle.offset) if handle.lane is None else None
    marker = None if handle.lane is None else cell.markers.get(handle.lane)
    if cell.generation != handle.generation:
        return cell
    if tries is not None and _is_out(tries, handle):
        return cell.with_tries(handle.offset, Tries(MessageState.WAITING, tries.attempts, tries.strikes))
    if handle.lane is not None and marker is not None and marker.head == handle.offset and _is_out(marker.tries, handle):
        waiting = Tries(MessageState.WAITING, marker.tries.attempts, marker.tries.strikes)
        return cell.with_marker(handle.lane, replace(marker, tries=waiting))
    return cell


def expired(cell: QueueCell, now_ms: int, settings: GroupSettings, *, letters_max: int = LETTERS_MAX) -> Expiry:
    """Every due delivery gets a strike, and its message is visible again, or is given up, those due first, until ``letters_max`` dead letters are
    unwritten.
    """
    most, parks_all = settings.max_attempts, settings.dead_letter_policy is DeadLetterPolicy.PARK
    tries = {offset: one for offset, one in cell.tries.items() if _is_due(one, now_ms)}
    markers = {lane: one for lane, one in cell.markers.items() if _is_due(one.tries, now_ms)}
    dying = [(one.due_ms, offset) for offset, one in tries.items() if _is_last(one, most)]
    if not parks_all:
        dying += [(one.tries.due_ms, one.head) for one in markers.values() if _is_last(one.tries, most)]
    room = max(0, letters_max - len(cell.dead_letters.assigned))
    if left := {offset for _, offset in sorted(dying)[room:]}:
        tries = {offset: one for offset, one in tries.items() if offset not in left}
        markers = {lane: one for lane, one in markers.items() if one.head not in left}
    lapses: list[ExpiredDelivery] = []
    again: dict[int, Tries] = {}
    for offset, one in tries.items():
        gives_up = _is_last(one, most)
        lapses.append(ExpiredDelivery(offset, one.attempts, given_up=gives_up))
        if not gives_up:
            again[offset] = _waiting(one)
    after: dict[int, Marker | None] = {}
    for lane, marker in markers.items():
        gives_up = _is_last(marker.tries, most)
        parks = gives_up and parks_all
        lapses.append(ExpiredDelivery(marker.head, marker.tries.attempts, parked=parks, given_up=gives_up and not parks))
        if gives_up and not parks:
            after[lane] = marker.from_head(marker.head + 1)
        else:
            after[lane] = replace(marker, tries=_waiting(marker.tries, MessageState.PARKED if parks else MessageState.WAITING))
    lapses.sort(key=lambda lapse: lapse.offset)
    cell = cell.with_all_tries(again) if again else cell
    cell = cell.with_markers(after, OffsetSet()) if after else cell
    letters = [lapse.offset for lapse in lapses if lapse.given_up]
    return Expiry(cell.with_dead_letters(letters) if letters else cell, tuple(lapses), left=bool(left))


def last_expiry_ms(cell: QueueCell) -> int:
    """0 when none is out."""
    every = [*cell.tries.values(), *(marker.tries for marker in cell.markers.values())]
    return max((one.due_ms for one in every if one.state is MessageState.OUT), default=0)


def without_caught_up(cell: QueueCell, lanes: Iterable[int]) -> QueueCell:
    """The cell without the markers of these lanes that are caught up."""
    found = cell.markers.get
    gone = [
        lane
        for lane in lanes
        if (one := found(lane)) is not None and one.head >= one.limit and one.tries.state is MessageState.WAITING
    ]
    return cell.without_markers(gone) if gone else cell


def _behind_head(marker: Marker, handle: ReceiptHandle) -> Marker:
    if handle.following is None:
        return marker.from_head(handle.offset + 1)
    return marker.from_head(handle.following, MessageState.OUT, marker.tries.due_ms)


def _is_due(tries: Tries, now_ms: int) -> bool:
    return tries.state is MessageState.OUT and tries.due_ms <= now_ms


def _is_last(tries: Tries, most: int | None) -> bool:
    return most is not None and tries.strikes + 1 >= most


def _is_out(tries: Tries, handle: ReceiptHandle) -> bool:
    return tries.state is MessageState.OUT and tries.attempts == handle.attempt


def _waiting(tries: Tries, state: MessageState = MessageState.WAITING) -> Tries:
    return Tries(state, tries.attempts, tries.strikes + 1)


# --- Refusals -------------------------------------------------------------------------------------------------------------------


def _check_alone(cell: QueueCell, handle: ReceiptHandle, now_ms: int, operation: str) -> Tries:
    _check_generation(cell.generation, handle, operation)
    tries = cell.tries.get(handle.offset)
    # Messages that wait outside of the cell expired before. The cell does not say which offsets those are.
    waits = any(spill.first_offset <= handle.offset for spill in cell.spills)
    if tries is None and handle.offset in cell.settled and not waits:
        raise _settled(cell, handle, operation)
    return _check_out(tries, handle, now_ms, operation)


def _checked_marker(cell: QueueCell, handle: ReceiptHandle, now_ms: int, operation: str) -> Marker:
    _check_generation(cell.generation, handle, operation)
    if handle.lane is None:
        raise InternalError("only a message of a lane has a marker", operation=operation, object=handle.where)
    marker = cell.markers.get(handle.lane)
    if (marker is None and handle.offset in cell.settled) or (marker is not None and handle.offset < marker.head):
        raise _settled(cell, handle, operation)
    _check_out(None if marker is None or handle.offset >= marker.limit else marker.tries, handle, now_ms, operation)
    assert marker is not None, "it is out"
    return marker


def _check_out(tries: Tries | None, handle: ReceiptHandle, now_ms: int, operation: str) -> Tries:
    if tries is None or not _is_out(tries, handle):
        state = "not handed out" if tries is None else f"{tries.state.name}, attempt {tries.attempts}"
        raise _expired(handle, operation, state, parked=tries is not None and tries.state is MessageState.PARKED)
    if tries.due_ms <= now_ms:
        raise _expired(handle, operation, f"{(now_ms - tries.due_ms) / 1000:g} s too late")
    return tries


def _check_holder(tries: Tries, handle: ReceiptHandle, holder: int | None) -> None:
    if holder is not None and (tries.receive is None or tries.receive.holder != holder):
        raise ReceiptRefused(
            "the message is not out to this holder",
            operation=_CHANGE,
            object=handle.where,
            expected="a holder that has not let it go",
            observed="another holder" if tries.receive is not None and tries.receive.holder else "no holder",
        )


def _check_generation(generation: int, handle: ReceiptHandle, operation: str) -> None:
    if handle.generation != generation:
        raise ReceiptOutdated(
            "the consumer group's offsets were reset after the message was handed out",
            operation=operation,
            object=handle.where,
            expected=f"generation {generation}",
            observed=f"generation {handle.generation}",
            hint="if it is behind the new position it is handed out again",
        )


def _settled(cell: QueueCell, handle: ReceiptHandle, operation: str) -> AlreadySettled:
    is_letter = handle.offset in cell.dead_letters.own
    is_refused = is_letter and any(offset == handle.offset for offset, _ in cell.dead_letters.refused)
    return AlreadySettled(
        "the message was given up by its receiver"
        if is_refused
        else "the message expired at its last attempt, and was given up"
        if is_letter
        else "the message was acknowledged before, or was given up",
        operation=operation,
        object=handle.where,
        hint=None if is_letter else "acknowledge a message once; an acknowledged one never comes back",
    )


def _expired(handle: ReceiptHandle, operation: str, observed: str, *, parked: bool = False) -> ReceiptExpired:
    return ReceiptExpired(
        "the invisible duration of the message has passed",
        operation=operation,
        object=handle.where,
        observed=observed,
        hint="its message group is parked: release or skip it"
        if parked
        else "it is handed out again; ask for a longer invisible duration, or change it in time",
    )


def _ahead(marker: Marker, handle: ReceiptHandle, operation: str, hint: str) -> ReceiptAhead:
    return ReceiptAhead(
        "an earlier message of the same message group, from the same receive, is not acknowledged",
        operation=operation,
        object=handle.where,
        expected=f"offset {marker.head}",
        observed=f"offset {handle.offset}",
        hint=hint,
    )
