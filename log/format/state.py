"""A topic's state as a value, its digest and its stored form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import msgspec
import xxhash

from ..limits import FORMAT_BASIC, FORMAT_EXTENDED, FORMAT_GROWN, FORMAT_IDEMPOTENT
from ..runtime.recent_mapping import RecentMapping
from ..schema.topic_schema import TopicSchema
from .growth import Growth, is_sequence
from .header import Epoch, GrowthForm, IdempotentRowForm, ProducerRowForm, StateForm, VersionForm
from .idempotence import IdempotentRow
from .schema_form import schema_form, schema_of
from .stored_json import plain


@dataclass(frozen=True, slots=True)
class ProducerRow:
    """A state's knowledge of one producer."""

    last: int
    """The sequence of its last accepted message; -1 for none."""
    entry: int
    """The entry of its last accepted batch or opening."""
    time_ms: int
    epoch: Epoch | None = None


@dataclass(frozen=True, slots=True)
class SchemaVersion:
    """A version of the schema in a state."""

    version: int
    entry: int
    time_ms: int
    digest: str = ""
    changes: tuple[str, ...] = ()
    """The first of its changes, for people."""


@dataclass(frozen=True, slots=True)
class TopicState:
    """A topic's state after ``entry``. Mappings keep the order of last use, oldest first, and never change."""

    entry: int = 0
    incarnation: str = ""
    """The topic's present or last life; empty: it never had one."""
    alive: bool = False
    created_entry: int = 0
    generation: int = 0
    """The routing generation: raised by every creation, so that a deleted topic's batches never count in its successor, and by every growth."""
    next_offsets: tuple[int, ...] = ()
    unnamed: Mapping[str, ProducerRow] = field(default_factory=dict)
    named: Mapping[str, ProducerRow] = field(default_factory=dict)
    openings: Mapping[str, int] = field(default_factory=dict)
    """The entries of openings, by write id, that a late link could bring again."""
    closed_jobs: Mapping[str, int] = field(default_factory=dict)
    """The entries that closed jobs not yet forgotten."""
    store_time_ms: int = 0
    schema: TopicSchema | None = None
    versions: tuple[SchemaVersion, ...] = ()
    """The latest versions, oldest first."""
    idempotent: RecentMapping[tuple[str, int], IdempotentRow] = field(default_factory=RecentMapping)
    """Idempotent producers' rows, by producer and queue."""
    idempotent_ms: int = 0
    """The clock by which these age: the store time since there are any, of which an entry counts `IDEMPOTENT_STEP_MAX_MS` at most."""
    growths: tuple[Growth, ...] = ()
    """This life's steps to more queues, oldest first."""
    sum: int = 0
    """The sum of the digests of all rows above, kept up to date by each fold."""

    @property
    def queues(self) -> int:
        return len(self.next_offsets)

    def next_offset(self, queue: int) -> int:
        """The offset of the queue's next message; 0 for one that the topic does not have yet."""
        return self.next_offsets[queue] if queue < len(self.next_offsets) else 0

    @property
    def format(self) -> int:
        """The lowest format whose readers understand it."""
        if self.growths:
            return FORMAT_GROWN
        if self.idempotent:
            return FORMAT_IDEMPOTENT
        return FORMAT_BASIC if self.schema is None else FORMAT_EXTENDED

    @property
    def digest(self) -> str:
        scalars = (
            self.entry,
            self.incarnation,
            self.alive,
            self.created_entry,
            self.generation,
            self.store_time_ms,
            len(self.next_offsets),
            *([self.idempotent_ms] if self.idempotent_ms else []),
        )
        return f"{(self.sum + item_hash('state', *scalars)) % 2**128:032x}"


def row_sum(state: TopicState) -> int:
    total = sum(item_hash("queue", queue, offset) for queue, offset in enumerate(state.next_offsets))
    total += sum(row_hash("unnamed", name, row) for name, row in state.unnamed.items())
    total += sum(row_hash("named", name, row) for name, row in state.named.items())
    total += sum(item_hash("opening", write_id, entry) for write_id, entry in state.openings.items())
    total += sum(item_hash("job", job, entry) for job, entry in state.closed_jobs.items())
    total += sum(idempotent_hash(key, row) for key, row in state.idempotent.items())
    total += sum(map(growth_hash, state.growths))
    total += schema_hash(state.schema) + sum(map(version_hash, state.versions))
    return total % 2**128


