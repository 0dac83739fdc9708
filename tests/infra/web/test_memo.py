"""What viewers share: one look for all of them, bounded and never out of date for long."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from penstock.infra.web.lakes.memo import LookCache


class Looks:
    """Counted looks, which end when they are let."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.count = 0
        self.let = asyncio.Event()
        self.let.set()
        self.memo = LookCache(lambda: self.now_s, entries=3)

    async def look(self) -> int:
        self.count += 1
        found = self.count
        await self.let.wait()
        return found

    async def get(self, key: str = "a", *, stale_s: float = 0.0) -> int:
        return await self.memo.get(key, self.look, fresh_s=2, stale_s=stale_s)


def play(script: Callable[[Looks], Awaitable[None]]) -> None:
    async def run() -> None:
        await script(Looks())

    asyncio.run(run())


def test_a_hundred_viewers_cost_one_look() -> None:
    async def script(looks: Looks) -> None:
        assert set(await asyncio.gather(*(looks.get() for _ in range(100)))) == {1}
        looks.now_s = 1.9
        assert await looks.get() == 1
        looks.now_s = 2.0
        assert set(await asyncio.gather(*(looks.get() for _ in range(100)))) == {2}

    play(script)


def test_an_old_look_is_shown_while_the_next_is_made() -> None:
    async def script(looks: Looks) -> None:
        await looks.get()
        looks.now_s = 3.0
        looks.let.clear()
        assert [await looks.get(stale_s=5), await looks.get(stale_s=5)] == [1, 1]
        await asyncio.sleep(0)
        assert looks.count == 2
        looks.let.set()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert await looks.get(stale_s=5) == 2

    play(script)


def test_a_viewer_who_leaves_does_not_end_the_look_of_others() -> None:
    async def script(looks: Looks) -> None:
        looks.let.clear()
        first, second = asyncio.ensure_future(looks.get()), asyncio.ensure_future(looks.get())
        await asyncio.sleep(0)
        first.cancel()
        looks.let.set()
        assert await second == 1

    play(script)


def test_an_error_is_shared_and_not_for_ever() -> None:
    async def script(looks: Looks) -> None:
        async def fail() -> int:
            looks.count += 1
            raise OSError("no answer")

        for _ in range(3):
            with pytest.raises(OSError, match="no answer"):
                await looks.memo.get("a", fail, fresh_s=2, stale_s=100)
        assert looks.count == 1
        looks.now_s = 2.0
        assert await looks.get(stale_s=100) == 2

    play(script)


def test_it_is_bounded_and_forgets_what_changed() -> None:
    async def script(looks: Looks) -> None:
        for key in "abcd":
            await looks.get(key)
        assert len(looks.memo) == 3
        looks.memo.clear()
        assert await looks.get("d") == 5

    play(script)
