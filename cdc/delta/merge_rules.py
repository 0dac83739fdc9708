"""Common parts of the engines that merge into targets."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import NamedTuple, TypeVar

from ...log.errors import RetryError
from ..changes import ALWAYS
from ..fold.fold_result import LastTruncate
from ..targets import POSITION, CommitMetadata, TargetOwner, TargetProgress, decode_metadata

T = TypeVar("T")

PUT, LEVEL, SINCE = "__put", "__level", "__since"
"""Columns of the rows to merge. ``__put``: whether the key has a row after the merge. ``__level``: the target's row is replaced or deleted if its
position is at most this. ``__since``: a column's value is taken if the position of the target's row is at most this column's number; NULL takes
all. A row at position 7, under ``__level`` 9 and ``__since`` [9, 5], gets the first column's value alone.
"""
NEWEST = 20
"""The commits to look at first for a sync's metadata; after that, all."""
_ATTEMPTS = 10
_REASON = 500
_HARMLESS = frozenset(
    {
        "ADD COLUMN",
        "ADD COLUMNS",
        "ADD CONSTRAINT",
        "ADD FEATURE",
        "CHANGE COLUMN",
        "CHANGE COLUMNS",
        "CLUSTER BY",
        "COMPUTE STATS",
        "DROP CONSTRAINT",
        "OPTIMIZE",
        "REORG",
        "SET TBLPROPERTIES",
        "UNSET TBLPROPERTIES",
        "UPDATE FIELD METADATA",
        "UPGRADE PROTOCOL",
        "VACUUM END",
        "VACUUM START",
    }
)
"""Operations of Spark and deltalake that leave every row as it was."""


class TableCommit(NamedTuple):
    """A commit of a Delta table, from its history."""

    version: int
    operation: str
    metadata: str | None


def apply_condition(*, guard: bool) -> str:
    """The SQL condition that a net change (s) changes the row that it meets (t)."""
    return f"(t.{POSITION} IS NULL OR s.{LEVEL} >= t.{POSITION})" if guard else "true"


def truncate_condition(truncate: LastTruncate, *, guard: bool) -> str | None:
    """The SQL condition for the rows (t) that a truncate removes; None: all."""
    return f"t.{POSITION} IS NULL OR t.{POSITION} < {truncate.position}" if guard and truncate.position != ALWAYS else None


def newest(commits: Iterable[TableCommit], property_: str | None = None) -> CommitMetadata | None:
    """The metadata of the newest sync commit, and the later changes of others. Commits are given newest first.

    ``property_``: the table's own record, in case the commit has left the log.
    """
    changed = None
    for commit in commits:
        if (found := decode_metadata(commit.metadata)) is not None:
            return replace(found, changed=changed)
        if commit.operation not in _HARMLESS:
            changed = f"{commit.operation} in version {commit.version}"
    said = decode_metadata(property_)
    return None if said is None else replace(said, forgotten=True, changed=changed)


def version_with(commits: Iterable[TableCommit], owner: TargetOwner, number: int) -> int | None:
    """The newest version whose rows are those after the owner's commit of this number; commits are given newest first. None: the commit is gone, or
    other writers have changed rows since.
    """
    alike: int | None = None
    for commit in commits:
        found = decode_metadata(commit.metadata)
        if found is None and commit.operation in _HARMLESS:
            alike = commit.version if alike is None else alike
        elif found is not None and found.owner == owner and found.progress.commits <= number:
            is_it = found.progress.commits == number
            return (commit.version if alike is None else alike) if is_it else None
        else:
            alike = None
    return None


def newest_of(commits: Iterable[TableCommit], owner: TargetOwner) -> tuple[int, TargetProgress] | None:
    """The newest version with the rows of the owner's newest commit, and its progress. Otherwise as `version_with`."""
    alike: int | None = None
    for commit in commits:
        found = decode_metadata(commit.metadata)
        if found is not None and found.owner == owner:
            return (commit.version if alike is None else alike), found.progress
        if found is not None or commit.operation not in _HARMLESS:
            return None
        alike = commit.version if alike is None else alike
    return None


def one_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__)[:_REASON]


def until_committed(
    commit: Callable[[], T], lost: type[Exception] | tuple[type[Exception], ...], path: str, *, check: Callable[[], None]
) -> T:
    """Call ``commit`` after ``check``, again after each ``lost``, when nothing was committed. Raises `RetryError`, and the errors of ``check``."""
    for attempt in range(1, _ATTEMPTS + 1):
        check()
        try:
            return commit()
        except lost as error:
            if attempt == _ATTEMPTS:
                raise RetryError(
                    "other commits kept the merge from being committed",
                    operation="sync",
                    object=path,
                    observed=f"{attempt} attempts, the last one: {type(error).__name__}: {str(error)[:200]}",
                    hint="do others change rows of this table? Only compaction may run beside a sync",
                ) from error
    raise AssertionError("the loop returns or raises")
