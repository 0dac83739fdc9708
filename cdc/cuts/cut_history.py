"""Cuts as readers find them, from the targets' folder alone."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, TypeAlias, TypeVar

from ...log.errors import InvalidArgument
from ...log.runtime.portal import Portal
from ...log.stores.open import open_store
from ...log.stores.protocol import ObjectStore
from ..target import check_into
from .cut import Cut, CutTooOld, NoCut
from .log import FOLDER, first_of, folder_in, keys_of, open_cuts, segments_of
from .segment import Segment

T = TypeVar("T")
Which: TypeAlias = int | Literal["latest"] | datetime
"""A cut by its number, the newest, or the newest with nothing that the source committed after a time."""


@dataclass(frozen=True, slots=True)
class CutHistory:
    """The kept cuts of one sync."""

    into: str
    topic: str
    sync: str
    cuts: Sequence[Cut]

    def find(self, which: Which) -> Cut:
        """Raises `NoCut`, `CutTooOld` or `InvalidArgument`."""
        if which == "latest":
            return self.cuts[-1]
        oldest = self.cuts[0]
        if isinstance(which, datetime):
            if which.tzinfo is None:
                raise InvalidArgument("a time needs a zone", operation="at_cut", object="cut", observed=which.isoformat())
            times = [0 if cut.source_us is None else cut.source_us for cut in self.cuts]
            place = bisect_right(times, int(which.timestamp() * 1_000_000)) - 1
            if place < 0:
                raise self._too_old(which.isoformat(), f"the oldest kept is {oldest.number}, of {time_text(oldest)}")
            return self.cuts[place]
        if isinstance(which, bool) or not isinstance(which, int):
            raise InvalidArgument("bad cut", operation="at_cut", expected="a number, 'latest', or a time", observed=repr(which))
        if 0 < which < oldest.number:
            raise self._too_old(str(which), f"the oldest kept is {oldest.number}")
        if not oldest.number <= which <= self.cuts[-1].number:
            raise NoCut(
                "there is no cut of this number",
                operation="at_cut",
                object=self.sync,
                expected=f"{oldest.number} to {self.cuts[-1].number}",
                observed=which,
            )
        return self.cuts[which - oldest.number]

    def _too_old(self, observed: str, expected: str) -> CutTooOld:
        return CutTooOld(
            "the cut is older than those that are kept",
            operation="at_cut",
            object=self.sync,
            expected=expected,
            observed=observed,
            hint="keep_cuts=… (--keep-cuts) of the sync says how long they are kept",
        )


def time_text(cut: Cut) -> str:
    return "a time unknown" if cut.source_us is None else datetime.fromtimestamp(cut.source_us / 1_000_000, UTC).isoformat()


def kept_cuts(into: str, *, sync: str | None = None, latest_only: bool = False) -> CutHistory:
    """The cuts beside the targets in ``into``; ``latest_only``: those in the newest object, by two requests. Raises `NoCut`, and the
    store's errors.
    """
    check_into(into.partition("?")[0])

    async def look(store: ObjectStore) -> tuple[str, list[Segment]]:
        name = sync or await _only_sync(store, into)
        keys = await keys_of(store, name)
        return name, await segments_of(store, keys[-1:] if latest_only else keys)

    name, segments = _with_store(open_cuts(into), look)
    cuts = [cut for segment in segments for cut in segment.cuts]
    if not cuts:
        raise _none(into, f"sync {name} has recorded none")
    # After a gap, which trimming may leave while it is under way, only those behind it are kept.
    first = next((place for place in range(len(cuts) - 1, 0, -1) if cuts[place - 1].number + 1 != cuts[place].number), 0)
    return CutHistory(into, segments[-1].topic, name, cuts[first:])


async def _only_sync(store: ObjectStore, into: str) -> str:
    names = sorted({one.key.partition("/")[0] for one in await store.list("") if first_of(one.key) is not None})
    if len(names) == 1:
        return names[0]
    if not names:
        raise _none(into, "no sync has recorded any there")
    raise InvalidArgument(
        "several syncs have recorded cuts in this folder",
        operation="at_cut",
        object=into,
        observed=", ".join(names[:20]),
        hint="name one: sync=… (--name)",
    )


def _none(into: str, observed: str) -> NoCut:
    return NoCut(
        "there are no cuts",
        operation="at_cut",
        object=into,
        expected=f"a sync that has recorded some in {FOLDER}/",
        observed=observed,
        hint="penstock sync --cuts records one at the next place between transactions that all captures of the topic tell",
    )


def _with_store(store: ObjectStore, work: Callable[[ObjectStore], Awaitable[T]]) -> T:
    portal = Portal()

    async def whole() -> T:
        try:
            return await work(store)
        finally:
            await store.close()

    try:
        return portal.run(whole)
    finally:
        portal.stop()


def files_of(into: str, table: str) -> set[str]:
    async def look(store: ObjectStore) -> set[str]:
        return {one.key.rpartition("/")[2] for one in await store.list("") if not one.key.startswith("_delta_log/")}

    return _with_store(open_store(folder_in(into, table)), look)
