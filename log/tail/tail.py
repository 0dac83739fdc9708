"""The shared end of a topic's log in one process, for appends, polls and waiting tasks."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable

from ..errors import DataDamaged, PenstockError, StoreUnavailable, ViewLost, unforeseen
from ..format.entry import read_header
from ..format.fold import FoldedEntry
from ..format.header import Repair
from ..format.state import TopicState
from ..limits import CHECKPOINT_ENTRIES
from ..paths import TopicPaths
from ..runtime.runtime import Runtime
from ..stores.protocol import ObjectMissing, ObjectStore
from .view import EntryCache, View

POLL_FIRST_S = 0.010
POLL_MAX_S = 1.0
POLL_QUIET_S = 5.0
QUIET_AFTER_S = 120.0
_DIGESTS = 1_024
_PATIENCE_MARGINS = 4
"""A patient poller probes this part of its patience after an entry is due, and again after the same time."""


class Tail:
    """A `View` at the end of the log that reopens when it was trimmed past, and polls while a task waits.

    Probing backs off from ``poll_first_s`` to ``poll_max_s``, and to ``poll_quiet_s`` after two minutes without an entry.
    """

    def __init__(
        self,
        store: ObjectStore,
        paths: TopicPaths,
        runtime: Runtime,
        *,
        poll_first_s: float = POLL_FIRST_S,
        poll_max_s: float = POLL_MAX_S,
        poll_quiet_s: float = POLL_QUIET_S,
    ) -> None:
        self._store = store
        self._paths = paths
        self._runtime = runtime
        self._digests: OrderedDict[int, str] = OrderedDict()
        """Digests after recent entries, as the following entries state them."""
        self._poll_s = (poll_first_s, poll_max_s)
        self.poll_quiet_s = poll_quiet_s
        self.poll_patience_s = 0.0
        """The longest time without a probe for an entry that is not due. 0: a probe at once."""
        self.cache = EntryCache()
        self.view = View(store, paths, runtime, cache=self.cache)
        self.view.on_fold = self._folded
        self.view.on_jump = self._jumped
        self.fold_listeners: list[Callable[[FoldedEntry, bytes], None]] = []
        self.jump_listeners: list[Callable[[TopicState], None]] = []
        self.due_checkpoint: TopicState | None = None
        self._moved = asyncio.Event()
        self._waiters = 0
        self._poller: asyncio.Task[None] | None = None
        self._failure: PenstockError | None = None

    @property
    def state(self) -> TopicState:
        return self.view.state

    def known_digest(self, entry: int) -> str | None:
        return self.state.digest if entry == self.state.entry else self._digests.get(entry)

    async def digest_after(self, entry: int) -> str | None:
        """The digest of the state after a folded entry. None where the next entry was trimmed, repaired or damaged. Raises `StoreUnavailable`."""
        known = self.known_digest(entry)
        if known is not None:
            return known
        where = self._paths.entry(entry + 1)
        try:
            header = read_header((await self._store.get(where)).data, where=where, number=entry + 1)
        except (ObjectMissing, DataDamaged):
            return None
        return None if any(isinstance(action, Repair) for action in header.actions) else header.state_digest

    def next_s(self) -> float:
        """Seconds until the next entry is expected."""
        return self.view.rhythm.next_s(self._runtime.clock.wall_ms())

    async def open(self) -> None:
        await self.reopen()

    async def catch_up(self) -> None:
        try:
            await self.view.catch_up()
        except ViewLost:
            await self.reopen()

    async def step(self) -> None:
        try:
            await self.view.step()
        except ViewLost:
            await self.reopen()

    async def reopen(self) -> None:
        """Start again from the newest checkpoint; listeners hear of the jump first."""
        while True:
            before = self.view.state.entry
            await self.view.open()
            if self.view.state.entry > before:
                self._jumped(self.view.state)
            try:
                await self.view.catch_up(expect_many=True)
            except ViewLost:  # the log was trimmed again while this process slept
                continue
            return

    async def wait_past(self, entry: int) -> None:
        """Raises the error that made reading the log impossible."""
        self._waiters += 1
        try:
            while self.state.entry <= entry:
                if self._poller is None or self._poller.done():
                    self._failure = None
                    self._poller = asyncio.ensure_future(self._poll())
                moved = self._moved
                await moved.wait()
                if self._failure is not None:
                    raise self._failure
        finally:
            self._waiters -= 1

    async def close(self) -> None:
        if self._poller is not None:
            self._poller.cancel()
            await asyncio.gather(self._poller, return_exceptions=True)

    async def _poll(self) -> None:
        first_s, max_s = self._poll_s
        interval_s = first_s
        quiet_since_s = self._runtime.clock.monotonic_s()
        while self._waiters:
            before = self.state.entry
            try:
                await self.step()
            except StoreUnavailable:
                interval_s = max(interval_s, max_s / 4)
            except Exception as error:  # noqa: BLE001 - whatever it is, those who wait for entries must hear of it
                self._failure = error if isinstance(error, PenstockError) else unforeseen(error, operation="read the log")
                self._wake()
                return
            if self.state.entry > before:
                margin_s = self.poll_patience_s / _PATIENCE_MARGINS
                interval_s = max(first_s, margin_s)
                quiet_since_s = self._runtime.clock.monotonic_s()
                if self.poll_patience_s and (early_s := self.next_s() + margin_s) > 0:
                    await asyncio.sleep(min(early_s, self.poll_patience_s))
                continue
            quiet = self._runtime.clock.monotonic_s() - quiet_since_s > QUIET_AFTER_S
            await asyncio.sleep(interval_s)
            interval_s = min(interval_s * 1.5, self.poll_quiet_s if quiet else max_s)

    def _folded(self, folded: FoldedEntry, data: bytes) -> None:
        if not folded.is_repair:
            self._digests[folded.number - 1] = folded.header.state_digest
            if len(self._digests) > _DIGESTS:
                self._digests.popitem(last=False)
        if folded.number % CHECKPOINT_ENTRIES == 0:
            self.due_checkpoint = folded.state
        for listener in list(self.fold_listeners):
            listener(folded, data)
        self._wake()

    def _jumped(self, state: TopicState) -> None:
        for listener in list(self.jump_listeners):
            listener(state)
        self._wake()

    def _wake(self) -> None:
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()
