"""Aligns a sync's batches to transactions, and records the cuts there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Protocol

from ...consumers.ranges.offsets import TopicSnapshot
from ..target import TargetProgress
from .cut import Cut, Goal, TableVersion, goal_of
from .log import CutLog


class VersionFinder(Protocol):
    """Finds versions of targets."""

    def newest_of(self, name: str, *, anew: bool) -> tuple[int, TargetProgress] | None:
        """The newest version with the rows of the sync's newest commit, and that commit's progress; None if the log has none.

        Unless ``anew``, an older version with the same rows will do.
        """
        ...

    def id_of(self, name: str) -> str | None:
        """The target's identity: one made later under the name has another."""
        ...


@dataclass(frozen=True, slots=True)
class AlignedTable:
    """A table as its driver knows it at a goal."""

    name: str
    """The folder, or the name without one."""
    commits: int | None
    """The number of the sync's newest commit, if certain."""
    stopped: str | None = None
    """The reason why it stands still."""


def is_beyond(goal: Goal, progress: TargetProgress) -> bool:
    return any(offset > goal.ends.get(queue, 0) for queue, offset in progress.offsets.items())


class Alignment:
    """The goals of one driver, one after the other."""

    def __init__(self, cuts: CutLog, versions: VersionFinder) -> None:
        self._cuts, self._versions = cuts, versions
        self._known: dict[str, TableVersion] = {}
        self._life = 0
        self._goal: Goal | None = None
        self._told: Goal | None = None
        self._source_us: int | None = None
        self._anew: set[str] = set()
        self._marking = Lock()

    @property
    def newest(self) -> Cut | None:
        return self._cuts.newest

    async def load(self, life: int, *, exact: bool = True) -> None:
        """Read the cuts. Unless ``exact``, their targets are not taken over."""
        await self._cuts.load()
        self._life, newest = life, self.newest
        if newest is not None and newest.life == life:
            self._known, self._source_us = dict(newest.tables) if exact else {}, newest.source_us

    def set_goal(self, standing: TopicSnapshot, position: Mapping[int, int]) -> None:
        """Take the topic's state as the next goal, unless one is pending."""
        if self._goal is None or self._goal.is_reached(position) or any(position.get(q, 0) > e for q, e in self._goal.ends.items()):
            self._goal = goal_of(standing)

    def limit(self, queue: int, end: int) -> int:
        """The offset before which a queue's batches stop: the goal's, or the seen end."""
        return end if self._goal is None else min(end, self._goal.ends.get(queue, 0))

    def compacted(self, name: str) -> None:
        """Note that a target has a newer version with the same rows. Callable from any thread."""
        with self._marking:
            self._anew.add(name)

    def applied(self, source_us: int | None) -> None:
        """Note the time of the newest change of a batch."""
        if source_us is not None:
            self._source_us = max(self._source_us or source_us, source_us)

    def due(self, position: Mapping[int, int]) -> bool:
        """Whether the goal is reached, without a cut of all tables yet."""
        goal, newest = self._goal, self.newest
        if goal is None or goal == self._told or not goal.is_reached(position):
            return False
        recorded = (newest.life, newest.ends, newest.positions) if newest is not None and not newest.incomplete else None
        return recorded != (goal.life, goal.ends, goal.positions)

    def cut(self, tables: Iterable[AlignedTable], *, now_ms: int) -> Cut | None:
        """None: a target is beyond the goal, as another driver has gone further."""
        goal = self._goal
        assert goal is not None, "it is due"
        versions, incomplete = dict[str, TableVersion](), dict[str, str]()
        for one in tables:
            if one.stopped is not None:
                incomplete[one.name] = one.stopped
                continue
            with self._marking:
                anew = one.name in self._anew
                self._anew.discard(one.name)
            known = self._known.get(one.name)
            if known is not None and known.commits == one.commits and not anew:
                versions[one.name] = known
                continue
            newest = self._versions.newest_of(one.name, anew=anew)
            table = known.table if known is not None else self._versions.id_of(one.name)
            if newest is None or table is None:
                incomplete[one.name] = "its log has no commit of the sync any more, or others have changed rows since"
                continue
            version, progress = newest
            if is_beyond(goal, progress):
                return None
            versions[one.name] = TableVersion(version, progress.commits, table)
        self._known = versions
        return Cut(0, goal.life, goal.entry, now_ms, goal.ends, goal.positions, versions, incomplete, self._source_us)

    async def record(self, cut: Cut) -> Cut | None:
        """None: a newer cut is there."""
        added = await self._cuts.add(cut)
        self._told = self._goal
        return added
