"""Rows of a range compared between log and table, before the log's are deleted: number, and a hash over all columns in order."""

from __future__ import annotations

from collections.abc import Iterable

from ..arrivals import Arrivals
from ..errors import DataDamaged, ViewLost
from ..fold import Folded
from ..limits import CHECKPOINT_ENTRIES, MIB
from ..paths import TopicPaths
from ..rows import entry_pieces
from ..runtime import Runtime
from ..salvage import fold_known
from ..state import State
from ..stores.protocol import ObjectStore
from ..view import View
from .agreement import Agreement, Comparison
from .snapshot import Snapshot

_ROUND_BYTES = 32 * MIB
_STATES_KEPT = 64


class Comparer:
    """Walks the log from the floor to what is published. What it knows lives in memory only: a new one starts at the floor again."""

    def __init__(self, store: ObjectStore, paths: TopicPaths, runtime: Runtime, *, incarnation: str | None = None) -> None:
        self._store = store
        self._paths = paths
        self._runtime = runtime
        self._incarnation = incarnation
        self._view: View | None = None
        self._arrivals: Arrivals | None = None
        self.compared = -1
        """Every published row of entries up to this one is equal in log and table; -1: nothing is known yet."""
        self.checkpoint_states: dict[int, State] = {}
        """The states this fold had at the numbers that checkpoints have, the newest ones."""

    @property
    def whole(self) -> bool:
        """Whether the fold has passed no entry over."""
        return self._view is not None and not self._view.skipped

    async def compare_once(self, snapshot: Snapshot, floor: int) -> bool:
        """Compare the next entries, up to 32 MiB of them; false when all that is published is compared.

        Raises `DataDamaged` when log and table differ: then nothing behind may be trimmed.
        """
        if self._view is None or self._arrivals is None or self.compared < floor:
            self._view, self._arrivals = await self._open(floor)
        view, arrivals = self._view, self._arrivals
        try:
            while view.state.entry < snapshot.published and arrivals.size_bytes < _ROUND_BYTES:
                await fold_known(view, self._store, self._paths, view.state.entry + 1)
        except ViewLost:
            self._view = None
            raise
        after = arrivals.after
        if after.entry > snapshot.published:  # led around damage, past what is published: wait for the publisher
            self._view = None
            return False
        entries = await arrivals.entries()
        mine = [(folded, data) for folded, data in entries if self._incarnation in {None, folded.state.incarnation}]
        comparison = await compare_entries(self._store, self._paths, self._runtime, snapshot, mine)
        if comparison.differences:
            self._view = None
            raise DataDamaged(
                "log and table differ, so the log is not trimmed",
                object=self._paths.table(snapshot.folder),
                expected="equal rows",
                observed=comparison.differences[0],
                hint="`penstock verify` shows all differences",
            )
        for state in arrivals.states():
            if state.entry % CHECKPOINT_ENTRIES == 0:
                self._remember(state)
        arrivals.begin(after)
        self.compared = after.entry
        return self.compared < snapshot.published

    async def _open(self, floor: int) -> tuple[View, Arrivals]:
        view = View(self._store, self._paths, self._runtime)
        await view.open(at_most=floor)
        self.checkpoint_states = {}
        self.compared = view.state.entry
        return view, Arrivals(self._store, self._paths, view)

    def _remember(self, state: State) -> None:
        self.checkpoint_states[state.entry] = state
        if len(self.checkpoint_states) > _STATES_KEPT:
            del self.checkpoint_states[min(self.checkpoint_states)]


async def compare_entries(
    store: ObjectStore, paths: TopicPaths, runtime: Runtime, snapshot: Snapshot, entries: Iterable[tuple[Folded, bytes]]
) -> Comparison:
    """Whether the rows that these entries brought are in the table as they are in the log, piece by piece of what they link.

    Excepted is what retention took, what the table names as lost, and what cannot be read in the log any more.
    """
    agreement = Agreement(store, paths, runtime, snapshot)
    for folded, data in entries:
        async for piece in entry_pieces(store, paths, runtime, folded, data):
            await agreement.take(piece.table)
    return await agreement.finish()
