"""The way of given-up messages to the dead-letter queue."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import suppress

from ...coordinator.queues.cell import QueueCell
from ...coordinator.queues.invisibility import Expiry
from ...coordinator.queues.keeper import OwnershipLost, QueueKeeper
from ...log.errors import CallError, DataDamaged, OffsetOutOfRange, ReopenError, RetryError
from ...log.escapes import escaped
from ...log.message.message import views
from ...log.runtime.backoff import Backoff
from ..dead_letters.copy_writer import SequencesTaken
from ..dead_letters.writer import DeadLetter, DeadLetterWriter, renumbered
from ..failures.failure_notes import FailureNotes
from ..feed.feed import Feed
from ..schedule.step import GivenUpMessage
from ..statistics import TopicCounters

log = logging.getLogger("penstock.consumers")

_PAUSE_S = 0.2
_TOGETHER = 100
"""The most letters before the cell notes them, so that a backlog shrinks under short-lived owners."""
NOT_ACKNOWLEDGED = "it was received, and not acknowledged in time"
REFUSED = "its receiver gave it up"
_SKIPPED = "an operator skipped it"
_FORMER = (0, "it was given up in a former life of the topic or the group")
_UNKNOWN = (0, "its last owner died, or an operator skipped it")


class DeadLetterTask:
    """Writes the dead letters of one queue in its owner."""

    def __init__(
        self,
        writer: DeadLetterWriter,
        counters: TopicCounters,
        failures: FailureNotes,
        *,
        topic: str,
        queue: int,
        moved: Callable[[], None],
    ) -> None:
        """``moved`` is called when there may be room for more."""
        self._moved = moved
        self._failures = failures
        self._writer = writer
        self._counters = counters
        self._topic, self._queue = topic, queue
        self._letters: dict[int, GivenUpMessage] = {}
        self._known: dict[int, tuple[int, str]] = {}
        """Attempts and reason by offset."""
        self._woken = asyncio.Event()
        self._empty = asyncio.Event()

    def give_up(self, letters: Iterable[GivenUpMessage]) -> None:
        """Take messages before the write that gives them up; `wake` follows it."""
        for letter in letters:
            self._letters[letter.message.offset] = letter

    def foresee(self, expiry: Expiry) -> Expiry:
        """Note messages that the next write gives up unacknowledged, to be read again."""
        for lapse in expiry.lapses:
            if lapse.given_up:
                self._known[lapse.offset] = (lapse.attempts, NOT_ACKNOWLEDGED)
        return expiry

    async def skip(self, before: QueueCell, after: QueueCell) -> None:
        """Note the heads of parked message groups that an operator gives up."""
        given_up = set(after.dead_letters.own) - set(before.dead_letters.own)
        for marker in before.markers.values():
            if marker.head in given_up:
                self._known[marker.head] = (marker.tries.attempts, await self._reason(before.generation, marker.head, _SKIPPED))

    async def _reason(self, generation: int, offset: int, then: str) -> str:
        """The reason of the last failure, if it is known, and what followed."""
        why = await self._failures.reason(generation, offset)
        return then if why is None else f"{why}; {then}"

    def wake(self) -> None:
        self._empty.clear()
        self._woken.set()

    async def finish(self, timeout_s: float) -> None:
        """Wait for the assigned letters, at most ``timeout_s``; the next owner writes the rest."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._empty.wait()

    async def run(self, keeper: QueueKeeper, feed: Feed, since: Callable[[], int]) -> None:
        """Write the assigned letters as long as the queue is owned. Raises `OwnershipLost`, and permanent errors.

        ``since`` returns the first generation in this life of topic and group; an earlier cell is caught up first.
        """
        pause = Backoff(_PAUSE_S)
        while True:
            cell = keeper.cell
            assigned = cell.dead_letters.sequences()[:_TOGETHER] if cell.generation >= since() else []
            if not assigned:
                self._woken.clear()
                if not keeper.cell.dead_letters.assigned or keeper.cell.generation < since():
                    self._empty.set()
                    await self._woken.wait()
                    self._empty.clear()
                continue
            former = assigned[: cell.dead_letters.former]
            try:
                self._note_refused(cell)
                letters, lost = await self._letters_of(cell.generation, assigned[len(former) :], feed)
                lost = [*former, *lost]
                unwritten = await self._writer.write(letters, lost=lost, given=cell.dead_letters.next_sequence - 1)
            except OwnershipLost:
                raise
            except SequencesTaken as error:
                log.warning("dead letters of %s queue %d are numbered anew: %s", self._topic, self._queue, error)
                await keeper.change(lambda cell, taken=error, seen=assigned: renumbered(cell, taken, seen))  # type: ignore[misc]
                for place, (offset, sequence) in enumerate(assigned):
                    if sequence in error.written:
                        self._tell(offset, written=True, former=place < len(former))
                continue
            except (RetryError, ReopenError, DataDamaged) as error:
                log.warning("dead letters of %s queue %d wait: %s", self._topic, self._queue, error)
                await asyncio.sleep(pause.next_s())
                continue
            except CallError as error:
                log.error("dead letters of %s queue %d cannot be written: %s", self._topic, self._queue, error)  # noqa: TRY400 - it says all
                await asyncio.sleep(pause.next_s())
                continue
            pause = Backoff(_PAUSE_S)
            last, count = assigned[-1][1], len(unwritten)
            await keeper.change(lambda cell, last=last, count=count: cell.with_dead_letters_written(last, lost=count))  # type: ignore[misc]
            self._moved()
            for place, (offset, sequence) in enumerate(assigned):
                self._tell(offset, written=sequence not in unwritten, former=place < len(former))

    def _note_refused(self, cell: QueueCell) -> None:
        for offset, attempts in cell.dead_letters.refused:
            if offset not in self._letters:
                self._known[offset] = (attempts, REFUSED)

    async def close(self) -> None:
        await self._writer.close()

    async def _letters_of(
        self, generation: int, assigned: list[tuple[int, int]], feed: Feed
    ) -> tuple[list[DeadLetter], list[tuple[int, int]]]:
        """The letters to write, and (offset, sequence) of those that retention removed."""
        missing = [offset for offset, _ in assigned if offset not in self._letters]
        lost: set[int] = set()
        if missing:
            try:
                rows = await feed.pick(self._queue, missing)
            except OffsetOutOfRange:
                earliest = await feed.kept_from(self._queue, 0)
                lost = {offset for offset in missing if offset < earliest}
                rows = await feed.pick(self._queue, [offset for offset in missing if offset >= earliest])
            for view in views(self._topic, rows):
                attempts, reason = self._known.pop(view.offset, _UNKNOWN)
                if reason is _UNKNOWN[1]:
                    reason = await self._reason(generation, view.offset, reason)
                self._letters[view.offset] = GivenUpMessage(view, attempts, reason)
        letters = []
        for offset, sequence in assigned:
            if offset not in lost:
                letter = self._letters[offset]
                letters.append(DeadLetter(sequence, letter.message, letter.attempts, letter.reason))
        return letters, [one for one in assigned if one[0] in lost]

    def part(self, cell: QueueCell) -> None:
        """Log the letters that stay assigned at a deletion."""
        if cell.dead_letters.assigned:
            log.error(
                "group %s, %s queue %d: topic or group was deleted while messages that were given up had no dead letter yet; they are lost to "
                "the group: offsets %s",
                self._writer.group,
                self._topic,
                self._queue,
                ", ".join(map(str, cell.dead_letters.assigned)),
            )

    def _tell(self, offset: int, *, written: bool, former: bool) -> None:
        letter = None if former else self._letters.pop(offset, None)
        if letter is not None:
            attempts, reason = letter.attempts, letter.reason
        else:
            attempts, reason = _FORMER if former else self._known.pop(offset, _UNKNOWN)
        if written:
            self._counters.sent_to_dlq.add()
            became = f"is a dead letter in {self._writer.topic}"
        else:
            self._counters.lost_letters.add()
            gone = "the topic or the group was deleted" if former else "retention took it"
            became = f"has no dead letter, as {gone} before: it is lost to the group"
        log.error(
            "group %s, %s queue %d: offset %d was given up after %s attempts, and %s: %s",
            self._writer.group,
            self._topic,
            self._queue,
            offset,
            attempts or "its",
            became,
            escaped(reason),
        )
