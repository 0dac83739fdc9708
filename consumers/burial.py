"""The way of given-up messages to the dead-letter queue: from the cell that assigned their sequences until it knows them durable."""

from __future__ import annotations

import asyncio
import logging

from ..coordinator.keeper import OwnershipLost, QueueKeeper
from ..log.backoff import Backoff
from ..log.errors import CallError, ReopenError, RetryError
from ..log.messages import MessageView, views
from .dead_letters import DeadLetter, DeadLetterWriter
from .feed import Feed
from .statistics import TopicCounters
from .step import Letter

log = logging.getLogger("penstock.consumers")

_PAUSE_S = 0.2
_UNKNOWN = "its last owner died, or an operator skipped it"


class Burial:
    """The dead letters of one queue in its owner."""

    def __init__(self, writer: DeadLetterWriter, counters: TopicCounters, *, topic: str, queue: int) -> None:
        self._writer = writer
        self._counters = counters
        self._topic, self._queue = topic, queue
        self._letters: dict[int, Letter] = {}
        self._woken = asyncio.Event()

    def give_up(self, letter: Letter) -> None:
        """Take a message whose sequence is in the cell."""
        self._letters[letter.message.offset] = letter
        self._woken.set()

    def wake(self) -> None:
        """Look whether the cell has assigned something."""
        self._woken.set()

    async def run(self, keeper: QueueKeeper, feed: Feed) -> None:
        """Write what is assigned, as long as the queue is owned. Raises `OwnershipLost`, and what cannot be mended by trying again."""
        pause = Backoff(_PAUSE_S)
        while True:
            assigned = keeper.cell.dead_letters.sequences()
            if not assigned:
                self._woken.clear()
                if not keeper.cell.dead_letters.assigned:
                    await self._woken.wait()
                continue
            try:
                letters = await self._letters_of(assigned, feed)
                await self._writer.write(letters)
            except OwnershipLost:
                raise
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
            for offset, _ in assigned:
                letter = self._letters.pop(offset, None)
                self._counters.sent_to_dlq.add()
                log.error(
                    "%s queue %d: offset %d was given up after %s attempts, and is a dead letter in %s: %s",
                    self._topic,
                    self._queue,
                    offset,
                    letter.attempts if letter else "its",
                    self._writer.topic,
                    letter.reason if letter else _UNKNOWN,
                )

    async def _letters_of(self, assigned: list[tuple[int, int]], feed: Feed) -> list[DeadLetter]:
        missing = [offset for offset, _ in assigned if offset not in self._letters]
        found: dict[int, MessageView] = {}
        if missing:
            found = {view.offset: view for view in views(self._topic, await feed.pick(self._queue, missing))}
        letters = []
        for offset, sequence in assigned:
            letter = self._letters.get(offset)
            if letter is not None:
                letters.append(DeadLetter(sequence, letter.message, letter.attempts, letter.reason))
            else:
                letters.append(DeadLetter(sequence, found[offset], 0, _UNKNOWN))
        return letters
