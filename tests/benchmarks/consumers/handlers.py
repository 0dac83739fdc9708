"""From `send` to the start of the handler: S3 profile, virtual time, a lone producer and a lone consumer of 16 queues."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from penstock import ConsumeResult, MessageView
from penstock.log import Message
from tests.benchmarks.consumers.worlds import PLACES, Place, WorkersWorld
from tests.benchmarks.contention import percentile
from tests.benchmarks.figures import Figure, Options
from tests.benchmarks.topics import TOPIC
from tests.benchmarks.virtual import Client

_TARGETS_MS = {"SQLite": (110.0, 250.0), "DynamoDB": (110.0, 250.0), "S3": (140.0, 330.0)}
_RATES = {2: 120, 20: 60, 200: 10}
"""Messages a second, and for how many seconds."""
_WARM_UP_S = 5.0
_GROUPS = 100


def measure(options: Options) -> Iterator[Figure]:
    for place in PLACES:
        for order in ("ORDERLY", "CONCURRENT") if not options.small else ("ORDERLY",):
            for rate, seconds in _RATES.items() if not options.small else ((20, 3),):
                if order == "CONCURRENT" and rate != 20:
                    continue
                runs = [_Run(seed, place, order, rate, seconds).latencies_ms() for seed in range(1, options.repeats + 1)]
                for share, target in zip((0.5, 0.99), _TARGETS_MS[place.name], strict=True):
                    yield Figure(
                        name=f"send to handler, cells in {place.name}, {order}, {rate} messages/s, p{100 * share:g}",
                        unit="ms",
                        values=[percentile(run, share) for run in runs],
                        target=target if rate > 2 else None,
                        note=_note(place),
                    )


def _note(place: Place) -> str:
    if place.put is None or place.get is None:
        return "linger 25 ms; cells are objects"
    put, get = place.put, place.get
    return f"linger 25 ms; a cell's write {put.p50_ms:g}/{put.p99_ms:g} ms, its read {get.p50_ms:g}/{get.p99_ms:g}"


class _Run:
    def __init__(self, seed: int, place: Place, order: str, rate: int, seconds: int) -> None:
        self._world = WorkersWorld(seed, place)
        self._order = order
        self._rate = rate
        self._seconds = seconds
        self._sent_s: dict[bytes, float] = {}
        self._took_ms: dict[bytes, float] = {}

    def latencies_ms(self) -> list[float]:
        return self._world.run(self._main())

    async def _main(self) -> list[float]:
        world = self._world
        producer = await world.create_topic()
        worker = world.worker("worker", self._handle, order=self._order)
        await worker.start()
        await world.until_shared([worker])
        start_s = world.now_s
        await producer.process.run(self._send(producer, start_s + _WARM_UP_S + self._seconds))
        await self._until_all_handled()
        await worker.close()
        return [took for body, took in self._took_ms.items() if self._sent_s[body] >= start_s + _WARM_UP_S]

    async def _send(self, client: Client, until_s: float) -> None:
        producer, chance = await client.lake.producer(TOPIC), client.process.runtime.random
        while self._world.now_s < until_s:
            await asyncio.sleep(chance.expovariate(self._rate))
            body = b"%d" % len(self._sent_s)
            self._sent_s[body] = self._world.now_s
            producer.send(Message(body.rjust(100), f"group-{chance.randrange(_GROUPS)}"))
        await producer.close()

    async def _until_all_handled(self) -> None:
        while True:
            if len(self._took_ms) == len(self._sent_s):
                return
            await asyncio.sleep(0.1)

    async def _handle(self, message: MessageView) -> ConsumeResult:
        body = message.body.strip()
        self._took_ms[body] = 1000 * (self._world.now_s - self._sent_s[body])
        return ConsumeResult.SUCCESS
