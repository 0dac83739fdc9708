"""A topic whose entries tests write one by one, without a producer: headers by hand, judged by the real fold."""

from __future__ import annotations

import random
from collections.abc import Mapping
from datetime import UTC, datetime

import pyarrow as pa

from penstock.log.format.checkpoint import encode_checkpoint
from penstock.log.format.digest import digest
from penstock.log.format.entry import encode_entry, encode_rows
from penstock.log.format.fold import bases_of, fold
from penstock.log.format.header import Action, Batch, Created, Deleted, Header, Part
from penstock.log.format.state import TopicState
from penstock.log.limits import CHECKPOINT_ENTRIES, VALIDITY_ENTRIES
from penstock.log.message.message import LOG_SCHEMA
from penstock.log.paths import TopicPaths
from penstock.log.runtime.runtime import Runtime
from penstock.log.stores.memory import MemoryStore
from penstock.log.stores.protocol import Put
from penstock.log.topic.settings import TopicRecord, TopicSettings

START_MS = 1_750_000_000_000


class HandClock:
    """A clock that moves by hand; the store's clock too."""

    def __init__(self) -> None:
        self.now_ms = START_MS

    def wall_ms(self) -> int:
        return self.now_ms

    def monotonic_s(self) -> float:
        return self.now_ms / 1000

    def advance(self, *, hours: float = 0, seconds: float = 0) -> None:
        self.now_ms += int(hours * 3_600_000 + seconds * 1000)


class LogWriter:
    """Appends entries to a topic in a memory store; ``sent`` holds every row by (queue, offset)."""

    def __init__(self, *, queues: int = 4, topic: str = "orders", store: MemoryStore | None = None, clock: HandClock | None = None):
        self.clock = clock or HandClock()
        self.store = store or MemoryStore(clock=self.clock)
        self.paths = TopicPaths.of(topic)
        self.runtime = Runtime(clock=self.clock, random=random.Random(7), threads=False)
        self.record = TopicRecord(settings=TopicSettings(queues=queues), incarnation="life-1")
        self.state = TopicState()
        self.sent: dict[tuple[int, int], bytes] = {}
        self._count = 0
        self._last: dict[str, int] = {}

    async def create(self) -> LogWriter:
        await self.append(actions=(Created(self.record.incarnation, self.record.settings.queues),))
        return self

    async def delete(self) -> None:
        await self.append(actions=(Deleted(self.record.incarnation),))

    async def send(self, rows: Mapping[int, int], *, staged: bool = False, producer: str = "p", job: str | None = None) -> None:
        """One entry with one batch of ``rows`` (queue to number of rows)."""
        table = self.rows(rows)
        self._last.setdefault(producer, -1)
        parts: tuple[Part, ...] = ()
        if staged:
            data = encode_rows([table])
            job = job or f"job-{self._count}"
            key = f"staged/jobs/{job}/part.parquet"
            await self.store.put(self.paths.root + key, data, mode=Put.CREATE)
            parts = (Part(key, 0, dict(sorted(rows.items())), len(data), digest(data)),)
        batch = Batch(
            producer=producer,
            named=False,
            epoch=None,
            previous=self._last[producer],
            last=self._last[producer] + table.num_rows,
            generation=self.state.generation,
            rows=dict(sorted(rows.items())),
            valid_until=self.state.entry + VALIDITY_ENTRIES,
            parts=parts,
            job=job,
        )
        self._last[producer] = batch.last
        bodies = table.column("body").to_pylist()
        at = 0
        for queue, count in sorted(rows.items()):
            for place in range(count):
                self.sent[queue, self.state.next_offsets[queue] + place] = bodies[at]
                at += 1
        await self.append(batches=(batch,), inline={} if staged else {0: table})

    async def append(
        self, *, actions: tuple[Action, ...] = (), batches: tuple[Batch, ...] = (), inline: Mapping[int, pa.Table] | None = None
    ) -> None:
        self.clock.advance(seconds=1)
        header = Header(
            self.state.entry + 1,
            self.runtime.new_id(),
            self.clock.wall_ms(),
            self.state.digest,
            bases_of(self.state, batches),
            actions,
            (),
            batches,
        )
        self.state = fold(self.state, header).state
        await self.store.put(self.paths.entry(header.entry), encode_entry(header, inline or {}), mode=Put.CREATE)
        if header.entry % CHECKPOINT_ENTRIES == 0:
            await self.store.put(self.paths.checkpoint(header.entry), encode_checkpoint(self.state), mode=Put.CREATE)

    async def append_actions(self, actions: tuple[Action, ...]) -> None:
        """As the appender provides it to the collector."""
        await self.append(actions=tuple(actions))

    def rows(self, rows: Mapping[int, int]) -> pa.Table:
        """Fresh rows, sorted by queue."""
        queues = [queue for queue, count in sorted(rows.items()) for _ in range(count)]
        numbers = [self._count + n for n in range(len(queues))]
        self._count += len(queues)
        born = datetime.fromtimestamp(self.clock.wall_ms() / 1000, UTC)
        columns = {
            "queue": queues,
            "message_id": [f"{n:032x}" for n in numbers],
            "message_group": [f"group-{n % 5}" if n % 4 else None for n in numbers],
            "tag": ["paid" if n % 2 else None for n in numbers],
            "keys": [[f"order-{n}", f"user-{n % 3}"] if n % 3 else None for n in numbers],
            "properties": [[("amount", str(n))] if n % 2 else [] for n in numbers],
            "body": [b"body-%d" % n for n in numbers],
            "born_timestamp": [born] * len(numbers),
            "delivery_timestamp": [None] * len(numbers),
            "producer": ["p"] * len(numbers),
        }
        return pa.table(
            [pa.array(columns.get(field.name, [None] * len(numbers)), field.type) for field in LOG_SCHEMA], schema=LOG_SCHEMA
        )
