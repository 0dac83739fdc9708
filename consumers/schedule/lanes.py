"""A lane holds messages that run one after the other. A run is the part under way."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate

from ...coordinator.queues.cell import Marker, MessageState
from ...log.message.message import MessageView
from ..feed.lazy_messages import LazyMessages


@dataclass(frozen=True, slots=True)
class Failure:
    """The failure of a run's first message that did not succeed."""

    reason: str
    retry_after_ms: int | None = None
    """The wait, instead of the group's policy."""
    rejected: bool = False
    """Whether the message can never succeed."""
    blamed: bool = True
    """False: a batch failed at an unknown message."""
    error: str = "NoResult"
    """The class of what was raised, or a word for another end."""


_NOT_BEGUN: deque[MessageView | list[MessageView]] = deque(maxlen=0)
"""Stands for the messages left of runs that did not begin: most have few messages, and a deque for each would cost more than these."""


class LaneRun:
    """Messages of one lane, handed to the listener in order, or as a batch."""

    __slots__ = (
        "_unclaimed",
        "began_s",
        "cancelled",
        "done",
        "ended",
        "ends",
        "failure",
        "lane",
        "left",
        "list_max",
        "messages",
        "since_s",
        "size",
        "taken",
        "timed_out_at",
        "took_s",
        "wave",
    )

    def __init__(self, lane: Lane | OpenLane, messages: Sequence[MessageView], *, wave: bool = False, list_max: int = 0) -> None:
        self.lane = lane
        self.messages = messages if isinstance(messages, LazyMessages) else LazyMessages.of(messages)
        self.size = len(self.messages)
        self.wave = wave
        self.left = _NOT_BEGUN
        """Messages not begun, or lists of a shared lane. The executor pops the first, the schedule takes back the last."""
        self.list_max = list_max
        """The most messages in a list, one after the other, of a shared lane. 0: there is one list at most."""
        self.ends: list[int] = []
        """The places behind the last messages of each such list. Written by the executor, before the first begins."""
        self.done = 0
        """Successes, written by the executor only."""
        self.failure: Failure | None = None
        """The failure, written before ``ended``, or by the caller that timed it out."""
        self.ended = False
        """Whether nothing more of it is started or runs."""
        self.began_s = math.inf
        """The start of its first handler, by the monotonic clock."""
        self.since_s: float | None = None
        """The start of the running handler."""
        self.took_s: Sequence[float] = ()
        """The time of each handler, written by the executor only."""
        self.cancelled = False
        self.timed_out_at: int | None = None
        """The value of ``done`` at the timeout. Later results do not count."""
        self.taken = 0
        """The part of ``done`` known to the schedule."""
        self._unclaimed = bytearray(1)  # the garbage collector does not look at it, as it would at a list

    def claim(self) -> bool:
        """Begin the run, or take it back: True for exactly one caller, in any thread."""
        try:
            self._unclaimed.pop()
        except IndexError:
            return False
        return True

    def split(self) -> LazyMessages:
        """Take back the messages not begun, if the run was."""
        count = 0
        with suppress(IndexError):
            while True:
                part = self.left.pop()
                if isinstance(part, list):
                    count += len(part)
                    self.ends.pop()
                else:
                    count += 1
        self.size -= count
        back = self.messages.cut(self.size)
        if count:
            self.messages = self.messages.cut(0, self.size)
        return back

    def begin_lists(self) -> deque[MessageView | list[MessageView]]:
        """The lists for the listener. Called by the executor, before it begins. Those of a shared lane may be taken back until each begins."""
        if not self.list_max:
            return deque((list(self.messages),))
        self.left = self.lists()
        return self.left

    def lists(self) -> deque[MessageView | list[MessageView]]:
        """Put the messages of each group together in lists."""
        most = self.list_max
        by_group: dict[str | None, list[MessageView]] = {}
        for message in self.messages:
            by_group.setdefault(message.message_group, []).append(message)
        found = [own[at : at + most] for own in by_group.values() for at in range(0, len(own), most)]
        self.messages = LazyMessages.of([message for one in found for message in one])
        self.ends = [*accumulate(map(len, found))]
        return deque(found)

    def under_way(self) -> int:
        """The place of the first message that is certainly not done, after a `split`: all before the last call are."""
        if not self.is_batch:
            return max(0, self.size - 1)
        return self.ends[-2] if len(self.ends) > 1 else 0

    def delivered(self) -> list[MessageView]:
        """What the handler has, or had when it failed, except successes."""
        done = self.done if self.timed_out_at is None else self.timed_out_at
        if not self.is_batch:
            return self.messages[done : done + 1]
        return self.messages[done : self.ends[bisect_right(self.ends, done)] if self.ends and done < self.ends[-1] else self.size]

    def is_late(self, before_s: float, *, whole: bool = False) -> bool:
        """Whether its handler, or with ``whole`` the first one of the run, began before that."""
        since_s = self.since_s  # read once: its thread may end it meanwhile
        return since_s is not None and (self.began_s if whole else since_s) < before_s and self.timed_out_at is None

    def time_out(self, reason: str) -> None:
        self.cancelled = True  # first: then nothing behind the next result begins
        self.timed_out_at = self.done
        self.failure = Failure(reason, blamed=not self.is_batch or len(self.delivered()) == 1, error="Timeout")

    @property
    def is_batch(self) -> bool:
        return self.lane.batches


