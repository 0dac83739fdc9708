"""New column types for older targets, under their sync's lease, each by one commit with its progress.

look ─► read and convert every row, into a file of this machine ─► one commit ─► the sync's record
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ...coordinator.lakes import OpenLake, lakes
from ...log.errors import InvalidArgument, RetryError, TopicNotFound
from ...log.schema.fields import FieldType
from ..delta.commit_retry import commit_with_retry
from ..delta.deltalake_targets import DeltalakeTargets, existing_target_of
from ..delta.reader import query, schema_of
from ..delta.rewrite import check_rewritable, rewrite, size_of
from ..events.conversion import UnfitValue
from ..events.sources import TableId, distinct_names, is_selected, merged_declarations
from ..fold.shape import check_key, of_key
from ..scratch import scratch_folder
from ..sync.lease import SyncLease, take_lease
from ..sync.plan import SyncPlan
from ..sync.record import SyncRecord, check_folder, read_record
from ..sync.targets.error_hints import as_text
from ..sync.targets.source_types import SourceTypes
from ..target import (
    ExistingTarget,
    Target,
    TargetColumn,
    TargetOwner,
    TargetProgress,
    TargetRefused,
    check_owner,
    progress_unknown,
)
from .changes import ColumnChange, TypeChange, changes_of
from .converter import TargetConverter

if TYPE_CHECKING:
    from deltalake import DeltaTable

_PATIENCE_S: float | None = None
"""The wait for a sync to end; None: until a dead one is known as such."""


@dataclass(frozen=True, slots=True)
class RetypedTable:
    """The effect of a retype on one target."""

    table: str
    """The source's table."""
    path: str
    changes: tuple[ColumnChange, ...] = ()
    """The columns that get other types; none: the target stays."""
    rows: int = 0
    files: int = 0
    version: int | None = None
    """The target's new version; None: it was not rewritten."""
    refused: str | None = None
    """Why the target cannot have these types, and stays as it is."""
    unknown: bool = False
    """Whether the source's types are unknown, as no event since has named them."""


def retype_targets(plan: SyncPlan, *, dry_run: bool) -> tuple[RetypedTable, ...]:
    """Give targets the declared types, or the source catalogue's. A dry run converts all and writes nothing.

    Raises `SyncInUse` while the sync runs, `LeaseLost`, `TopicNotFound` where there is no such sync, and the errors of stores.
    """
    opened = lakes.open(plan.place)
    if dry_run:
        return _Retype(plan, _record(opened, plan), None).all()
    lease = opened.run(lambda: take_lease(opened, plan.topic, plan.name, patience_s=_PATIENCE_S))
    try:
        return _Retype(plan, _there(lease.record, plan), lease).all()
    finally:
        opened.run(lease.give_up)


def _record(opened: OpenLake, plan: SyncPlan) -> SyncRecord:
    async def read() -> SyncRecord | None:
        return await read_record((await opened.coordination()).cells, plan.topic, plan.name)

    return _there(opened.run(read), plan)


def _there(record: SyncRecord | None, plan: SyncPlan) -> SyncRecord:
    if record is None:
        raise TopicNotFound(
            "there is no such sync of this topic", object=plan.name, hint="has it run, with this name and this coordination?"
        )
    check_folder(record, plan.into, plan.name)
    return record


