"""What of one queue may be handed out by ``receive`` next, and what its cell must say before. No I/O: the hander reads and writes.

What comes first: messages that were in flight in an owner that died, then what failed or expired and is due, then fresh ones. In an
ORDERLY group a fresh message whose message group is out, or waits, is passed by (`Blocked`).
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ..coordinator.cell import Marker, QueueCell, State, Tries
from ..coordinator.groups import DeadLetterPolicy, DeliveryOrder, GroupSettings
from ..coordinator.handles import ReceiptHandle
from ..coordinator.offsets import OffsetSet
from ..log.messages import MessageView
from .blocked import Blocked
from .lanes import Lane
from .limits import Limits
from .rows import group_hash
from .step import Letter, Step

_ENDED_ITS_PROCESS = "its process died each time it ran alone"


@dataclass(frozen=True, slots=True)
class Want:
    """What one ``receive`` wants of a queue."""

    most: int
    due_ms: int
    """Until when the messages are invisible to others."""


@dataclass(slots=True)
class _Chunk:
    """Fresh rows, as they were fetched."""

    messages: deque[MessageView]
    filtered: OffsetSet
    limit: int

    def taken(self) -> tuple[int, OffsetSet]:
        """The first offset that is left, and those before it that are not the group's; they leave the chunk."""
        cut = self.messages[0].offset if self.messages else self.limit
        before = self.filtered.without_range(cut, self.limit)
        self.filtered = self.filtered.without(before)
        return cut, before


@dataclass(slots=True)
class _Given:
    """What one receive is given of the queue."""

    want: Want
    left: int
    lanes: dict[int, list[MessageView]] = field(default_factory=dict)
    """ORDERLY: by the hash of the message group."""
    messages: list[MessageView] = field(default_factory=list)

    def take(self, message: MessageView, lane: int | None = None) -> None:
        self.left -= 1
        self.messages.append(message)
        if lane is not None:
            self.lanes.setdefault(lane, []).append(message)


