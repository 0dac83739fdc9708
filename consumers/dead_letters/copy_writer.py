"""Copies messages from one topic to another: each once and in order, however often a copy is tried.

Every copy has its sequence beforehand, under one producer name. After an unknown outcome the name is opened again: copies up to the last accepted
sequence are there. For a name that has left the topic's state after 30 unused days, copies are looked up by message id and mark.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from ...coordinator.queues.keeper import OwnershipLost
from ...log import (
    CallError,
    ClosedError,
    DataDamaged,
    ForkedError,
    LogLake,
    MessageView,
    PenstockError,
    Position,
    Producer,
    ProducerOptions,
    ReopenError,
    RetryError,
    TopicDeleted,
    TopicNotFound,
)
from ...log.limits import MIB, NAMED_ROW_MS, PRODUCER_NAME_BYTES_MAX
from ...log.message.message import COPY_SCHEMA, from_ms
from ...log.read.reader import not_seen
from ...log.runtime.backoff import Backoff
from ...log.schema.value_json import value_json

Place = TypeVar("Place")
_ROW_BYTES = 1024
ATTEMPTS_MAX = 5
"""The tries without any progress before a write ends with the last error."""
_AGAIN_S = 0.1
_BATCH_BYTES = 4 * MIB
_BATCH_COPIES = 1000
_OPTIONS = ProducerOptions(linger=timedelta(0), delivery_timeout=timedelta(seconds=30))
_CLOCKS_DIFFER = timedelta(days=5)
"""The most that the store times of two topics differ: each moves by a day at most with every entry of a wrong clock."""
_NAME_KEPT = timedelta(milliseconds=NAMED_ROW_MS) - _CLOCKS_DIFFER


class Copy(NamedTuple):
    """A message and the sequence under which it is written."""

    sequence: int
    message: MessageView
    """Topic, queue, offset and store time are the copy's origin."""
    properties: dict[str, str]
    """Properties that replace the message's own. Some, alike for all copies of a writer, distinguish copies of one message."""


class CopyResult(NamedTuple):
    """All copies of a call are durable."""

    duplicates: int
    """Copies that were durable before the call."""
    last_sequence: int
    """The last sequence known under the name."""


class SequencesTaken(CallError):
    """Other messages stand under sequences of these copies, as their record was lost or is a backup; nothing more was written."""

    kind = "sequences_taken"
    last_sequence: int = -1
    """The last sequence under the name; those behind are free."""
    written: frozenset[int] = frozenset()
    """The sequences under which these very messages stand."""


def name_of(*parts: object) -> str:
    """A producer's name of these parts, all but the first hashed where it would be too long."""
    name = "/".join(map(str, parts))
    return (
        name
        if len(name.encode()) <= PRODUCER_NAME_BYTES_MAX
        else f"{parts[0]}/{blake2b(name.encode(), digest_size=16).hexdigest()}"
    )


