"""The lanes of a queue that are not blocked: their messages run as fast as handlers take them.

Many message groups share a few lanes, as a lane and a run for each would cost more than their messages; all share one while handlers are so quick
that others would help nobody. Where a handler is slow, or a message waits for room, the groups behind it get lanes of their own, until these are
done. So a group's messages are all in one lane at any time.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from operator import attrgetter

from ...log.message.message import MessageView
from ..feed.lazy_messages import LazyMessages
from ..feed.rows import GroupHashes
from ..limits import QueueLimits
from .blocked_groups import BlockedGroups
from .lanes import Lane, LaneRun, OpenLane
from .pace import HandlerPace
from .step import Step

_NOTHING = LazyMessages.of(())
_QUICK_S = 0.005
"""The time that messages of a fetch may take one after the other, if it is known."""


class OpenLanes:
    """Lanes by hash that are not blocked; one for all where nothing is to be in order, or batches are of the queue."""

    def __init__(self, limits: QueueLimits, hashes: GroupHashes, *, orderly: bool) -> None:
        self.common = OpenLane(0, batches=limits.batch_of is not None)
        """CONCURRENT: the lane of all messages. ORDERLY with batches of the queue: of all groups not blocked."""
        self.by_group = orderly and limits.batch_of != "queue"
        self._orderly = orderly
        self._limits = limits
        self._hashes = hashes
        self.known: dict[int, OpenLane] = {}
        """Lanes of single groups, by hash."""
        self._shared: list[OpenLane] = []
        """Made when they are needed: one, or as many as there are threads. Replaced only while nothing is in them."""
        self._in_use: set[OpenLane] = set()
        """Shared lanes, perhaps without messages by now."""
        self._unwritten: list[OpenLane] = []
        self.pace = HandlerPace()
        self.apart = False
        """Whether each group needs a lane of its own."""

    def __iter__(self) -> Iterator[OpenLane]:
        yield from self.known.values()
        yield from self._shared
        yield self.common

    @property
    def common_is_idle(self) -> bool:
        return not self.common.ready and self.common.run is None

    def of(self, group: str | None) -> OpenLane:
        """The lane of a group that nothing is granted of."""
        return self._own(self._hashes.of(group)) if self.by_group else self.common

    def _own(self, key: int) -> OpenLane:
        lane = self.known.get(key)
        if lane is None:
            lane = self.known[key] = OpenLane(key, batches=self.common.batches)
        return lane

    def _of(self, key: int) -> OpenLane:
        if key not in self.known and self._shared:
            shared = self._shared[key % len(self._shared)]
            if shared.run is not None or shared.has_more:
                return shared  # perhaps there is something of this group
        return self._own(key)

    def take(self, messages: LazyMessages, blocked: BlockedGroups, touched: dict[OpenLane, None], step: Step) -> int:
        """Grant fresh messages. Returns how many were passed by."""
        passed = [] if blocked.passes_none else self._pass_by(messages, blocked, step)
        if passed:
            messages = messages.without(set(passed))
            step.listed += passed
        step.granted += messages.offsets
        for lane, own in self._dealt(messages) if messages else ():
            if lane.run is None:
                touched[lane] = None
                lane.ready += (own,)
            else:
                lane.behind += (own,)
                self._unwritten.append(lane)
        return len(passed)

    def written(self) -> bool:
        """What was granted is durable. Returns whether a lane without a run has some of it."""
        waits = False
        for lane in self._unwritten:
            lane.ready, lane.behind = lane.ready + lane.behind, ()
            waits = waits or lane.run is None
        self._unwritten.clear()
        return waits

    def _pass_by(self, messages: LazyMessages, blocked: BlockedGroups, step: Step) -> list[int]:
        passed = [at for at, key in enumerate(self._hashes.of_all(messages.groups())) if blocked.passes(key)]
        behind = messages.at(passed) if passed else ()
        for message in behind:
            blocked.pass_by(message, step)
        return [message.offset for message in behind]

    def _dealt(self, messages: LazyMessages) -> list[tuple[OpenLane, LazyMessages]]:
        if not self.by_group:
            return [(self.common, messages)]
        groups = messages.groups()
        count = self._limits.shared_lanes
        if self.apart:
            count = 0
        elif self.pace.expected_s(len(messages)) <= _QUICK_S:
            count = 1
        elif len(set(groups)) <= 2 * count:
            count = 0
        if not count:
            return [(self._of(key), own) for key, own in self._by_hash(messages).items()]
        shared, own = self._sharing(count), self.known
        self._in_use.update(shared)
        if len(shared) == 1 and not own:
            return [(shared[0], messages)]
        count, keys = len(shared), self._hashes.of_all(groups)
        places: defaultdict[OpenLane, list[int]] = defaultdict(list)
        for at, key in enumerate(keys):
            places[(own.get(key) or shared[key % count]) if own else shared[key % count]].append(at)
        return [(lane, messages.at(those)) for lane, those in places.items()]

    def _sharing(self, count: int) -> list[OpenLane]:
        """Shared lanes, ``count`` of them unless there is something in those there were."""
        if len(self._shared) != count and not any(lane.run is not None or lane.has_more for lane in self._shared):
            self._shared = [OpenLane(place, batches=self.common.batches, shared=True) for place in range(count)]
            self._in_use.clear()
        return self._shared

    def part(self, lane: OpenLane, first: LazyMessages) -> list[OpenLane]:
        """Give each message group of a shared lane its own, except that of the run under way. ``first`` goes before what is ready. Returns those that
        may start.
        """
        run = lane.run if lane.run is not None and lane.run.size else None
        kept = None if run is None else self._hashes.of(run.messages[run.under_way()].message_group)
        ready, behind = (first, *lane.ready), lane.behind
        lane.ready = lane.behind = ()
        found: dict[OpenLane, None] = {}
        for part in ready:
            for key, own in self._by_hash(part).items():
                to = lane if key == kept else self._own(key)
                to.ready += (own,)
                found[to] = None
        for part in behind:
            for key, own in self._by_hash(part).items():
                to = lane if key == kept else self._own(key)
                to.behind += (own,)
                self._unwritten.append(to)
        found.pop(lane, None)
        return list(found)

    def take_group(self, lane: OpenLane, key: int, rest: Sequence[MessageView]) -> list[MessageView]:
        """Take the messages of one group out of a shared lane. The others of ``rest`` are the first in it again."""
        taken: list[MessageView] = []
        left: list[LazyMessages] = []
        for part in (LazyMessages.of(rest), *lane.ready):
            keys = self._hashes.of_all(part.groups())
            if key in keys:
                taken += part.at([at for at, one in enumerate(keys) if one == key])
                part = part.at([at for at, one in enumerate(keys) if one != key])
            if part:
                left.append(part)
        lane.ready = tuple(left)
        return taken

    def _by_hash(self, messages: LazyMessages) -> dict[int, LazyMessages]:
        """Two groups with the same hash share an entry."""
        by_group = messages.by_group()
        keys = self._hashes.of_all(by_group)
        found = dict(zip(keys, by_group.values(), strict=True))
        if len(found) < len(keys):
            found.clear()
            for key, own in zip(keys, by_group.values(), strict=True):
                found[key] = own if key not in found else LazyMessages.of(sorted([*found[key], *own], key=attrgetter("offset")))
        return found

    def wave(self, messages: Sequence[MessageView]) -> list[LaneRun]:
        """Runs in limited company, by lane."""
        lanes: dict[OpenLane, list[MessageView]] = {}
        for message in messages:
            lanes.setdefault(self.of(message.message_group), []).append(message)
        runs = []
        for lane, own in lanes.items():
            size = 1 if lane is self.common and not lane.batches else len(own)
            for at in range(0, len(own), size):
                lane.run = LaneRun(lane, own[at : at + size], wave=True)
                runs.append(lane.run)
        return runs

    def stalled(self, lane: OpenLane, run: LaneRun) -> Lane:
        """The lane, blocked from now on, of a run that goes on."""
        self.drop(lane)
        run.lane = blocked = Lane(self._hashes.of(run.messages[run.taken].message_group), batches=lane.batches)
        blocked.ready, blocked.run, blocked.batch_max = deque(lane.take_all()), run, lane.batch_max
        lane.run = None
        return blocked

    def take_all(self) -> list[int]:
        """Start nothing more. Returns the offsets of unstarted messages."""
        return [offset for lane in self for offset in lane.take_all().offsets]

    def drop(self, lane: OpenLane) -> None:
        if self.by_group and not lane.shared:
            self.known.pop(lane.hash, None)

    def start(self, lane: OpenLane, runs: list[LaneRun]) -> None:
        if not (self._orderly or lane.batches):
            runs += [LaneRun(lane, part) for part in self.parts(lane.take_all())]
        elif lane.run is None and lane.ready:
            if lane.shared and self.apart:
                for own in self.part(lane, _NOTHING):
                    self.start(own, runs)
                return
            most = lane.batch_max or self._limits.run_messages
            if lane.shared or (not lane.batches and len(self.known) < self._limits.few_lanes):
                most *= self._limits.few_lanes
            lane.run = LaneRun(lane, lane.take(most), list_max=self._limits.run_messages if lane.shared and lane.batches else 0)
            runs.append(lane.run)

    def parts(self, messages: LazyMessages) -> list[LazyMessages]:
        """Parts for the executor of independent messages."""
        size = self._limits.run_messages
        if not self.common.batches:
            size = min(size, len(messages) // self._limits.threads)
        if size <= 1:
            return messages.each()
        return [messages.cut(at, at + size) for at in range(0, len(messages), size)]

    def spread(self, running: dict[LaneRun, None], before_s: float) -> tuple[list[LaneRun], int]:
        """Take independent messages; ORDERLY: those behind a message that began before. Returns the new runs, which are added to ``running``, and how
        many messages others lost.
        """
        runs: list[LaneRun] = []
        if not self._orderly:
            back = [part for run in running if not (run.ended or run.cancelled) and (part := run.split())]
            runs += [LaneRun(self.common, part) for part in self.parts(LazyMessages.joined(back))] if back else []
        else:
            back = []
            self._in_use = {lane for lane in self._in_use if lane.run is not None or lane.has_more}
            alone = len(self._shared) == 1 < self._limits.shared_lanes  # then the whole of a run was to be quick
            for lane in self._in_use:
                run = lane.run
                if run is not None and not (run.ended or run.cancelled) and run.is_late(before_s, whole=alone):
                    back.append(run.split())
                    for own in self.part(lane, back[-1]):
                        self.start(own, runs)
        running.update(dict.fromkeys(runs))
        return runs, sum(map(len, back))

    def start_all(self, runs: list[LaneRun]) -> None:
        for lane in list(self):
            self.start(lane, runs)
        while self.common.ready and not self._orderly:
            self.common.run = None
            self.start(self.common, runs)
