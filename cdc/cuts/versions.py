"""The readable version of a table that has the rows of a cut, for any engine."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Generic, NamedTuple, Protocol, TypeVar

from ..delta.commit_history import TableCommit, version_with
from ..target import TargetOwner
from .cut import Cut, CutTooOld, TableVersion
from .cut_history import CutHistory, files_of, kept_cuts, time_text

T = TypeVar("T")
ReaderT = TypeVar("ReaderT", bound="TableReader")


class CurrentVersion(NamedTuple):
    """The present state of a table."""

    version: int
    table: str
    """The table's identity: one made later under its name has another."""


class TableReader(Protocol):
    """The Delta tables in one folder, for one engine."""

    def path(self, name: str) -> str: ...
    def newest(self, name: str) -> CurrentVersion | None: ...

    def files(self, name: str, version: int) -> Collection[str] | None:
        """The names of a version's files; None where the table's log or a deletion vector is gone."""
        ...

    def commits(self, name: str) -> Iterable[TableCommit]:
        """The newest first."""
        ...


class CutTables(Mapping[str, T], Generic[ReaderT, T]):
    """The tables of a cut, by their folders' names, for any engine."""

    def __init__(self, kept: CutHistory, cut: Cut, tables: ReaderT) -> None:
        self.cut = cut
        self._kept, self._tables = kept, tables

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self.cut.tables))

    def __len__(self) -> int:
        return len(self.cut.tables)

    def __contains__(self, table: object) -> bool:
        return table in self.cut.tables

    def __repr__(self) -> str:
        places = ", ".join(f"{name} {place}" for name, place in sorted(self.cut.places.items()))
        return f"{type(self).__name__}({self.cut.number}, {places}, {len(self)} tables)"

    def version(self, table: str) -> int:
        """The readable version with the rows of the cut. Raises `TableNotInCut` or `CutTooOld`."""
        return readable_version(self._tables, self._kept, self.cut, table)


def readable_version(tables: TableReader, kept: CutHistory, cut: Cut, name: str) -> int:
    """Raises `TableNotInCut`, and `CutTooOld` which names the oldest cut whose version of this table is there."""
    wanted = cut.of(name)
    newest = tables.newest(name)
    is_other = newest is not None and newest.table != wanted.table
    oldest = None
    if newest is not None:
        if not is_other and (found := _readable(tables, kept, cut, name, wanted, newest.version)) is not None:
            return found
        cuts = kept_cuts(kept.into, sync=kept.sync).cuts
        later = [one for one in cuts if one.number > cut.number and name in one.tables and one.tables[name].table == newest.table]
        oldest = _first_readable(tables, kept, later, name, newest.version)
    raise CutTooOld(
        "the table's version of this cut is no longer there",
        operation="at_cut",
        object=tables.path(name),
        expected="no cut of this table can be read" if oldest is None else f"cut {oldest.number} or later, of {time_text(oldest)}",
        observed=f"cut {cut.number}, version {wanted.version}",
        hint="the table was deleted and made again"
        if is_other
        else "VACUUM and the cleanup of a table's log (delta.deletedFileRetentionDuration, delta.logRetentionDuration) remove old versions",
    )


def _readable(tables: TableReader, kept: CutHistory, cut: Cut, name: str, wanted: TableVersion, newest: int) -> int | None:
    if _is_readable(tables, kept, name, wanted.version, newest):
        return wanted.version
    # What has only put files together since has the same rows.
    alike = version_with(tables.commits(name), TargetOwner(kept.topic, cut.life, kept.sync), wanted.commits)
    return alike if alike is not None and alike > wanted.version and _is_readable(tables, kept, name, alike, newest) else None


def _is_readable(tables: TableReader, kept: CutHistory, name: str, version: int, newest: int) -> bool:
    if version >= newest:
        return version == newest
    files = tables.files(name, version)
    return files is not None and {*files} <= files_of(kept.into, name)


def _first_readable(tables: TableReader, kept: CutHistory, cuts: list[Cut], name: str, newest: int) -> Cut | None:
    low, high = 0, len(cuts)
    while low < high:
        middle = (low + high) // 2
        if _readable(tables, kept, cuts[middle], name, cuts[middle].tables[name], newest) is None:
            low = middle + 1
        else:
            high = middle
    return cuts[low] if low < len(cuts) else None