class CopyWriter:
    """Writes copies to one topic under one name. Another writer under that name is fenced.

    ``marks`` names the properties that, with the message id, identify one copy. ``prepare`` is called before the name is opened, ``may_write`` before
    every request.
    """

    def __init__(
        self,
        lake: LogLake,
        topic: str,
        name: str,
        *,
        marks: tuple[str, ...],
        queue: int | None = None,
        prepare: Callable[[], Awaitable[None]] | None = None,
        may_write: Callable[[], bool] = lambda: True,
    ) -> None:
        self._lake = lake
        self._topic = topic
        self._name = name
        self._marks = marks
        self._queue = queue
        self._prepare = prepare
        self._may_write = may_write
        self._producer: Producer | None = None
        self._dropped: Producer | None = None
        self._wrote: set[int] = set()
        """The sequences of the last call that need no lookup."""
        self._turn = asyncio.Lock()

    async def last_sequence(self, known: int = -1) -> int:
        """The last sequence written under the name, -1 for none, at least ``known``. Fences other writers."""
        await self._close_dropped()
        if self._producer is None:
            self._check_may_write()
            if self._prepare is not None:
                await self._prepare()
            self._producer = await self._lake.producer(
                self._topic, name=self._name, options=_OPTIONS, known_sequence=known, copies=True
            )
        return self._producer.last_sequence

    async def write(self, copies: Sequence[Copy]) -> CopyResult:
        """Return when all copies, at least one, are durable. Their sequences rise; all below the first are written or not needed.

        Raises `OwnershipLost` once ``may_write`` is False, `SequencesTaken`, the last error of five tries without progress, or at once a permanent
        error.
        """
        async with self._turn:
            left, duplicates = list(copies), None
            self._wrote &= {copy.sequence for copy in copies}
            failures, backoff = 0, Backoff(_AGAIN_S)
            while True:
                count = len(left)
                try:
                    last = await self.last_sequence(copies[0].sequence - 1)
                    await self._check_not_taken(copies, last)
                    left = await self._unwritten([copy for copy in left if copy.sequence > last])
                    duplicates = count - len(left) if duplicates is None else duplicates
                    for batch in _batches(list(left)):
                        last = await self._send(batch)
                        self._wrote.update(copy.sequence for copy in batch)
                        del left[: len(batch)]
                    return CopyResult(duplicates, last)
                except (PenstockError, asyncio.CancelledError) as error:
                    self._drop()
                    failures = failures + 1 if len(left) == count else 1
                    if failures == ATTEMPTS_MAX or not self._helps_again(error):
                        raise
                await asyncio.sleep(backoff.next_s())

    async def close(self) -> None:
        async with self._turn:
            self._drop()
            await self._close_dropped()

    def _helps_again(self, error: BaseException) -> bool:
        if isinstance(error, ClosedError | ForkedError | OwnershipLost):
            return False
        if isinstance(error, TopicNotFound):
            return self._prepare is not None  # `prepare` makes it
        return isinstance(error, RetryError | ReopenError | TopicDeleted)

    async def _send(self, batch: Sequence[Copy]) -> int:
        self._check_may_write()
        assert self._producer is not None, "it was opened"
        await self._producer.send_copies(self._rows(batch), by_stored_names=True)
        return self._producer.last_sequence

    def _rows(self, batch: Sequence[Copy]) -> pa.Table:
        rows = [
            {
                "queue": self._queue,
                "message_group": message.message_group,
                "tag": message.tag,
                "keys": list(message.keys),
                "properties": list(properties.items()),
                "body": message.body if message.value is None else value_json(message.value).encode(),
                "key": message.key,
                "headers": [{"key": name, "value": value} for name, value in message.headers] or None,
                "sequence": sequence,
                "message_id": message.message_id,
                "born_timestamp": message.born_timestamp,
                "delivery_timestamp": message.delivery_timestamp,
            }
            for sequence, message, properties in batch
        ]
        return pa.Table.from_pylist(rows, COPY_SCHEMA)

    async def _unwritten(self, copies: list[Copy]) -> list[Copy]:
        """The copies not written under this name before it left the state. Those younger than 30 days are covered by the last sequence."""
        topic = await self._lake.topic(self._topic)
        forgotten_until = from_ms(topic.tail.state.store_time_ms) - _NAME_KEPT
        old = [copy for copy in copies if copy.message.store_timestamp < forgotten_until]
        if not old:
            return copies
        found = await self.find_written({self._mark_of(copy) for copy in old}, self._mark_in, (_not_before(old), forgotten_until))
        return [copy for copy in copies if self._mark_of(copy) not in found]

    async def _check_not_taken(self, copies: Sequence[Copy], last: int) -> None:
        """Raise `SequencesTaken` unless each of these up to the ``last`` sequence stands under the name."""
        believed = {
            self._mark_of(copy): copy.sequence for copy in copies if copy.sequence <= last and copy.sequence not in self._wrote
        }
        # A topic's store times may lag by more than messages differ, so copies that are not found are looked for in the whole topic.
        found = await self.find_written(believed.keys(), self._mark_in, (_not_before(copies), "latest"), ("earliest", "latest"))
        missing = frozenset(sequence for mark, sequence in believed.items() if mark not in found)
        if not missing:
            return
        error = SequencesTaken(
            "under sequences that were given to these messages others stand, or none",
            operation="write copies",
            object=self._topic,
            expected=f"sequence {min(missing)} to be the message that it was given to",
            observed=f"sequences up to {last} are taken",
            hint="the cell that gives them was lost or put back from a backup: let its sequences go on behind the observed one",
        )
        error.last_sequence = last
        error.written = frozenset(copy.sequence for copy in copies if copy.sequence <= last) - missing
        raise error

    async def find_written(
        self,
        wanted: Collection[Place],
        place: Callable[[str, dict[str, str]], Place],
        *spans: tuple[Position, Position],
    ) -> set[Place]:
        """The part of ``wanted`` that stands under the name, looked for in one span after another.

        ``place`` makes one of a message's id and properties. Raises `DataDamaged` when some are not found, perhaps among unreadable rows.
        """
        left, found = {*wanted}, set[Place]()
        columns = ["message_id", "producer", "properties"]
        unseen: DataDamaged | None = None
        for start, end in spans:
            if not left:
                break
            reader = await self._lake.reader(self._topic)
            async for batch in reader.read(start=start, end=end, columns=columns, damaged="skip"):
                mine = batch.filter(pc.equal(batch["producer"], self._name))
                for message_id, pairs in zip(mine["message_id"].to_pylist(), mine["properties"].to_pylist(), strict=True):
                    found.add(place(message_id, dict(pairs or ())))
            found &= {*wanted}
            left -= found
            unseen = not_seen(await self._lake.topic(self._topic), reader.left_out)
        if left and unseen is not None:
            raise unseen
        return found

    def _mark_in(self, message_id: str, properties: dict[str, str]) -> tuple[str, ...]:
        return message_id, *(properties.get(mark, "") for mark in self._marks)

    def _mark_of(self, copy: Copy) -> tuple[str, ...]:
        return self._mark_in(copy.message.message_id, copy.properties)

    def _check_may_write(self) -> None:
        if not self._may_write():
            raise OwnershipLost(
                "nothing more may be written under this name by this process", operation="write copies", object=self._name
            )

    def _drop(self) -> None:
        self._dropped, self._producer = self._producer or self._dropped, None

    async def _close_dropped(self) -> None:
        if self._dropped is not None:
            with suppress(PenstockError):  # opening the name again tells the outcome of its sends
                await self._dropped.close()
            self._dropped = None


def _not_before(copies: Sequence[Copy]) -> datetime:
    """The earliest store time of a copy, which is younger than its message."""
    return min(copy.message.store_timestamp for copy in copies) - _CLOCKS_DIFFER


def _batches(copies: Sequence[Copy]) -> Iterator[Sequence[Copy]]:
    first, size_bytes = 0, 0
    for place, copy in enumerate(copies):
        size_bytes += len(copy.message.body or b"") + (_ROW_BYTES if copy.message.value is not None else 0)
        if size_bytes >= _BATCH_BYTES or place - first + 1 == _BATCH_COPIES:
            yield copies[first : place + 1]
            first, size_bytes = place + 1, 0
    if first < len(copies):
        yield copies[first:]
