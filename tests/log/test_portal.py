"""The thread behind the synchronous face: a signal at any moment of a call leaves nothing of the call behind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest

from penstock.blocking.face import iterated
from penstock.log.runtime.portal import Portal


@pytest.fixture
def portal() -> Iterator[Portal]:
    running = Portal()
    yield running
    running.stop()


async def waiting() -> AsyncIterator[int]:
    yield 1
    await asyncio.Event().wait()


@pytest.mark.parametrize("handed_over", [True, False])
def test_a_signal_while_the_work_is_handed_over_ends_it(portal: Portal, monkeypatch: pytest.MonkeyPatch, handed_over: bool) -> None:
    numbers = waiting()
    assert portal.run(numbers.__anext__) == 1
    loop = portal._loop
    assert loop is not None
    submit = loop.call_soon_threadsafe

    def interrupted(*args: Any) -> None:
        monkeypatch.undo()
        if handed_over:
            submit(*args)
        raise SystemExit("terminated")

    monkeypatch.setattr(loop, "call_soon_threadsafe", interrupted)
    with pytest.raises(SystemExit):
        portal.run(numbers.__anext__)
    portal.run(numbers.aclose)  # type: ignore[attr-defined]


def test_a_lake_that_is_closed_just_when_an_iteration_ends_leaves_it_ended() -> None:
    class StoppedBehind(Portal):
        """Stops after the last step, whatever was looked at before."""

        ended = False

        def run(self, work: Callable[[], Awaitable[Any]]) -> Any:
            if self.ended:
                self.stop()
            try:
                return super().run(work)
            except StopAsyncIteration:
                self.ended = True
                raise

    async def two() -> AsyncGenerator[int, None]:
        yield 1
        yield 2

    assert list(iterated(StoppedBehind(), two())) == [1, 2]
