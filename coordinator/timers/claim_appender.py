"""Appends due messages to their topic: each claim is one batch of one producer, with the cell's sequences."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...log.errors import DataDamaged, PenstockError, TopicDeleted
from ...log.lake import LogLake
from ...log.message.message import COPY_SCHEMA
from ...log.produce.accumulator import ProducerOptions
from ...log.produce.delays import without_destinations
from ...log.produce.producer import Producer
from ...log.read.reader import not_seen
from ...log.topic.topics import Topic
from .cell import preconditions
from .cell.cell import TimerCell
from .cell.state import Claim

_OPTIONS = ProducerOptions(linger=timedelta(0), delivery_timeout=timedelta(seconds=30))


class ClaimAppender:
    """Appends claims, and fences any other process that does so for the topic."""

    def __init__(self, lake: LogLake, topic: Topic, cell: TimerCell) -> None:
        self._lake = lake
        self._topic = topic
        self._cell = cell
        self._producer: Producer | None = None
        self._forgotten = False
        self._had_begun = preconditions.has_begun(topic.tail.state)  # the state is read before the cell

    async def append(self, claim: Claim, rows: pa.Table) -> bool:
        """Return when a claim's messages, ``rows`` in delivery order, are in the topic, once. False: another process has settled it. Raises what
        sending raises; then call again.
        """
        try:
            if self._producer is None:
                await self._open(claim)
            if not preconditions.still_open(self._cell.state, claim):
                return False
            assert self._producer is not None, "it was opened"
            copies = numbered(fired(rows, self._topic.settings.queues), claim)
            if self._forgotten:
                copies = await self._unwritten(copies)
            if copies.num_rows:
                # Rows written before have sequences that were accepted, so they are duplicates.
                await self._producer.send_copies(copies, by_stored_names=True)
        except BaseException:
            await self.close()
            raise
        self._forgotten = False
        return True

    async def close(self) -> None:
        """Close the producer."""
        producer, self._producer = self._producer, None
        if producer is not None:
            with suppress(PenstockError):
                await producer.close()

    async def _open(self, claim: Claim) -> None:
        """Open the name, which fences all others, then check that the claim is open."""
        name, mine = self._topic.paths.topic, self._topic.record
        before = await self._lake.topic(name, writable=True)
        producer = await self._lake.producer(
            name, name=preconditions.PRODUCER, options=_OPTIONS, known_sequence=claim.sequence - 1, copies=True
        )
        self._producer = producer
        # The time is read after the opening: this process may have slept in it for so long that others forgot the name.
        self._forgotten = preconditions.may_be_forgotten(claim, now_ms=self._lake.runtime.clock.wall_ms())
        after = await self._lake.topic(name)
        if before.record.incarnation != mine.incarnation or after.record.incarnation != mine.incarnation:
            raise TopicDeleted("the topic was deleted", operation="play timers", object=name)
        state = await self._cell.read()
        if (self._had_begun and self._cell.was_missing) or preconditions.is_behind(state, producer.last_sequence):
            raise DataDamaged(
                "the topic holds timed messages that its timer cell never let go",
                operation="play timers",
                object=self._cell.key,
                expected=f"sequences below {state.next_sequence}",
                observed=f"sequence {producer.last_sequence}",
                hint="the cell was lost or put back as it was before: put its newest version back",
            )

    async def _unwritten(self, rows: pa.Table) -> pa.Table:
        """The rows not written before the name was forgotten."""
        wanted = rows.column("message_id").combine_chunks()
        written: list[pa.Array] = []
        reader = await self._lake.reader(self._topic.paths.topic)
        async for batch in reader.read(columns=["message_id", "producer"], damaged="skip"):
            mine = batch.filter(pc.equal(batch["producer"], preconditions.PRODUCER)).column("message_id")
            written.append(mine.filter(pc.is_in(mine, wanted)))
        left = rows.filter(pc.invert(pc.is_in(wanted, pa.chunked_array(written, pa.string()).combine_chunks())))
        if left.num_rows and (error := not_seen(self._topic, reader.left_out)) is not None:
            raise error
        return left


def numbered(rows: pa.Table, claim: Claim) -> pa.Table:
    return rows.append_column("sequence", pa.array(np.arange(claim.sequence, claim.sequence + rows.num_rows)))


def fired(rows: pa.Table, queues: int) -> pa.Table:
    """Rows of the timer log as they go into the topic, without sequences.

    The queue is the sender's, if the topic has it, else the message group's, else by the offset: always the same.
    """
    in_turn = pa.array((rows.column("offset").to_numpy() % queues).astype(np.int32))
    own = pc.if_else(pc.is_valid(rows.column("message_group")), pa.scalar(None, pa.int32()), in_turn)
    rows = without_destinations(rows)
    columns = {name: rows.column(name) for name in COPY_SCHEMA.names if name in rows.column_names}
    named = pc.if_else(pc.less(rows.column("queue"), queues), rows.column("queue"), pa.scalar(None, pa.int32()))
    return pa.table({**columns, "queue": pc.coalesce(named, own)})
