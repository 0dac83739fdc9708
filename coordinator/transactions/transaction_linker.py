"""Links a committed transaction's messages of one topic: in one entry, once, by any process.

Every link is the same batch, and closes the transaction's upload: the first one counts, all others are void. Nothing else closes it while the row is
committed, and the log does not forget that (`MemberCell.holds`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from ...log.append.in_flight import AppendResult, Outcome
from ...log.errors import DataDamaged, NotWritten, PenstockError, RetryError, TopicDeleted, TopicNotFound, UnknownOutcome
from ...log.format.header import Batch, CloseJob, Part
from ...log.lake import LogLake
from ...log.linker import current_topic
from ...log.message.columns import is_extended
from ...log.runtime.backoff import Backoff
from ...log.stage.half_messages import read_half
from ...log.tail.damage import read_header_at
from ...log.topic.topics import Topic
from .ids import job_of
from .members.state import Destination, LinkResult

_PAUSE_S = 0.05
_QUEUES_TOLD_MAX = 64
"""The most queues whose offsets the row keeps."""


class TransactionLinker:
    """Links one transaction's messages to one topic, before ``deadline_s`` of the monotonic clock.

    ``parts`` are those staged here, with their `Batch.extended`; by default they are read from the store.
    """

    def __init__(
        self,
        lake: LogLake,
        transaction: str,
        destination: Destination,
        *,
        deadline_s: float,
        parts: Sequence[Part] | None = None,
        extended: bool = False,
    ) -> None:
        self._lake = lake
        self._transaction = transaction
        self._job = job_of(transaction)
        self._destination = destination
        self._deadline_s = deadline_s
        self._parts = parts
        self._extended = extended

    async def run(self) -> LinkResult:
        """Raises the error that prevented the link in time, and `DataDamaged`."""
        backoff = Backoff(_PAUSE_S)
        looks = self._parts is None
        while True:
            try:
                done = await self._attempt(looks=looks)
            except (RetryError, UnknownOutcome, TopicDeleted) as error:
                if self._lake.runtime.clock.monotonic_s() >= self._deadline_s:
                    raise
                failed: PenstockError = error
            else:
                if not isinstance(done, PenstockError):
                    return done
                failed = done
            looks = True
            await self._pause(backoff, failed)

    async def _attempt(self, *, looks: bool) -> LinkResult | PenstockError:
        try:
            topic, generation = await self._open(looks=looks)
        except TopicNotFound:
            return LinkResult(gone=True)
        if topic is None:
            return LinkResult(gone=True)
        state = topic.tail.state
        if self._job in state.closed_jobs:
            return await self._found(topic, state.closed_jobs[self._job])
        if self._parts is None:
            self._parts = await self._read_parts(topic)
        outcome = await self._append(topic, generation)
        if isinstance(outcome, AppendResult):
            return linked_as(outcome.entry, outcome.offsets, rows_of(self._parts))
        assert isinstance(outcome, PenstockError), "a batch is written or fails"
        if isinstance(outcome, (RetryError, UnknownOutcome, TopicDeleted, NotWritten)):
            return outcome  # the log's present state tells more
        raise outcome

    async def _open(self, *, looks: bool) -> tuple[Topic | None, int]:
        """The topic, read anew, and its routing generation; None when the messages' life of it is over."""
        name, mine = self._destination.topic, self._destination.incarnation
        if not looks:
            topic = await self._lake.topic(name, writable=True)
            if topic.is_current and topic.record.incarnation == mine:
                return topic, topic.tail.state.generation
        topic, generation = await current_topic(self._lake, name)
        return (topic, generation) if is_of_life(topic, mine) else (None, 0)

    async def _read_parts(self, topic: Topic) -> list[Part]:
        found = []
        schema = topic.tail.state.schema
        for number, half in enumerate(self._destination.parts):
            part, rows = await read_half(topic.store, topic.paths, self._job, number, expected=half.digest, schema=schema)
            found.append(part)
            self._extended = self._extended or is_extended(rows)
        return found

    async def _append(self, topic: Topic, generation: int) -> Outcome:
        assert self._parts is not None, "read before"
        rows = rows_of(self._parts)
        schema = topic.tail.state.schema
        batch = Batch(
            producer=self._transaction,
            named=False,
            epoch=None,
            previous=-1,
            last=sum(rows.values()) - 1,
            generation=generation,
            rows=rows,
            valid_until=0,
            parts=tuple(self._parts),
            job=self._job,
            schema_version=0 if schema is None else schema.version,
            extended=self._extended,
        )
        return await topic.appender.append_batch(batch, None, size_bytes=0, deadline_s=self._deadline_s)

    async def _found(self, topic: Topic, entry: int) -> LinkResult:
        """The places by the entry that closed the upload, if kept."""
        header = await read_header_at(topic.store, topic.paths, entry)
        if header is None:
            return LinkResult()
        for place, batch in enumerate(header.batches):
            if batch.job == self._job:
                before = header.batches[:place]
                if any(not one.rows.keys().isdisjoint(batch.rows) for one in before):
                    return LinkResult(entry)  # the entry alone does not say whether those count
                return linked_as(entry, header.bases, batch.rows)
        if CloseJob(self._job) in header.actions:
            raise DataDamaged(
                "the half messages of a committed transaction were given up",
                operation="link a transaction",
                object=f"{self._destination.topic}, {self._transaction}",
                expected="its upload linked",
                observed=f"closed by entry {entry}",
            )
        return LinkResult()

    async def _pause(self, backoff: Backoff, failed: PenstockError) -> None:
        pause_s = backoff.next_s()
        if self._lake.runtime.clock.monotonic_s() + pause_s >= self._deadline_s:
            raise failed
        await asyncio.sleep(pause_s)


def is_of_life(topic: Topic, incarnation: str) -> bool:
    """Whether the topic is still in this life, a repair of its log aside."""
    return topic.record.incarnation == incarnation


def rows_of(parts: Sequence[Part]) -> dict[int, int]:
    rows: dict[int, int] = {}
    for part in parts:
        for queue, count in part.rows.items():
            rows[queue] = rows.get(queue, 0) + count
    return dict(sorted(rows.items()))


def linked_as(entry: int, first: Mapping[int, int] | None, rows: Mapping[int, int]) -> LinkResult:
    if first is None or len(rows) > _QUEUES_TOLD_MAX or not all(queue in first for queue in rows):
        return LinkResult(entry)
    return LinkResult(entry, {queue: (first[queue], first[queue] + count) for queue, count in rows.items()})
