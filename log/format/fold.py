"""The judge: a topic's state as a pure function of its entries.

An entry may hold anything, and every process comes to the same verdicts. Invariants I2, I3 and I5 to I8 of ``docs/0001-the-log-protocol.md`` are, as
far as they concern verdicts, properties of this module alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property

from ..errors import DataDamaged
from ..limits import (
    ENTRY_ROWS_MAX,
    NAMED_ROW_MS,
    NUMBER_MAX,
    QUEUES_MAX,
    SCHEMA_VERSIONS_KEPT,
    STORE_TIME_STEP_MAX_MS,
    TIME_MAX_MS,
    UNNAMED_ROW_ENTRIES,
    VALIDITY_ENTRIES,
)
from ..paths import is_staged
from ..runtime.recent_mapping import RecentMapping
from ..schema.evolution import refusal
from ..schema.topic_schema import TopicSchema
from .growth import Growth, may_grow
from .header import (
    Action,
    Batch,
    BatchIdentity,
    CloseJob,
    Created,
    Deleted,
    Epoch,
    Evolved,
    ForgetJob,
    Grown,
    Header,
    Opening,
    Repair,
    identity_of,
    is_idempotent,
)
from .idempotence import Standing, after, is_numbered, key_of, later, may_leave, standing
from .schema_form import SchemaForm, fields_digest, schema_of
from .state import (
    ProducerRow,
    SchemaVersion,
    TopicState,
    growth_hash,
    idempotent_hash,
    item_hash,
    row_hash,
    schema_hash,
    state_of,
    version_hash,
)
from .stored_json import damaged, shown


class VoidReason(StrEnum):
    """Reasons why a batch or an opening does not count."""

    NO_TOPIC = "the topic was deleted or not created yet"
    GENERATION = "its routing generation is not the current one"
    EXPIRED = "the entry comes after the last that may bring it"
    NO_QUEUE = "it names a queue that the topic does not have"
    MALFORMED = "its row counts and sequences do not fit together"
    JOB_CLOSED = "its staged upload was closed or linked before"
    UNKNOWN_NAME = "the producer's name has no opening in the state"
    FENCED = "a later opening of the producer's name, or a later epoch of the producer, stands before it"
    PREVIOUS = "it does not follow the producer's last accepted batch"
    SCHEMA = "the topic has no such version of a schema, or none at all"
    TOO_MANY = "it has more rows than an entry may bring, or than its queues have offsets left"
    REPEATED = "this opening was accepted before"


@dataclass(frozen=True)
class FoldedEntry:
    """An entry and its verdicts."""

    state: TopicState
    """The state after the entry."""
    header: Header
    epochs: tuple[Epoch | VoidReason, ...]
    verdicts: tuple[Mapping[int, int] | VoidReason, ...]
    """The first offset of every batch in each of its queues, or why it is void."""

    @property
    def number(self) -> int:
        return self.state.entry

    @property
    def store_time_ms(self) -> int:
        return self.state.store_time_ms

    @cached_property
    def accepted(self) -> Mapping[BatchIdentity, Mapping[int, int]]:
        """The first offsets of the batches that count. An entry of many batches may answer thousands of appends."""
        verdicts = zip(self.header.batches, self.verdicts, strict=True)
        return {identity_of(batch): verdict for batch, verdict in verdicts if not isinstance(verdict, VoidReason)}

    @property
    def is_repair(self) -> bool:
        """Whether the entry brings its state along."""
        return any(isinstance(action, Repair) for action in self.header.actions)


def fold(state: TopicState, header: Header, *, where: str = "") -> FoldedEntry:
    """The state after the entry that follows ``state``, and its verdicts.

    Raises `DataDamaged` when the entry was not built on this state: its number, digest or offset bases disagree. A repair is
    accepted on any.
    """
    repair = next((action for action in header.actions if isinstance(action, Repair)), None)
    if repair is not None:
        # A repair carries the state after itself and nothing else: what it replaces may not be foldable at all.
        try:
            repaired = state_of(repair.state)
        except ValueError as error:
            raise damaged("a repair", error, where=where) from error
        return FoldedEntry(replace(repaired, entry=header.entry), header, (), ())
    _check_built_on(state, header, where)
    judge = Judge(state, header.entry)
    judge.advance_time(header.append_time_ms)
    for action in header.actions:
        judge.act(action)
    epochs = tuple(judge.open(opening, position) for position, opening in enumerate(header.openings))
    verdicts = tuple(judge.accept(batch) for batch in header.batches)
    return FoldedEntry(judge.state(), header, epochs, verdicts)


def bases_of(state: TopicState, batches: tuple[Batch, ...]) -> dict[int, int]:
    touched = {queue for batch in batches for queue in batch.rows}
    return {queue: state.next_offsets[queue] for queue in sorted(touched) if 0 <= queue < state.queues}


def _check_built_on(state: TopicState, header: Header, where: str) -> None:
    if header.entry != state.entry + 1:
        raise DataDamaged("the entry says it is another one", object=where, expected=state.entry + 1, observed=header.entry)
    if header.state_digest != state.digest:
        raise DataDamaged(
            "the entry was built on another state", object=where, expected=state.digest, observed=shown(header.state_digest)
        )
    bases = bases_of(state, header.batches)
    if dict(header.bases) != bases:
        raise DataDamaged("the entry's offset bases are wrong", object=where, expected=shown(bases), observed=shown(header.bases))


class Judge:
    """A working copy of a state, to which an entry is applied part by part. Producers leave out by it what would be void; safety does not rest on
    that.
    """

    def __init__(self, state: TopicState, entry: int) -> None:
        self._before = state
        self._entry = entry
        self._incarnation = state.incarnation
        self._alive = state.alive
        self._created_entry = state.created_entry
        self._generation = state.generation
        self._growths = state.growths
        self._next = list(state.next_offsets)
        self._unnamed = dict(state.unnamed)
        self._named = dict(state.named)
        self._idempotent = state.idempotent.copy()
        self._idempotent_ms = state.idempotent_ms
        self._openings = dict(state.openings)
        self._jobs = dict(state.closed_jobs)
        self._time_ms = state.store_time_ms
        self._schema = state.schema
        self._versions = state.versions
        self._sum = state.sum
        self._rows = 0
        self._expire()

    def advance_time(self, append_time_ms: int) -> None:
        self._time_ms = store_time(self._before.store_time_ms, append_time_ms)
        for name, row in list(self._named.items()):
            if row.time_ms >= self._time_ms - NAMED_ROW_MS:
                break
            self._drop_row(self._named, name, "named")
        self._drop_idempotent()

    def act(self, action: Action) -> None:
        match action:
            case Created() if not self._alive and may_begin(action, self._incarnation):
                self._begin(action)
            case Deleted() if self._alive and action.incarnation == self._incarnation:
                self._alive = False
            case Evolved() if self._alive and is_of_generation(action.generation, self._generation):
                schema = judged(action.schema, self._schema) if self._schema is not None else None
                if schema is not None:
                    self._put_schema(schema, action.changes)
            case Grown() if self._alive and is_of_generation(action.generation, self._generation):
                if may_grow(action.queues, len(self._next), QUEUES_MAX):
                    self._grow(action.queues)
            case CloseJob() if action.job not in self._jobs:
                self._close_job(action.job)
            case ForgetJob() if action.job in self._jobs and may_forget(self._entry, self._jobs[action.job]):
                self._sum -= item_hash("job", action.job, self._jobs.pop(action.job))

    def open(self, opening: Opening, position: int) -> Epoch | VoidReason:
        if (refusal := self._refusal(opening.generation, opening.valid_until)) is not None:
            return refusal
        if was_accepted(opening, self._openings):
            return VoidReason.REPEATED
        self._openings[opening.write_id] = self._entry
        self._sum += item_hash("opening", opening.write_id, self._entry)
        epoch = Epoch(self._entry, position)
        last = goes_on_from(self._named.get(opening.producer), opening)
        self._put_row(self._named, opening.producer, ProducerRow(last, self._entry, self._time_ms, epoch), "named")
        return epoch

    def accept(self, batch: Batch) -> Mapping[int, int] | VoidReason:
        if (refusal := self._batch_refusal(batch)) is not None:
            return refusal
        if is_idempotent(batch):
            self._put_idempotent(batch)
        else:
            rows, kind = (self._named, "named") if batch.named else (self._unnamed, "unnamed")
            self._put_row(rows, batch.producer, ProducerRow(batch.last, self._entry, self._time_ms, batch.epoch), kind)
        if batch.job is not None:
            self._close_job(batch.job)
        self._rows += batch.row_count
        offsets = {queue: self._next[queue] for queue in batch.rows}
        for queue, count in batch.rows.items():
            self._move_offset(queue, self._next[queue] + count)
        return offsets

    def state(self) -> TopicState:
        return TopicState(
            entry=self._entry,
            incarnation=self._incarnation,
            alive=self._alive,
            created_entry=self._created_entry,
            generation=self._generation,
            next_offsets=tuple(self._next),
            unnamed=self._unnamed,
            named=self._named,
            idempotent=self._idempotent,
            idempotent_ms=self._idempotent_ms if self._idempotent else 0,
            openings=self._openings,
            closed_jobs=self._jobs,
            store_time_ms=self._time_ms,
            schema=self._schema,
            versions=self._versions,
            growths=self._growths,
            sum=self._sum % 2**128,
        )

    def _refusal(self, generation: int, valid_until: int) -> VoidReason | None:
        if not self._alive:
            return VoidReason.NO_TOPIC
        if not is_of_generation(generation, self._generation):
            return VoidReason.GENERATION
        if is_expired(valid_until, self._entry):
            return VoidReason.EXPIRED
        return None

    def _is_closed(self, job: str) -> bool:
        return job in self._jobs

    def _batch_refusal(self, batch: Batch) -> VoidReason | None:
        refusal = self._refusal(batch.generation, batch.valid_until)
        if refusal is not None:
            return refusal
        if not all(0 <= queue < len(self._next) for queue in batch.rows):
            return VoidReason.NO_QUEUE
        if not is_well_formed(batch):
            return VoidReason.MALFORMED
        if not fits_schema(batch, self._schema):
            return VoidReason.SCHEMA
        if not has_room(batch, self._rows, self._next):
            return VoidReason.TOO_MANY
        if batch.job is not None and self._is_closed(batch.job):
            return VoidReason.JOB_CLOSED
        if is_idempotent(batch):
            return _VOID.get(standing(self._idempotent.get(key_of(batch)), batch))
        known = (self._named if batch.named else self._unnamed).get(batch.producer)
        if known is None:
            return VoidReason.UNKNOWN_NAME if batch.named else None
        if not is_of_epoch(known, batch):
            return VoidReason.FENCED
        return None if follows(known, batch) else VoidReason.PREVIOUS

    def _begin(self, created: Created) -> None:
        for queue in range(len(self._next)):
            self._sum -= item_hash("queue", queue, self._next[queue])
        for name in list(self._unnamed):
            self._drop_row(self._unnamed, name, "unnamed")
        for name in list(self._named):
            self._drop_row(self._named, name, "named")
        self._sum -= sum(idempotent_hash(key, row) for key, row in self._idempotent.items())
        self._idempotent, self._idempotent_ms = RecentMapping(), 0
        self._next = [0] * created.queues
        self._sum += sum(item_hash("queue", queue, 0) for queue in range(created.queues))
        self._incarnation = created.incarnation
        self._alive = True
        self._created_entry = self._entry
        self._generation += 1
        self._sum -= sum(map(growth_hash, self._growths))
        self._growths = ()
        self._sum -= schema_hash(self._schema) + sum(map(version_hash, self._versions))
        self._schema, self._versions = None, ()
        if created.schema is not None:
            self._put_schema(schema_of(created.schema), ())

    def _grow(self, queues: int) -> None:
        self._generation += 1
        growth = Growth(self._entry, self._generation, tuple(self._next))
        self._growths = (*self._growths, growth)
        self._sum += growth_hash(growth) + sum(item_hash("queue", queue, 0) for queue in range(len(self._next), queues))
        self._next += [0] * (queues - len(self._next))

    def _put_schema(self, schema: TopicSchema, changes: tuple[str, ...]) -> None:
        self._sum += schema_hash(schema) - schema_hash(self._schema)
        self._schema = schema
        version = SchemaVersion(schema.version, self._entry, self._time_ms, fields_digest(schema.fields), changes)
        kept = (*self._versions, version)[-SCHEMA_VERSIONS_KEPT:]
        self._sum += sum(map(version_hash, kept)) - sum(map(version_hash, self._versions))
        self._versions = kept

    def _expire(self) -> None:
        """Drop unnamed producers' rows, exactly after UNNAMED_ROW_ENTRIES, so that all processes agree."""
        oldest = self._entry - UNNAMED_ROW_ENTRIES
        for name, row in list(self._unnamed.items()):
            if row.entry >= oldest:
                break
            self._drop_row(self._unnamed, name, "unnamed")
        for write_id, entry in list(self._openings.items()):
            if entry >= oldest:
                break
            self._sum -= item_hash("opening", write_id, self._openings.pop(write_id))

    def _close_job(self, job: str) -> None:
        self._jobs[job] = self._entry
        self._sum += item_hash("job", job, self._entry)

    def _move_offset(self, queue: int, following: int) -> None:
        self._sum += item_hash("queue", queue, following) - item_hash("queue", queue, self._next[queue])
        self._next[queue] = following

    def _put_row(self, rows: dict[str, ProducerRow], name: str, row: ProducerRow, kind: str) -> None:
        if name in rows:
            self._drop_row(rows, name, kind)  # so that it moves to the end: rows stay in the order of their last use
        rows[name] = row
        self._sum += row_hash(kind, name, row)

    def _drop_idempotent(self) -> None:
        rows = self._idempotent
        if rows:
            self._idempotent_ms = later(self._idempotent_ms, self._time_ms - self._before.store_time_ms)
        while (oldest := rows.oldest()) is not None and may_leave(oldest[1], self._entry, self._idempotent_ms, len(rows)):
            self._sum -= idempotent_hash(*oldest)
            rows.drop_oldest()

    def _put_idempotent(self, batch: Batch) -> None:
        key = key_of(batch)
        before = self._idempotent.get(key)
        row = after(before, batch, self._entry, self._idempotent_ms)
        self._sum += idempotent_hash(key, row) - (0 if before is None else idempotent_hash(key, before))
        self._idempotent.use(key, row)

    def _drop_row(self, rows: dict[str, ProducerRow], name: str, kind: str) -> None:
        self._sum -= row_hash(kind, name, rows.pop(name))


