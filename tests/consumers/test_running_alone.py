"""When a suspect that must run alone is not begun: each try counts as a delivery, so none is made that cannot start."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.consumers.queues.push_processor import PushProcessor


class Around:
    """A worker in which nothing is in flight, and that renews its lease before anything is granted."""

    def __init__(self, *, lease: bool = True) -> None:
        self.member = SimpleNamespace(may_start=lambda: lease)
        self.worker = self
        self.consume_timeout_s = 60.0
        self.renews = asyncio.Event()
        self.renewed = asyncio.Event()

    @asynccontextmanager
    async def alone(self, *_: object, **__: object) -> AsyncIterator[bool]:
        yield True

    async def awake(self) -> None:
        self.renews.set()
        await self.renewed.wait()


class Planned(Exception):
    """The suspect was planned to run."""


def engine_of(around: Around, *, again_s: float = -math.inf) -> PushProcessor:
    """As far as it is needed to run one suspect alone."""

    def plan(*_: object) -> None:
        raise Planned

    processor: Any = PushProcessor.__new__(PushProcessor)
    processor.schedule = SimpleNamespace(plan=plan, running={})
    processor.keeper = SimpleNamespace(cell=None)
    processor._around, processor._draining, processor._solo_s, processor._patience_s = around, False, again_s, 1.0
    processor._clock = SimpleNamespace(monotonic_s=lambda: 100.0, wall_ms=lambda: 0)
    made: PushProcessor = processor
    return made


@pytest.mark.parametrize(("lease", "again_s", "may"), [(True, 100.0, True), (False, 100.0, False), (True, 100.5, False)])
def test_it_is_begun_within_the_lease_and_not_sooner_than_it_may_be_tried_again(lease: bool, again_s: float, may: bool) -> None:
    assert engine_of(Around(lease=lease), again_s=again_s)._may_run_alone() is may


@pytest.mark.parametrize("drained", [False, True])
def test_it_is_not_begun_when_the_queue_is_to_be_handed_over_meanwhile(drained: bool) -> None:
    async def play() -> None:
        around = Around()
        processor = engine_of(around)
        running = asyncio.ensure_future(processor._run_alone())
        await around.renews.wait()
        processor._draining = drained
        around.renewed.set()
        await running

    if drained:
        asyncio.run(play())
    else:
        with pytest.raises(Planned):
            asyncio.run(play())
