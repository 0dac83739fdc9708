"""An entry that somebody deleted between two others is damage, never the end of the log: a writer would fork the log there."""

from __future__ import annotations

import asyncio

import pytest

from penstock.log.errors import DataDamaged
from penstock.log.repair import repair
from penstock.log.view import View
from tests.log.topics import LogWriter


@pytest.mark.parametrize("missing", [1, 3, 17, 18, 19, 40])
def test_opening_does_not_take_a_gap_for_the_end(missing: int) -> None:
    async def main() -> None:
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

    asyncio.run(main())
