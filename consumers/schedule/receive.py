"""The messages of one queue that ``receive`` may hand out next, and what its cell must hold before.

First come suspects, then due messages that failed or expired, then fresh ones. In an ORDERLY group a fresh message is passed by (`BlockedGroups`)
while its message group is out or waits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from msgspec import Struct, field

from ...coordinator.groups.record import DeadLetterPolicy, DeliveryOrder, GroupSettings
from ...coordinator.queues.cell import Marker, MessageState, QueueCell, Tries
from ...coordinator.queues.offsets import OffsetSet
from ...coordinator.queues.receipt_handle import ReceiptHandle, SealedHandles
from ...coordinator.registry.former_work import FormerWork
from ...log.message.message import MessageView
from ..feed.rows import GroupHashes
from ..limits import QueueLimits
from .blocked_groups import BlockedGroups
from .handles import ReceiptHandles
from .lanes import Lane
from .receive_request import ReceiveRequest
from .step import ENDED_ITS_PROCESS, GivenUpMessage, Step
from .tracked_messages import TrackedMessages


@dataclass(slots=True)
class _Chunk:
    messages: Sequence[MessageView]
    filtered: OffsetSet
    limit: int
    at: int = 0
    """The first message left."""

    def __len__(self) -> int:
        return len(self.messages) - self.at

    def take(self, most: int) -> Sequence[MessageView]:
        start, self.at = self.at, min(self.at + most, len(self.messages))
        return self.messages[start : self.at]

    def taken(self) -> tuple[int, OffsetSet]:
        """The first offset left, and the filtered offsets before it."""
        cut = self.messages[self.at].offset if self.at < len(self.messages) else self.limit
        if not self.filtered.bits:
            return cut, self.filtered
        before = self.filtered.without_range(cut, self.limit)
        self.filtered = self.filtered.without(before)
        return cut, before


class _Given(Struct, eq=False):
    want: ReceiveRequest
    left: int
    messages: list[MessageView] = field(default_factory=list)
    lanes: dict[int, int] = field(default_factory=dict)
    """ORDERLY: the offset of the last message of each group, by the group's hash."""
    keys: list[int | None] = field(default_factory=list)
    """The group's hash of each message; None for one that is tracked by itself."""
    following: dict[int, int] = field(default_factory=dict)
    """ORDERLY: the offset of a group's next message, by that of the one before."""

    def take(self, messages: Sequence[MessageView], keys: Sequence[int] = ()) -> None:
        """Take messages; of lanes with the hashes of their message groups."""
        self.left -= len(messages)
        self.messages += messages
        self.keys += keys or [None] * len(messages)
        if keys:
            for key, message in zip(keys, messages, strict=True):
                if (before := self.lanes.get(key)) is not None:
                    self.following[before] = message.offset
                self.lanes[key] = message.offset


class ReceivedMessages(TrackedMessages):
    """Tracked messages, run by the clients that received them."""

    def hand_out(self, message: MessageView, want: ReceiveRequest, step: Step) -> MessageView:
        before = self.tries[message.offset]
        self._set_out(message, want.out(before.attempts + 1, before.strikes), step)
        return message._replace(delivery_attempt=before.attempts + 1)

    def hand_out_fresh(self, messages: Sequence[MessageView], want: ReceiveRequest, step: Step) -> None:
        """Give out messages with one object for the tries of all, which costs the cell and its writer less."""
        tries = want.out(1)
        out = dict.fromkeys([message.offset for message in messages], tries)
        self.tries |= out
        step.tries |= out
        self._expiries.add(tries.due_ms, out)
        room = max(0, self._retained - len(self.messages))  # they may come back
        self.messages.update(zip(out, messages[:room], strict=False))

    def take_visible(self, now_ms: int, most: int) -> list[MessageView]:
        self.fall_due(now_ms)
        found = [offset for offset in self._overdue if offset in self.messages][:most]
        for offset in found:
            del self._overdue[offset]
        return [self.messages.pop(offset) for offset in found]

    def count_visible(self, now_ms: int) -> int:
        self.fall_due(now_ms)
        return sum(offset in self.messages for offset in self._overdue)

    def _set_out(self, message: MessageView, tries: Tries, step: Step) -> None:
        self.set(message.offset, tries, step)
        self._expiries.add(tries.due_ms, (message.offset,))
        if len(self.messages) < self._retained:  # it may come back
            self.messages[message.offset] = message

    def adopt(self, cell: QueueCell, offsets: Iterable[int] | None = None) -> None:
        offsets = offsets if offsets is None else list(offsets)
        super().adopt(cell, offsets)
        for offset in list(self.messages) if offsets is None else offsets:
            if offset not in self.tries:
                self.messages.pop(offset, None)


