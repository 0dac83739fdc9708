"""The driver's side of `cdc/cuts`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta

from ...consumers.ranges.offsets import TopicSnapshot
from ...coordinator.lakes import lakes
from ...log.errors import InvalidArgument, ReopenError
from ..cuts.alignment import AlignedTable, Alignment
from ..cuts.cut import Cut, NoCut, check_captures
from ..cuts.log import CutLog, open_cuts
from ..target import TargetOwner, TargetProgress
from .backends.backend import TargetTables
from .lease import SyncLease
from .plan import SyncPlan


class _Versions:
    def __init__(self, tables: TargetTables, owner: TargetOwner) -> None:
        self._tables, self._owner = tables, owner

    def newest_of(self, name: str, *, anew: bool) -> tuple[int, TargetProgress] | None:
        return self._tables.newest_of(name, self._owner, anew=anew)

    def id_of(self, name: str) -> str | None:
        return self._tables.id_of(name)


class CutRecorder:
    """The cuts of one driver. It does nothing before `begin`, or where cuts are off."""

    def __init__(self, plan: SyncPlan, tables: TargetTables) -> None:
        self._plan, self._tables = plan, tables
        self._alignment: Alignment | None = None

    @property
    def newest(self) -> Cut | None:
        return None if self._alignment is None else self._alignment.newest

    def begin(
        self,
        owner: TargetOwner,
        standing: TopicSnapshot,
        position: Mapping[int, int],
        *,
        source_us: int | None,
        exact: bool,
        partial: bool,
    ) -> None:
        """Read the recorded cuts.

        ``standing``: the topic, seen under the lease. ``source_us``: the time of the newest applied change. Unless ``exact``, a
        target may have been replaced since the newest cut by one with as many commits. ``partial``: events may have been
        removed before they were read.

        Raises `NoCut` for a topic without a capture, or whose beginning is gone, `InvalidArgument`, and errors of the store.
        """
        plan = self._plan
        check_captures(standing, plan.topic)
        if plan.keeps_rejected or self._tables.exists(plan.options.rejected):
            raise InvalidArgument(
                "a target that lacks rejected events equals its source at no place",
                operation="sync",
                object=plan.name,
                expected="policy='stop' (--policy stop), and no table of rejected events",
                observed="another policy" if plan.keeps_rejected else self._tables.path(plan.options.rejected),
                hint="sync with cuts into a new folder",
            )
        if partial:
            raise NoCut(
                "the topic's beginning is gone, so tables that are made of the rest lack rows",
                operation="sync",
                object=plan.topic,
                expected="all events since the capture began, or a sync that goes on where it was",
                observed="events that retention has removed",
                hint="capture into a new topic and sync that; and let topics of captures keep events for longer (retention)",
            )
        place = lakes.open(plan.place)
        cuts = CutLog(
            open_cuts(plan.into, runtime=place.lake.runtime),
            topic=plan.topic,
            sync=plan.name,
            keep_ms=plan.options.keep_cuts // timedelta(milliseconds=1),
            name=plan.into,
        )
        alignment = Alignment(cuts, _Versions(self._tables, owner))
        place.run(lambda: alignment.load(standing.life, exact=exact))
        alignment.applied(source_us)
        alignment.set_goal(standing, position)
        self._alignment = alignment

    def set_goal(self, standing: TopicSnapshot, position: Mapping[int, int]) -> None:
        if self._alignment is not None:
            self._alignment.set_goal(standing, position)

    def limit(self, queue: int, end: int) -> int:
        """The offset before which a queue's batches stop."""
        return end if self._alignment is None else self._alignment.limit(queue, end)

    def applied(self, source_us: int | None) -> None:
        if self._alignment is not None:
            self._alignment.applied(source_us)

    def compacted(self, name: str) -> None:
        """Note a target's newer version with the same rows. Callable from any thread."""
        if self._alignment is not None:
            self._alignment.compacted(name)

    def due(self, position: Mapping[int, int]) -> bool:
        return self._alignment is not None and self._alignment.due(position)

    def record(self, tables: Iterable[AlignedTable], lease: SyncLease) -> Cut | None:
        """Record the cut that is due; None if a newer one exists. Raises `LeaseLost`, and `ReopenError` for a target that is
        further.
        """
        alignment, place = self._alignment, lakes.open(self._plan.place)
        assert alignment is not None, "it is due"
        cut = alignment.cut(tables, now_ms=place.lake.runtime.clock.wall_ms())
        lease.check()  # who has lost it may have seen what another driver made since
        if cut is None:
            raise ReopenError(
                "a target is further than this driver knows",
                operation="sync",
                object=self._plan.name,
                hint="did two drivers run? Start the sync again: it goes on from what the targets have",
            )
        return place.run(lambda: alignment.record(cut))
