"""What the history of a target tells of its sync's commits, for every engine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from ..target import CommitMetadata, TargetOwner, TargetProgress, decode_metadata

RECENT_COMMITS = 20
"""The commits to look at first for a sync's metadata; after that, all."""
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


def newest_commit(commits: Iterable[TableCommit], property_: str | None = None) -> CommitMetadata | None:
    """The metadata of the newest sync commit, and the later changes of others. Commits are given newest first.

    ``property_``: the table's own record, in case the commit has left the log.
    """
    changed = None
    for commit in commits:
        if (found := decode_metadata(commit.metadata)) is not None:
            return replace(found, changed=changed)
        if commit.operation not in _HARMLESS:
            changed = f"{commit.operation} in version {commit.version}"
    progress = decode_metadata(property_)
    return None if progress is None else replace(progress, forgotten=True, changed=changed)


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
