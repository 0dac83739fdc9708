"""The last failures of a queue's unsettled messages in one group: a bounded cell beside that of the queue.

It may lack a failure, and never tells a wrong one: a failure names its generation, offset and attempt, and is told only while the queue's cell has
just that attempt as the last failed one.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from msgspec import Meta, Struct

from ...log.errors import PenstockError
from ...log.escapes import escaped
from ...log.format.stored_json import Number, StoredForm, TimeMs, parse_stored
from ...log.limits import KIB
from ...log.message.message import from_ms
from ...log.runtime.runtime import Clock
from ..cells.cells import Cells
from ..cells.document import Codec, Document
from ..cells.keys import failures_key, group_failures
from ..queues.cell import Marker, MessageState, QueueCell, Tries

FAILURES_MAX = 64
"""The most failures that are kept of a queue."""
TEXT_CHARS_MAX = 200
ERROR_CHARS_MAX = 80
WORKER_CHARS_MAX = 120
BYTES_MAX = 24 * KIB
"""The most bytes of them, whatever their texts are."""
QUEUES_READ_MAX = 16
"""The queues of a group whose failures are read at once."""
_FORMAT = 1

log = logging.getLogger("penstock.coordinator")


class NotedFailure(Struct, frozen=True):
    """A failed attempt."""

    offset: int
    attempt: int
    error: str
    """The class of what was raised, or a word for another end."""
    text: str
    """The first line of the reason."""
    worker: str
    """The member that ran it."""
    process: str
    """Its process, for people."""
    time_ms: int

    @property
    def order(self) -> tuple[int, int]:
        return self.attempt, self.time_ms


class QueueFailures(Struct, frozen=True):
    """What is kept of one queue, in one generation."""

    generation: int = 0
    failures: tuple[NotedFailure, ...] = ()
    """One of an offset at most, the oldest first."""

    def last_known(self, generation: int, offset: int) -> NotedFailure | None:
        """The last failure that is known of a message; a later one may be lost."""
        known = self.failures if self.generation == generation else ()
        return next((one for one in known if one.offset == offset), None)

    def true_of(self, cell: QueueCell) -> Iterator[NotedFailure]:
        """The failures that are the last of their messages, by a cell of the queue."""
        if self.generation == cell.generation:
            failed = failed_attempts(cell, {one.offset for one in self.failures})
            yield from (one for one in self.failures if failed.get(one.offset) == one.attempt)

    def with_all(self, cell: QueueCell, found: Iterable[NotedFailure]) -> QueueFailures:
        """Add these, and drop what is settled in ``cell``. Of too many the oldest go, those of parked groups last."""
        if self.generation > cell.generation:
            return self
        kept = {one.offset: one for one in self.failures} if self.generation == cell.generation else {}
        for one in found:
            if one.offset not in kept or kept[one.offset].order < one.order:
                kept[one.offset] = one
        states = _states(cell, kept)
        ranked = sorted(
            (one for one in kept.values() if one.offset in states),
            key=lambda one: (states[one.offset] is MessageState.PARKED, one.time_ms, one.offset),
        )[-FAILURES_MAX:]
        while sum(map(_bytes, ranked)) > BYTES_MAX:
            del ranked[0]
        return QueueFailures(cell.generation, tuple(sorted(ranked, key=lambda one: (one.time_ms, one.offset))))


@dataclass(frozen=True, slots=True, kw_only=True)
class LastFailure:
    """The last failed attempt of a message, as its consumer told it."""

    topic: str
    queue: int
    offset: int
    attempt: int
    """The number of the delivery that failed."""
    error: str
    """The class of what the handler raised, or a word for another end, such as ``FAILURE`` or ``Timeout``."""
    text: str
    """The first line of the reason, 200 characters at most."""
    worker: str
    """The member that ran it, perhaps dead."""
    process: str
    """Its host and process, or empty."""
    time: datetime


def failed_attempts(cell: QueueCell, offsets: Collection[int]) -> dict[int, int]:
    """The number of the last failed attempt of these messages, of those that are unsettled and tracked."""
    tries = {offset: cell.tries[offset] for offset in offsets if offset in cell.tries}
    return failed_in(tries, (marker for marker in cell.markers.values() if marker.head in offsets))


def deaths_in(cell: QueueCell, most: int) -> dict[int, int]:
    """The attempts of messages that were in flight in a worker that died, of those likeliest to be the cause."""
    found = {offset: one for offset, one in cell.tries.items() if one.state is MessageState.SUSPECT}
    found |= {one.head: one.tries for one in cell.markers.values() if one.tries.state is MessageState.SUSPECT}
    likeliest = sorted(found, key=lambda offset: (found[offset].company, offset))[:most]
    return {offset: found[offset].attempts for offset in likeliest}


def failed_in(tries: Mapping[int, Tries], markers: Iterable[Marker | None]) -> dict[int, int]:
    """The same of changed tries and markers."""
    found = {offset: _failed(one) for offset, one in tries.items()}
    return found | {marker.head: _failed(marker.tries) for marker in markers if marker is not None}


def first_line(reason: str) -> str:
    """The first line of a reason, bounded and without what steers a terminal."""
    line = next((line for line in reason[: 4 * TEXT_CHARS_MAX].splitlines() if line.strip()), "").strip()
    return cut(escaped(line), TEXT_CHARS_MAX)


def cut(text: str, chars_max: int) -> str:
    return text if len(text) <= chars_max else f"{text[: chars_max - 1]}…"


def told(topic: str, queue: int, one: NotedFailure) -> LastFailure:
    return LastFailure(
        topic=topic,
        queue=queue,
        offset=one.offset,
        attempt=one.attempt,
        error=one.error,
        text=one.text,
        worker=one.worker,
        process=one.process,
        time=from_ms(one.time_ms),
    )


def failures_of(cells: Cells, clock: Clock, group: str, topic: str, queue: int) -> Document[QueueFailures]:
    return Document(cells, clock, failures_key(group, topic, queue), _CODEC, absent=QueueFailures())


async def read_failures(
    cells: Cells, group: str, found: Mapping[tuple[str, int], QueueCell]
) -> dict[tuple[str, int], list[LastFailure]]:
    """The last failures by these cells, newest first, as far as they can be read. Only the queues with most tracked messages are looked at."""
    busiest = sorted(found, key=lambda place: -len(found[place].tries) - len(found[place].markers))[:QUEUES_READ_MAX]
    keys = {failures_key(group, *place): place for place in busiest if found[place].tries or found[place].markers}
    told_of: dict[tuple[str, int], list[LastFailure]] = {}
    try:
        stored = await cells.read_these(list(keys), under=group_failures(group)) if keys else {}
        for key, one in stored.items():
            topic, queue = keys[key]
            known = list(_decode(one.data, where=key).true_of(found[topic, queue]))
            told_of[topic, queue] = [told(topic, queue, failure) for failure in reversed(known)]
    except PenstockError as error:
        log.warning("group %s: why messages failed is not known: %s", group, error)
    return told_of


async def read_queue_failures(cells: Cells, group: str, topic: str, queue: int, cell: QueueCell) -> dict[int, LastFailure]:
    """The last failures of one queue's messages, by offset."""
    found = await read_failures(cells, group, {(topic, queue): cell})
    return {one.offset: one for one in found.get((topic, queue), ())}


