"""Other processes' hand-overs that no entry has brought yet, by the last LIST."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping

from ..errors import StoreUnavailable
from ..format.handover import HandOver, read_handed
from ..format.state import TopicState
from ..limits import ENTRY_LINKS_MAX, VALIDITY_ENTRIES
from ..paths import TopicPaths
from ..stores.protocol import ObjectStore
from .compose import still_waits

LIST_TAILS = 16
LIST_WHOLE_WINDOW_EVERY = 16
_KNOWN_MAX = 8 * ENTRY_LINKS_MAX * LIST_TAILS


class PendingHandOvers:
    """Handed-over objects, oldest first; each is read once."""

    def __init__(self, store: ObjectStore, paths: TopicPaths) -> None:
        self._store = store
        self._paths = paths
        self._handed: OrderedDict[str, HandOver] = OrderedDict()
        self._known: dict[str, HandOver | None] = {}

    def __bool__(self) -> bool:
        return bool(self._handed)

    @property
    def handed(self) -> Mapping[str, HandOver]:
        return self._handed

    async def list(self, tail: int) -> bool:
        """List the hand-overs of all tails that can be valid. False: the store did not answer."""
        tails = VALIDITY_ENTRIES if tail % LIST_WHOLE_WINDOW_EVERY == 0 else LIST_TAILS
        try:
            listed = await self._store.list(self._paths.handed, after=self._paths.handed_under(max(0, tail - tails)).rstrip("/"))
            for info in listed:
                if info.key not in self._known:
                    self._known[info.key] = await read_handed(self._store, self._paths, info)
        except StoreUnavailable:
            return False
        for info in listed:
            if (handed := self._known[info.key]) is not None:
                self._handed[handed.key] = handed
        self._handed = OrderedDict(sorted(self._handed.items()))
        if len(self._known) > _KNOWN_MAX:
            self._known = {info.key: self._handed.get(info.key) for info in listed}
        return True

    def review(self, state: TopicState) -> None:
        self.drop([key for key, handed in self._handed.items() if not still_waits(handed, state)])

    def drop(self, keys: Iterable[str]) -> None:
        for key in keys:
            del self._handed[key]
            self._known[key] = None

    def clear(self) -> None:
        self._handed.clear()
