"""The topics of a lake: created, opened, altered and deleted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from datetime import datetime
from typing import TypeVar, Unpack, cast

import pyarrow as pa

from ..append.appender import Appender
from ..append.contention import Pace
from ..append.in_flight import AppendResult
from ..errors import (
    CallError,
    DataDamaged,
    InternalError,
    InvalidArgument,
    PenstockError,
    ReadOnlyError,
    StoreUnavailable,
    TopicDeleted,
    TopicExists,
    TopicNotFound,
)
from ..format.header import Action, Created, Deleted, Evolved
from ..format.schema_form import fields_digest, schema_form
from ..format.state import TopicState
from ..limits import SCHEMA_CHANGES_TOLD, Strings
from ..paths import TopicPaths
from ..runtime.backoff import Backoff
from ..runtime.runtime import Runtime
from ..schema.evolution import changes, difference, evolve
from ..schema.fields import Field
from ..schema.labels import label_ids, labelled_fields, sent_label_ids
from ..schema.topic_schema import TopicSchema
from ..stores.protocol import Conflict, IfMatch, ObjectStore, Put, PutMode
from ..tail.tail import Tail
from .records import not_found, read_record
from .settings import TopicChanges, TopicRecord, TopicSettings, encode_record

T = TypeVar("T")

ACTION_TIMEOUT_S = 60.0
_CHANGE_CHARS_MAX = 300
_PAUSE_S = 0.1


class Topic:
    """One topic, as this process has it open."""

    def __init__(
        self,
        store: ObjectStore,
        runtime: Runtime,
        paths: TopicPaths,
        record: TopicRecord,
        tail: Tail,
        *,
        pace: Pace | None = None,
    ) -> None:
        self.store = store
        self.runtime = runtime
        self.paths = paths
        self.record = record
        self.tail = tail
        self.store_times: dict[tuple[int, int], datetime] = {}
        """The times of single messages, by queue and offset."""
        self._beside: dict[Callable[[Topic], object], object] = {}
        self._pace = pace
        self._appender: Appender | None = None
        self._life: int | None = None
        tail.fold_listeners.append(lambda folded, _: self._note_queues(folded.state))
        tail.jump_listeners.append(self._note_queues)
        self.evolving = asyncio.Lock()
        """Held while this process evolves the schema, as one entry may carry all its actions."""

    def beside(self, make: Callable[[Topic], T]) -> T:
        """The result of ``make``, made once for all users of the topic."""
        if make not in self._beside:
            self._beside[make] = make(self)
        return cast("T", self._beside[make])

    @property
    def life(self) -> int:
        """The entry that created this topic, also when the log has gone on to a later life, whose entry is higher."""
        return self.tail.state.created_entry if self._life is None else self._life

    def note_life(self) -> None:
        self._life = self.tail.state.created_entry
        self._note_queues(self.tail.state)

    def _note_queues(self, state: TopicState) -> None:
        """Follow the log, which alone says how many queues there are."""
        if state.alive and state.incarnation == self.record.incarnation and state.queues != self.record.settings.queues:
            self.record = replace(self.record, settings=replace(self.record.settings, queues=state.queues))

    def note_altered(self, record: TopicRecord) -> None:
        """Use an altered record, unless it is of a later topic of the name."""
        if record.incarnation == self.record.incarnation:
            self.record = record
            self._note_queues(self.tail.state)

    @property
    def settings(self) -> TopicSettings:
        """The settings as of its opening, with the queues as far as the log was read."""
        return self.record.settings

    @property
    def schema(self) -> TopicSchema:
        """The schema as far as read. Raises `InvalidArgument` for a topic without one, and `TopicDeleted`."""
        if not self.is_current:
            raise TopicDeleted(
                "the topic was deleted",
                operation="schema",
                object=self.paths.topic,
                hint="open it anew if it was created again",
            )
        if (schema := self.tail.state.schema) is None:
            raise InvalidArgument(
                "the topic has no schema",
                operation="schema",
                object=self.paths.topic,
                hint="a schema is given when a topic is created",
            )
        return schema

    @property
    def is_current(self) -> bool:
        return self.tail.state.alive and self.tail.state.incarnation == self.record.incarnation

    @property
    def appender(self) -> Appender:
        """Raises `ReadOnlyError` unless the topic was opened for writing."""
        if self._appender is None:
            raise ReadOnlyError("the topic was opened for reading only", operation="write", object=self.paths.topic)
        return self._appender

    async def allow_writing(self) -> None:
        if self._appender is None:
            self._appender = Appender(self.store, self.paths, self.runtime, self.tail, pace=self._pace)
            await self._appender.write_missing_checkpoint()

    async def act(self, *actions: Action) -> AppendResult:
        return await append_actions(self.appender, self.runtime, *actions)

    async def close(self) -> None:
        if self._appender is not None:
            await self._appender.close()
        await self.tail.close()


def read_only(operation: str) -> ReadOnlyError:
    return ReadOnlyError("the lake was opened with read_only=True", operation=operation)


async def append_actions(appender: Appender, runtime: Runtime, *actions: Action) -> AppendResult:
    outcome = await appender.append_actions(actions, deadline_s=runtime.clock.monotonic_s() + ACTION_TIMEOUT_S)
    if isinstance(outcome, AppendResult):
        return outcome
    raise outcome if isinstance(outcome, PenstockError) else InternalError("actions ended as a batch", observed=outcome)


def _prepare_arrow() -> None:
    """Let Arrow import pandas now: later that would hold up the event loop."""
    pa.array([0])


async def open_topic(store: ObjectStore, runtime: Runtime, name: str, *, writable: bool, pace: Pace | None = None) -> Topic:
    """Open a topic and fold its log up to the end. A writable one also finishes an interrupted creation or deletion. Raises `TopicNotFound`, or
    `DataDamaged` when record and log do not belong together.
    """
    paths = TopicPaths.of(name)
    found = await read_record(store, paths)
    await runtime.offload(_prepare_arrow)
    while True:
        if found is None or found[0].deleted:
            raise not_found(name)
        record, version = found
        topic = Topic(store, runtime, paths, record, Tail(store, paths, runtime), pace=pace)
        try:
            await topic.tail.open()
            state = topic.tail.state
            if topic.is_current:
                topic.note_life()
                if writable:
                    await topic.allow_writing()
                    await note_queues(topic, record)
                return topic
            # Record and log do not match: the topic is being created or deleted, or was since the record was read.
            found = await read_record(store, paths)
            if found is None or found[0].incarnation != record.incarnation:
                await topic.close()
                continue
            if state.alive:
                raise _of_another_life(paths, state.incarnation, f"incarnation {record.incarnation}")
            if not writable:
                raise (_ended if state.incarnation == record.incarnation else _not_begun)(paths, state.entry)
            if state.incarnation == record.incarnation:
                await _write_record(store, runtime, paths, replace(record, deleted=True), IfMatch(version))
                raise not_found(name)
            await topic.allow_writing()
            await topic.act(created(record))
            if not topic.is_current:
                raise not_found(name)
            topic.note_life()
        except BaseException:
            await topic.close()
            raise
        return topic


async def create_topic(store: ObjectStore, runtime: Runtime, name: str, settings: TopicSettings, *, of: str = "") -> TopicRecord:
    """Create a topic. The same call again does nothing; other settings raise `TopicExists`. ``of``: the incarnation whose timer log it is."""
    paths = TopicPaths.of(name)
    while True:
        found = await read_record(store, paths)
        if found is not None and not found[0].deleted:
            record = found[0]
            if not await is_as_asked(store, runtime, paths, record, settings):
                raise _exists(name, record.settings, settings)
            break
        tail = Tail(store, paths, runtime)
        await tail.open()
        mode: PutMode = Put.CREATE
        table = "table"
        if found is not None:
            mode, table = IfMatch(found[1]), f"table-{tail.state.entry}"
        elif tail.state.alive:
            if await read_record(store, paths) is not None:
                continue  # created a moment ago
            raise _of_another_life(paths, tail.state.incarnation, "none: the object is missing")
        record = TopicRecord(
            settings=settings,
            incarnation=runtime.new_id(),
            replaces=tail.state.incarnation,
            table=table,
            created_ms=runtime.clock.wall_ms(),
            of=of,
        )
        if await _write_record(store, runtime, paths, record, mode):
            break
    topic = await open_topic(store, runtime, name, writable=True)
    await topic.close()
    return topic.record


def created(record: TopicRecord) -> Created:
    schema = record.settings.schema
    return Created(record.incarnation, record.settings.queues, record.replaces, None if schema is None else schema_form(schema))


async def is_as_asked(store: ObjectStore, runtime: Runtime, paths: TopicPaths, record: TopicRecord, asked: TopicSettings) -> bool:
    """Whether a topic has these settings, with any number of queues that it had, and the schema in any of its versions. Raises `TopicExists` with the
    difference.
    """
    stands = record.settings
    if stands.queues != asked.queues and asked.queues in await _queues_had(store, runtime, paths, record):
        asked = replace(asked, queues=stands.queues)
    if _without_schema(stands) != _without_schema(asked):
        return False
    if stands.schema is None or asked.schema is None:
        return stands.schema is asked.schema
    wanted = fields_digest(asked.schema.fields)
    if wanted == fields_digest(stands.schema.fields):
        return _of_fields(stands) == _of_fields(asked)
    tail = Tail(store, paths, runtime)
    await tail.open()
    state = tail.state
    if state.incarnation != record.incarnation or state.schema is None:
        return False
    if wanted not in {version.digest for version in state.versions}:
        raise other_schema(paths.topic, state.schema, asked.schema)
    first, now = stands.schema, state.schema
    return _of_fields(stands, lambda path: label_ids(path, first)) == _of_fields(asked, lambda path: sent_label_ids(path, now))


async def _queues_had(store: ObjectStore, runtime: Runtime, paths: TopicPaths, record: TopicRecord) -> set[int]:
    """The numbers of queues of a topic that got more of them: who asks for one of them asks for this topic."""
    tail = Tail(store, paths, runtime)
    await tail.open()
    state = tail.state
    if state.incarnation != record.incarnation or not state.growths:
        return set()
    return {state.queues, *(len(growth.marks) for growth in state.growths)}


def _of_fields(settings: TopicSettings, known: Callable[[str], object] = str) -> tuple[object, ...]:
    """The settings that name fields, by what is ``known`` of each."""
    group, tag = (None if path is None else known(path) for path in (settings.message_group, settings.tag))
    return group, tag, [known(path) for path in settings.keys], {known(path) for path in settings.bloom}


def _without_schema(settings: TopicSettings) -> TopicSettings:
    return replace(settings, schema=None, message_group=None, tag=None, keys=(), bloom=())


def other_schema(topic: str, stands: TopicSchema, asked: TopicSchema) -> TopicExists:
    return TopicExists(
        "the topic exists with another schema",
        operation="create_topic",
        object=topic,
        expected=stands.ddl,
        observed=difference(stands.fields, asked.fields),
        hint="change it with lake.evolve_topic or `penstock topic schema evolve`, or give the schema that it has",
    )


async def evolve_topic(
    topic: Topic,
    wanted: tuple[Field, ...],
    *,
    rename: Mapping[str, str] | None = None,
    retire: Strings = (),
    dry_run: bool = False,
) -> TopicSchema:
    """Evolve the schema of a topic open for writing (``dry_run``: or reading), and return the version, the present one where nothing changes.

    Of two evolutions at once the later is judged again. Raises `InvalidArgument`, naming the field, for a refused change.
    """
    async with topic.evolving:
        return await _evolved(topic, wanted, rename=rename, retire=retire, dry_run=dry_run)


async def _evolved(
    topic: Topic, wanted: tuple[Field, ...], *, rename: Mapping[str, str] | None, retire: Collection[str], dry_run: bool
) -> TopicSchema:
    while True:
        await topic.tail.catch_up()
        before = topic.schema
        after = evolve(before, wanted, rename=rename, retire=retire)
        if after == before:
            return before
        check_labels_kept(topic, after)
        if dry_run:
            return after
        told = [str(change)[:_CHANGE_CHARS_MAX] for change in changes(before, after)]
        if len(told) > SCHEMA_CHANGES_TOLD:
            told[SCHEMA_CHANGES_TOLD - 1 :] = [f"and {len(told) - SCHEMA_CHANGES_TOLD + 1} more"]
        written = await topic.act(Evolved(topic.tail.state.generation, schema_form(after), tuple(told)))
        if not topic.is_current:
            raise not_found(topic.paths.topic)
        if any(one.entry == written.entry and one.version == after.version for one in topic.tail.state.versions) or (
            topic.schema == after
        ):
            return after


def check_labels_kept(topic: Topic, after: TopicSchema) -> None:
    """Raise `InvalidArgument` if the field of a message group, tag or key retires."""
    settings = topic.settings
    if settings.schema is None:
        return
    for path in settings.label_paths:
        fields = labelled_fields(label_ids(path, settings.schema), after)
        if any(field.retired for field in fields):
            raise InvalidArgument(
                "messages take their group, tag or keys from this field, so it cannot retire",
                operation="evolve the schema",
                object=path,
                hint="create another topic with other settings",
            )


async def alter_topic(store: ObjectStore, runtime: Runtime, name: str, **changes: Unpack[TopicChanges]) -> TopicRecord:
    """Change retention, retention_bytes, limits, iceberg or configs, from the topic's next opening. Configs may be a mapping of some of them,
    with None for one that goes.
    """
    if unknown := sorted(set(changes) - set(TopicChanges.__annotations__)):
        raise InvalidArgument(
            f"{', '.join(unknown)} cannot be changed",
            operation="alter_topic",
            object=name,
            expected="queues, retention, retention_bytes, limits, iceberg or configs",
        )
    paths = TopicPaths.of(name)
    while True:
        found = await read_record(store, paths)
        if found is None or found[0].deleted:
            raise not_found(name)
        record = replace(found[0], settings=_altered(found[0].settings, changes))
        if await _write_record(store, runtime, paths, record, IfMatch(found[1])):
            return record


def _altered(settings: TopicSettings, changes: TopicChanges) -> TopicSettings:
    configs = changes.get("configs")
    if isinstance(configs, Mapping):  # of those that others change meanwhile none is lost
        after = {**dict(settings.configs), **configs}
        changes = {**changes, "configs": tuple((name, value) for name, value in after.items() if value is not None)}
    return replace(settings, **changes)  # type: ignore[arg-type]


async def note_queues(topic: Topic, known: TopicRecord) -> None:
    """Let the settings state the topic's queues, for readers of settings alone, unless the ``known`` ones do. They never state fewer again."""
    while known.settings.queues < topic.settings.queues and known.incarnation == topic.record.incarnation:
        found = await read_record(topic.store, topic.paths)
        if found is None or found[0].deleted:
            return
        known = found[0]
        queues = max(known.settings.queues, topic.settings.queues)
        if known.incarnation == topic.record.incarnation and queues > known.settings.queues:
            grown = replace(known, settings=replace(known.settings, queues=queues))
            await _write_record(topic.store, topic.runtime, topic.paths, grown, IfMatch(found[1]))


