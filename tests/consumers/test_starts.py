"""Consumers whose start fails half-way, at any of the calls it makes: nothing of them runs on, and the group is left."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

import penstock
from penstock import aio
from penstock.log.errors import PermissionDenied
from penstock.log.stores import MemoryStore
from penstock.log.stores.wrapper import StoreCall, StoreWrapper
from tests.lakes import TIMEOUT_S
from tests.waiting import wait_until

T = TypeVar("T")
CALLS_MAX = 60


class Refusing(StoreWrapper):
    """Refuses one call, the ``left``-th."""

    left = -1

    async def _around(self, call: StoreCall, run: Callable[[], Awaitable[T]]) -> T:
        self.left -= 1
        if self.left == 0:
            raise PermissionDenied("not now", operation=call.verb, object=call.key)
        return await run()


def listen(message: penstock.MessageView) -> penstock.ConsumeResult:
    return penstock.ConsumeResult.SUCCESS


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        ("push_consumer", {"listener": listen, "threads": 2}),
        ("simple_consumer", {}),
        ("pull_consumer", {}),
        ("broadcast_consumer", {"listener": listen, "member": "one"}),
    ],
)
def test_a_start_that_fails_at_any_call_ends_what_it_began(kind: str, more: dict[str, Any]) -> None:
    async def started(nth: int) -> bool:
        """Whether it starts where this call is refused."""
        store = Refusing(MemoryStore())
        async with aio.connect(store=store, maintenance=False, refusal_timeout=0) as lake:
            await lake.create_topic("orders", aio.TopicSettings(queues=1))
            before = asyncio.all_tasks()
            store.left = nth
            try:
                await getattr(lake, kind)("orders", group="billing", **more)
            except PermissionDenied:
                store.left = 0  # none is refused any more
            else:
                return True
            groups = await lake.groups()
            if "billing" in groups:
                assert (await lake.describe_group("billing")).members == (), nth
            await lake.delete_topic("orders")
        left = asyncio.all_tasks() - before - {asyncio.current_task()}
        assert left == set(), nth
        return False

    async def main() -> None:
        for nth in range(1, CALLS_MAX):
            if await started(nth):
                return
        raise AssertionError("it never starts")

    asyncio.run(asyncio.wait_for(main(), TIMEOUT_S))
    wait_until(lambda: not [one for one in threading.enumerate() if one.name.startswith("penstock-billing")], "its threads end")