def _failed(tries: Tries) -> int:
    return tries.attempts - (tries.state in (MessageState.RUNNING, MessageState.OUT))


def _states(cell: QueueCell, offsets: Collection[int]) -> dict[int, MessageState]:
    """The states of these that are unsettled; of messages that left the cell to wait, and of dead letters on their way, as if they waited."""
    spilled = min((spill.first_offset for spill in cell.spills), default=None)
    away = set(cell.dead_letters.own)
    found = {offset: MessageState.WAITING for offset in offsets if offset in away or (spilled is not None and offset >= spilled)}
    found |= {offset: cell.tries[offset].state for offset in offsets if offset in cell.tries}
    return found | {one.head: one.tries.state for one in cell.markers.values() if one.head in offsets}


def _bytes(one: NotedFailure) -> int:
    return 64 + sum(len(text.encode()) for text in (one.error, one.text, one.worker, one.process))


def _encode(found: QueueFailures) -> bytes:
    rows = [[one.offset, one.attempt, one.time_ms, one.error, one.text, one.worker, one.process] for one in found.failures]
    document = {"format": _FORMAT, "generation": found.generation, "failures": rows}
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


class _Form(StoredForm, frozen=True):
    format: int
    generation: Number
    failures: Annotated[tuple[tuple[Number, Number, TimeMs, str, str, str, str], ...], Meta(max_length=4 * FAILURES_MAX)]


def _decode(data: bytes, *, where: str) -> QueueFailures:
    form = parse_stored(data, _Form, what="a queue's last failures", where=where)
    failures = (
        NotedFailure(offset, attempt, error, text, worker, process, time_ms)
        for offset, attempt, time_ms, error, text, worker, process in form.failures
    )
    return QueueFailures(form.generation, tuple(failures))


_CODEC = Codec(_encode, _decode)
