"""A PostgreSQL into a topic, exactly once: the shell around the slot, the snapshot and the stream.

A producer of the slot's name sends each event under its position (`positions`), so the log leaves out repeated ones. The slot
is confirmed only up to durable changes. So either side knows where to go on after a kill.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Protocol

from ...log.errors import InvalidArgument
from ...log.produce.producer import Producer
from ...log.runtime.runtime import Clock
from ...log.schema.fields import Field
from ...log.schema.topic_schema import TopicSchema
from ..capture.errors import SourceUnavailable
from ..capture.options import CaptureOptions, check_name
from ..capture.progress import CaptureProgress
from ..capture.retry_loop import LOOK_S, PAUSE_FIRST_S, RetryLoop
from .captured_tables import CapturedTables
from .catalog import SETTINGS, Catalog, ReplicationSlot, check_history
from .catalog_tables import CapturePlan, Name, plan_capture
from .envelopes import EnvelopeEncoder, EnvelopeMessage, EnvelopeTable, EventOrigin
from .errors import SlotLost, load_psycopg, slot_lost
from .event_sender import EventSender
from .follower import SlotFollower
from .pgoutput import UNCHANGED, Row
from .positions import base_of, lsn_text, split
from .preflight import CapturePreflight
from .query_watch import StopRequested
from .snapshot import SnapshotReader
from .state import CapturedTable, PostgresState, PostgresStateStore, TypesStore, slot_of
from .stream import open_stream
from .tables import own_rows
from .typed_events import CatalogColumn, TypedEvents, evolved_fields
from .values import TypeConversions

log = logging.getLogger("penstock.cdc")

_LOG_WAITS_S = 10.0
_ROOM_BYTES = 64 * 1024
"""The log written before a later table is read, for the positions of its rows: some thousand millions."""
_VISIBLE_S = 10.0
"""The wait for a logged transaction to become visible, before the stream begins anew."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PostgresOptions(CaptureOptions):
    """The options of a PostgreSQL's capture."""

    tables: tuple[str, ...] = ()
    """``schema.table``, or a table of the schema public. None: the existing publication's tables, otherwise all."""
    slot: str = "penstock"
    publication: str = "penstock"
    typed: bool = False
    """Whether the topic has a schema, from its one table's columns."""

    def __post_init__(self) -> None:
        CaptureOptions.__post_init__(self)
        check_name(self.slot, "bad slot name")
        if self.typed and self.heartbeat:
            raise InvalidArgument(
                "a typed topic has rows of its table only, and no heartbeats",
                operation="capture",
                expected="typed or heartbeat",
                hint="without heartbeats the next transaction tells the same",
            )

    @property
    def producer_name(self) -> str:
        return f"postgres/{self.slot}"


@dataclass(frozen=True, slots=True)
class PostgresProgress(CaptureProgress):
    """The progress of a PostgreSQL's capture."""

    confirmed_lsn: str | None
    lag_bytes: int | None
    """The bytes of the write-ahead log from the durable place to the server's last known end."""


class TopicSchemas(Protocol):
    """The schema of a capture's topic."""

    def now(self) -> TopicSchema:
        """The current schema."""
        ...

    def evolve(self, fields: tuple[Field, ...]) -> None:
        """Evolve the schema to these fields."""
        ...