class ReceiveSchedule:
    """The messages of one queue in one owner, remade by each take and reset."""

    def __init__(
        self,
        settings: GroupSettings,
        cell: QueueCell,
        *,
        limits: QueueLimits,
        group: str = "",
        topic: str = "",
        queue: int = 0,
        secret: str = "",
    ) -> None:
        self.settings = settings
        self._orderly = settings.delivery_order is DeliveryOrder.ORDERLY
        self._limits = limits
        self._handles = ReceiptHandles(group, topic, queue, cell.generation, secret)
        self._hashes = GroupHashes(secret)
        self.blocked = BlockedGroups(cell, limits, self._hashes)
        self.tracked = ReceivedMessages(cell, retained=limits.retained)
        self._loaded: deque[_Chunk] = deque()
        self._earliest = 0
        self.closed = False
        """Whether all messages wait for a former queue."""
        self.next_fresh = max(cell.settled.limit, cell.granted.limit)
        self.next_load = self.next_fresh
        self.in_memory = 0

    # --- What comes in ----------------------------------------------------------------------------------------------------------

    def load(self, messages: Sequence[MessageView], filtered: OffsetSet, limit: int) -> None:
        """Take fresh messages up to ``limit``; ``filtered`` offsets are not the group's."""
        self._loaded.append(_Chunk(messages, filtered, limit))
        self.next_load = limit
        self.in_memory += len(messages)

    def wait_for(self, work: FormerWork) -> None:
        """Let messages wait for what is left in former queues."""
        self.closed = work.queue is not None
        self.blocked.wait_for(work.blocked.keys())

    def reread(self, messages: Iterable[MessageView], start: int, limit: int) -> None:
        messages = list(messages)
        self.tracked.reread(messages)
        self.blocked.reread(messages, start, limit, self.next_fresh)

    def expired(self, earliest: int) -> None:
        self._earliest = earliest

    def adopt(self, cell: QueueCell) -> None:
        """Take over others' changes of messages that are out, and of parked groups."""
        self.tracked.adopt(cell)
        self.blocked.adopt(cell)

    def adopt_settled(self, cell: QueueCell, handles: Sequence[ReceiptHandle]) -> None:
        """`adopt`, where nothing but these deliveries changed."""
        if alone := [handle.offset for handle in handles if handle.lane is None]:
            self.tracked.adopt(cell, alone)
        if len(alone) < len(handles):
            self.blocked.adopt(cell, {handle.lane for handle in handles if handle.lane is not None})

    # --- What is wanted ---------------------------------------------------------------------------------------------------------

    @property
    def held(self) -> int:
        return self.in_memory

    def room(self, cell: QueueCell) -> int:
        """The fresh messages that may be fetched."""
        return 0 if self.tracked.suspects else max(0, self._limits.window - self.in_memory)

    def missing(self, now_ms: int) -> list[int]:
        return self.tracked.missing(now_ms)

    def next_due_ms(self, cell: QueueCell) -> int | None:
        return min([*self.tracked.next_due_ms(), *self.blocked.next_due_ms()], default=None)

    def next_expiry_ms(self) -> int | None:
        return min([*self.tracked.next_expiry_ms(), *self.blocked.next_expiry_ms()], default=None)

    @property
    def is_calm(self) -> bool:
        """Whether all that the cell tracks is out, and nothing comes back before that is due."""
        return self.tracked.is_calm and self.blocked.is_calm and not self._earliest

    def available(self, now_ms: int) -> int:
        """The messages that a receive might get now, perhaps fewer."""
        if self.closed:
            return 0
        if self.is_calm:
            return self.in_memory
        if not self.tracked.all_suspects_loaded:
            return 0
        again = self.tracked.count_visible(now_ms) + self.blocked.ready(now_ms)
        return again + (len(self.tracked.suspects) or self.in_memory)

    # --- The next step ----------------------------------------------------------------------------------------------------------

    def plan(self, now_ms: int, wants: Sequence[ReceiveRequest] = ()) -> tuple[Step, list[list[MessageView]]]:
        """A step, and the messages for each want once it is durable; to be carried out, or the schedule given up."""
        step, given = Step(), [_Given(want, want.most) for want in wants]
        if self.closed:
            return step, [[] for _ in wants]
        if self.is_calm:  # mostly there is nothing but fresh messages
            for one in given:
                self._give_fresh(one, step)
            if not (step.markers or step.tries):  # else they are passed already
                self._pass_filtered(step)
            return step, [self._with_handles(one) for one in given]
        self.tracked.fall_due(now_ms)
        if self._earliest:
            self.tracked.let_go(self._earliest, step)
            self.blocked.expired(self._earliest, step)
            self._earliest = 0
        if self.tracked.all_suspects_loaded:
            for message in self.tracked.take_suspects(self.blocked.is_behind) if self._orderly else ():
                self.blocked.take_over(message, self.tracked.of(message), step)
                self.tracked.forget((message,), step)
            self._give_up_hopeless(step)
            due = deque(self.blocked.due(now_ms, step, self.next_fresh))
            for one in given:
                self._give_suspects(one, step)
                self._give_visible(now_ms, one, step)
                while one.left and due:
                    self._give_lane(due.popleft(), one, step)
                self._give_fresh(one, step)
        if not self.tracked.suspects:
            self._pass_filtered(step)
        return step, [self._with_handles(one) for one in given]

    def take_handles(self) -> SealedHandles:
        """The handles of the last plan's messages."""
        return self._handles.take_made()

    def _with_handles(self, given: _Given) -> list[MessageView]:
        return self._handles.each(given.messages, given.keys, given.following)

    # --- What was handed out or ran before

    def _give_visible(self, now_ms: int, given: _Given, step: Step) -> None:
        for message in self.tracked.take_visible(now_ms, given.left):
            given.take((self.tracked.hand_out(message, given.want, step),))

    def _give_lane(self, lane: Lane, given: _Given, step: Step) -> None:
        messages = self.blocked.hand_out(lane, given.left, given.want, step)
        given.take(messages, [lane.hash] * len(messages))

    def _give_suspects(self, given: _Given, step: Step) -> None:
        tracked = self.tracked
        while tracked.suspects and given.left:
            first = tracked.suspects[0]
            if self._orderly:
                self._give_lane(self._lane_of(self._hash(tracked.messages[first]), step), given, step)
            else:
                (message,) = tracked.take_suspects(lambda one: one.offset == first)  # noqa: B023 - called at once
                given.take((tracked.hand_out(message, given.want, step),))

    def _hash(self, message: MessageView) -> int:
        return self._hashes.of(message.message_group)

    def _lane_of(self, key: int, step: Step) -> Lane:
        lane = Lane(key)
        lane.ready = deque(self.tracked.take_suspects(lambda message: self._hash(message) == key))
        tries = [self.tracked.of(message) for message in lane.ready]
        self.tracked.forget(lane.ready, step)
        step.behind += [message.offset for message in lane.ready]
        head, last = lane.ready[0].offset, lane.ready[-1].offset
        suspect = Tries(MessageState.SUSPECT, max(one.attempts for one in tries), tries[0].strikes)
        self.blocked.add(lane, Marker(head, last + 1, suspect), step=step)
        return lane

    def _give_up_hopeless(self, step: Step) -> None:
        """Give up suspects that ended their process, alone, as often as a message may fail."""
        most, tracked = self.settings.max_attempts, self.tracked
        if most is None:
            return
        hopeless = {offset for offset in tracked.suspects if tracked.tries[offset].strikes >= most}
        if self._orderly:
            for key in dict.fromkeys(self._hash(tracked.messages[offset]) for offset in sorted(hopeless)):
                self._lane_of(key, step)
        else:
            for message in tracked.take_suspects(lambda message: message.offset in hopeless):
                step.letters.append(GivenUpMessage(message, tracked.of(message).attempts, ENDED_ITS_PROCESS))
                tracked.forget((message,), step)
        for lane in self.blocked.hopeless(most):
            assert lane.marker is not None, "a blocked group has a marker"
            if self.settings.dead_letter_policy is DeadLetterPolicy.PARK:
                self.blocked.park(lane, lane.marker.tries, step)
            else:
                step.letters.append(GivenUpMessage(lane.ready[0], lane.marker.tries.attempts, ENDED_ITS_PROCESS))
                self.blocked.pass_over(lane, step)

    # --- Fresh messages

    def _give_fresh(self, given: _Given, step: Step) -> None:
        while given.left and self._loaded and not self.tracked.suspects:
            chunk = self._loaded[0]
            while (most := self._most_fresh(given)) and (messages := chunk.take(most)):
                self.in_memory -= len(messages)
                if self._orderly:
                    self._give_groups(messages, given, step)
                else:
                    self.tracked.hand_out_fresh(messages, given.want, step)
                    given.take(messages)
            self._pass_filtered(step)
            if chunk:
                return

    def _most_fresh(self, given: _Given) -> int:
        room = self.blocked.room
        return given.left if room is None else min(given.left, room)

    def _give_groups(self, messages: Sequence[MessageView], given: _Given, step: Step) -> None:
        blocked = self.blocked
        keys = self._hashes.of_all([message.message_group for message in messages])
        if others := blocked.hand_out_alone(keys, messages, given.want, step):
            passed = {*others}
            begun = {*given.lanes, *(key for place, key in enumerate(keys) if place not in passed)}
            for place in others:
                if keys[place] in begun and blocked.goes_on(keys[place]):
                    blocked.hand_out_behind(messages[place], given.want, step)
                    passed.remove(place)
                else:
                    blocked.pass_by(messages[place], step)
            step.listed += [messages[place].offset for place in others if place in passed]
            taken = [place for place in range(len(keys)) if place not in passed]
            messages, keys = [messages[place] for place in taken], [keys[place] for place in taken]
        given.take(messages, keys)

    def _pass_filtered(self, step: Step) -> None:
        """Settle filtered messages without a fresh one before."""
        while self._loaded:
            chunk = self._loaded[0]
            self.next_fresh, before = chunk.taken()
            if before.bits:
                step.filtered = step.filtered.union(before)
            if chunk:
                return
            self._loaded.popleft()
