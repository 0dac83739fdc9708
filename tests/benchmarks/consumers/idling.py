"""What an idle consumer asks of the services it uses, and what that costs a month; virtual time."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator

from penstock import ConsumeResult, MessageView
from penstock.log.stores.counting import StoreStatistics
from tests.benchmarks.consumers.worlds import DYNAMODB, PLACES, Place, WorkersWorld
from tests.benchmarks.figures import Figure, Options, by_verb

_HOURS_A_MONTH = 730
_DYNAMODB_WRITE_USD = 0.625e-6
_DYNAMODB_READ_USD = 0.125e-6
"""On demand in us-east-1: a unit is a write of up to 1 KiB, or a consistent read of up to 4 KiB. An idle cell is far smaller."""
_SETTLE_S = 1_800
_QUEUES = 16


def measure(options: Options) -> Iterator[Figure]:
    hours = options.scaled(3, 1)
    for place in PLACES:
        for consumers in (1, 3) if not options.small else (1,):
            requests, cells = asked(place, consumers=consumers, hours=hours)
            who = "one idle consumer" if consumers == 1 else f"each of {consumers} idle consumers"
            share = hours * consumers
            of_cells = {f"{place.name} {verb}": round(count / share, 1) for verb, count in sorted(cells.items())}
            yield Figure(
                name=f"{who}, objects in S3, cells in {place.name}",
                unit="USD/month",
                values=[month_usd(place, requests, cells, share)],
                target=1.5 if consumers == 1 else None,
                requests={**by_verb(requests, share), **of_cells},
                per="an hour",
                note=f"a topic of {_QUEUES} queues; without maintenance",
            )


def month_usd(place: Place, requests: StoreStatistics, cells: Counter[str], hours: float) -> float:
    """What a month of such hours costs."""
    cost = requests.cost_usd
    if place is DYNAMODB:
        cost += cells["put"] * _DYNAMODB_WRITE_USD + (cells["get"] + cells["keys"]) * _DYNAMODB_READ_USD
    return cost / hours * _HOURS_A_MONTH


def asked(place: Place, *, consumers: int, hours: int) -> tuple[StoreStatistics, Counter[str]]:
    """Requests of the store and of the table in the hours that follow the first half."""
    world = WorkersWorld(1, place, queues=_QUEUES)

    async def handle(_: MessageView) -> ConsumeResult:
        return ConsumeResult.SUCCESS

    async def main() -> tuple[StoreStatistics, Counter[str]]:
        await world.create_topic()
        workers = [world.worker(f"worker-{number}", handle) for number in range(consumers)]
        await asyncio.gather(*(worker.start() for worker in workers))
        await world.until_shared(workers)
        await asyncio.sleep(_SETTLE_S)
        before, cells_before = world.requests(), Counter(world.cell_requests)
        await asyncio.sleep(hours * 3600)
        found = world.requests() - before, world.cell_requests - cells_before
        for worker in workers:
            await worker.close()
        return found

    return world.run(main())
