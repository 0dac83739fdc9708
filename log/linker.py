"""Links rows that other processes stage. A batch is in the log whole or not at all and, under a name, once.

linker = await open_linker(lake, "orders", name="spark/etl")
    if not linker.is_linked(batch):          # else an earlier instance of the name has linked it
        job = await linker.begin()
        parts = …                            # by `jobs.upload_part`, in any process, tried as often as need be
        linked = await linker.link(job, parts, batch=batch)

The collector removes uploads that are not linked after two days. The proof is in ``docs/0008-ordered-writes.md``.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta

from .append.in_flight import AppendResult, Outcome
from .errors import (
    InvalidArgument,
    LimitExceeded,
    NotSupported,
    PenstockError,
    RetryError,
    RoutingChanged,
    StoreUnavailable,
    TopicDeleted,
    UnknownOutcome,
)
from .format.growth import has_only_grown, queues_at
from .format.header import Batch, Epoch, Part
from .lake import LogLake
from .limits import ENTRY_ROWS_MAX
from .message.routing import Router
from .runtime.backoff import until_answered
from .schema.topic_schema import TopicSchema
from .stage.jobs import Job, begin_job
from .stage.rerouting import parts_routed_anew
from .topic.producer_name import check_producer_name, open_name
from .topic.routing import TopicRouter
from .topic.settings import TopicSettings
from .topic.timer_log import check_own, delays
from .topic.topics import Topic

BATCH_SEQUENCES = 2**32
_LOWEST = BATCH_SEQUENCES - ENTRY_ROWS_MAX
BATCH_MAX = 2**31 - 1
LINK_ATTEMPTS_MAX = 5
_TIMEOUT = timedelta(minutes=2)


@dataclass(frozen=True, slots=True)
class LinkedBatch:
    """A batch that is in the log."""

    rows: int
    entry: int | None
    """The entry that brought it. None: not known."""
    offsets: Mapping[int, tuple[int, int]] | None
    """The first offset and the one after the last of every touched queue. None: not known."""


def sequence_of(batch: int, rows: int) -> int:
    """The sequence of the batch's last row, which encodes the number of rows."""
    return batch * BATCH_SEQUENCES + _LOWEST + rows - 1


def rows_of(sequence: int) -> int | None:
    """The inverse of `sequence_of`. None for the greatest sequence, which ends every batch of older versions."""
    rows = sequence % BATCH_SEQUENCES - _LOWEST + 1
    return None if rows == ENTRY_ROWS_MAX else rows


