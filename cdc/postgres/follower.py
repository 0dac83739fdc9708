"""One connection's stream: its events go into the sender, and durable ones are confirmed."""

from __future__ import annotations

from collections.abc import Callable

from ...log.runtime.runtime import Clock
from .envelopes import EnvelopeEncoder
from .event_sender import EventSender
from .pgoutput import Begin, Commit, OtherMessage, Relation, decode
from .positions import PositionCounter
from .stream import Keepalive, ReplicationStream, XLogData

_CONFIRM_S, _ALIVE_S, _REPORT_S = 1.0, 10.0, 1.0
_IDLE_S, _BUSY_S = 0.25, 0.005
_LOOK_EVERY = 512
"""The most messages between two looks at the clock."""


class SlotFollower:
    """Reads a stream from its slot's beginning."""

    def __init__(
        self,
        envelopes: EnvelopeEncoder,
        sender: EventSender,
        clock: Clock,
        *,
        reached: Callable[[str], None],
        on_progress: Callable[[], None],
    ) -> None:
        self._envelopes, self._sender, self._clock = envelopes, sender, clock
        self._reached, self._on_progress = reached, on_progress
        self._positions = PositionCounter()
        self._within = False
        self._end_lsn: int | None = None
        """The LSN to confirm once all gathered events are durable."""
        self._confirmed_lsn = 0
        self._confirmed_s = self._reported_s = clock.monotonic_s()

    def run(self, stream: ReplicationStream, stopped: Callable[[], bool], until_lsn: int | None) -> None:
        """Follow until ``stopped()``, or to ``until_lsn``, between transactions; everything read is durable then. Raises
        `SourceUnavailable`.
        """
        stream.confirm(0, self._now_us(), ask=True)
        read = 0
        while not stopped():
            message = stream.read()
            if message is None:
                self._send()
            elif isinstance(message, XLogData):
                self._take(message)
                read += 1
                if read % _LOOK_EVERY and not self._is_through(until_lsn):
                    continue
            else:
                self._hear(message, stream)
            self._sender.settle()
            self._confirm(stream, until_lsn)
            if self._is_through(until_lsn):
                break
            if message is None:
                stream.wait(_BUSY_S if self._sender.waiting else _IDLE_S)
        self._send()
        self._sender.settle(wait=True)
        self._confirm_durable(stream)
        self._on_progress()

    def _is_through(self, until_lsn: int | None) -> bool:
        place = max(self._sender.confirmed_lsn, self._end_lsn or 0)
        return until_lsn is not None and not self._within and place >= until_lsn

    def _take(self, data: XLogData) -> None:
        match decode(data.body):
            case Begin() as begin:
                self._within = True
                self._positions.begin(begin.commit_lsn)
                self._envelopes.begin(begin)
            case Commit(_, end_lsn):
                self._within = False
                self._may_confirm(end_lsn)
                if self._sender.has_full_batch:
                    self._send()
            case Relation() as relation:
                self._envelopes.relation(relation)
            case OtherMessage():
                pass
            case change:
                if self._sender.full:  # before the next event, and not at once: this one may have ended its transaction
                    self._send()
                self._sender.add(self._envelopes.events(change, data.lsn, self._positions))

    def _hear(self, alive: Keepalive, stream: ReplicationStream) -> None:
        if not self._within:
            self._may_confirm(alive.end_lsn)
        if alive.wants_answer:
            stream.confirm(self._sender.confirmed_lsn, self._now_us())

    def _may_confirm(self, end_lsn: int) -> None:
        if self._positions.may_begin_at(end_lsn):
            self._end_lsn = end_lsn

    def _send(self) -> None:
        gathered = self._sender.gathered
        self._sender.send(self._end_lsn)
        self._end_lsn = None
        if gathered:
            self._reached("batch sent")

    def _confirm(self, stream: ReplicationStream, until_lsn: int | None) -> None:
        now_s = self._clock.monotonic_s()
        since_s = now_s - self._confirmed_s
        asks = until_lsn is not None and since_s >= _IDLE_S and not self._sender.waiting
        if since_s >= _ALIVE_S or asks or (self._has_risen() and since_s >= _CONFIRM_S):
            self._confirm_durable(stream, ask=asks)
        if now_s - self._reported_s >= _REPORT_S:
            self._reported_s = now_s
            self._on_progress()

    def _confirm_durable(self, stream: ReplicationStream, *, ask: bool = False) -> None:
        risen = self._has_risen()
        if risen:
            self._reached("batch durable")
        stream.confirm(self._sender.confirmed_lsn, self._now_us(), ask=ask)
        self._confirmed_lsn, self._confirmed_s = self._sender.confirmed_lsn, self._clock.monotonic_s()
        if risen:
            self._reached("confirmed")

    def _has_risen(self) -> bool:
        return self._sender.confirmed_lsn > self._confirmed_lsn

    def _now_us(self) -> int:
        return 1000 * self._clock.wall_ms()