async def delete_topic(store: ObjectStore, runtime: Runtime, name: str, *, only: str | None = None) -> TopicRecord:
    """End a topic, or ``only`` this incarnation of it. Returns its record. The log keeps a ``deleted`` entry, so that no paused process takes a later
    topic of the name for this one.
    """
    topic = await open_topic(store, runtime, name, writable=True)
    try:
        if only is not None and topic.record.incarnation != only:
            return topic.record
        await topic.act(Deleted(topic.record.incarnation))
        while True:
            found = await read_record(store, topic.paths)
            if found is None or found[0].incarnation != topic.record.incarnation or found[0].deleted:
                return topic.record
            if await _write_record(store, runtime, topic.paths, replace(found[0], deleted=True), IfMatch(found[1])):
                return topic.record
    finally:
        await topic.close()


async def _write_record(store: ObjectStore, runtime: Runtime, paths: TopicPaths, record: TopicRecord, mode: PutMode) -> bool:
    """Write a record. Returns whether it, and not another's, is in place; an unconfirmed write is read back by its write id."""
    record, backoff = replace(record, write_id=runtime.new_id()), Backoff(_PAUSE_S)
    while True:
        try:
            await store.put(paths.settings, encode_record(record), mode=mode)
            return True
        except (Conflict, StoreUnavailable) as error:
            found = await read_record(store, paths)
            is_there = found is not None and found[0].write_id == record.write_id
            if is_there or isinstance(error, Conflict):
                return is_there
        await asyncio.sleep(backoff.next_s())