class OpenLane:
    """The granted messages of a message group that is not blocked, or of several."""

    __slots__ = ("batch_max", "batches", "behind", "hash", "ready", "run", "shared")

    marker = None

    def __init__(self, key: int, *, batches: bool = False, shared: bool = False) -> None:
        self.hash = key
        self.batches = batches
        self.shared = shared
        """Whether many message groups share it, for as long as none of them is slow: that costs far less than a lane for each."""
        self.ready: tuple[LazyMessages, ...] = ()
        """What may run as soon as the run has ended."""
        self.behind: tuple[LazyMessages, ...] = ()
        """What goes behind that, once its grant is durable."""
        self.run: LaneRun | None = None
        self.batch_max = 0
        """The largest batch until one succeeds, after a failure at an unknown message. 0: no limit."""

    @property
    def has_more(self) -> bool:
        return bool(self.ready or self.behind)

    def put_back(self, messages: LazyMessages) -> None:
        if messages:
            self.ready = (messages, *self.ready)

    def take(self, most: int) -> LazyMessages:
        if len(self.ready) == 1 and len(self.ready[0]) <= most:  # as it is with most lanes, where there are many
            return self.take_all()
        taken: list[LazyMessages] = []
        while self.ready and most > 0:
            first, *rest = self.ready
            if len(first) > most:
                rest.insert(0, first.cut(most))
                first = first.cut(0, most)
            self.ready = tuple(rest)
            taken.append(first)
            most -= len(first)
        return LazyMessages.joined(taken)

    def take_all(self) -> LazyMessages:
        taken, self.ready = self.ready, ()
        return LazyMessages.joined(taken)


class Lane:
    """A blocked message group's messages in memory, and its marker."""

    __slots__ = (
        "batch_max",
        "batches",
        "delivered_to",
        "given",
        "hash",
        "known_from",
        "known_to",
        "marker",
        "ready",
        "run",
    )

    def __init__(self, key: int, *, batches: bool = False, marker: Marker | None = None) -> None:
        self.hash = key
        self.batches = batches
        self.ready: deque[MessageView] = deque()
        self.run: LaneRun | None = None
        self.marker = marker
        self.known_to = marker.head if marker is not None else None
        """The offset up to which ``run`` and ``ready`` have all the group's messages from its head on. None: all."""
        self.delivered_to = marker.limit if marker is not None else 0
        """The marker's limit if the run under way stops."""
        self.known_from: int | None = None
        """The offset behind the messages given out by handle."""
        self.given: list[MessageView] = []
        """Messages given out, kept in case they come back."""
        self.batch_max = 0

    @property
    def has_more(self) -> bool:
        return bool(self.ready)

    def may_go_on(self, now_ms: int) -> bool:
        if self.marker is None or self.run is not None:
            return False
        tries = self.marker.tries
        return tries.state is MessageState.SUSPECT or (tries.state is MessageState.WAITING and tries.due_ms <= now_ms)
