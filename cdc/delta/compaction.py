"""Compaction of targets beside a sync, in a thread of its own.

No row changes, so it needs no lease. A merge that meets it is tried again. A compaction that meets a merge is done once more while merges wait.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from typing import NamedTuple, Protocol

from ...log.limits import MIB
from ..target import Target

log = logging.getLogger("penstock.cdc")

FILES_MIN = 16
_FILE_SIZE, _FILE_BYTES = "delta.targetFileSize", 100 * MIB
"""The size of a target's files, as a merge writes whole files anew."""


class TargetCompactionResult(NamedTuple):
    """The result of a compaction."""

    removed: int
    added: int


NOTHING = TargetCompactionResult(0, 0)


class CompactableTables(Protocol):
    """Targets that can be compacted."""

    def compact(self, name: str) -> TargetCompactionResult | None:
        """Put a target's small files together. None: another commit came between. None are removed where there are few."""
        ...


def file_bytes(settings: Mapping[str, str]) -> int:
    size = settings.get(_FILE_SIZE, "")
    return int(size) if size.isdecimal() and int(size) else _FILE_BYTES


def is_due(commits: int, every: int) -> bool:
    """Whether a target is due after this commit; ``every`` 0: never. The target counts, for runs of one batch each."""
    return every > 0 and commits % every == 0


class TargetCompactor:
    """Compacts targets, one at a time, for one thread that merges."""

    def __init__(self, tables: CompactableTables, *, every: int, done: Callable[[str], None] = lambda name: None) -> None:
        """``every``: the commits to a target between two looks; 0: no compaction. ``done`` is called from another thread."""
        self._tables, self._done = tables, done
        self._every = every
        self._threads: ThreadPoolExecutor | None = None
        self._waiting: dict[str, Future[None]] = {}
        self._merging: defaultdict[str, Lock] = defaultdict(Lock)

    def apart(self, name: str) -> Lock:
        """The lock of a merge, by which a compaction that lost to one keeps others out."""
        return self._merging[name]

    def merged(self, target: Target) -> None:
        before = self._waiting.get(target.name)
        if not is_due(target.progress.commits, self._every) or (before is not None and not before.done()):
            return
        if self._threads is None:
            self._threads = ThreadPoolExecutor(1, thread_name_prefix="penstock-sync-compact")
        self._waiting[target.name] = self._threads.submit(self._compact, target.name)

    def close(self) -> None:
        """Wait for the compaction under way, and begin no other."""
        threads, self._threads = self._threads, None
        if threads is not None:
            threads.shutdown(cancel_futures=True)

    def _compact(self, name: str) -> None:
        try:
            done = self._tables.compact(name)
            if done is None:
                with self.apart(name):
                    done = self._tables.compact(name)
        except Exception as error:  # noqa: BLE001 - the sync goes on, and the next look at the target tries again
            log.warning("the target %s could not be compacted: %s", name, error)
            return
        if done is not None and done.removed:
            self._done(name)
            log.info("the target %s was compacted: %d files became %d", name, done.removed, done.added)