def _ended(paths: TopicPaths, entry: int) -> TopicNotFound:
    """The error of an unfinished deletion, for a process that may not write."""
    return TopicNotFound(
        "there is no such topic any more: its log ended it, and its settings stand",
        object=paths.topic,
        expected="settings that are marked as deleted",
        observed=f"{paths.settings}, and a log whose end, entry {entry}, is of no living topic",
        hint="`penstock topic delete` ends it, and a topic of that name can be created then; `penstock verify` shows what stands",
    )


def _not_begun(paths: TopicPaths, entry: int) -> TopicNotFound:
    """The error of an unfinished creation, for a process that may not write."""
    return TopicNotFound(
        "there is no such topic yet: its settings stand, and its log has not begun it",
        object=paths.topic,
        expected="a log that begins the topic of these settings",
        observed=f"{paths.settings}, and a log whose end, entry {entry}, is of no such topic",
        hint="it is being created: try again; if the process that created it has died, the next one that writes to the topic finishes it",
    )


def _of_another_life(paths: TopicPaths, living: str, observed: str) -> DataDamaged:
    return DataDamaged(
        "the topic's settings are not those of the topic that its log holds",
        operation="open topic",
        object=paths.settings,
        expected=f"incarnation {living}",
        observed=observed,
        hint="put the former topic.json back; its messages are all there",
    )


def _exists(name: str, stands: TopicSettings, asked: TopicSettings) -> CallError:
    differing = [field for field in stands.__dataclass_fields__ if getattr(stands, field) != getattr(asked, field)]
    return TopicExists(
        "the topic exists with other settings",
        operation="create_topic",
        object=name,
        expected={field: str(getattr(asked, field)) for field in differing},
        observed={field: str(getattr(stands, field)) for field in differing},
    )
