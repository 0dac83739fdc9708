"""What a view folds, gathered for whoever needs the entries' rows; also those that the view was led around and that can be had back."""

from __future__ import annotations

from .fold import Folded
from .paths import TopicPaths
from .salvage import salvage
from .state import State
from .stores.protocol import ObjectStore
from .view import View


class Arrivals:
    """The entries that a view has folded since `begin`, with their bytes."""

    def __init__(self, store: ObjectStore, paths: TopicPaths, view: View) -> None:
        self._store = store
        self._paths = paths
        self._arrived: list[tuple[Folded, bytes] | State] = []
        """Entries folded, and states the view jumped to."""
        self.before = view.state
        """The state before the first of them."""
        self.size_bytes = 0
        """Of the entries folded, with all that they link."""
        view.on_fold = self._take
        view.on_jump = self._arrived.append

    def __len__(self) -> int:
        return len(self._arrived)

    @property
    def after(self) -> State:
        """The state after the last of them."""
        if not self._arrived:
            return self.before
        last = self._arrived[-1]
        return last if isinstance(last, State) else last[0].state

    @property
    def whole(self) -> bool:
        """Whether every entry was folded, and none passed over."""
        return not any(isinstance(item, State) for item in self._arrived)

    def states(self) -> list[State]:
        """The state after each of them."""
        return [item if isinstance(item, State) else item[0].state for item in self._arrived]

    def begin(self, before: State, *, jumped_to: State | None = None) -> None:
        """Start anew behind ``before``; ``jumped_to`` is where the view stands, if it passed over entries behind that."""
        self.before, self.size_bytes = before, 0
        self._arrived.clear()
        if jumped_to is not None:
            self._arrived.append(jumped_to)

    async def entries(self) -> list[tuple[Folded, bytes]]:
        """The entries in order, with those between a jump's two ends whose rows are known for certain. May be asked again."""
        entries: list[tuple[Folded, bytes]] = []
        state = self.before
        for item in tuple(self._arrived):
            if isinstance(item, State):
                entries += await salvage(self._store, self._paths, state, item)
                state = item
            else:
                entries.append(item)
                state = item[0].state
        return entries

    def _take(self, folded: Folded, data: bytes) -> None:
        self._arrived.append((folded, data))
        self.size_bytes += entry_bytes(folded, data)


def entry_bytes(folded: Folded, data: bytes) -> int:
    """Bytes of an entry with all that it links."""
    return len(data) + sum(part.size_bytes for batch in folded.header.batches for part in batch.parts)
