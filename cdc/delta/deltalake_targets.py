"""Target tables by deltalake, without Spark: columns, creation, and one MERGE a batch, carried out once.

Every commit has the sync and the target's progress in ``userMetadata``, as Spark's commits do, for either engine. Delta's ``txn`` grows with the
progress. Commits are put if absent, on S3 too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any

from ...log.errors import InvalidArgument, MissingDependency, NotSupported, install_hint
from ...log.schema.arrow_types import arrow_type, type_of_arrow
from ...log.schema.fields import FieldType
from ..changes import Key, TargetRow
from ..events.target_types import target_type_of_arrow
from ..fold.fold_result import LastTruncate
from ..target import (
    APP_ID,
    POSITION,
    PROPERTY,
    CommitMetadata,
    ExistingTarget,
    Target,
    TargetColumn,
    TargetOwner,
    TargetProgress,
    TargetRefused,
    encode_metadata,
)
from .commit_history import RECENT_COMMITS, TableCommit, newest_commit, newest_of
from .commit_retry import commit_with_retry, one_line
from .compaction import FILES_MIN, NOTHING, TargetCompactionResult, file_bytes
from .key_ranges import KeyRanges, key_ranges_of, table_of
from .location import Location
from .merge_sql import COLUMN_POSITIONS, PUT, apply_condition, truncate_condition
from .reader import open_table, query, schema_of

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import CommitProperties, DeltaTable

_METADATA = "userMetadata"
MAPPING = "delta.columnMapping.mode"
_CHECKPOINTS, _COMMITS = "delta.checkpointInterval", "20"
"""The commits between two checkpoints of a new target. With deltalake's 100, opening one takes as long as merging into it."""
_STORE = "Object Store error"
_KEPT_MAX = 128


