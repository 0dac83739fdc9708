"""A lake: everything under one root URL, asynchronously."""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from types import TracebackType
from typing import ClassVar, Literal, Self, Unpack

from .append.contention import Pace
from .clock import StoreClock, too_far
from .describe import TopicDescription, describe
from .errors import (
    ClosedError,
    DataDamaged,
    InvalidArgument,
    LimitExceeded,
    NotSupported,
    PenstockError,
    PermissionDenied,
    RetryError,
    TopicExists,
    TopicNotFound,
)
from .format.header import Epoch
from .format.state import SchemaVersion
from .limits import REFUSAL_TIMEOUT, TOPIC_NAME_CHARS_MAX, Duration, Strings, TopicLimits, check_flag, checked_duration, shown
from .message.message_type import MessageType
from .paths import TopicPaths, check_topic_name, timer_log_name
from .produce.accumulator import ProducerOptions, ProducerStatistics
from .produce.invalid_rows import INVALID_SUFFIX
from .produce.producer import Producer
from .read.reader import Reader
from .runtime.backoff import until_answered
from .runtime.runtime import Runtime
from .schema.sources import SchemaLike, fields_of
from .schema.topic_schema import TopicSchema
from .stores.probe import probe_conditional_writes
from .stores.protocol import ObjectStore
from .stores.refusals import Refusals, TolerantStore
from .table.creation import open_table
from .table.delta.delta_log import DeltaLog
from .topic.growth import check_growth, grow_topic
from .topic.producer_name import OWN_PREFIX, check_producer_name, open_name
from .topic.records import list_topics, not_found
from .topic.settings import TopicChanges, TopicRecord, TopicSettings
from .topic.timer_log import check_dead_letter_topic, check_delay_topic_name, check_own, delays, end_orphan, make_timer_log
from .topic.topics import (
    Topic,
    alter_topic,
    create_topic,
    delete_topic,
    evolve_topic,
    note_queues,
    open_topic,
    read_only,
)

log = logging.getLogger("penstock.log")

_LIVES_MAX = 5
_PROBE_PATIENCE_S = 2.0
_REFUSAL_TIMEOUT_MAX = timedelta(days=1)
CLOCK_SYNC_S = 3600.0
CLOCK_RETRY_S = 60.0


