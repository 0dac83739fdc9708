"""What runs one after the other: the messages of a message group, of one queue. And what is under way of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from ..coordinator.cell import Marker, State
from ..log.messages import MessageView
from .picked import Picked


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a run ended before its last message: about the first one that did not succeed."""

    reason: str
    retry_after_ms: int | None = None
    """How long to wait, instead of what the group's policy says."""
    rejected: bool = False
    """It can never succeed: no more attempts."""
    blamed: bool = True
    """False: a batch failed, and nobody said at which message."""


class Run:
    """Messages of one lane, handed to the listener in order, or together as a batch. The executor moves it along, the schedule looks."""

    __slots__ = (
        "_unclaimed",
        "cancelled",
        "done",
        "ended",
        "failure",
        "lane",
        "left",
        "messages",
        "since_s",
        "size",
        "taken",
        "timed_out_at",
        "took_s",
        "wave",
    )

    def __init__(self, lane: Lane | OpenLane, messages: Sequence[MessageView], *, wave: bool = False) -> None:
        self.lane = lane
        self.messages = Picked.of(messages)
        self.size = len(self.messages.offsets)
        """How many they are."""
        self.wave = wave
        """Of suspects, in limited company."""
        self.left: deque[MessageView] = deque()
        """Not begun, once it was: whoever pops a message has it. The executor begins with the first, the schedule takes back the last."""
        self.done = 0
        """So many succeeded. Written by the executor only."""
        self.failure: Failure | None = None
        """Of the first that did not. Written before ``ended``, or by who timed it out."""
        self.ended = False
        """The executor starts nothing more of it, and no handler of it runs any more."""
        self.since_s: float | None = None
        """When the handler that runs now was started, by the monotonic clock."""
        self.took_s: Sequence[float] = ()
        """How long each handler ran. Written by the executor only."""
        self.cancelled = False
        """Nothing more of it is to be started."""
        self.timed_out_at: int | None = None
        """What ``done`` was when its handler ran too long: what that says later counts no more."""
        self.taken = 0
        """So many of ``done`` are in the schedule's books."""
        self._unclaimed = bytearray(1)  # the garbage collector does not look at it, as it would at a list

    def claim(self) -> bool:
        """Begin with it, or take it back before anybody does: true for one of all who ask, in whatever thread."""
        try:
            self._unclaimed.pop()
        except IndexError:
            return False
        return True

    def split(self) -> Picked:
        """Take back what was not begun, if it was begun with: that is no part of it any more."""
        count = 0
        with suppress(IndexError):
            while True:
                self.left.pop()
                count += 1
        self.size -= count
        back = self.messages.cut(self.size)
        if count:
            self.messages = self.messages.cut(0, self.size)
        return back

    def is_late(self, before_s: float) -> bool:
        """Whether its handler was started before then, runs still, and was not given up."""
        since_s = self.since_s  # read once: in its thread it may end meanwhile
        return since_s is not None and since_s < before_s and self.timed_out_at is None

    def time_out(self, reason: str) -> None:
        """Give up the handler that runs: a failed attempt."""
        self.timed_out_at = self.done
        self.failure = Failure(reason, blamed=self.size - self.done == 1 or not self.is_batch)
        self.cancelled = True

    @property
    def is_batch(self) -> bool:
        """Whether its messages are given to the listener together."""
        return self.lane.batches


class OpenLane:
    """The granted messages of a message group that is not blocked, in order."""

    __slots__ = ("batch_max", "batches", "hash", "ready", "run")

    marker = None

    def __init__(self, key: int, *, batches: bool = False) -> None:
        self.hash = key
        """Of the message group."""
        self.batches = batches
        self.ready: list[Picked] = []
        """Behind those of ``run``; none of them is empty."""
        self.run: Run | None = None
        self.batch_max = 0
        """A batch failed and nobody said where: none is larger than this until one succeeds; 0: no such limit."""

    def put_back(self, messages: Picked) -> None:
        """Let these be the first again."""
        if messages:
            self.ready.insert(0, messages)

    def take(self, most: int) -> Picked:
        """The first ones."""
        taken: list[Picked] = []
        while self.ready and most > 0:
            first = self.ready.pop(0)
            if len(first) > most:
                self.ready.insert(0, first.cut(most))
                first = first.cut(0, most)
            taken.append(first)
            most -= len(first)
        return Picked.joined(taken)

    def take_all(self) -> Picked:
        """All that are ready."""
        taken, self.ready = self.ready, []
        return Picked.joined(taken)


class Lane:
    """The messages of a blocked message group that this owner has in memory, in order; and its marker."""

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
        """Of the message group."""
        self.batches = batches
        self.ready: deque[MessageView] = deque()
        """Behind those of ``run``."""
        self.run: Run | None = None
        self.marker = marker
        """As it is to stand in the cell."""
        self.known_to = marker.head if marker is not None else None
        """With a marker: all the group's messages from its head up to here are in ``run`` and ``ready``; None: all there are."""
        self.delivered_to = marker.limit if marker is not None else 0
        """With a marker: the limit that it has if the run that is under way stops; what is behind its head was not begun."""
        self.known_from: int | None = None
        """With messages given out by handle: the offset behind them; from there on it is known what there is."""
        self.given: list[MessageView] = []
        """Those, if they are kept in case they come back."""
        self.batch_max = 0
        """A batch failed and nobody said where: none is larger than this until one succeeds; 0: no such limit."""

    def may_go_on(self, now_ms: int) -> bool:
        """Whether a blocked group is due, or a suspect."""
        if self.marker is None or self.run is not None:
            return False
        tries = self.marker.tries
        return tries.state is State.SUSPECT or (tries.state is State.WAITING and tries.due_ms <= now_ms)
