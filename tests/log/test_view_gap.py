"""An entry that somebody deleted between two others is damage, never the end of the log: a writer would fork the log there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from penstock.log.errors import DataDamaged
from penstock.log.repair import repair
from penstock.log.stores.protocol import ObjectStore
from penstock.log.stores.wrapper import StoreCall, StoreWrapper
from penstock.log.tail.view import View
from tests.log.topics import LogWriter

T = TypeVar("T")


class LosesWhatItListed(StoreWrapper):
    """Somebody deletes one object right after the first LIST."""

    def __init__(self, inner: ObjectStore, key: str) -> None:
        super().__init__(inner)
        self._key = key

    async def _around(self, call: StoreCall, run: Callable[[], Awaitable[T]]) -> T:
        answer = await run()
        if call.verb == "list" and call.key.endswith("/log/"):
            await self._inner.delete(self._key)
        return answer


@pytest.mark.parametrize("missing", [1, 3, 17, 18, 19, 40])
async def test_opening_does_not_take_a_gap_for_the_end(missing: int) -> None:
    log = await LogWriter().create()
    for _ in range(41):
        await log.send({0: 1})
    await log.store.delete(log.paths.entry(missing))
    view = View(log.store, log.paths, log.runtime)
    await view.open()
    with pytest.raises(DataDamaged, match="missing") as caught:
        await view.catch_up(expect_many=True)
    assert caught.value.object == log.paths.entry(missing)
    assert view.state.entry == missing - 1

    await repair(log.store, log.paths, log.runtime)
    await view.catch_up(expect_many=True)
    assert view.state.entry == 43
    assert view.state.next_offsets[0] >= 41


@pytest.mark.parametrize("missing", [4, 5])
async def test_what_was_seen_and_is_gone_is_missing_though_nothing_lies_behind_it(missing: int) -> None:
    """Else another entry would be put in its place, which those who have folded it never see."""
    log = await LogWriter().create()
    for _ in range(4):
        await log.send({0: 1})
    view = View(LosesWhatItListed(log.store, log.paths.entry(missing)), log.paths, log.runtime)
    with pytest.raises(DataDamaged, match="missing") as caught:
        await view.catch_up(expect_many=True)
    assert caught.value.object == log.paths.entry(missing)
    assert view.state.entry == missing - 1
