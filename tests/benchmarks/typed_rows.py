"""How fast one process sends typed rows to local files, beside bodies and beside a raw Parquet write of the same columns; how many bytes they
take beside the same rows as JSON; and how fast handlers get them as dicts.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

import penstock
from penstock import ConsumeResult, aio
from penstock.log.schema.topic_schema import schema_of_source
from penstock.log.schema.values import convert
from tests.benchmarks.figures import Figure, Options
from tests.benchmarks.rows import write_raw
from tests.benchmarks.topics import publish

SCHEMA = (
    "id bigint not null, customer string, amount decimal(12,2), at timestamp, status string, note string, quantity int, price double, "
    "active boolean, tags array<string>, day date, place struct<x: double, y: double>"
)
QUEUES = 8
_DISTINCT = 20_000
_START = datetime(2026, 1, 1, tzinfo=UTC)
_LOOK_S = 0.03
_PATIENCE_S = 120.0


def row(number: int) -> dict[str, Any]:
    """A row of 12 fields."""
    return {
        "id": number,
        "customer": f"customer-{number * 7919 % 5000}",
        "amount": Decimal(number * 104_729 % 10_000_000) / 100,
        "at": _START + timedelta(milliseconds=37 * number),
        "status": ("new", "paid", "sent")[number % 3],
        "note": f"note {number * 31 % 1_000_003} of a row",
        "quantity": number % 100,
        "price": number * 0.37,
        "active": number % 2 == 0,
        "tags": ["express", "gift"][: number % 3],
        "day": date(2026, 1, 1 + number % 28),
        "place": {"x": 1.5 * number, "y": 0.25 * number},
    }


def columns(count: int) -> pa.Table:
    """Rows as columns."""
    value = convert([row(number) for number in range(count)], schema_of_source(SCHEMA)).value
    return pa.table({field.name: part for field, part in zip(value.type, value.flatten(), strict=True)})


def measure(options: Options) -> Iterator[Figure]:
    count = options.scaled(400_000, 4_000)
    rows = [row(number) for number in range(min(count, _DISTINCT))]
    messages = [penstock.Message(json.dumps(one, default=str).encode()) for one in rows]
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder, penstock.connect(folder, maintenance=False) as lake:
        lake.create_topic("typed", schema=SCHEMA, queues=QUEUES)
        lake.create_topic("json", queues=QUEUES)
        sent: dict[str, list[float]] = {"row": [], "json": []}
        for _ in range(options.repeats + 1):  # in turns, so that a busy neighbour hits all alike; the first warms up
            sent["row"].append(_rate(lake, "typed", lambda producer: _send(producer.send_row, rows, count), count))
            sent["json"].append(_rate(lake, "json", lambda producer: _send(producer.send, messages, count), count))
        yield Figure(name="send_row, dicts of 12 fields", unit="rows/s", better="higher", values=sent["row"][1:], target=250_000)
        yield Figure(name="send, the same rows as JSON made before", unit="messages/s", better="higher", values=sent["json"][1:])
        shares = [100 * one / other for one, other in zip(sent["row"][1:], sent["json"][1:], strict=True)]
        yield Figure(name="send_row beside send", unit="%", better="higher", values=shares)
        data = columns(count)
        raw_s, batch_s = [], []
        for _ in range(options.repeats + 1):
            batch_s.append(count / _rate(lake, "typed", lambda producer: producer.send_batch(data), count))
            start_s = time.perf_counter()
            write_raw(data, Path(folder) / "raw.parquet")
            raw_s.append(time.perf_counter() - start_s)
        rates = [count / one for one in batch_s[1:]]
        yield Figure(name="send_batch of typed columns", unit="rows/s", better="higher", values=rates)
        shares = [100 * raw / ours for raw, ours in zip(raw_s[1:], batch_s[1:], strict=True)]
        yield Figure(name="send_batch beside raw", unit="%", better="higher", values=shares, target=80)
    yield _bytes(count)
    yield from _handled(options, options.scaled(200_000, 4_000))


def _send(send: Callable[[Any], object], given: Sequence[Any], count: int) -> None:
    for one in itertools.islice(itertools.cycle(given), count):
        send(one)


def _rate(lake: penstock.Lake, topic: str, send: Callable[[penstock.Producer], object], count: int) -> float:
    """Rows a second, from the first call to the last acknowledgement."""
    with lake.producer(topic) as producer:
        start_s = time.perf_counter()
        send(producer)
        producer.flush()
        return count / (time.perf_counter() - start_s)


def _bytes(count: int) -> Figure:
    """The bytes of the table's files, beside those of the same rows as JSON bodies."""
    sizes: Mapping[str, int] = {topic: _table_bytes(topic, count) for topic in ("typed", "json")}
    note = f"{sizes['typed'] / count:.1f} bytes a row, JSON bodies {sizes['json'] / count:.1f}"
    return Figure(name="bytes of typed rows beside JSON bodies", unit="%", values=[100 * sizes["typed"] / sizes["json"]], note=note)


def _table_bytes(topic: str, count: int) -> int:
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder, penstock.connect(folder, maintenance=False) as lake:
        lake.create_topic(topic, queues=QUEUES, schema=SCHEMA if topic == "typed" else None)
        with lake.producer(topic) as producer:
            for number in range(count):
                one = row(number)
                if topic == "typed":
                    producer.send_row(one)
                else:
                    producer.send(penstock.Message(json.dumps(one, default=str, separators=(",", ":")).encode()))
        asyncio.run(_published(folder, topic))
        return sum(file.stat().st_size for file in Path(folder).rglob("table/queue=*/*.parquet"))


async def _published(folder: str, topic: str) -> None:
    async with aio.connect(folder, maintenance=False) as lake:
        await publish(await lake.topic(topic, writable=True), compact=False)


def _handled(options: Options, count: int) -> Iterator[Figure]:
    """Messages a second whose rows a handler has as dicts."""
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder, penstock.connect(folder, maintenance=False) as lake:
        lake.create_topic("typed", schema=SCHEMA, queues=QUEUES, message_type="FIFO", message_group="customer")
        data = columns(count)
        with lake.producer("typed") as producer:
            for at in range(0, count, 5_000):
                producer.send_batch(data.slice(at, 5_000))
        rates = [_consumed(lake, count) for _ in range(options.repeats)]
        yield Figure(
            name="handlers with message.value, lists of a queue", unit="messages/s", better="higher", values=rates, target=100_000
        )


def _consumed(lake: penstock.Lake, count: int) -> float:
    handled: list[int] = []

    def handle(messages: list[penstock.MessageView]) -> ConsumeResult:
        handled.append(sum(1 for message in messages if message.value["id"] >= 0))
        return ConsumeResult.SUCCESS

    start_s = time.perf_counter()
    with lake.push_consumer(
        "typed",
        group=f"bench-{uuid.uuid4().hex[:12]}",
        listener=handle,
        delivery_order="ORDERLY",
        batch="queue",
        batch_messages=1_000,
        cache_messages=20_000,
        threads=4,
    ):
        until_s = start_s + _PATIENCE_S
        while sum(handled) < count and time.perf_counter() < until_s:
            time.sleep(_LOOK_S)
        took_s = time.perf_counter() - start_s
    assert sum(handled) >= count, f"{sum(handled)} handled of {count}"
    return count / took_s