class Linker:
    """A producer of staged rows. It links one batch at a time. After an error open another one."""

    def __init__(
        self, topic: Topic, router: TopicRouter, name: str | None, epoch: Epoch | None, last_sequence: int, timeout: timedelta
    ) -> None:
        self._topic = topic
        self._router = router
        self._name = name
        self._epoch = epoch
        self._last_sequence = last_sequence
        self._timeout_s = timeout.total_seconds()
        self._one_at_a_time = asyncio.Lock()
        self.id: str = name or topic.runtime.new_id()

    @property
    def topic(self) -> Topic:
        return self._topic

    @property
    def generation(self) -> int:
        """The routing generation of the rows that are staged for it."""
        return self._router.generation

    @property
    def settings(self) -> TopicSettings:
        """The topic's settings, by whose queues rows are to be staged."""
        return replace(self._topic.settings, queues=self._router.router.queues)

    def follow_growth(self) -> None:
        """Let rows be staged by the queues that the topic has now. Call it between two batches."""
        self._router = self._router.followed(self._topic.tail.state)

    @property
    def schema(self) -> TopicSchema | None:
        """The topic's schema as far as this process has read."""
        return self._topic.tail.state.schema

    @property
    def last_batch(self) -> int:
        """The last batch known to be linked under the name; -1 for none."""
        return self._last_sequence // BATCH_SEQUENCES

    def is_linked(self, batch: int) -> bool:
        """Whether this batch, or a later one, is in the log."""
        return batch <= self.last_batch

    def check_repeated(self, batch: int, rows: int) -> None:
        """Raise `InvalidArgument` for the last linked batch with another number of rows, as rows would be lost."""
        if batch != self.last_batch or not rows or (linked := rows_of(self._last_sequence)) in {None, rows}:
            return
        raise InvalidArgument(
            "the batch is in the topic under this name with another number of rows, so this is no repetition of it",
            operation="link",
            object=f"{self._topic.paths.topic}, batch {batch} of {self.id}",
            expected=f"{linked:,} rows",
            observed=f"{rows:,} rows",
            hint="go on with the checkpoint that the batch was written with; or give the query a new name, under which this batch is written "
            "whole, beside those of its rows that are in the topic already",
        )

    async def begin(self) -> Job:
        """Begin a batch, to be linked within 24 hours."""
        topic = self._topic
        return await until_answered(
            lambda: begin_job(topic.store, topic.paths, topic.runtime, producer=self.id),
            topic.runtime.clock,
            timeout_s=self._timeout_s,
        )

    async def discard(self, job: Job) -> None:
        with suppress(StoreUnavailable):  # the collector finds it
            await self._topic.store.delete(self._topic.paths.job_record(job.id))

    async def link(
        self, job: Job, parts: Sequence[Part], *, batch: int | None = None, schema_version: int = 0, extended: bool = False
    ) -> LinkedBatch:
        """Return once the rows of these parts, and no others of the job, are durably in the log, in one entry.

        ``batch`` is its number, for a linker with a name. Numbers rise; gaps are fine; one that is in the log already is an error. After an unknown
        outcome the name is opened anew, and the batch linked if it has not been. Where the topic got more queues after the rows were staged, they are
        staged anew for these.

        ``schema_version`` is that of the parts; 0: no typed value. ``extended``: a row has a key, headers, or NULL instead of a body.

        Raises `FencedError`, `NotWritten` or `TopicDeleted`; `UnknownOutcome` without a name, or when the store does not answer for long.
        """
        rows = self._checked(parts, batch)
        self._check_version(schema_version)
        form = (schema_version, extended)
        async with self._one_at_a_time:
            for attempt in range(LINK_ATTEMPTS_MAX):
                outcome = await self._append(job, parts, rows, batch, form)
                while isinstance(outcome, RoutingChanged):
                    parts = await self._routed_anew(job, parts)
                    rows = _counted(parts)
                    outcome = await self._append(job, parts, rows, batch, form)
                if isinstance(outcome, AppendResult):
                    return self._linked(outcome, rows, batch)
                assert isinstance(outcome, PenstockError), "a batch is written or fails"
                if not isinstance(outcome, UnknownOutcome) or batch is None or attempt == LINK_ATTEMPTS_MAX - 1:
                    raise outcome
                if await self._reopened_behind(batch):
                    self.check_repeated(batch, sum(rows.values()))  # a rival may have linked it
                    return LinkedBatch(sum(rows.values()), None, None)
        raise AssertionError("the last attempt returns or raises")

    def _linked(self, written: AppendResult, rows: Mapping[int, int], batch: int | None) -> LinkedBatch:
        self._last_sequence = self._sequence(rows, batch)
        if written.offsets is None:
            return LinkedBatch(sum(rows.values()), None, None)
        offsets = {queue: (first, first + rows[queue]) for queue, first in written.offsets.items()}
        return LinkedBatch(sum(rows.values()), written.entry, offsets)

    async def _append(
        self, job: Job, parts: Sequence[Part], rows: Mapping[int, int], batch: int | None, form: tuple[int, bool]
    ) -> Outcome:
        schema_version, extended = form
        deadline_s = min(self._topic.runtime.clock.monotonic_s() + self._timeout_s, job.link_until_s)
        linking = Batch(
            producer=self.id,
            named=self._epoch is not None,
            epoch=self._epoch,
            previous=self._last_sequence,
            last=self._sequence(rows, batch),
            generation=self.generation,
            rows=rows,
            valid_until=0,
            parts=tuple(parts),
            job=job.id,
            schema_version=schema_version,
            extended=extended,
        )
        return await self._topic.appender.append_batch(linking, None, size_bytes=0, deadline_s=deadline_s)

    async def _routed_anew(self, job: Job, parts: Sequence[Part]) -> list[Part]:
        topic, former = self._topic, self._router
        self.follow_growth()
        return await parts_routed_anew(
            topic.store,
            topic.paths,
            topic.runtime,
            job.id,
            parts,
            former=former.router,
            router=self._router.router,
            timeout_s=self._timeout_s,
        )

    def _sequence(self, rows: Mapping[int, int], batch: int | None) -> int:
        count = sum(rows.values())
        return self._last_sequence + count if batch is None else sequence_of(batch, count)

    async def _reopened_behind(self, batch: int) -> bool:
        """Voids every link on its way. Returns whether the log has the batch."""
        assert self._name is not None, "only a linker with a name numbers its batches"
        try:
            # The routing generation is the topic's present one, as the opening is only to learn what the log has. In a later topic of
            # the name, the producer's name belongs to somebody else.
            generation = self._topic.tail.state.generation
            if not self._topic.is_current:
                raise self._deleted(batch)
            self._epoch, self._last_sequence = await open_name(
                self._topic, self._name, generation=generation, timeout_s=self._timeout_s
            )
        except (RetryError, UnknownOutcome) as error:
            # An opening that was not written says nothing about the batch.
            raise UnknownOutcome(
                "whether the batch got into the log is not known, as the name could not be opened anew",
                operation="link",
                object=self._name,
                observed=str(error),
                hint="open another linker: its last_batch tells",
            ) from error
        return self.is_linked(batch)

    def _deleted(self, batch: int) -> TopicDeleted:
        return TopicDeleted(
            "the topic was deleted while the batch was linked: whether the batch got into it before is not known, and its rows are in no other",
            operation="link",
            object=f"{self._topic.paths.topic}, batch {batch} of {self._name}",
            expected=f"incarnation {self._topic.record.incarnation}",
            observed=f"incarnation {self._topic.tail.state.incarnation}" if self._topic.tail.state.alive else "no topic",
            hint="open another linker; stage the rows anew if they belong to the topic as it is",
        )

    def _check_version(self, schema_version: int) -> None:
        """Raise `InvalidArgument` where either the rows or the topic are typed."""
        if not self._topic.is_current:
            return  # the append tells so
        schema = self._topic.tail.state.schema
        newest = 0 if schema is None else schema.version
        if not min(1, newest) <= schema_version <= newest:
            raise InvalidArgument(
                "the rows are not of the topic's schema",
                operation="link",
                object=self._topic.paths.topic,
                expected="rows with bodies" if newest == 0 else f"typed rows of version 1 to {newest}",
                observed="rows with bodies" if schema_version == 0 else f"typed rows of version {schema_version}",
            )

    def _checked(self, parts: Sequence[Part], batch: int | None) -> dict[int, int]:
        """Rows by queue. Raises for parts that the fold would void."""
        rows, queues = _counted(parts), self.settings.queues
        if not rows or min(rows.values()) < 1 or not all(0 <= queue < queues for queue in rows):
            raise InvalidArgument("the parts hold no rows, or rows of queues that are not there", operation="link", observed=rows)
        if (batch is None) != (self._name is None):
            raise InvalidArgument("batches have numbers if, and only if, the linker has a name", operation="link", observed=batch)
        if sum(rows.values()) > ENTRY_ROWS_MAX:
            raise LimitExceeded("too many rows for one batch", operation="link", expected=f"at most {ENTRY_ROWS_MAX}")
        if batch is not None:
            check_batch(batch)
            if self.is_linked(batch):
                raise InvalidArgument("the batch is linked", operation="link", expected=f"above {self.last_batch}", observed=batch)
        return rows