class Ready:
    """The messages of one queue in one owner. Made anew by each take and each reset."""

    def __init__(
        self, settings: GroupSettings, cell: QueueCell, *, limits: Limits, group: str = "", topic: str = "", queue: int = 0
    ) -> None:
        self.settings = settings
        """The group's; attempts and dead-letter policy may change on the way."""
        self._orderly = settings.delivery_order is DeliveryOrder.ORDERLY
        self._limits = limits
        self._where = (group, topic, queue)
        self._generation = cell.generation
        self.blocked = Blocked(cell, limits)
        self._tries = dict(cell.tries)
        """Of messages tracked by themselves."""
        self._messages: dict[int, MessageView] = {}
        """Those of them that are in memory."""
        self._due = [(tries.due_ms, offset) for offset, tries in cell.tries.items() if tries.state is State.WAITING]
        heapq.heapify(self._due)
        self._visible: dict[int, None] = {}
        """Those of them that are due."""
        self._suspects = sorted(offset for offset, tries in cell.tries.items() if tries.state is State.SUSPECT)
        self._loaded: deque[_Chunk] = deque()
        self._earliest = 0
        self.next_fresh = max(cell.settled.limit, cell.granted.limit)
        self.next_load = self.next_fresh
        self.in_memory = 0
        """Fresh messages that were loaded."""

    # --- What comes in ----------------------------------------------------------------------------------------------------------

    def load(self, messages: Sequence[MessageView], filtered: OffsetSet, limit: int) -> None:
        """Take fresh messages up to ``limit``; those whose offsets are ``filtered`` are not the group's."""
        self._loaded.append(_Chunk(deque(messages), filtered, limit))
        self.next_load = limit
        self.in_memory += len(messages)

    def recalled(self, messages: Iterable[MessageView], start: int, limit: int) -> None:
        """Take messages from ``start`` up to ``limit`` that were read again."""
        messages = list(messages)
        for message in messages:
            if message.offset in self._tries:
                self._messages[message.offset] = message
        self.blocked.recalled(messages, start, limit, self.next_fresh)

    def expired(self, earliest: int) -> None:
        """Note that retention took the messages below ``earliest``: those that were to be handed out again never will be."""
        self._earliest = earliest

    def adopt(self, cell: QueueCell) -> None:
        """Take what became of messages that are out, and of parked groups."""
        for offset, before in list(self._tries.items()):
            tries = cell.tries.get(offset)
            if before.state is not State.OUT or tries == before:
                continue
            if tries is None:
                del self._tries[offset]
                continue
            self._tries[offset] = tries
            if tries.state is State.WAITING:
                heapq.heappush(self._due, (tries.due_ms, offset))
        self.blocked.adopt(cell)

    # --- What is wanted ---------------------------------------------------------------------------------------------------------

    def room(self) -> int:
        """How many fresh messages may be fetched besides."""
        return 0 if self._suspects else max(0, self._limits.window - self.in_memory)

    def missing(self, now_ms: int) -> list[int]:
        """Offsets of messages that may be handed out again and are not in memory."""
        self._activate(now_ms)
        return sorted({offset for offset in (*self._suspects, *self._visible) if offset not in self._messages})

    def next_due_ms(self) -> int | None:
        """When something more is due."""
        return min([*(due for due, _ in self._due[:1]), *self.blocked.next_due_ms()], default=None)

    def next_expiry_ms(self) -> int | None:
        """When the next message that is out comes back."""
        out = (tries.due_ms for tries in self._tries.values() if tries.state is State.OUT)
        return min([*out, *self.blocked.expiries_ms()], default=None)

    def available(self, now_ms: int) -> int:
        """How many messages a receive might be given now; of fresh ones some may turn out to be blocked."""
        self._activate(now_ms)
        again = sum(offset in self._messages for offset in self._visible) + self.blocked.ready(now_ms)
        if self._suspects:
            return again + len(self._suspects) if self._suspects_are_here() else 0
        return again + self.in_memory

    # --- The next step ----------------------------------------------------------------------------------------------------------

    def plan(self, now_ms: int, wants: Sequence[Want] = ()) -> tuple[Step, list[list[MessageView]]]:
        """What each is given once the step is durable. Whoever asks must carry it out, or give up the schedule."""
        step = Step()
        self._activate(now_ms)
        if self._earliest:
            self._let_go(step)
        self._give_up_hopeless(step)
        due = deque(self.blocked.due(now_ms, step, self.next_fresh))
        given = []
        for want in wants if self._suspects_are_here() else ():
            one = _Given(want, want.most)
            self._give_suspects(one, step)
            self._give_visible(one, step)
            while one.left and due:
                self._give_lane(due.popleft(), one, step)
            if not self._suspects:
                self._give_fresh(one, step)
            given.append(self._with_handles(one))
        if not self._suspects:
            self._pass_filtered(step)
        return step, given or [[] for _ in wants]

    def _with_handles(self, given: _Given) -> list[MessageView]:
        lane_of: dict[int, tuple[int, int | None]] = {}
        for lane, messages in given.lanes.items():
            offsets = [message.offset for message in messages]
            lane_of.update({offset: (lane, after) for offset, after in zip(offsets, [*offsets[1:], None], strict=True)})
        return [
            message._replace(receipt_handle=self._handle(message, *lane_of.get(message.offset, (None, None))))
            for message in given.messages
        ]

    def _handle(self, message: MessageView, lane: int | None, following: int | None) -> str:
        group, topic, queue = self._where
        handle = ReceiptHandle(
            group=group,
            topic=topic,
            queue=queue,
            offset=message.offset,
            generation=self._generation,
            attempt=message.delivery_attempt,
            lane=lane,
            following=following,
        )
        return handle.encode()

    # --- What was handed out or ran before

    def _give_visible(self, given: _Given, step: Step) -> None:
        for offset in list(self._visible):
            if not given.left:
                return
            if offset in self._messages:
                del self._visible[offset]
                self._give_again(offset, given, step)

    def _give_again(self, offset: int, given: _Given, step: Step) -> None:
        before = self._tries[offset]
        tries = Tries(State.OUT, before.attempts + 1, before.strikes, given.want.due_ms)
        self._tries[offset] = step.tries[offset] = tries
        given.take(self._messages.pop(offset)._replace(delivery_attempt=tries.attempts))

    def _give_lane(self, lane: Lane, given: _Given, step: Step) -> None:
        messages = self.blocked.hand_out(lane, given.left, given.want.due_ms, step)
        for message in messages:
            given.take(message, lane.hash)

    def _suspects_are_here(self) -> bool:
        return all(offset in self._messages for offset in self._suspects)

    def _give_suspects(self, given: _Given, step: Step) -> None:
        if self._orderly and self._suspects:
            for offset in [offset for offset in self._suspects if self.blocked.is_behind(self._messages[offset])]:
                self._suspects.remove(offset)
                step.tries.pop(offset, None)
                self.blocked.take_over(self._messages.pop(offset), self._tries.pop(offset), step)
        while self._suspects and given.left:
            if self._orderly:
                self._give_lane(self._lane_of_suspects(step), given, step)
            else:
                self._give_again(self._suspects.pop(0), given, step)

    def _lane_of_suspects(self, step: Step) -> Lane:
        """Put the suspects of the first one's message group behind a marker."""
        group = self._messages[self._suspects[0]].message_group
        own = [offset for offset in self._suspects if self._messages[offset].message_group == group]
        self._suspects = [offset for offset in self._suspects if self._messages[offset].message_group != group]
        tries = [self._tries.pop(offset) for offset in own]
        lane = Lane(group)
        lane.ready = deque(self._messages.pop(offset) for offset in own)
        step.behind += own
        attempts = max(one.attempts for one in tries)
        self.blocked.add(lane, Marker(own[0], own[-1] + 1, Tries(State.SUSPECT, attempts, tries[0].strikes)), step=step)
        return lane

    def _give_up_hopeless(self, step: Step) -> None:
        """Suspects that ended their process alone, as often as a message may fail."""
        most = self.settings.max_attempts
        if most is None:
            return
        for offset in [offset for offset in self._suspects if self._tries[offset].strikes >= most]:
            if self._orderly and offset in self._suspects and self._suspects_are_here():
                self._suspects.remove(offset)
                self._suspects.insert(0, offset)
                self._lane_of_suspects(step)
            elif not self._orderly and offset in self._messages:
                self._suspects.remove(offset)
                step.letters.append(Letter(self._messages.pop(offset), self._tries.pop(offset).attempts, _ENDED_ITS_PROCESS))
        for lane in self.blocked.hopeless(most):
            assert lane.marker is not None, "a blocked group has a marker"
            if self.settings.dead_letter_policy is DeadLetterPolicy.PARK:
                self.blocked.park(lane, lane.marker.tries, step)
            else:
                step.letters.append(Letter(lane.ready[0], lane.marker.tries.attempts, _ENDED_ITS_PROCESS))
                self.blocked.pass_over(lane, step)

    def _let_go(self, step: Step) -> None:
        gone = [offset for offset, tries in self._tries.items() if offset < self._earliest and tries.state is not State.OUT]
        step.settled += gone
        for offset in gone:
            del self._tries[offset]
            self._messages.pop(offset, None)
            self._visible.pop(offset, None)
        self._suspects = [offset for offset in self._suspects if offset >= self._earliest]
        self.blocked.expired(self._earliest, step)
        self._earliest = 0

    def _activate(self, now_ms: int) -> None:
        while self._due and self._due[0][0] <= now_ms:
            due_ms, offset = heapq.heappop(self._due)
            tries = self._tries.get(offset)
            if tries is not None and tries.state is State.WAITING and tries.due_ms == due_ms:
                self._visible[offset] = None

    # --- Fresh messages

    def _give_fresh(self, given: _Given, step: Step) -> None:
        while given.left and self._loaded:
            chunk = self._loaded[0]
            while given.left and chunk.messages:
                self._give_one(chunk.messages.popleft(), given, step)
                self.in_memory -= 1
            self._pass_filtered(step)
            if chunk.messages:
                return

    def _give_one(self, message: MessageView, given: _Given, step: Step) -> None:
        offset = message.offset
        if not self._orderly:
            tries = Tries(State.OUT, 1, 0, given.want.due_ms)
            self._tries[offset] = step.tries[offset] = tries
            given.take(message)
            return
        lane = group_hash(message.message_group)
        if lane in given.lanes and self.blocked.goes_on(lane):
            self.blocked.hand_out_fresh(message, given.want.due_ms, step)
        elif self.blocked.pass_by(message):
            step.listed.append(offset)
            return
        else:
            self.blocked.hand_out_fresh(message, given.want.due_ms, step)
        given.take(message, lane)

    def _pass_filtered(self, step: Step) -> None:
        """Settle what is not the group's, as far as nothing fresh is before it; drop what has been handed on."""
        while self._loaded:
            chunk = self._loaded[0]
            self.next_fresh, before = chunk.taken()
            step.filtered = step.filtered.union(before)
            if chunk.messages:
                return
            self._loaded.popleft()
