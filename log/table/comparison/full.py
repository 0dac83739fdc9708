"""Compares log and table before the log is trimmed: the number of rows, and a hash over all columns in order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...errors import DataDamaged, ViewLost
from ...format.fold import FoldedEntry
from ...format.state import TopicState
from ...limits import MIB
from ...paths import TopicPaths
from ...runtime.runtime import Runtime
from ...stores.protocol import ObjectStore
from ...tail.arrivals import Arrivals
from ...tail.entry_rows import entry_pieces
from ...tail.salvage import fold_known
from ...tail.view import View
from ..delta.snapshot import Snapshot
from .copies import CopiedCommit, Copies, differences, remember
from .ranges import Agreement, RangeComparison, RangeDifference

_ROUND_BYTES = 32 * MIB


class Comparer:
    """Compares from the floor to the last published entry, without reading entries of ``copies`` again."""

    def __init__(
        self,
        store: ObjectStore,
        paths: TopicPaths,
        runtime: Runtime,
        *,
        incarnation: str | None = None,
        copies: Copies | None = None,
    ) -> None:
        self._store = store
        self._paths = paths
        self._runtime = runtime
        self._incarnation = incarnation
        self._copies = copies or Copies()
        self._state_digest: str | None = None
        """None: begin at the floor."""
        self._reading: tuple[View, Arrivals] | None = None
        self.whole = False
        """Whether the fold has passed over no entry."""
        self.compared = -1
        """Up to this entry log and table are equal; -1: not known."""
        self.checkpoint_states: dict[int, TopicState] = {}

    async def compare_once(self, snapshot: Snapshot, floor: int) -> bool:
        """Compare the next entries, up to 32 MiB, or a GiB of copied ones. Returns False at the end. Raises `DataDamaged` when log and table
        differ.
        """
        if self._state_digest is None or self.compared < floor:
            await self._begin(floor)
        assert self._state_digest is not None
        if self.compared >= snapshot.published:
            return False
        self._copies.forget_below(floor)
        copied = self._copies.behind(self.compared, self._state_digest, snapshot.published)
        goes_on = await self._compare_copied(snapshot, copied) if copied else await self._compare_log(snapshot)
        return goes_on and self.compared < snapshot.published

    async def _begin(self, floor: int) -> None:
        view = View(self._store, self._paths, self._runtime)
        await view.open(at_most=floor)
        self._reading = view, Arrivals(self._store, self._paths, view)
        self.checkpoint_states = {}
        self.compared, self._state_digest, self.whole = view.state.entry, view.state.digest, not view.skipped

    async def _compare_copied(self, snapshot: Snapshot, copied: Sequence[CopiedCommit]) -> bool:
        found = await differences(self._store, self._paths, self._runtime, snapshot, (one for c in copied for one in c.files))
        if found:
            self._copies.forget()  # the next comparison reads the log itself
        self._check(snapshot, found)
        self._reading = None
        self.compared, self._state_digest = copied[-1].end, copied[-1].end_digest
        remember(self.checkpoint_states, [state for state in self._copies.states.values() if state.entry <= self.compared])
        return True

    async def _compare_log(self, snapshot: Snapshot) -> bool:
        view, arrivals = await self._open() if self._reading is None else self._reading
        self._reading = view, arrivals
        until = self._copies.next_start(self.compared, snapshot.published)
        try:
            while view.state.entry < until and arrivals.size_bytes < _ROUND_BYTES:
                await fold_known(view, self._store, self._paths, view.state.entry + 1)
        except ViewLost:
            self._state_digest = None
            raise
        after = arrivals.after
        if after.entry > snapshot.published:  # the view was led around damage, past the published entries: wait for the publisher
            self._state_digest = None
            return False
        entries = await arrivals.entries()
        mine = [(folded, data) for folded, data in entries if self._incarnation in {None, folded.state.incarnation}]
        comparison = await compare_entries(self._store, self._paths, self._runtime, snapshot, mine)
        self._check(snapshot, comparison.differences)
        remember(self.checkpoint_states, arrivals.states())
        arrivals.begin(after)
        self.compared, self._state_digest, self.whole = after.entry, after.digest, not view.skipped
        return True

    async def _open(self) -> tuple[View, Arrivals]:
        """Read the log where the copies end, or all of it where the copies are of another log (`ViewLost`)."""
        view = View(self._store, self._paths, self._runtime)
        try:
            await view.open(at_most=self.compared)
            await fold_known(view, self._store, self._paths, self.compared)
            if (view.state.entry, view.state.digest) != (self.compared, self._state_digest):
                self._copies.forget()
                raise ViewLost("the log has changed since it was published", object=self._paths.entry(self.compared))
        except ViewLost:
            self._state_digest = None
            raise
        return view, Arrivals(self._store, self._paths, view)

    def _check(self, snapshot: Snapshot, found: Sequence[RangeDifference]) -> None:
        if found:
            self._state_digest = None
            raise DataDamaged(
                "log and table differ, so the log is not trimmed",
                object=self._paths.table(snapshot.folder),
                expected="equal rows",
                observed=found[0],
                hint="`penstock verify` shows all differences",
            )


async def compare_entries(
    store: ObjectStore, paths: TopicPaths, runtime: Runtime, snapshot: Snapshot, entries: Iterable[tuple[FoldedEntry, bytes]]
) -> RangeComparison:
    """Compare these entries' rows with the table's, as far as `Agreement` does."""
    agreement = Agreement(store, paths, runtime, snapshot)
    for folded, data in entries:
        async for piece in entry_pieces(store, paths, runtime, folded, data):
            await agreement.take(piece.table)
    return await agreement.finish()
