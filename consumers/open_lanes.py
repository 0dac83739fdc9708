"""The lanes of a queue that are not blocked: their messages are granted, and run as fast as handlers take them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..log.messages import MessageView
from .blocked import Blocked
from .lanes import Lane, Run
from .limits import Limits
from .step import Step


class OpenLanes:
    """By message group; or one for all, where the listener is handed batches of the queue, or nothing is to be in order."""

    def __init__(self, limits: Limits, *, orderly: bool) -> None:
        self.common = Lane(None, batches=limits.batch_of is not None)
        """CONCURRENT: of all messages. ORDERLY with batches of the queue: of all groups that are not blocked."""
        self.by_group = orderly and limits.batch_of != "queue"
        self._orderly = orderly
        self._limits = limits
        self.known: dict[str | None, Lane] = {}
        """Of the groups that have messages in memory."""

    def __iter__(self) -> Iterator[Lane]:
        yield from self.known.values()
        yield self.common

    @property
    def common_is_idle(self) -> bool:
        """Whether nothing runs in the common lane or waits for it."""
        return not self.common.ready and self.common.run is None

    def of(self, message: MessageView) -> Lane:
        """The lane of a message."""
        if not self.by_group:
            return self.common
        lane = self.known.get(message.message_group)
        if lane is None:
            lane = self.known[message.message_group] = Lane(message.message_group, batches=self.common.batches)
        return lane

    def take(self, messages: Sequence[MessageView], blocked: Blocked, touched: dict[Lane, None], step: Step) -> int:
        """Grant fresh messages, each in the lane of its group; how many were passed by, because that is blocked."""
        lanes, granted, passed = self.known, step.granted, 0
        for message in messages:
            group = message.message_group
            lane = lanes.get(group)
            if lane is None:
                if blocked and blocked.pass_by(message):
                    step.listed.append(message.offset)
                    passed += 1
                    continue
                lane = self.of(message)
            if lane.run is None:
                touched[lane] = None
            lane.ready.append(message)
            granted.append(message.offset)
        return passed

    def drop(self, lane: Lane) -> None:
        """Forget a lane that is empty, or blocked from now on."""
        if self.by_group:
            self.known.pop(lane.group, None)

    def start(self, lane: Lane, runs: list[Run]) -> None:
        """Run what is ready in a lane where nothing runs."""
        if lane.run is None and lane.ready:
            most = lane.batch_max or self._limits.run_messages
            if not lane.batches and len(self.known) < self._limits.few_lanes:
                most *= self._limits.few_lanes
            count = min(len(lane.ready), most)
            lane.run = Run(lane, [lane.ready.popleft() for _ in range(count)])
            runs.append(lane.run)

    def start_all(self, runs: list[Run]) -> None:
        """Run whatever stood still."""
        for lane in list(self):
            self.start(lane, runs)
        while self.common.ready and not self._orderly:
            self.common.run = None
            self.start(self.common, runs)