_VOID = {
    Standing.FENCED: VoidReason.FENCED,
    Standing.DUPLICATE: VoidReason.PREVIOUS,
    Standing.PASSED: VoidReason.PREVIOUS,
    Standing.GAP: VoidReason.PREVIOUS,
}

# --- The guards, one by one: each is needed, and the simulation notices when one is missing -----------------------------------------


def is_of_generation(generation: int, current: int) -> bool:
    return generation == current


def is_expired(valid_until: int, entry: int) -> bool:
    return entry > valid_until


def is_of_epoch(known: ProducerRow, batch: Batch) -> bool:
    """Whether no later opening fences the batch off; unnamed producers have one epoch, None."""
    return known.epoch == batch.epoch


def follows(known: ProducerRow, batch: Batch) -> bool:
    return known.last == batch.previous


def was_accepted(opening: Opening, accepted: Mapping[str, int]) -> bool:
    """Whether an earlier entry brought this opening."""
    return opening.write_id in accepted


def goes_on_from(known: ProducerRow | None, opening: Opening) -> int:
    """The last sequence of an opened name: the opener's own only if the state does not know the name."""
    return opening.last_sequence if known is None else known.last


def may_begin(created: Created, former: str) -> bool:
    """Whether a creation follows the ``former`` life, and is of a topic that can exist."""
    has_schema = created.schema is None or judged(created.schema, None) is not None
    return created.replaces == former and 0 < created.queues <= QUEUES_MAX and has_schema


