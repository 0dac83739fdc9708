"""What the engines that merge into targets have in common: the columns that only travel, when a net change applies, and trying again."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from ..log.errors import RetryError
from .changes import ALWAYS
from .fold import Truncate
from .targets import POSITION, Written, decode_metadata

T = TypeVar("T")

PUT, LEVEL, SINCE = "__put", "__level", "__since"
"""Columns of the rows to merge: whether there is a row then, the level up to which the row they meet gives way, and the levels from which
on each column counts."""
NEWEST = 20
"""Commits to look at first for what a sync said last; then all."""
_ATTEMPTS = 10


def applies(*, guard: bool) -> str:
    """Whether a net change (s) changes the row that it meets (t)."""
    return f"(t.{POSITION} IS NULL OR s.{LEVEL} >= t.{POSITION})" if guard else "true"


def removed_by(truncate: Truncate, *, guard: bool) -> str | None:
    """Which rows (t) a truncate removes; None: all."""
    return f"t.{POSITION} IS NULL OR t.{POSITION} < {truncate.position}" if guard and truncate.position != ALWAYS else None


def newest(said: Iterable[str | None]) -> Written | None:
    """What the newest commit of a sync says, of what commits say, the newest first: others, as compaction's, may stand before it."""
    return next((found for one in said if (found := decode_metadata(one)) is not None), None)


def until_committed(commit: Callable[[], T], lost: type[Exception], path: str) -> T:
    """Do it, again when another commit came between (``lost``): nothing was committed then. Raises `RetryError`."""
    for attempt in range(1, _ATTEMPTS + 1):
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
