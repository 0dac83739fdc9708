"""The time from an event's append to its visibility in its target, from the topic's times and the target's commits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..target import decode_metadata
from .location import Location
from .reader import open_table


@dataclass(frozen=True, slots=True)
class SyncCommit:
    """A commit of a sync to one target."""

    time_ms: int
    """The commit's time, by the clock of the process that made it."""
    offsets: Mapping[int, int]
    """The offset of every queue below which all events are applied."""


@dataclass(frozen=True, slots=True)
class Freshness:
    """Events of one or more targets, with percentiles in milliseconds."""

    events: int
    waiting: int
    """Events that no commit shows yet."""
    p50_ms: float
    p99_ms: float
    max_ms: float


def commits_of(url: str, storage_options: Mapping[str, str] | None = None) -> list[SyncCommit]:
    table = open_table(Location(url, storage_options or {}))
    history = () if table is None else table.history()
    written = [(commit["timestamp"], decode_metadata(commit.get("userMetadata"))) for commit in history]
    return [SyncCommit(time_ms, found.progress.offsets) for time_ms, found in written if found is not None]


def visible_ms(events: pa.Table, commits: Sequence[SyncCommit]) -> np.ndarray:
    """The time of the first commit that shows each event of one target (columns ``queue``, ``offset``); -1: none.

    ``commits`` are all of the target's, in any order.
    """
    ordered = sorted(commits, key=lambda commit: commit.time_ms)
    times = np.array([commit.time_ms for commit in ordered] + [-1], np.int64)
    queues, offsets = events["queue"].to_numpy(), events["offset"].to_numpy()
    found = np.full(len(queues), -1, np.int64)
    for queue in np.unique(queues):
        # A replay may commit an older vector; events once visible stay so.
        ends = np.maximum.accumulate(np.array([commit.offsets.get(int(queue), 0) for commit in ordered], np.int64))
        mine = queues == queue
        found[mine] = times[np.searchsorted(ends, offsets[mine], side="right")]
    return found


def stored_ms(events: pa.Table) -> np.ndarray:
    return pc.cast(events["store_timestamp"], pa.timestamp("ms", "UTC"), safe=False).cast(pa.int64()).to_numpy()


def freshness(stored: np.ndarray, visible: np.ndarray) -> Freshness:
    """The percentiles of ``visible`` less ``stored``, both in milliseconds; 0 where clocks put the commit first."""
    shown = visible >= 0
    ages = np.maximum(visible[shown] - stored[shown], 0)
    if not len(ages):
        return Freshness(0, len(visible), 0.0, 0.0, 0.0)
    p50, p99, most = np.percentile(ages, [50, 99, 100])
    return Freshness(len(ages), int(len(visible) - len(ages)), float(p50), float(p99), float(most))