class PostgresCapture:
    """One slot into one topic. ``reached`` is called between steps, for tests."""

    def __init__(
        self,
        dsn: str,
        options: PostgresOptions,
        *,
        producer: Producer,
        states: PostgresStateStore,
        life: str,
        clock: Clock,
        pause: Callable[[float], None],
        reached: Callable[[str], None] = lambda point: None,
        schema: TopicSchemas | None = None,
        types: TypesStore | None = None,
    ) -> None:
        """``schema``: of a typed topic. ``types``: the store of column types, for other topics."""
        self._schema, self._types = schema, types
        self._dsn, self._options, self._clock, self._pause, self._reached = dsn, options, clock, pause, reached
        self._producer, self._states, self._life = producer, states, life
        self._catalog = Catalog(dsn, clock.monotonic_s)
        self._conversions = TypeConversions(self._catalog.describe_type)
        self._sender = EventSender(producer, whole_from=self._whole_from, heartbeat=self._beat if options.heartbeat else None)
        self._whole_from_lsn: int | None = None
        """The place in the log after all tables' readings, by any process; None: rows are still to be read."""
        self._has_reread = False
        self._tables = CapturedTables(self._catalog, states, options.publication)
        self._envelopes: EnvelopeEncoder | None = None
        self._snapshot: SnapshotReader | None = None
        self._renewed = False
        self._retry_loop = RetryLoop(options.patience_s, clock, pause)
        self._on_progress: Callable[[PostgresProgress], None] = lambda progress: None
        self._stopped: Callable[[], bool] = lambda: False
        self._reported = PostgresProgress(0, 0, 0, None, None)

    @property
    def progress(self) -> PostgresProgress:
        confirmed = self._sender.confirmed_lsn
        end_lsn = self._catalog.current_lsn() if confirmed else 0
        return PostgresProgress(
            snapshot_rows=self._snapshot.rows if self._snapshot else 0,
            events=self._sender.events,
            duplicates=self._sender.duplicates,
            confirmed_lsn=lsn_text(confirmed) if confirmed else None,
            lag_bytes=max(0, end_lsn - confirmed) if confirmed else None,
        )

    def run(
        self,
        *,
        stopped: Callable[[], bool] = lambda: False,
        on_progress: Callable[[PostgresProgress], None] = lambda progress: None,
    ) -> PostgresProgress:
        """Capture until ``stopped()``, or with ``once`` to the log's end. ``on_progress`` is called about every second.

        Raises `SourceUnavailable` after the patience, `SlotLost`, `SlotInUse`, `PermissionDenied`, `InvalidArgument`, and the
        errors of a producer whose lake does not answer.
        """
        self._on_progress, self._stopped = on_progress, stopped
        assert self._catalog.watch is not None, "it was given a clock"
        self._catalog.watch.stopped = stopped
        try:
            with suppress(StopRequested):
                self._retry_loop.run(lambda: self._attempt(stopped), stopped, failed=self._sender.forget)
        finally:
            self._catalog.close()
        return self._reported

    def _attempt(self, stopped: Callable[[], bool]) -> None:
        self._run(stopped)
        self._reported = self.progress  # asks the database, which may be gone by now

    def _run(self, stopped: Callable[[], bool]) -> None:
        while True:
            self._tables.has_changed, self._whole_from_lsn = False, None
            checked = CapturePreflight(self._catalog, self._options)
            plan, slot = self._prepared(checked)
            self._retry_loop.note_answer()
            snapshot = self._snapshot or self._begun(checked, stopped)
            if self._schema is not None:
                (table,) = checked.tables  # it was checked that there is one
                self._fit(self._catalog.typed_columns(table.schema, table.name), table.key)
            if self._catch_up(checked, plan, slot, snapshot, stopped) and not stopped():
                self._reached("snapshot done")
                self._sender.skip_to()
                self._whole_from_lsn, self._has_reread = self._catalog.logged_lsn(), False
                until_lsn = max(self._whole_from_lsn, self._catalog.current_lsn())
                self._follow(stopped, until_lsn=until_lsn if self._options.once else None)
            if stopped() or not self._tables.has_changed:
                return

    def _begun(self, checked: CapturePreflight, stopped: Callable[[], bool]) -> SnapshotReader:
        self._envelopes = EnvelopeEncoder(
            EventOrigin(checked.database, self._options.slot),
            self._conversions,
            keys=self._tables.key_of,
            reread=self._reread,
            now_ms=self._clock.wall_ms,
            passed_over=self._tables.passed_over,
            on_table=None if self._schema is None else self._shape,
            keep_types=None if self._types is None else self._types.keep,
        )
        self._snapshot = SnapshotReader(
            self._catalog,
            self._envelopes,
            self._producer,
            self._tables,
            publication=self._options.publication,
            reached=self._reached,
            stopped=stopped,
            sender=self._sender,
        )
        return self._snapshot

    def _catch_up(
        self,
        checked: CapturePreflight,
        plan: CapturePlan,
        slot: ReplicationSlot,
        snapshot: SnapshotReader,
        stopped: Callable[[], bool],
    ) -> bool:
        """Read the pending tables, and report those that stop. False: the tables have to be checked again."""
        tables, known = self._tables, {table.named: table for table in plan.tables}
        missing = [table for table in checked.tables if table.named in known and known[table.named].is_missing]
        if not (missing or plan.grown or plan.stopped):
            return True
        # What a table is read again for may lie ahead in the stream, which is to be behind it then.
        again = plan.grown or plan.stopped or any(known[table.named].is_told for table in missing)
        if again or self._producer.last_sequence >= base_of(slot.confirmed_lsn):
            self._follow(stopped, until_lsn=self._catalog.logged_lsn(_ROOM_BYTES))
        # All this lies behind what is in the topic: changes that the slot tells before that are left out when they come again.
        slot_lsn = max(slot.confirmed_lsn, self._sender.confirmed_lsn)
        if plan.stopped and not (stopped() or tables.has_changed):
            self._stop(plan, snapshot)
        if (missing or plan.grown) and not tables.has_changed:
            self._await_transactions(stopped)
        lives = {life.named: life for life in plan.lives}
        for name, leaves in plan.grown.items():
            (table,) = [table for table in checked.tables if table.named == name]
            if not (stopped() or tables.has_changed):
                snapshot.read_grown(table, leaves, lives[name], slot_lsn)
        if not (stopped() or tables.has_changed):
            snapshot.read(missing, slot_lsn)
        return not tables.has_changed

    def _stop(self, plan: CapturePlan, snapshot: SnapshotReader) -> None:
        for name, reason in plan.stopped.items():
            if self._options.typed:
                raise InvalidArgument(
                    "the table is not captured any more",
                    operation="capture",
                    object=".".join(name),
                    observed=reason,
                    hint="capture it into a new topic once that is mended",
                )
            log.warning("%s stands still: %s", ".".join(name), reason)
        held = {table.named: table for table in plan.tables if table.named in plan.stopped}
        # First that they are to be read: one that is as before when the next process looks would be gone on with, and the topic says it stopped.
        self._become({name: replace(table, held=None) for name, table in held.items()})
        snapshot.send_stopped(plan.stopped)
        self._reached("stopped told")
        self._become(held)
        self._reached("stopped")

    def _become(self, tables: Mapping[Name, CapturedTable]) -> None:
        state = self._tables.known
        self._tables.keep(replace(state, tables=tuple(tables.get(table.named, table) for table in state.tables)))

    # --- Publication, slot and state --------------------------------------------------------------------------------------------

    def _prepared(self, checked: CapturePreflight) -> tuple[CapturePlan, ReplicationSlot]:
        options, catalog = self._options, self._catalog
        state = self._states.take_over()
        if state is not None and state.life != self._life:
            state = None
        renew = options.snapshot == "again" and not self._renewed
        self._check_known(checked, state if not renew else None)
        self._check_alone(checked, state)
        checked.check_new(state)
        fresh = PostgresState(self._life, checked.system, checked.database, options.publication)
        if state is None or renew:
            renewing = self._producer.last_sequence >= 0
            former = () if state is None else tuple(replace(one, is_read=False, is_told=True, held=None) for one in state.tables)
            state = replace(fresh, renewing=renewing, tables=former)
            self._states.save(state)  # before the old slot goes: a new slot must never pass for it
            self._reached("renewed")
            # A new slot is made, so that there is room for its rows behind the events already sent.
            if checked.slot is not None and (renew or renewing or checked.slot.is_lost):
                catalog.drop_slot(options.slot)
                checked.slot = None
        if checked.unpublished:
            catalog.publish(options.publication, checked.unpublished, add=checked.has_publication)
            self._reached("published")
        lives = catalog.lives(options.publication)  # before anything is read: what happens later shows in the next look
        slot = checked.slot or catalog.create_slot(options.slot)
        self._reached("slot created")
        state = state.settled(self._producer.last_sequence)
        plan = plan_capture(state.tables, lives, checked.wanted, options.publication)
        if options.snapshot == "never":
            plan = plan.unread()
        state = state.planned(plan.tables, stopping=plan.stopped)
        self._states.save(state)
        self._tables.state = state
        self._renewed = True
        return plan, slot

    def _check_known(self, checked: CapturePreflight, state: PostgresState | None) -> None:
        last = self._producer.last_sequence
        if state is None:
            try:
                self._check_history(last)
            except SlotLost as error:
                error.hint = "changes of this server would seem to be there already: capture into a new topic"
                raise
            return
        here, there = (checked.system, checked.database), (state.system, state.database)
        if here != there:
            raise InvalidArgument(
                "the topic has changes of another database under this slot's name",
                operation="capture",
                object=self._catalog.where,
                expected=f"system {there[0]}, database {there[1]}",
                observed=f"system {here[0]}, database {here[1]}",
                hint="give this capture another --slot, or another topic",
            )
        if checked.slot is None and state.has_begun:
            raise slot_lost(self._options.slot, "there is no such slot")
        self._check_history(last)

    def _check_alone(self, checked: CapturePreflight, state: PostgresState | None) -> None:
        """Raise `InvalidArgument` where another capture sends a new table's changes."""
        new = {table.qualified for table in checked.tables} - {*(() if state is None else state.done)}
        for key, other in self._states.others().items() if new else ():
            slot = slot_of(key)
            same = (other.life, other.system, other.database) == (self._life, checked.system, checked.database)
            if same and slot and (both := sorted(new & {*other.done})) and self._catalog.has_slot(slot):
                raise InvalidArgument(
                    "another capture sends changes of these tables to this topic",
                    operation="capture",
                    object=", ".join(both),
                    expected="one slot for a table and a topic",
                    observed=f"slot {slot} has sent them, and is there",
                    hint=f"go on with that one (--slot {slot}), give it up first (SELECT pg_drop_replication_slot('{slot}')), or capture "
                    "into another topic",
                )

    def _check_history(self, last: int) -> None:
        check_history(self._catalog, self._options.slot, last_position=last, place_of=lambda position: split(position)[0])

    def _await_transactions(self, stopped: Callable[[], bool]) -> None:
        """Wait until the stream's transactions, and those before the tables' publication, are visible to readings of rows."""
        awaited, logged_s = self._catalog.newest_transaction(), self._clock.monotonic_s()
        while not stopped() and self._catalog.visible().oldest <= awaited:
            if (now_s := self._clock.monotonic_s()) - logged_s >= _LOG_WAITS_S:
                logged_s, writers = now_s, self._catalog.writers(awaited)
                log.warning("tables are read once these transactions have ended: %s", "; ".join(writers[:10]))
            self._pause(LOOK_S)

    # --- The topic's schema -----------------------------------------------------------------------------------------------------

    def _shape(self, table: EnvelopeTable) -> None:
        # A column that has gone since is in the topic already, or is text.
        now = {column.name: column for column in self._catalog.typed_columns(table.schema, table.name)}
        key = [table.columns[place] for place in table.key]
        self._sender.send()  # what came before has the columns of before
        self._fit([now.get(name, CatalogColumn(name, "text")) for name in table.columns if name in now or not self._has(name)], key)

    def _has(self, column: str) -> bool:
        return self._sender.typed is not None and column in self._sender.typed.names

    def _fit(self, columns: Sequence[CatalogColumn], key: Sequence[str]) -> None:
        assert self._schema is not None, "the topic has a schema"
        fields = evolved_fields(self._schema.now(), columns, key)
        self._schema.evolve(fields)
        self._sender.typed = TypedEvents(fields)

    # --- The stream -------------------------------------------------------------------------------------------------------------

    def _follow(self, stopped: Callable[[], bool], *, until_lsn: int | None) -> None:
        options = self._options
        assert self._envelopes is not None
        follower = SlotFollower(self._envelopes, self._sender, self._clock, reached=self._reached, on_progress=self._report)
        stream = open_stream(self._dsn, options.slot, options.publication, settings=SETTINGS, where=self._catalog.where)
        try:
            follower.run(stream, lambda: stopped() or self._tables.has_changed, until_lsn)
        finally:
            stream.close()

    def _whole_from(self) -> int | None:
        if self._whole_from_lsn is None or not self._tables.are_as_known():
            return None
        if self._has_reread:
            self._whole_from_lsn, self._has_reread = self._catalog.logged_lsn(), False
        return self._whole_from_lsn

    def _beat(self, position: int) -> EnvelopeMessage:
        assert self._envelopes is not None, "it comes while the stream is followed"
        return self._envelopes.heartbeat(position)

    def _report(self) -> None:
        self._retry_loop.note_progress()
        self._reported = self.progress
        self._on_progress(self._reported)
        if self._whole_from_lsn is not None:
            self._tables.are_as_known(of_all=True)

    def _reread(self, table: EnvelopeTable, key: Row, places: Sequence[int], transaction: int) -> Row | None:
        """A row's values once a transaction is visible, or later; None if the row is gone. Dropped columns stay unchanged.
        Raises `SourceUnavailable`.
        """
        self._has_reread = True
        pause_s, until_s = PAUSE_FIRST_S / 100, self._clock.monotonic_s() + _VISIBLE_S
        while True:
            with self._catalog.reading(table.schema, table.name, table.oid) as found:
                if found is None:
                    return None
                schema, name, visible = found
                if visible.contains(transaction):
                    return self._values_now(schema, name, table, key, places)
            if self._stopped() or self._clock.monotonic_s() >= until_s:
                raise SourceUnavailable(
                    "a transaction that the log has is not visible yet, and a row is to be read as it left it",
                    operation="read again",
                    object=table.qualified,
                    expected=f"transaction {transaction} to end within {_VISIBLE_S:.0f} s",
                    hint="does it wait for a synchronous standby? See wait_event in pg_stat_activity",
                )
            self._pause(pause_s)
            pause_s = min(2 * pause_s, LOOK_S)

    def _values_now(self, schema: str, name: str, table: EnvelopeTable, key: Row, places: Sequence[int]) -> Row | None:
        sql = load_psycopg().sql
        there = {*self._catalog.column_names(schema, name)}
        read = [place for place in places if table.columns[place] in there]
        if not read or not there.issuperset(table.columns[place] for place in table.key):
            return None
        found = self._catalog.copy_row(
            sql.SQL("COPY (SELECT {} FROM {} WHERE ({}) = ({}) AND {}) TO STDOUT").format(
                sql.SQL(", ").join(sql.Identifier(table.columns[place]) for place in read),
                sql.Identifier(schema, name),
                sql.SQL(", ").join(sql.Identifier(table.columns[place]) for place in table.key),
                sql.SQL(", ").join(map(sql.Literal, key)),
                own_rows(schema, name),
            )
        )
        if found is None:
            return None
        values = dict(zip(read, found, strict=True))
        return tuple(values.get(place, UNCHANGED) for place in places)
