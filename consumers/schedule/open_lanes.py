"""The lanes of a queue that are not blocked: their messages run as fast as handlers take them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from operator import attrgetter

from ...log.message.message import MessageView
from ..feed.lazy_messages import LazyMessages
from ..feed.rows import GroupHashes
from ..limits import QueueLimits
from .blocked_groups import BlockedGroups
from .lanes import Lane, LaneRun, OpenLane
from .step import Step


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

    def __iter__(self) -> Iterator[OpenLane]:
        yield from self.known.values()
        yield self.common

    @property
    def common_is_idle(self) -> bool:
        return not self.common.ready and self.common.run is None

    def of(self, group: str | None) -> OpenLane:
        return self._of(self._hashes.of(group)) if self.by_group else self.common

    def _of(self, key: int) -> OpenLane:
        lane = self.known.get(key)
        if lane is None:
            lane = self.known[key] = OpenLane(key, batches=self.common.batches)
        return lane

    def take(self, messages: LazyMessages, blocked: BlockedGroups, touched: dict[OpenLane, None], step: Step) -> int:
        """Grant fresh messages. Returns how many were passed by."""
        by_hash = self._by_hash(messages) if self.by_group or blocked else {}
        passed: list[int] = []
        for key in [key for key in by_hash if key in blocked] if blocked else ():
            own = by_hash.pop(key)
            for message in own:
                blocked.pass_by(message)
            passed += own.offsets
        if passed:
            messages = messages.without(set(passed))
        if self.by_group:
            for key, own in by_hash.items():
                lane = self._of(key)
                if lane.run is None:
                    touched[lane] = None
                lane.ready += (own,)
        elif messages:
            if self.common.run is None:
                touched[self.common] = None
            self.common.ready += (messages,)
        step.granted += messages.offsets
        step.listed += passed
        return len(passed)

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
        run.lane = blocked = Lane(lane.hash, batches=lane.batches)
        blocked.ready, blocked.run, blocked.batch_max = deque(lane.take_all()), run, lane.batch_max
        return blocked

    def take_all(self) -> list[int]:
        """Start nothing more. Returns the offsets of unstarted messages."""
        return [offset for lane in self for offset in lane.take_all().offsets]

    def drop(self, lane: OpenLane) -> None:
        if self.by_group:
            self.known.pop(lane.hash, None)

    def start(self, lane: OpenLane, runs: list[LaneRun]) -> None:
        if not (self._orderly or lane.batches):
            runs += [LaneRun(lane, part) for part in self.parts(lane.take_all())]
        elif lane.run is None and lane.ready:
            most = lane.batch_max or self._limits.run_messages
            if not lane.batches and len(self.known) < self._limits.few_lanes:
                most *= self._limits.few_lanes
            lane.run = LaneRun(lane, lane.take(most))
            runs.append(lane.run)

    def parts(self, messages: LazyMessages) -> list[LazyMessages]:
        """Parts for the executor of independent messages."""
        size = self._limits.run_messages
        if not self.common.batches:
            size = min(size, len(messages) // self._limits.threads)
        if size <= 1:
            return messages.each()
        return [messages.cut(at, at + size) for at in range(0, len(messages), size)]

    def spread(self, running: dict[LaneRun, None]) -> list[LaneRun]:
        """Take independent messages, returned as new runs and added to ``running``."""
        if self._orderly:
            return []
        back = [part for run in running if not (run.ended or run.cancelled) and (part := run.split())]
        runs = [LaneRun(self.common, part) for part in self.parts(LazyMessages.joined(back))] if back else []
        running.update(dict.fromkeys(runs))
        return runs

    def start_all(self, runs: list[LaneRun]) -> None:
        for lane in list(self):
            self.start(lane, runs)
        while self.common.ready and not self._orderly:
            self.common.run = None
            self.start(self.common, runs)
