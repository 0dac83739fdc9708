"""The tail of a process: what ends polling reaches all who wait for entries."""

from __future__ import annotations

import asyncio

import pytest

from penstock.log.errors import DataDamaged, InternalError, PenstockError
from penstock.log.tail.tail import Tail
from tests.lakes import TIMEOUT_S
from tests.log.topics import LogWriter


@pytest.mark.parametrize(
    ("thrown", "heard"),
    [(DataDamaged("the entry is not what was written"), DataDamaged), (ZeroDivisionError("a bug"), InternalError)],
)
async def test_whatever_ends_polling_reaches_all_who_wait(
    thrown: Exception, heard: type[PenstockError], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = await LogWriter().create()
    tail = Tail(log.store, log.paths, log.runtime)
    await tail.open()

    async def step() -> bool:
        raise thrown

    monkeypatch.setattr(tail.view, "step", step)
    waiting = [asyncio.ensure_future(tail.wait_past(tail.state.entry)) for _ in range(2)]
    async with asyncio.timeout(TIMEOUT_S):
        ends = await asyncio.gather(*waiting, return_exceptions=True)
    for end in ends:
        assert isinstance(end, heard)
        assert thrown in (end, end.__cause__)
    monkeypatch.undo()
    await log.send({0: 1})
    async with asyncio.timeout(TIMEOUT_S):
        await tail.wait_past(log.state.entry - 1)  # the next one who waits polls anew
    await tail.close()
