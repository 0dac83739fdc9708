"""Gathers a view's folded entries, and recovers those around which it was led."""

from __future__ import annotations

from dataclasses import dataclass

from ..format.fold import FoldedEntry
from ..format.header import Repair
from ..format.state import TopicState
from ..paths import TopicPaths
from ..stores.protocol import ObjectStore
from .salvage import salvage
from .view import View


@dataclass(frozen=True, slots=True)
class Jump:
    """Entries that a view was led around: those after ``before``up to ``after``."""

    before: TopicState
    after: TopicState


class Arrivals:
    """Entries since `begin`, with their bytes."""

    def __init__(self, store: ObjectStore, paths: TopicPaths, view: View) -> None:
        self._store = store
        self._paths = paths
        self._arrived: list[tuple[FoldedEntry, bytes] | Jump] = []
        self.before = view.state
        self.size_bytes = 0
        view.on_fold = self._take
        view.on_jump = self._jump

    def __len__(self) -> int:
        return len(self._arrived)

    @property
    def after(self) -> TopicState:
        """The state after the last of them."""
        return _state_after(self._arrived[-1]) if self._arrived else self.before

    @property
    def whole(self) -> bool:
        return not any(isinstance(item, Jump) for item in self._arrived)

    @property
    def lost_entry(self) -> int:
        """The entry to name for missing offsets: the repair's, else the one around which the view was led."""
        actions = (action for item in self._arrived if not isinstance(item, Jump) for action in item[0].header.actions)
        return next((action.lost_first for action in actions if isinstance(action, Repair)), self.before.entry + 1)

    def states(self) -> list[TopicState]:
        return [_state_after(item) for item in self._arrived]

    def begin(self, before: TopicState, *, within: Jump | None = None) -> None:
        """Start anew after ``before``, which may lie ``within`` the view's jump."""
        self.before, self.size_bytes = before, 0
        self._arrived.clear()
        if within is not None:
            self._arrived.append(within)

    async def entries(self) -> list[tuple[FoldedEntry, bytes]]:
        """The entries in order, those of a jump only if their rows are certain."""
        entries: list[tuple[FoldedEntry, bytes]] = []
        for item in tuple(self._arrived):
            if isinstance(item, Jump):
                salvaged = await salvage(self._store, self._paths, item.before, item.after)
                entries += [one for one in salvaged if one[0].number > self.before.entry]
            else:
                entries.append(item)
        return entries

    def _jump(self, state: TopicState) -> None:
        self._arrived.append(Jump(self.after, state))

    def _take(self, folded: FoldedEntry, data: bytes) -> None:
        self._arrived.append((folded, data))
        self.size_bytes += entry_bytes(folded, data)


def _state_after(item: tuple[FoldedEntry, bytes] | Jump) -> TopicState:
    return item.after if isinstance(item, Jump) else item[0].state


def entry_bytes(folded: FoldedEntry, data: bytes) -> int:
    """The size of an entry with all that it links."""
    return len(data) + sum(part.size_bytes for batch in folded.header.batches for part in batch.parts)