class DeltalakeTargets:
    """The targets in one folder."""

    def __init__(self, into: str, *, by_position: bool) -> None:
        """Raises `MissingDependency` without deltalake, `InvalidArgument` for an unknown kind of place."""
        try:
            import deltalake  # noqa: F401 - only whether it is there
        except ImportError as error:
            raise MissingDependency(
                "this engine writes tables with deltalake, which is missing",
                operation="sync",
                hint=install_hint("delta"),
            ) from error
        self._into = Location.of(into)
        self._options = dict(self._into.options) or None
        self._by_position = by_position
        self._kept: dict[str, tuple[DeltaTable, Mapping[str, Any]]] = {}
        """Tables after this object's merges, with the commit of each; the last used at the end."""
        self._keeping = Lock()  # merges run side by side

    def path(self, name: str) -> str:
        return self._into.inside(name).root

    def exists(self, name: str) -> bool:
        from deltalake import DeltaTable

        return DeltaTable.is_deltatable(self.path(name), storage_options=self._options)

    def find(self, name: str) -> ExistingTarget | None:
        table = self.open(name)
        return None if table is None else existing_target_of(table)

    def written(self, name: str) -> CommitMetadata | None:
        table = self.open(name)
        return None if table is None else _written(table)

    def newest_of(self, name: str, owner: TargetOwner, *, anew: bool = False) -> tuple[int, TargetProgress] | None:
        """The newest version with the rows of the owner's newest commit, and its progress; None: unknown. Unless it is looked for ``anew``, this
        may be this object's own last commit.
        """
        if not anew and (made := self.last_merge(name, owner)) is not None:
            return made
        table = self.open(name)
        return None if table is None else newest_of(commits_of(table, RECENT_COMMITS), owner) or newest_of(commits_of(table), owner)

    def last_merge(self, name: str, owner: TargetOwner) -> tuple[int, TargetProgress] | None:
        """The result of this object's last merge. Nothing is read."""
        with self._keeping:
            _, left_at = self._kept.get(name, (None, None))
        return None if left_at is None else newest_of([_commit_of(left_at)], owner)

    def id_of(self, name: str) -> str | None:
        """The id of a table, other than that of a later one of its name."""
        with self._keeping:
            table, _ = self._kept.get(name, (None, None))
        table = table or self.open(name)
        return None if table is None else str(table.metadata().id)

    def create(self, target: Target, owner: TargetOwner) -> None:
        """Make a target, unless it exists."""
        import pyarrow as pa
        from deltalake import DeltaTable

        if target.history:
            raise NotSupported(
                "this engine keeps no history", operation="sync", object=self.path(target.name), hint="engine='spark' does"
            )
        fields = [pa.field(column.name, arrow_type(column.type)) for column in target.columns]
        position = [pa.field(POSITION, pa.int64())] if self._by_position else []
        DeltaTable.create(
            self.path(target.name),
            pa.schema([*fields, *position]),
            mode="ignore",
            configuration={PROPERTY: encode_metadata(owner, target), _CHECKPOINTS: _COMMITS},
            raise_if_key_not_exists=False,
            storage_options=self._options,
            commit_properties=properties_of(owner, target),
        )

    def add_columns(self, target: Target, columns: Sequence[TargetColumn]) -> None:
        """The commit is without the target's progress."""
        import pyarrow as pa
        from deltalake import Schema

        fields = Schema.from_arrow(pa.schema([pa.field(column.name, arrow_type(column.type)) for column in columns])).fields
        table = self._table(target)
        if table.metadata().configuration.get(MAPPING, "none") != "none":
            raise TargetRefused(
                "the target has column mapping, and this engine cannot give such a table columns",
                operation="sync",
                object=self.path(target.name),
                observed=", ".join(column.name for column in columns),
                hint="engine='spark' (--engine spark) does, and then this one goes on",
            )
        table.alter.add_columns(fields)

    def widen(self, target: Target, columns: Sequence[TargetColumn]) -> None:
        """Raises `NotSupported`."""
        raise NotSupported("deltalake knows no type widening", operation="sync", object=self.path(target.name))

    def rows(self, target: Target, keys: Sequence[Key]) -> dict[Key, TargetRow]:
        return self.rows_of(self._table(target), target, keys)

    def rows_of(self, table: DeltaTable, target: Target, keys: Sequence[Key]) -> dict[Key, TargetRow]:
        import pyarrow as pa
        import pyarrow.compute as pc

        wanted, found = set(keys), dict[Key, TargetRow]()
        names = ", ".join(
            [*(quoted(column.name) for column in target.columns), POSITION if self._by_position else f"null as {POSITION}"]
        )
        listed = table_of(target, wanted)
        fields = [pa.field(column.name, arrow_type(column.type)) for column in target.columns]
        schema = pa.schema([*fields, pa.field(POSITION, pa.int64())])
        near = " AND ".join(["true", *key_condition(key_ranges_of(listed, target.key))])
        for read in query(table, f"select {names} from t where {near}"):  # noqa: S608 - names and values are quoted
            batch = pa.table(read).cast(schema)
            alike = batch.filter(pc.is_in(batch.column(target.key_places[0]), listed.column(0)))
            for *row, position in zip(*(column.to_pylist() for column in alike.columns), strict=True):
                key = tuple(row[place] for place in target.key_places)
                if key in wanted:
                    found[key] = TargetRow(tuple(row), position)
        return found

    def merge(
        self,
        target: Target,
        rows: pa.Table,
        owner: TargetOwner,
        *,
        truncate: LastTruncate | None = None,
        partial: bool = True,
        check: Callable[[], None] = lambda: None,
    ) -> bool:
        """Merge net changes; ``target`` has the progress after them. False, and nothing is done, when a sync has merged since the progress that the
        batch was built on.

        ``partial``: some rows have only some columns. ``check`` is called before each attempt.
        """
        from deltalake.exceptions import CommitFailedError

        return commit_with_retry(
            lambda: self.merge_into(self._as_of_now(target), target, rows, owner, truncate=truncate, partial=partial),
            CommitFailedError,
            self.path(target.name),
            check=check,
        )

    def merge_into(
        self, table: DeltaTable, target: Target, rows: pa.Table, owner: TargetOwner, *, truncate: LastTruncate | None, partial: bool
    ) -> bool:
        """Merge once, into the opened version: raises deltalake's `CommitFailedError` if that is not the newest."""
        if (table.transaction_version(APP_ID) or 0) >= target.progress.commits:
            return False
        source, names_of_positions = _spread(target, rows) if partial else (rows.drop_columns([COLUMN_POSITIONS]), {})
        same = [f"t.{quoted(key)} = s.{quoted(key)}" for key in target.key]
        # deltalake looks for one range of keys by itself.
        reach = {} if truncate is not None else {name: one for name, one in key_ranges_of(rows, target.key).items() if len(one) > 1}
        on = " AND ".join([*same, *key_condition(reach, "t.")])
        counts = apply_condition(by_position=self._by_position)
        least = f"coalesce(t.{POSITION}, 0)" if self._by_position else "0"
        changed, inserted = {}, {}
        for column in target.columns:
            name = quoted(column.name)
            inserted[name] = f"s.{name}"
            if column.name not in target.key:
                column_position = names_of_positions.get(column.name)
                kept = (
                    None
                    if column_position is None
                    else f"CASE WHEN s.{column_position} IS NULL OR s.{column_position} >= {least} THEN s.{name} ELSE t.{name} END"
                )
                changed[name] = kept or f"s.{name}"
        if self._by_position:
            changed[POSITION] = inserted[POSITION] = f"s.{POSITION}"
        merging = table.merge(
            source,
            on,
            source_alias="s",
            target_alias="t",
            streamed_exec=False,  # so that files without the batch's ranges of keys are not read
            commit_properties=properties_of(owner, target, once=True),
        ).when_matched_delete(f"NOT s.{PUT} AND {counts}")
        if changed:
            merging = merging.when_matched_update(changed, f"s.{PUT} AND {counts}")
        merging = merging.when_not_matched_insert(inserted, f"s.{PUT}")
        if truncate is not None:
            merging = merging.when_not_matched_by_source_delete(truncate_condition(truncate, by_position=self._by_position))
        version = table.version()
        merging.execute()
        if table.version() == version:  # no row has changed, so there was no commit, which has to carry the target's progress
            table.create_write_transaction([], "append", table.schema(), commit_properties=properties_of(owner, target, once=True))
        self._keep(target.name, table)
        return True

    def compact(self, name: str) -> TargetCompactionResult | None:
        """None: another commit came between."""
        table = self.open(name)
        return NOTHING if table is None else self.compacted(table)

    def compacted(self, table: DeltaTable) -> TargetCompactionResult | None:
        import pyarrow as pa
        import pyarrow.compute as pc
        from deltalake import CommitProperties
        from deltalake.exceptions import CommitFailedError

        size = file_bytes(table.metadata().configuration)
        sizes = pa.table(table.get_add_actions()).column("size_bytes")
        if (pc.sum(pc.less(sizes, size // 2)).as_py() or 0) < FILES_MIN:
            return NOTHING
        try:
            done = table.optimize.compact(target_size=size, commit_properties=CommitProperties(max_commit_retries=0))
        except CommitFailedError:
            return None
        return TargetCompactionResult(done["numFilesRemoved"], done["numFilesAdded"])

    def refusal(self, error: Exception) -> str | None:
        """Why a target refused its rows; None: the target has no fault."""
        from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

        # A table that is not found could not be made. That is the folder's fault, as all tables lie there.
        of_all = isinstance(error, CommitFailedError | TableNotFoundError) or _STORE in str(error)
        if of_all or not isinstance(error, DeltaError):
            return None
        return one_line(error)

    def open(self, name: str) -> DeltaTable | None:
        return open_table(self._into.inside(name))

    def current_table(self, name: str) -> DeltaTable | None:
        """The table as it is now. Its log is not read anew if this object's merge is the newest commit."""
        from deltalake.exceptions import DeltaError

        with self._keeping:
            table, left_at = self._kept.pop(name, (None, None))
        if table is not None:
            try:
                if _newest_commit(table) == left_at:  # else others have committed, or it was deleted and made again
                    return table
            except DeltaError:
                pass  # it is opened anew, and that tells
        return self.open(name)

    def _keep(self, name: str, table: DeltaTable) -> None:
        if (commit := _newest_commit(table)) is None:
            return
        with self._keeping:
            self._kept[name] = table, commit
            if len(self._kept) > _KEPT_MAX:
                del self._kept[next(iter(self._kept))]

    def _as_of_now(self, target: Target) -> DeltaTable:
        return self._known(target, self.current_table(target.name))

    def _table(self, target: Target) -> DeltaTable:
        return self._known(target, self.open(target.name))

    def _known(self, target: Target, table: DeltaTable | None) -> DeltaTable:
        if table is None:
            raise InvalidArgument("the target has gone", operation="sync", object=self.path(target.name))
        return table


def existing_target_of(table: DeltaTable) -> ExistingTarget:
    columns, others = [], []
    for one in schema_of(table):
        kind = _column_type(one.type)
        if kind is None or one.name.startswith("__"):
            others.append(one.name)
        else:
            columns.append(TargetColumn(one.name, kind))
    return ExistingTarget(tuple(columns), frozenset(others), _written(table))


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def key_condition(reach: KeyRanges, table: str = "") -> Iterator[str]:
    """The conditions, as deltalake's SQL, that a row's key is in the ranges; of columns of integers and text. ``table``: a prefix of the columns'
    names.
    """
    for name, ranges in reach.items():
        if type(ranges[0][0]) in (int, str):
            yield f"({' OR '.join(f'{table}{quoted(name)} BETWEEN {_literal(low)} AND {_literal(high)}' for low, high in ranges)})"


def _literal(value: int | str) -> str:
    return str(value) if isinstance(value, int) else "'" + value.replace("'", "''") + "'"


def _spread(target: Target, rows: pa.Table) -> tuple[pa.Table, Mapping[str, str]]:
    """The rows with each column's position in a column of its own, and these columns' names."""
    import pyarrow.compute as pc

    spread, names = rows.drop_columns([COLUMN_POSITIONS]), {}
    lists = rows.column(COLUMN_POSITIONS).combine_chunks()
    for place, column in enumerate(target.columns):
        if column.name not in target.key:
            names[column.name] = f"{COLUMN_POSITIONS}_{place}"
            spread = spread.append_column(names[column.name], pc.list_element(lists, place))
    return spread, names


def properties_of(owner: TargetOwner, target: Target, *, once: bool = False) -> CommitProperties:
    """``once``: for one commit of its number."""
    from deltalake import CommitProperties, Transaction

    transactions = [Transaction(APP_ID, target.progress.commits)] if once else None
    # When it loses against another commit, the merge has to look at the rows and at `txn` again, which deltalake's own retries do not do.
    retries = 0 if once else None
    return CommitProperties(
        custom_metadata={_METADATA: encode_metadata(owner, target)}, max_commit_retries=retries, app_transactions=transactions
    )


def _newest_commit(table: DeltaTable) -> Mapping[str, Any] | None:
    """The newest commit of the log; None if ``table`` does not have it."""
    return next((commit for commit in table.history(1) if commit["version"] == table.version()), None)


def _written(table: DeltaTable) -> CommitMetadata | None:
    said = table.metadata().configuration.get(PROPERTY)
    return newest_commit(commits_of(table, RECENT_COMMITS)) or newest_commit(commits_of(table, None), said)


def commits_of(table: DeltaTable, limit: int | None = None) -> Iterator[TableCommit]:
    """The newest first."""
    yield from map(_commit_of, table.history(limit))


def _commit_of(commit: Mapping[str, Any]) -> TableCommit:
    return TableCommit(commit["version"], commit["operation"], commit.get(_METADATA))


def _column_type(kind: pa.DataType) -> FieldType | None:
    """None for a type that a sync cannot write, such as arrays without NULL."""
    found = target_type_of_arrow(kind)
    return found if found is not None and found == type_of_arrow(kind, "") else None
