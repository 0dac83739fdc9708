"""The way of given-up messages to the dead-letter queue: from the cell that assigned their sequences until it knows them durable."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from ..coordinator.keeper import OwnershipLost, QueueKeeper
from ..log.backoff import Backoff
from ..log.errors import CallError, ReopenError, RetryError
from ..log.messages import MessageView, views
from .dead_letters import DeadLetter, DeadLettersAhead, DeadLetterWriter, renumbered
from .feed import Feed
from .statistics import TopicCounters
from .step import Letter

log = logging.getLogger("penstock.consumers")

_PAUSE_S = 0.2
_UNKNOWN = "its last owner died, or an operator skipped it"


class Burial:
    """The dead letters of one queue in its owner."""

    def __init__(
        self, writer: DeadLetterWriter, counters: TopicCounters, *, topic: str, queue: int, moved: Callable[[], None]
    ) -> None:
        """``moved`` hears whenever some were written: there may be room for more."""
        self._moved = moved
        self._writer = writer
        self._counters = counters
        self._topic, self._queue = topic, queue
        self._letters: dict[int, Letter] = {}
        self._known: dict[int, tuple[int, str]] = {}
        """Of messages that were given up and are not in memory: attempts and reason."""
        self._woken = asyncio.Event()
        self._empty = asyncio.Event()

    def give_up(self, letter: Letter) -> None:
        """Take a message whose sequence is in the cell."""
        self._letters[letter.message.offset] = letter
        self.wake()

    def expect(self, offset: int, attempts: int, reason: str) -> None:
        """Know of a message that the cell has given up, and that is to be read again."""
        self._known[offset] = (attempts, reason)
        self._woken.set()

    def wake(self) -> None:
        """Look whether the cell has assigned something."""
        self._empty.clear()
        self._woken.set()

    async def finish(self, timeout_s: float) -> None:
        """Wait until all that is assigned is written, at most so long: what is left the next owner writes."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._empty.wait()

    async def run(self, keeper: QueueKeeper, feed: Feed) -> None:
        """Write what is assigned, as long as the queue is owned. Raises `OwnershipLost`, and what cannot be mended by trying again."""
        pause = Backoff(_PAUSE_S)
        while True:
            assigned = keeper.cell.dead_letters.sequences()
            if not assigned:
                self._woken.clear()
                if not keeper.cell.dead_letters.assigned:
                    self._empty.set()
                    await self._woken.wait()
                    self._empty.clear()
                continue
            try:
                letters = await self._letters_of(assigned, feed)
                await self._writer.write(letters)
            except OwnershipLost:
                raise
            except DeadLettersAhead as error:
                # The cells began anew: their sequences go on behind those that are there.
                log.warning("dead letters of %s queue %d are numbered anew: %s", self._topic, self._queue, error)
                last_sequence = error.last_sequence
                await keeper.change(lambda cell, last=last_sequence: renumbered(cell, last))  # type: ignore[misc]
                continue
            except (RetryError, ReopenError) as error:
                log.warning("dead letters of %s queue %d wait: %s", self._topic, self._queue, error)
                await asyncio.sleep(pause.next_s())
                continue
            except CallError as error:
                log.error("dead letters of %s queue %d cannot be written: %s", self._topic, self._queue, error)  # noqa: TRY400 - it says all
                await asyncio.sleep(pause.next_s())
                continue
            pause = Backoff(_PAUSE_S)
            last = assigned[-1][1]
            await keeper.change(lambda cell, last=last: cell.with_buried(last))  # type: ignore[misc]
            self._moved()
            for offset, _ in assigned:
                letter = self._letters.pop(offset)
                self._counters.sent_to_dlq.add()
                log.error(
                    "%s queue %d: offset %d was given up after %s attempts, and is a dead letter in %s: %s",
                    self._topic,
                    self._queue,
                    offset,
                    letter.attempts or "its",
                    self._writer.topic,
                    letter.reason,
                )

    async def close(self) -> None:
        """Let go of the dead-letter queue's name."""
        await self._writer.close()

    async def _letters_of(self, assigned: list[tuple[int, int]], feed: Feed) -> list[DeadLetter]:
        missing = [offset for offset, _ in assigned if offset not in self._letters]
        found: dict[int, MessageView] = {}
        if missing:
            found = {view.offset: view for view in views(self._topic, await feed.pick(self._queue, missing))}
        letters = []
        for offset, sequence in assigned:
            if offset not in self._letters:
                self._letters[offset] = Letter(found[offset], *self._known.pop(offset, (0, _UNKNOWN)))
            letter = self._letters[offset]
            letters.append(DeadLetter(sequence, letter.message, letter.attempts, letter.reason))
        return letters
