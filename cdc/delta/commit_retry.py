"""Commits to targets beside those of others, for every engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ...log.errors import RetryError

T = TypeVar("T")

COMMIT_ATTEMPTS_MAX = 10
_REASON_CHARS_MAX = 500


def commit_with_retry(
    commit: Callable[[], T], conflicts: type[Exception] | tuple[type[Exception], ...], path: str, *, check: Callable[[], None]
) -> T:
    """Call ``commit`` after ``check``, again after each of ``conflicts``, when nothing was committed.

    Raises `RetryError`, and the errors of ``check``.
    """
    for attempt in range(1, COMMIT_ATTEMPTS_MAX + 1):
        check()
        try:
            return commit()
        except conflicts as error:
            if attempt == COMMIT_ATTEMPTS_MAX:
                raise RetryError(
                    "other commits kept the merge from being committed",
                    operation="sync",
                    object=path,
                    observed=f"{attempt} attempts, the last one: {type(error).__name__}: {str(error)[:200]}",
                    hint="do others change rows of this table? Only compaction may run beside a sync",
                ) from error
    raise AssertionError("the loop returns or raises")


def one_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__)[:_REASON_CHARS_MAX]
