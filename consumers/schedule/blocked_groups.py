"""Message groups that failed, ran long or were in flight in a dead owner, each behind its marker until it has caught up.

Their fresh messages are listed in the cell, and kept in memory while there is room; others are read again, in one scan for all groups.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from itertools import repeat

from ...coordinator.queues.cell import Marker, MessageState, QueueCell, Tries
from ...log.errors import InternalError
from ...log.message.message import MessageView
from ..feed.rows import GroupHashes
from ..limits import QueueLimits
from .expiries import Expiries
from .lanes import Lane, LaneRun
from .receive_request import ReceiveRequest
from .step import Step


class BlockedGroups:
    """The lanes of one queue that have a marker, by hash."""

    def __init__(self, cell: QueueCell, limits: QueueLimits, hashes: GroupHashes) -> None:
        self._limits = limits
        self._hashes = hashes
        batches = limits.batch_of is not None
        self._lanes = {key: Lane(key, batches=batches, marker=marker) for key, marker in cell.markers.items()}
        self._alone: dict[int, Marker] = {}
        """Groups with one message out and none behind it, as most are that `receive` hands out: a lane is made of one once more is to be known."""
        self.elsewhere: AbstractSet[int] = frozenset()
        """Hashes of groups that are blocked in a former queue, none of which goes on here."""
        self._given_alone: dict[int, MessageView] = {}
        """Their messages, kept in case they come back."""
        self._due: list[tuple[int, int]] = []
        """(when, group); some entries are out of date."""
        self.fell_due = False
        """Whether a group fell due between the last plan and the last `reread_from`."""
        self._unplanned = False
        """Whether a group has fallen due unseen by a step and `reread_from`."""
        self._active: dict[Lane, None] = {}
        """Groups that need not wait for their time."""
        self._reading: list[Lane] = []
        self._retained = 0
        self._expiries = Expiries(self._is_out)
        """Groups handed out by handle, by hash."""
        for lane in self._lanes.values():
            self._changed(lane)

    def __len__(self) -> int:
        return len(self._lanes) + len(self._alone)

    @property
    def passes_none(self) -> bool:
        """Whether fresh messages of all groups may go on."""
        return not (self.elsewhere or len(self))

    @property
    def room(self) -> int | None:
        """The fresh messages of groups blocked elsewhere for whose markers there is room; None: there are no such groups."""
        return max(0, self._limits.full - len(self)) if self.elsewhere else None

    @property
    def waits_elsewhere(self) -> bool:
        """Whether a group waits here as it is blocked in a former queue."""
        return any(key in self._lanes for key in self.elsewhere)

    @property
    def is_calm(self) -> bool:
        """Whether no group waits or may go on."""
        return not (self._due or self._active)

    @property
    def retained(self) -> int:
        return self._retained

    # --- What is wanted ---------------------------------------------------------------------------------------------------------

    def next_due_ms(self) -> list[int]:
        while self._due and not self._is_waiting(*self._due[0]):
            heapq.heappop(self._due)
        return [self._due[0][0]] if self._due else []

    def reread_from(self, now_ms: int, next_fresh: int) -> int | None:
        """The offset from which the queue is to be read again, if any."""
        self.fell_due = self._activate(now_ms) or self._unplanned
        self._unplanned = False
        self._reading = [lane for lane in self._active if self._wants_more(lane, now_ms, next_fresh)]
        return min((lane.known_to or 0 for lane in self._reading), default=None)

    def wants_solo(self, now_ms: int) -> bool:
        return any(lane.may_go_on(now_ms) and _company(lane) == 1 and lane.ready for lane in self._active)

    def hopeless(self, most: int) -> list[Lane]:
        """Groups whose head ended its process, alone, as often as a message may fail."""
        return [
            lane
            for lane in self._active
            if lane.marker is not None and lane.ready and lane.marker.tries.state is MessageState.SUSPECT and _strikes(lane) >= most
        ]

    def _wants_more(self, lane: Lane, now_ms: int, next_fresh: int) -> bool:
        return not lane.ready and lane.known_to is not None and lane.known_to < next_fresh and lane.may_go_on(now_ms)

    # --- What comes in ----------------------------------------------------------------------------------------------------------

    def __contains__(self, key: int) -> bool:
        return key in self._lanes or key in self._alone

    def passes(self, key: int) -> bool:
        """Whether fresh messages of a group are passed by."""
        return key in self or key in self.elsewhere

    def wait_for(self, elsewhere: AbstractSet[int]) -> None:
        """Let these groups, which are blocked in a former queue, wait here until they are not any more."""
        changed, self.elsewhere = self.elsewhere ^ elsewhere, elsewhere
        for key in changed:
            if (lane := self._lane_of(key)) is not None:
                self._active.pop(lane, None)
                self._changed(lane)

    def pass_by(self, message: MessageView, step: Step) -> None:
        """Pass a fresh message of a blocked group by, and perhaps keep it."""
        key = self._hashes.of(message.message_group)
        lane = self._lane_of(key)
        if lane is None:
            lane = Lane(key, batches=self._limits.batch_of is not None)
            self.add(lane, Marker(message.offset, message.offset, Tries(MessageState.WAITING, 0)), step=step)
        if lane.known_to is None:
            if self._retained < self._limits.retained:
                lane.ready.append(message)
                self._retained += 1
            else:
                lane.known_to = message.offset

    def reread(self, messages: Sequence[MessageView], start: int, limit: int, next_fresh: int) -> None:
        """Take all rows of the queue from ``start`` up to ``limit``, read again."""
        lanes = {
            lane.hash: lane
            for lane in (*self._reading, *self._active)
            if lane.known_to is not None and start <= lane.known_to < limit and self._lanes.get(lane.hash) is lane
        }
        full: set[int] = set()
        for message in messages if lanes else ():
            lane = lanes.get(self._hashes.of(message.message_group))
            if lane is None or lane.hash in full or lane.known_to is None or message.offset < lane.known_to:
                continue
            if lane.ready and self._retained >= self._limits.retained:
                full.add(lane.hash)
                continue
            lane.ready.append(message)
            lane.known_to = message.offset + 1
            self._retained += 1
        for lane in lanes.values():
            if lane.hash not in full:
                lane.known_to = limit if limit < next_fresh else None

    def add(self, lane: Lane, marker: Marker, *, running: Sequence[MessageView] = (), step: Step | None = None) -> None:
        """Add a lane with all its messages in memory, ``running`` ones included."""
        if lane.hash in self:
            raise InternalError("a message group is blocked already", operation="block a message group", observed=marker)
        lane.known_to = None
        self._lanes[lane.hash] = lane
        self._retained += len(lane.ready) + len(running)
        lane.marker, lane.delivered_to = marker, marker.limit if lane.batches or not running else marker.head
        if step is not None:
            self._set(lane, marker, step)

    def filtered_anew(self) -> None:
        """Read again all messages not running or handed out, by the new filter."""
        for key in [*self._alone]:
            self._lane_of(key)
        for lane in self._lanes.values():
            marker = lane.marker
            assert marker is not None, "a blocked group has a marker"
            run_to = lane.run.messages[-1].offset + 1 if lane.run is not None else marker.head
            out_to = lane.known_from if lane.known_from is not None and marker.tries.state is MessageState.OUT else run_to
            self._forget(lane)
            lane.known_to = max(run_to, out_to)

    def adopt(self, cell: QueueCell, lanes: Iterable[int] | None = None) -> None:
        """Take over markers that others may have changed. ``lanes``: no others."""
        keys = [*self._alone, *self._lanes] if lanes is None else lanes
        alone, markers = self._alone, cell.markers
        for key in keys:
            if (one := alone.get(key)) is not None:
                if (marker := markers.get(key)) is None:
                    self._drop_alone(key)
                    continue
                if marker is one or marker == one:
                    continue
            lane = self._lane_of(key)
            if lane is None:
                continue
            before, marker = lane.marker, cell.markers.get(lane.hash)
            if (
                before is marker
                or before is None
                or before == marker
                or before.tries.state not in (MessageState.PARKED, MessageState.OUT)
            ):
                continue
            if marker is None:
                self._forget(lane)
                del self._lanes[lane.hash]
                continue
            lane.marker, lane.delivered_to = marker, marker.limit
            if marker.tries.state is MessageState.OUT:
                if marker.tries.due_ms != before.tries.due_ms:
                    self._expiries.add(marker.tries.due_ms, (lane.hash,))
                continue
            self._take_back(lane, marker)
            self._changed(lane)

    def _take_back(self, lane: Lane, marker: Marker) -> None:
        back = [message for message in lane.given if message.offset >= marker.head]
        known_from = back[0].offset if back and back[0].offset == marker.head else lane.known_from
        if known_from is None or marker.head < known_from or marker.tries.state is MessageState.PARKED:
            self._forget(lane)
            lane.known_to = marker.head
        else:
            self._retained += len(back) - len(lane.given)
            lane.ready.extendleft(reversed(back))
        lane.given, lane.known_from = [], None

    def next_expiry_ms(self) -> list[int]:
        """The time when the first of the groups handed out by handle comes back."""
        return self._expiries.first_ms()

    def is_behind(self, message: MessageView) -> bool:
        """Whether a suspect is left to the marker of its group, which goes back to it unless a run is under way."""
        lane = self._lane_of(self._hashes.of(message.message_group))
        return lane is not None and lane.marker is not None and (message.offset >= lane.marker.head or lane.run is None)

    def holds(self, message: MessageView) -> bool:
        return self._hashes.of(message.message_group) in self and not self.is_behind(message)

    def take_over(self, message: MessageView, tries: Tries, step: Step) -> None:
        """Take such a suspect behind the marker."""
        lane = self._lanes[self._hashes.of(message.message_group)]
        marker = lane.marker
        assert marker is not None, "a blocked group has a marker"
        of_head, head = marker.tries, min(marker.head, message.offset)
        if head < marker.head:
            self._forget(lane)
            lane.known_to, lane.known_from = head, None
        attempts = max(of_head.attempts, tries.attempts)
        strikes = of_head.strikes if head == marker.head else tries.strikes
        receive = of_head.receive if (head, attempts) == (marker.head, of_head.attempts) else None  # else its handles are no good
        grown = Tries(of_head.state, attempts, strikes, of_head.due_ms, of_head.company, receive)
        self._set(lane, Marker(head, max(marker.limit, message.offset + 1), grown), step)
        lane.delivered_to = max(lane.delivered_to, message.offset + 1)
        step.behind.append(message.offset)

    # --- What becomes of a run --------------------------------------------------------------------------------------------------

    def moved(self, lane: Lane, run: LaneRun, count: int, ended: bool, step: Step) -> None:
        """Note ``count`` successes. After a run without a failure the group may go on."""
        self._retained -= count
        rest = run.messages[run.taken :]
        head = rest[0].offset if rest else run.messages[-1].offset + 1
        if ended and run.failure is None:
            lane.ready.extendleft(reversed(rest))
            lane.batch_max = lane.batch_max if rest else 0
            self._move_head(lane, head, step, running=False)
        elif count:
            self._move_head(lane, head, step, running=True)

    def wait(self, lane: Lane, tries: Tries, limit: int, step: Step) -> None:
        """Let a group wait until its head is due. Messages below ``limit`` were delivered as often as the head."""
        assert lane.marker is not None, "a blocked group has a marker"
        attempts = max(tries.attempts, lane.marker.tries.attempts)
        waiting = Tries(MessageState.WAITING, attempts, tries.strikes, tries.due_ms)
        lane.delivered_to = max(limit, lane.delivered_to)
        self._set(lane, Marker(lane.ready[0].offset, lane.delivered_to, waiting), step)

    def park(self, lane: Lane, tries: Tries, step: Step) -> None:
        head = lane.ready[0]
        self._forget(lane)
        lane.known_to = head.offset
        lane.delivered_to = max(head.offset + 1, lane.delivered_to)
        self._set(lane, Marker(head.offset, lane.delivered_to, Tries(MessageState.PARKED, tries.attempts, tries.strikes)), step)
        step.parked.append(head)

    def pass_over(self, lane: Lane, step: Step) -> None:
        head = lane.ready.popleft()
        self._retained -= 1
        self._move_head(lane, head.offset + 1, step, running=False)

    def expired(self, earliest: int, step: Step) -> None:
        for lane in self._lanes.values():
            marker = lane.marker
            if (
                marker is None
                or marker.head >= earliest
                or marker.tries.state is MessageState.OUT
                or lane.run is not None
                or lane.ready
            ):
                continue
            lane.known_to = earliest
            self._set(lane, marker.from_head(earliest), step)

    # --- What may run -----------------------------------------------------------------------------------------------------------

    def run_due(self, now_ms: int, step: Step, next_fresh: int) -> None:
        for lane in self.due(now_ms, step, next_fresh):
            if _company(lane) != 1:
                self._run_head(lane, step)

    def due(self, now_ms: int, step: Step, next_fresh: int) -> list[Lane]:
        """Groups that may go on with messages in memory; caught-up ones are dropped."""
        self._activate(now_ms)
        self._unplanned = False
        found = []
        for lane in list(self._active):
            if not lane.may_go_on(now_ms):
                del self._active[lane]
            elif lane.ready:
                found.append(lane)
            elif _has_caught_up(lane, next_fresh):
                del self._active[lane]
                del self._lanes[lane.hash]
                lane.marker = step.markers[lane.hash] = None
        return found

    def hand_out(self, lane: Lane, most: int, want: ReceiveRequest, step: Step) -> list[MessageView]:
        strikes = _strikes(lane)
        messages, attempts = self._take_head(lane, most)
        marker = lane.marker
        assert marker is not None, "a blocked group has a marker"
        self._retained -= len(messages)
        lane.known_from = messages[-1].offset + 1
        self._keep(lane, messages)
        out = want.out(attempts, strikes, end=lane.known_from)
        lane.delivered_to = max(marker.limit, lane.known_from)
        self._set(lane, Marker(messages[0].offset, lane.delivered_to, out), step)
        return messages

    def hand_out_alone(
        self, keys: Sequence[int], messages: Sequence[MessageView], want: ReceiveRequest, step: Step
    ) -> Sequence[int]:
        """Give out the first fresh message of each group that has nothing out. Returns the places of the other messages."""
        others: list[int] = []
        known = (self._alone.keys(), self._lanes.keys(), self.elsewhere)
        if len(set(keys)) < len(keys) or not all(some.isdisjoint(keys) for some in known):
            free: dict[int, int] = {}
            for place, key in enumerate(keys):
                if key in free or self.passes(key):
                    others.append(place)
                else:
                    free[key] = place
            keys, messages = list(free), [messages[place] for place in free.values()]
        # Whole columns, as a step may give out a thousand.
        offsets = [message.offset for message in messages]
        ends = [offset + 1 for offset in offsets]
        if want.receive is None:
            tries: Iterable[Tries] = repeat(want.out(1))
        else:
            tries = [want.out(1, end=end) for end in ends]
        markers = dict(zip(keys, map(Marker, offsets, ends, tries), strict=True))
        self._alone |= markers
        step.markers |= markers
        step.behind += offsets
        self._expiries.add(want.due_ms, keys)
        room = max(0, self._limits.retained - self._retained)
        self._retained += min(room, len(keys))
        self._given_alone.update(zip(keys, messages[:room], strict=False))
        return others

    def hand_out_behind(self, message: MessageView, want: ReceiveRequest, step: Step) -> None:
        """Give out a fresh message behind those of its group that were given out just before."""
        offset = message.offset
        lane = self._lane_of(self._hashes.of(message.message_group))
        assert lane is not None, "they are out"
        assert lane.marker is not None, "a blocked group has a marker"
        lane.known_from = lane.delivered_to = offset + 1
        self._keep(lane, [message])
        self._set(lane, Marker(lane.marker.head, offset + 1, want.out(1, end=offset + 1)), step)
        step.behind.append(offset)

    def _keep(self, lane: Lane, messages: list[MessageView]) -> None:
        """Keep the messages that are out, if there is room for all."""
        if self._retained + len(messages) <= self._limits.retained:
            lane.given += messages
            self._retained += len(messages)
        else:
            self._retained -= len(lane.given)
            lane.given = []

    def goes_on(self, key: int) -> bool:
        """Whether a group's next fresh message may go with those just given out."""
        if key in self._alone:
            return True
        lane = self._lanes[key]
        return not lane.ready and lane.known_to is None and lane.marker is not None and lane.marker.tries.attempts == 1

    def ready(self, now_ms: int) -> int:
        self._unplanned = self._activate(now_ms) or self._unplanned
        return sum(len(lane.ready) for lane in self._active if lane.may_go_on(now_ms))

    def holds_back(self, next_fresh: int) -> bool:
        lanes = (lane for lane in self._lanes.values() if lane.marker is not None and lane.marker.tries.state is MessageState.OUT)
        return bool(self._expiries) and any(lane.ready or not _has_caught_up(lane, next_fresh) for lane in lanes)

    def has_caught_up(self, key: int, next_fresh: int) -> bool:
        if key in self._alone:
            return True
        lane = self._lanes.get(key)
        return lane is not None and not lane.ready and _has_caught_up(lane, next_fresh)

    def run_solo(self, now_ms: int, step: Step) -> None:
        for lane in self._active:
            if lane.may_go_on(now_ms) and _company(lane) == 1 and lane.ready:
                self._run_head(lane, step)
                step.solo = True
                return

    def _run_head(self, lane: Lane, step: Step) -> None:
        marker = lane.marker
        assert marker is not None, "a blocked group has a marker"
        company = _company(lane)
        most = min(self._limits.run_messages, company or self._limits.run_messages, lane.batch_max or self._limits.run_messages)
        strikes = _strikes(lane)
        messages, attempts = self._take_head(lane, most)
        lane.run = LaneRun(lane, messages)
        limit = max(marker.limit, messages[-1].offset + 1)
        if lane.batches:
            lane.delivered_to = limit
        running = Tries(MessageState.RUNNING, attempts, strikes, 0, company)
        self._set(lane, Marker(messages[0].offset, limit, running), step)
        step.runs.append(lane.run)

    def _take_head(self, lane: Lane, most: int) -> tuple[list[MessageView], int]:
        """The first messages of a lane that were delivered equally often, and their deliveries including this one."""
        marker = lane.marker
        assert marker is not None, "a blocked group has a marker"
        head = lane.ready[0].offset
        again = head < marker.limit
        count = 0
        while count < min(len(lane.ready), most) and (lane.ready[count].offset < marker.limit) is again:
            count += 1
        attempts = marker.tries.attempts + 1 if again else 1
        return [lane.ready.popleft()._replace(delivery_attempt=attempts) for _ in range(count)], attempts

    # --- Books

    def _lane_of(self, key: int) -> Lane | None:
        """The lane of a blocked group; of one whose message is out alone it is made now."""
        marker = self._alone.pop(key, None)
        if marker is None:
            return self._lanes.get(key)
        lane = self._lanes[key] = Lane(key, marker=marker)
        lane.known_to, lane.known_from = None, marker.limit
        if (message := self._given_alone.pop(key, None)) is not None:
            lane.given.append(message)
        return lane

    def _drop_alone(self, key: int) -> None:
        del self._alone[key]
        if self._given_alone.pop(key, None) is not None:
            self._retained -= 1

    def _move_head(self, lane: Lane, head: int, step: Step, *, running: bool) -> None:
        before = lane.marker
        assert before is not None, "a blocked group has a marker"
        limit = max(head, before.limit if running else lane.delivered_to)
        attempts = before.tries.attempts if head < limit else 0
        tries = (
            Tries(MessageState.RUNNING, attempts, 0, 0, before.tries.company) if running else Tries(MessageState.WAITING, attempts)
        )
        self._set(lane, Marker(head, limit, tries), step)

    def _set(self, lane: Lane, marker: Marker, step: Step) -> None:
        lane.marker = step.markers[lane.hash] = marker
        self._changed(lane)

    def _changed(self, lane: Lane) -> None:
        assert lane.marker is not None, "a blocked group has a marker"
        tries = lane.marker.tries
        if lane.hash in self.elsewhere and tries.state is not MessageState.OUT:
            return
        if tries.state is MessageState.SUSPECT:
            self._active[lane] = None
        elif tries.state is MessageState.WAITING:
            heapq.heappush(self._due, (tries.due_ms, lane.hash))
        elif tries.state is MessageState.OUT:
            self._expiries.add(tries.due_ms, (lane.hash,))

    def _activate(self, now_ms: int) -> bool:
        found = False
        while self._due and self._due[0][0] <= now_ms:
            due_ms, key = heapq.heappop(self._due)
            if self._is_waiting(due_ms, key):
                self._active[self._lanes[key]] = None
                found = True
        return found

    def _is_waiting(self, due_ms: int, key: int) -> bool:
        lane = self._lanes.get(key)
        if lane is None or lane.marker is None or key in self.elsewhere:
            return False
        return lane.marker.tries.state is MessageState.WAITING and lane.marker.tries.due_ms == due_ms

    def _is_out(self, due_ms: int, key: int) -> bool:
        if (alone := self._alone.get(key)) is not None:
            return alone.tries.due_ms == due_ms
        lane = self._lanes.get(key)
        if lane is None or lane.marker is None:
            return False
        return lane.marker.tries.state is MessageState.OUT and lane.marker.tries.due_ms == due_ms

    def _forget(self, lane: Lane) -> None:
        self._retained -= len(lane.ready) + len(lane.given)
        lane.ready, lane.given = deque(), []


def _strikes(lane: Lane) -> int:
    marker = lane.marker
    return marker.tries.strikes if marker is not None and lane.ready[0].offset == marker.head else 0


def _company(lane: Lane) -> int:
    """The most of a suspect's messages that may run together; 0: no limit."""
    tries = lane.marker.tries if lane.marker is not None else None
    return tries.company if tries is not None and tries.state is MessageState.SUSPECT else 0


def _has_caught_up(lane: Lane, next_fresh: int) -> bool:
    return lane.known_to is None or lane.known_to >= next_fresh