class LogLake:
    """Topics, producers and readers of one root, on the running event loop.

    ``read_only=True`` never writes. Otherwise a probe that the store honours conditional writes precedes the first write. ``pace`` tunes how
    producers share a topic.
    """

    read_only: bool
    """Whether the lake refuses writes."""
    _TABLE_AT_ONCE: ClassVar[bool] = False

    def __init__(
        self,
        store: ObjectStore,
        *,
        runtime: Runtime | None = None,
        read_only: bool = False,
        pace: Pace | None = None,
        refusal_timeout: Duration = REFUSAL_TIMEOUT,
    ) -> None:
        machine = runtime or Runtime()
        checked = checked_duration("refusal_timeout", refusal_timeout, operation="connect", most=_REFUSAL_TIMEOUT_MAX)
        self.refusal_timeout: timedelta = checked
        """The time for which a refusal of what was allowed before is tried again."""
        forgiving = store if isinstance(store, TolerantStore) else TolerantStore(store, Refusals(store.url, machine.clock, checked))
        self.store: ObjectStore = forgiving
        self.refusals = forgiving.refusals
        self._clock = StoreClock(machine.clock)
        self.runtime = replace(machine, clock=self._clock)
        self.read_only = read_only
        self._pace = pace
        self._opened: dict[str, asyncio.Task[Topic]] = {}
        self._retired: list[asyncio.Task[Topic]] = []
        self._producers: list[Producer] = []
        self._readers: weakref.WeakValueDictionary[int, Reader] = weakref.WeakValueDictionary()
        self._write_check: asyncio.Task[None] | None = None
        self._time: asyncio.Task[None] | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return shown(self, self.url, "read-only" if self.read_only else "", "closed" if self._closing is not None else "")

    @property
    def url(self) -> str:
        """The URL of the lake, without secrets."""
        return self.store.url

    # --- Topics -----------------------------------------------------------------------------------------------------------------

    async def create_topic(self, name: str, settings: TopicSettings, *, table: bool | None = None) -> TopicRecord:
        """Create a topic. Nothing happens when it exists with these settings; with others, raises `TopicExists`.

        With ``table`` its Delta table is made at once, without rows: the default of `penstock.aio.Lake`. Otherwise, and where this
        process may not write to tables, the first publication makes it.
        """
        check_own(name, operation="create_topic")
        timed = settings.message_type is MessageType.DELAY
        if timed:
            check_delay_topic_name(name)
        check_dead_letter_topic(name, settings)
        await self._writable("create_topic")
        record = await create_topic(self.store, self.runtime, name, settings)
        if timed:
            await make_timer_log(self.store, self.runtime, name)
        if self._TABLE_AT_ONCE if table is None else table:
            await self._make_table(name, record)
        return record

    async def _make_table(self, name: str, record: TopicRecord) -> None:
        paths = TopicPaths.of(name)
        delta = DeltaLog(self.store, paths, record.table, self.runtime, keep_removes=False)
        try:
            if not await delta.has_begun():
                await open_table(self.store, paths, record, self.runtime, delta)
        except PermissionDenied as error:
            log.info("the topic's Delta table is left to the first publication: %s", error)
        except DataDamaged as error:  # the topic is fit for use, and every publication says the same
            log.warning("the Delta table of topic %s was not made: %s", name, error)

    async def alter_topic(self, name: str, **changes: Unpack[TopicChanges]) -> TopicRecord:
        """Change ``retention``, ``retention_bytes``, ``limits``, ``iceberg`` or ``configs`` of a topic, these as a whole or as a
        mapping of some, with None for one that goes. Raises `InvalidArgument` for anything else.

        ``queues``: give it more queues, a multiple of its present ones, while it is used. Producers route anew by themselves; messages of a message
        group that moves wait in its new queue until an ORDERLY consumer group has settled those in the former one. Raises `InvalidArgument` or
        `LimitExceeded` for another number, before anything is changed.
        """
        check_own(name, operation="alter_topic")
        await self._writable("alter_topic")
        queues = changes.pop("queues", None)
        growing = None if queues is None else await self._writable_topic(name)
        if growing is not None:
            await check_growth(growing, queues)
        record = await alter_topic(self.store, self.runtime, name, **changes)
        if growing is not None and queues is not None:
            await grow_topic(growing, queues)
            await note_queues(growing, record)
            record = growing.record
        opened = self._opened.get(name)
        if opened is not None and opened.done() and not opened.cancelled() and opened.exception() is None:
            opened.result().note_altered(record)
        return record

    async def delete_topic(self, name: str) -> None:
        """Delete a topic with all its messages; maintenance removes the objects. A new topic of the name may follow at once."""
        check_topic_name(name)
        check_own(name, operation="delete_topic")
        await self._writable("delete_topic")
        try:
            await delete_topic(self.store, self.runtime, name)
        finally:  # also after a deletion that was interrupted between the two steps
            await end_orphan(self.store, self.runtime, name)
            self._retire(name)
            self._retire(timer_log_name(name))

    async def topics(self, *, damaged: Literal["raise", "skip"] = "raise") -> dict[str, TopicRecord]:
        """The topics by name. Raises `DataDamaged` for settings that cannot be read; ``damaged="skip"`` leaves the topic out."""
        self._check_open()
        return await list_topics(self.store, damaged=damaged)

    async def topic(self, name: str, *, writable: bool = False) -> Topic:
        """The topic, shared by all that this lake has open on it. Raises `TopicNotFound`."""
        self._check_open()
        if writable:
            await self._writable(f"write to topic {name}")
        topic = await self._shared(name, writable=writable)
        if not topic.is_current:
            self._retire(name)
            topic = await self._shared(name, writable=writable)
        if writable:
            await topic.allow_writing()
        return topic

    async def timer_log(self, name: str, *, writable: bool = False) -> tuple[Topic, Topic]:
        """A topic of type DELAY and its timer log, which ``writable`` makes where missing. Raises `TopicNotFound`."""
        timer_log = timer_log_name(name)
        for _ in range(_LIVES_MAX):
            topic = await (self._writable_topic(name) if writable else self.topic(name))
            if not delays(topic.record):
                raise not_found(timer_log)
            with suppress(TopicNotFound):
                log = await (self._writable_topic(timer_log) if writable else self.topic(timer_log))
                if log.record.of == topic.record.incarnation:
                    return topic, log
            if writable:
                await make_timer_log(self.store, self.runtime, name)
            self._retire(name)
            self._retire(timer_log)
        raise not_found(timer_log)

    async def _shared(self, name: str, *, writable: bool) -> Topic:
        self._check_open()
        check_topic_name(name)
        task = self._opened.get(name)
        if task is None or (task.done() and (task.cancelled() or task.exception() is not None)):
            opening = open_topic(self.store, self.runtime, name, writable=writable, pace=self._pace)
            task = self._opened[name] = asyncio.ensure_future(opening)
        topic = await asyncio.shield(task)
        self._check_open()
        return topic

    def _retire(self, name: str) -> None:
        task = self._opened.pop(name, None)
        if task is not None:
            self._retired.append(task)

    # --- Producers --------------------------------------------------------------------------------------------------------------

    async def producer(
        self,
        topic: str,
        *,
        name: str | None = None,
        options: ProducerOptions | None = None,
        known_sequence: int = -1,
        copies: bool = False,
    ) -> Producer:
        """Open a producer. With a ``name`` it fences every earlier instance of that name, and may send with sequences.

        ``known_sequence`` is the last accepted sequence by the caller's records, for a name that has left the log's state. Messages for a topic of
        type DELAY go into its timer log, except ``copies`` (`Producer.send_copies`).
        """
        check_producer_name(name)
        if name is not None and name.startswith(OWN_PREFIX) and not copies:
            raise InvalidArgument(f"names that begin with {OWN_PREFIX} are Penstock's own", operation="producer", object=name)
        check_own(topic, operation="producer")
        served = opened = await self._writable_topic(topic)
        if delays(opened.record) and not copies:
            served, opened = await self.timer_log(topic, writable=True)
        generation = opened.tail.state.generation
        options = options or ProducerOptions()
        beside = await self._invalid_producer(served, name, options) if options.invalid == "topic" else None
        epoch: Epoch | None = None
        last_sequence = -1
        if name is not None:
            timeout_s = options.delivery_timeout.total_seconds()
            epoch, last_sequence = await open_name(
                opened, name, generation=generation, timeout_s=timeout_s, known_sequence=known_sequence
            )
        self._check_open()
        producer = Producer(
            store=self.store,
            topic=topic,
            paths=opened.paths,
            runtime=self.runtime,
            appender=opened.appender,
            generation=generation,
            id=name or self.runtime.new_id(),
            epoch=epoch,
            last_sequence=last_sequence,
            options=options,
            served=served,
            invalid=beside,
        )
        self._producers = [one for one in self._producers if not one.closed] + [producer]
        return producer

    async def _invalid_producer(self, topic: Topic, name: str | None, options: ProducerOptions) -> Producer:
        """The producer of the topic for rows that do not fit; the topic is made if missing."""
        topic.schema  # noqa: B018 - it raises where there is none
        if topic.settings.message_type is MessageType.DELAY:
            raise NotSupported(
                "rows of a topic of type DELAY that do not fit cannot go to another topic",
                operation="producer",
                object=topic.paths.topic,
                hint='leave invalid="topic" out: their batch is refused',
            )
        beside = topic.paths.topic + INVALID_SUFFIX
        if len(beside) > TOPIC_NAME_CHARS_MAX:
            raise LimitExceeded(
                "the topic's name is too long for a topic beside it, which takes the rows that do not fit",
                operation="producer",
                object=topic.paths.topic,
                expected=f"at most {TOPIC_NAME_CHARS_MAX - len(INVALID_SUFFIX)} characters",
                observed=len(topic.paths.topic),
                hint='leave invalid="topic" out: their batch is refused',
            )
        limits = replace(
            topic.settings.limits, max_body_bytes=max(topic.settings.limits.max_body_bytes, TopicLimits().max_body_bytes)
        )
        try:
            await self.create_topic(beside, TopicSettings(queues=1, retention=topic.settings.retention, limits=limits))
        except TopicExists as error:  # either topic may have been altered since
            found = (await self.topic(beside)).settings
            if found.message_type is not MessageType.NORMAL or found.schema is not None:
                error.hint = f"rows that do not fit {topic.paths.topic} go there: it must be of type NORMAL, without a schema"
                raise
        return await self.producer(
            beside, name=name, options=replace(options, invalid="refuse", on_batch=None, linger=timedelta(0))
        )

    async def evolve_topic(
        self,
        name: str,
        schema: SchemaLike,
        *,
        rename: Mapping[str, str] | None = None,
        retire: Strings = (),
        dry_run: bool = False,
    ) -> TopicSchema:
        """Make ``schema`` the topic's schema from now on, and return it with its version; nothing happens where it is already.

        Allowed are new nullable fields, wider types (int to bigint, float to double, a decimal with more digits before the point), NOT NULL relaxed,
        fields renamed (``rename``: new names by the old ones' paths) and retired (``retire``: their paths). Producers with an earlier version go on.
        Raises `InvalidArgument`, naming the field, for any other change, and for a topic without a schema. ``dry_run`` changes nothing.
        """
        check_own(name, operation="evolve_topic")
        check_flag("dry_run", dry_run, operation="evolve_topic")
        wanted = fields_of(schema)
        topic = await (self.topic(name) if dry_run else self._writable_topic(name))
        return await evolve_topic(topic, wanted, rename=rename, retire=retire, dry_run=dry_run)

    async def topic_schema(self, name: str) -> TopicSchema | None:
        """The present schema of a topic."""
        topic = await self.topic(name)
        await topic.tail.catch_up()
        return topic.tail.state.schema if topic.is_current else None

    async def schema_history(self, name: str) -> tuple[SchemaVersion, ...]:
        """The last 100 versions of a topic's schema, oldest first."""
        topic = await self.topic(name)
        await topic.tail.catch_up()
        return topic.tail.state.versions if topic.is_current else ()

    async def _writable_topic(self, name: str) -> Topic:
        topic = await self.topic(name, writable=True)
        while not topic.is_current:  # the log was read on while the topic was made fit for writing
            topic = await self.topic(name, writable=True)
        return topic

    def producer_statistics(self) -> list[tuple[str, ProducerStatistics]]:
        """The topic and the counts of each open producer, from any thread."""
        return [(one.topic, one.statistics()) for one in self._producers if not one.closed]

    async def reader(self, topic: str) -> Reader:
        """Open a reader. Raises `TopicNotFound`."""
        reader = Reader(await self.topic(topic))
        self._readers[id(reader)] = reader
        return reader

    async def describe_topic(self, name: str) -> TopicDescription:
        """A topic's settings, offsets, table, and hottest queues and message groups."""
        topic = await self.topic(name)
        return await describe(topic, Reader(topic))

    # --- Writing at all ---------------------------------------------------------------------------------------------------------

    async def _writable(self, operation: str) -> None:
        """Raises `ReadOnlyError`, `UnsafeStoreError` or `ClockSkewError`."""
        self._check_open()
        if self.read_only:
            raise read_only(operation)
        if self._write_check is None or (
            self._write_check.done() and (self._write_check.cancelled() or self._write_check.exception())
        ):
            self._write_check = asyncio.ensure_future(self._check_writes())
        await asyncio.wait((self._write_check,))
        self._check_open()  # closing cancels the check
        self._write_check.result()

    async def _check_writes(self) -> None:
        # As any other request, so that one answer of a store that is busy does not end what opens the lake.
        await until_answered(
            lambda: probe_conditional_writes(self.store, self.runtime), self.runtime.clock, timeout_s=_PROBE_PATIENCE_S
        )
        if not self._clock.agreed:
            ahead_ms = await self._clock.sync(self.store)
            if not self._clock.agreed:
                raise too_far(ahead_ms, self.store)
        self._follow_clock()

    # --- Time -------------------------------------------------------------------------------------------------------------------

    async def keep_time(self) -> None:
        """Return once the lake's time follows the store's clock, so that setting this machine's clock delays and hastens nothing.

        Writing includes this. Where the store gives no time, or is only read, time is this machine's.
        """
        self._check_open()
        if self._time is None:
            self._time = asyncio.ensure_future(self._keep_time())
        await asyncio.wait((self._time,))
        self._check_open()  # closing cancels it
        self._time.result()

    async def agree_on_time(self, operation: str) -> None:
        """Do as `keep_time`, for a process that writes sooner or later.

        Raises the store's errors, and `ClockSkewError` when the store's time is, and always was, more than five minutes off this machine's.
        """
        await self.keep_time()
        if self._clock.agreed or not self._clock.synced:  # who only reads never asks
            return
        ahead_ms = await self._clock.sync(self.store)  # the machine's clock may have been set meanwhile
        if not self._clock.agreed:
            raise too_far(ahead_ms, self.store, operation)

    async def _keep_time(self) -> None:
        if not self.read_only and not self._clock.agreed:
            pause_s = await self._ask_time()
            self._follow_clock(pause_s)
        self._clock.hold()

    async def _ask_time(self) -> float:
        """Follow the store's clock. Returns the time until the next question."""
        try:
            ahead_ms = await self._clock.sync(self.store)
        except PenstockError as error:
            log.warning("the store did not say its time; meanwhile time goes on by this machine's clocks: %s", error)
            return CLOCK_RETRY_S if isinstance(error, RetryError) else CLOCK_SYNC_S
        if not self._clock.agreed:
            log.warning("due times follow the store's clock, but %s", too_far(ahead_ms, self.store))
        return CLOCK_SYNC_S

    def _follow_clock(self, pause_s: float = CLOCK_SYNC_S) -> None:
        if self._keeper is None:
            self._keeper = asyncio.ensure_future(self._keep_clock(pause_s))

    async def _keep_clock(self, pause_s: float) -> None:
        while True:
            await asyncio.sleep(pause_s)
            pause_s = await self._ask_time()

    # --- Its end ----------------------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Close all readers and producers (writing what was sent), topics and the store. Raises the first producer's error that was not reported
        before.

        Concurrent calls wait for the same end; closing again does nothing. Cancelling a call does not stop the close.
        """
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close())
        elif self._closing.done():
            return
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        for reader in list(self._readers.values()):
            await reader.close()
        try:
            ends = await asyncio.gather(*(producer.close() for producer in self._producers), return_exceptions=True)
        finally:
            background = [task for task in (self._keeper, self._time, self._write_check) if task is not None]
            for task in background:
                task.cancel()
            opened = await asyncio.gather(*self._opened.values(), *self._retired, *background, return_exceptions=True)
            for topic in opened:
                if isinstance(topic, Topic):
                    await topic.close()
            await self.store.close()
        for error in ends:
            if isinstance(error, BaseException):
                raise error

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    def _check_open(self) -> None:
        if self._closing is not None:
            raise ClosedError("the lake is closed", object=self.url)