class _Retype:
    """One call; it writes nothing without a lease."""

    def __init__(self, plan: SyncPlan, record: SyncRecord, lease: SyncLease | None) -> None:
        self._plan, self._record, self._lease = plan, record, lease
        self._tables = DeltalakeTargets(plan.into, by_position=True)
        self._owner = TargetOwner(plan.topic, record.life, plan.name)
        self._source_types = SourceTypes(plan)

    def all(self) -> tuple[RetypedTable, ...]:
        """Refused targets hold up no others."""
        chosen = {name: source for name, source in self._record.tables.items() if is_selected(self._plan.tables, source)}
        self._check_names(chosen.values())
        names = distinct_names(self._record.tables.values())
        return tuple(self._one(name, source, names[source]) for name, source in sorted(chosen.items()))

    def _check_names(self, chosen: Collection[TableId]) -> None:
        plan = self._plan
        declared = plan.declared.columns.keys() - plan.choices.by_name.keys()  # a file may have tables that are still to come
        for table in sorted({*(plan.tables or ()), *declared}):
            if not any(is_selected((table,), source) for source in chosen):
                raise InvalidArgument(
                    "the sync has no such table",
                    operation="retype",
                    object=table,
                    expected=", ".join(sorted(distinct_names(self._record.tables.values()).values())[:10]) or None,
                    observed=f"{len(self._record.tables)} tables",
                )

    def _one(self, name: str, source: TableId, table: str) -> RetypedTable:
        path = self._tables.path(name)
        try:
            return self._converted(name, source, RetypedTable(table, path))
        except TargetRefused as error:
            return RetypedTable(table, path, refused=str(error))
        except Exception as error:
            if (why := self._tables.refusal(error)) is None:
                raise
            return RetypedTable(table, path, refused=why)

    def _converted(self, name: str, source: TableId, report: RetypedTable) -> RetypedTable:
        from deltalake.exceptions import CommitFailedError

        return commit_with_retry(lambda: self._attempt(name, source, report), CommitFailedError, report.path, check=self._check)

    def _attempt(self, name: str, source: TableId, report: RetypedTable) -> RetypedTable:
        table = self._tables.open(name)
        if table is None:
            return replace(report, refused="the target has gone")
        found = existing_target_of(table)
        target = self._target(name, source, found, report.path)
        catalog_types = self._catalog_types(name, source)
        changes = self._changes(name, source, found, catalog_types)
        report = replace(report, changes=tuple(change.shown for change in changes), unknown=not changes and not catalog_types)
        if not changes:
            self._keep(target)
            return report
        check_rewritable(table, report.path)
        rows, files = size_of(table)
        report = replace(report, rows=rows, files=files)
        try:
            version = self._rewritten(table, target, changes)
        except UnfitValue as error:
            return replace(report, refused=f"{error}{as_text(report.table, error.column)}")
        return replace(report, version=version)

    def _target(self, name: str, source: TableId, found: ExistingTarget, path: str) -> Target:
        """The sync's target. Raises `TargetRefused` for a foreign one, or one that others have changed."""
        written = check_owner(path, found.written, self._owner, adopt=False)
        assert written is not None, "it is the sync's own"
        progress = written.progress
        if written.forgotten:
            if name not in self._record.progress:
                raise progress_unknown(path)
            progress = self._record.progress[name]
        return Target(source, name, found.columns, written.key, progress, history=written.history)

    def _catalog_types(self, name: str, source: TableId) -> Mapping[str, FieldType]:
        named = self._record.types.get(name)
        return {} if named is None else self._source_types.joined(source, [named.name])

    def _changes(
        self, name: str, source: TableId, found: ExistingTarget, catalog_types: Mapping[str, FieldType]
    ) -> tuple[TypeChange, ...]:
        declared: Mapping[str, FieldType] = merged_declarations(self._plan.declared.columns, source)
        if missing := sorted(declared.keys() - {column.name for column in found.columns}):
            raise TargetRefused(
                "the target has no such column",
                operation="retype",
                object=self._tables.path(name),
                expected=", ".join(column.name for column in found.columns),
                observed=", ".join(missing),
            )
        key = found.written.key if found.written is not None else ()
        fit = {column: of_key(kind) if column in key else kind for column, kind in catalog_types.items()}
        changes = changes_of(found.columns, declared, fit)
        for change in changes:
            if change.column in key:
                check_key(source, TargetColumn(change.column, change.new))
        return changes

    def _rewritten(self, table: DeltaTable, target: Target, changes: tuple[TypeChange, ...]) -> int | None:
        import pyarrow.parquet as pq

        plan = self._plan
        chosen = plan.fold_plan().table(target.source)
        value_options = chosen.value_options
        conversion = TargetConverter(
            schema_of(table),
            changes,
            target.key,
            forms=chosen.forms,
            nulls=value_options.unfit_times == "null",
            unavailable=value_options.unavailable,
        )
        self._reached("before", target.name)
        with scratch_folder("penstock-retype-") as folder:
            rows = Path(folder, "rows.parquet")
            with pq.ParquetWriter(rows, conversion.schema, compression="zstd") as writer:
                for batch in query(table):
                    converted = conversion.batch(batch)
                    if self._lease is not None:
                        writer.write_batch(converted)
            conversion.check_keys()
            self._reached("in", target.name)
            if self._lease is None:
                return None
            self._check()
            after = target.reached({}, None)
            if not rewrite(table, rows, conversion.schema, self._owner, after):
                raise self._raced(target)
        self._reached("after", target.name)
        self._keep(after)
        return int(table.version())

    def _raced(self, target: Target) -> RetryError:
        return RetryError(
            "a sync has written to the target meanwhile",
            operation="retype",
            object=self._tables.path(target.name),
            hint="stop the sync, and run it again",
        )

    def _keep(self, target: Target) -> None:
        """Record the target's progress: Delta's cleanup of the log removes the commit that has it."""
        lease = self._lease
        if lease is None or self._record.progress.get(target.name, TargetProgress()) == target.progress:
            return
        self._record = record = replace(self._record, progress={**self._record.progress, target.name: target.progress})
        lakes.open(self._plan.place).run(lambda: lease.save(record))

    def _check(self) -> None:
        if self._lease is not None:
            self._lease.check()

    def _reached(self, moment: Literal["before", "in", "after"], what: str) -> None:
        self._plan.steps.reached("retype", moment, what)