def judged(form: SchemaForm, before: TopicSchema | None) -> TopicSchema | None:
    """A writer's schema, or None if it may not follow ``before`` (None: be the first)."""
    try:
        schema = schema_of(form)
    except ValueError:
        return None
    return schema if refusal(before, schema) is None else None


def fits_schema(batch: Batch, schema: TopicSchema | None) -> bool:
    """Whether a batch was written with this schema or an earlier version, or without one where the topic has none."""
    return batch.schema_version == 0 if schema is None else 1 <= batch.schema_version <= schema.version


def has_room(batch: Batch, entry_rows: int, next_offsets: Sequence[int]) -> bool:
    return entry_rows + batch.row_count <= ENTRY_ROWS_MAX and all(
        next_offsets[queue] + count <= NUMBER_MAX for queue, count in batch.rows.items()
    )


def may_forget(entry: int, closed_entry: int) -> bool:
    """Whether no batch formed before the job was closed can be brought any more."""
    return entry > closed_entry + VALIDITY_ENTRIES


def store_time(before_ms: int, append_time_ms: int) -> int:
    """An entry's store timestamp: its appender's clock, never below the last entry's, at most a day above it."""
    latest_ms = append_time_ms if before_ms == 0 else min(append_time_ms, before_ms + STORE_TIME_STEP_MAX_MS)
    return max(before_ms, min(latest_ms, TIME_MAX_MS))


def is_well_formed(batch: Batch) -> bool:
    if batch.row_count < 1 or min(batch.rows.values()) < 1 or batch.previous < -1:
        return False
    if batch.parts:
        staged: dict[int, int] = {}
        for part in batch.parts:
            if not is_staged(part.key):
                return False
            for queue, count in part.rows.items():
                staged[queue] = staged.get(queue, 0) + count
        if staged != dict(batch.rows):
            return False
    return is_numbered(batch) if is_idempotent(batch) else batch.last >= batch.previous + batch.row_count
