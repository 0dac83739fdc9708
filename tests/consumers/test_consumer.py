"""What all kinds of consumers have in common: their beginning, and one end that all who close them wait for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from penstock import ClosedError, ConsumeResult, MessageView, aio
from penstock.consumers.consumer import Consumer
from penstock.log import TopicSettings
from tests.lakes import TIMEOUT_S


async def listen(message: MessageView) -> ConsumeResult:
    return ConsumeResult.SUCCESS


KINDS: dict[str, Callable[[aio.Lake], Consumer]] = {
    "push": lambda lake: lake.push_consumer("orders", group="g", listener=listen),
    "simple": lambda lake: lake.simple_consumer("orders", group="g"),
    "pull": lambda lake: lake.pull_consumer("orders", group="g"),
    "broadcast": lambda lake: lake.broadcast_consumer("orders", group="g", member="m", listener=listen),
}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Callable[[aio.Lake], Consumer]:
    return KINDS[request.param]


def run(work: Callable[[aio.Lake], Awaitable[None]]) -> None:
    async def main() -> None:
        async with aio.connect("memory://") as lake:
            await lake.create_topic("orders", TopicSettings(queues=1))
            await work(lake)

    asyncio.run(asyncio.wait_for(main(), TIMEOUT_S), debug=True)


def test_one_that_was_closed_is_not_begun(kind: Callable[[aio.Lake], Consumer]) -> None:
    async def work(lake: aio.Lake) -> None:
        consumer = kind(lake)
        await consumer.close()
        with pytest.raises(ClosedError, match="closed before it had begun"):
            await consumer
        assert (consumer.closed, consumer.done) == (True, True)

    run(work)


def test_one_that_is_closed_while_it_begins_does_not_go_on(kind: Callable[[aio.Lake], Consumer]) -> None:
    async def work(lake: aio.Lake) -> None:
        consumer = kind(lake)
        starting = asyncio.ensure_future(consumer.start())
        await asyncio.sleep(0)
        await consumer.close()
        with pytest.raises(ClosedError, match="closed before it had begun"):
            await starting
        assert lake.coordination.worker.id == "", "nobody is left that would hold queues"

    run(work)


def test_all_who_close_it_wait_for_the_same_end(kind: Callable[[aio.Lake], Consumer]) -> None:
    async def work(lake: aio.Lake) -> None:
        consumer = await kind(lake)
        assert (consumer.closed, consumer.done, consumer.error) == (False, False, None)
        waiting = asyncio.ensure_future(consumer.ended())
        closing = [asyncio.ensure_future(consumer.close(timeout=timedelta(seconds=20))) for _ in range(2)]
        await asyncio.gather(*closing)
        assert (consumer.closed, consumer.done, consumer.error) == (True, True, None)
        await waiting
        await consumer.close()

    run(work)