def _counted(parts: Sequence[Part]) -> dict[int, int]:
    counted: Counter[int] = Counter()
    for part in parts:
        counted.update(part.rows)
    return dict(sorted(counted.items()))


def check_batch(batch: int) -> None:
    if not isinstance(batch, int) or isinstance(batch, bool) or not 0 <= batch <= BATCH_MAX:
        raise InvalidArgument("not a batch's number", operation="link", expected=f"0 to {BATCH_MAX}", observed=batch)


async def current_topic(lake: LogLake, name: str, *, timeout: timedelta = _TIMEOUT) -> tuple[Topic, int]:
    """The topic of the name, open for writing, and its routing generation. Raises `TopicNotFound`, `TopicDeleted`, or `NotSupported` for a topic of
    type DELAY.
    """
    check_own(name, operation="link")
    opened = await lake.topic(name, writable=True)
    if delays(opened.record):
        raise NotSupported(
            "rows that are staged cannot be delayed",
            operation="link",
            object=name,
            expected="a topic of another type",
            observed="DELAY",
            hint="send them by a producer: send_batch takes a table with the column delivery_timestamp",
        )
    await until_answered(opened.tail.catch_up, opened.runtime.clock, timeout_s=timeout.total_seconds())
    opened = await lake.topic(name, writable=True)
    if not opened.is_current:
        raise TopicDeleted("the topic was deleted meanwhile", operation="link", object=name, hint="open it anew")
    return opened, opened.tail.state.generation  # as of the same moment as the settings that route the rows


async def open_linker(
    lake: LogLake, topic: str, *, name: str | None = None, timeout: timedelta = _TIMEOUT, generation: int | None = None
) -> Linker:
    """Open a linker. With a ``name`` it fences every earlier instance, and numbers its batches.

    ``timeout`` is for one link, or one opening. ``generation`` is the routing generation of rows that are staged already. Raises what
    ``lake.producer`` raises, `TopicDeleted` for a generation between which and the present one the topic has not only grown, and `InvalidArgument`
    for a name under which a producer has sent sequences of its own.
    """
    check_producer_name(name)
    opened, current = await current_topic(lake, topic, timeout=timeout)
    growths, settings = opened.tail.state.growths, opened.settings
    queues = queues_at(growths, current if generation is None else generation, settings.queues)
    router = TopicRouter(Router(queues, settings.routing), current if generation is None else generation)
    if router.generation != current and not has_only_grown(growths, router.generation, current):
        raise TopicDeleted(
            "the topic is not the one that the rows were staged for: it was deleted and created again, or its log was repaired",
            operation="link",
            object=topic,
            expected=f"routing generation {router.generation}",
            observed=current,
            hint="stage them anew, for the topic as it is",
        )
    epoch: Epoch | None = None
    last_sequence = -1
    if name is not None:
        epoch, last_sequence = await open_name(opened, name, generation=current, timeout_s=timeout.total_seconds())
        if last_sequence % BATCH_SEQUENCES < _LOWEST:  # -1, of a new name, is not
            raise InvalidArgument(
                "a producer of this name has sent messages with sequences of its own",
                operation="link",
                object=name,
                expected="a name under which batches were linked, or a new one",
                observed=f"last sequence {last_sequence}",
            )
    return Linker(opened, router, name, epoch, last_sequence, timeout)