def schema_hash(schema: TopicSchema | None) -> int:
    return 0 if schema is None else item_hash("schema", msgspec.json.encode(schema_form(schema)))


def version_hash(version: SchemaVersion) -> int:
    return item_hash("version", version.version, version.entry, version.time_ms, version.digest, version.changes)


def growth_hash(growth: Growth) -> int:
    return item_hash("growth", growth.entry, growth.generation, growth.marks)


def row_hash(kind: str, name: str, row: ProducerRow) -> int:
    epoch = (row.epoch.entry, row.epoch.position) if row.epoch else ()
    return item_hash(kind, name, row.last, row.entry, row.time_ms, *epoch)


def idempotent_hash(key: tuple[str, int], row: IdempotentRow) -> int:
    return item_hash("idempotent", *key, row.first, row.last, row.entry, row.time_ms)


def item_hash(*values: object) -> int:
    return xxhash.xxh3_128_intdigest(repr(values).encode())


def state_form(state: TopicState) -> StateForm:

    def rows(mapping: Mapping[str, ProducerRow]) -> tuple[ProducerRowForm, ...]:
        return tuple(
            ProducerRowForm(
                name, row.last, row.entry, row.time_ms, *((row.epoch.entry, row.epoch.position) if row.epoch else (None, None))
            )
            for name, row in mapping.items()
        )

    return StateForm(
        entry=state.entry,
        incarnation=state.incarnation,
        alive=state.alive,
        created_entry=state.created_entry,
        generation=state.generation,
        next_offsets=state.next_offsets,
        unnamed=rows(state.unnamed),
        named=rows(state.named),
        openings=tuple(state.openings.items()),
        closed_jobs=tuple(state.closed_jobs.items()),
        store_time_ms=state.store_time_ms,
        schema=None if state.schema is None else schema_form(state.schema),
        versions=tuple(VersionForm(one.version, one.entry, one.time_ms, one.digest, one.changes) for one in state.versions),
        idempotent=tuple(
            IdempotentRowForm(*key, row.first, row.last, row.entry, row.time_ms) for key, row in state.idempotent.items()
        ),
        idempotent_ms=state.idempotent_ms,
        growths=tuple(GrowthForm(one.entry, one.generation, one.marks) for one in state.growths),
    )


def state_document(state: TopicState) -> dict[str, object]:
    return plain(state_form(state))


def state_of(form: StateForm) -> TopicState:
    """Raises `ValueError` for a schema whose types do not exist, and for growths that do not lead to these queues."""

    def rows(forms: tuple[ProducerRowForm, ...]) -> dict[str, ProducerRow]:
        return {
            row.name: ProducerRow(
                row.last, row.entry, row.time_ms, None if row.epoch is None else Epoch(row.epoch, row.position or 0)
            )
            for row in forms
        }

    state = TopicState(
        entry=form.entry,
        incarnation=form.incarnation,
        alive=form.alive,
        created_entry=form.created_entry,
        generation=form.generation,
        next_offsets=form.next_offsets,
        unnamed=rows(form.unnamed),
        named=rows(form.named),
        openings=dict(form.openings),
        closed_jobs=dict(form.closed_jobs),
        store_time_ms=form.store_time_ms,
        schema=None if form.schema is None else schema_of(form.schema),
        versions=tuple(SchemaVersion(one.version, one.entry, one.time_ms, one.digest, one.changes) for one in form.versions),
        idempotent=RecentMapping(
            ((one.producer, one.queue), IdempotentRow(one.first, one.last, one.entry, one.time_ms)) for one in form.idempotent
        ),
        idempotent_ms=form.idempotent_ms,
        growths=tuple(Growth(one.entry, one.generation, one.marks) for one in form.growths),
    )
    if not is_sequence(state.growths, state.queues):
        raise ValueError(f"growths that do not lead to {state.queues} queues")
    return replace(state, sum=row_sum(state))
