"""Timed messages: how fast they are taken and let go, how late they are, and what they cost.

Rates and memory are of real clocks and local files; lateness and requests of virtual time and a store as slow as S3.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa

from penstock.coordinator.timers.cell.cell import timer_cells
from penstock.coordinator.timers.delivery import play, play_once
from penstock.log import LogLake, Message, MessageType, ProducerOptions, TopicSettings
from penstock.log.stores.counting import StoreStatistics
from penstock.log.stores.local import LocalStore
from tests.benchmarks.figures import Figure, Options, by_verb
from tests.benchmarks.memory import elsewhere, rss_bytes
from tests.benchmarks.rows import arrow_rows
from tests.benchmarks.topics import maintenance_of
from tests.benchmarks.virtual import Client, World
from tests.simulation.process import EPOCH_MS

TOPIC = "bench"
QUEUES = 8
_MIB = 1024 * 1024
_BATCH_ROWS = 20_000
_DAY_US = 86_400_000_000
_FAR_US = 10 * _DAY_US


def measure(options: Options) -> Iterator[Figure]:
    yield from _rates(options)
    yield from _at_full_rate(options)
    yield from _with_many_waiting(options)
    yield from _idle(options)
    yield from _memory(options)


def timed(rows: pa.Table, due_us: np.ndarray) -> pa.Table:
    """Rows with these delivery times."""
    return rows.append_column("delivery_timestamp", pa.array(due_us, pa.timestamp("us", "UTC")))


async def _create(lake: LogLake, kind: MessageType = MessageType.DELAY) -> None:
    await lake.create_topic(TOPIC, TopicSettings(message_type=kind, queues=QUEUES))


async def _fill(lake: LogLake, rows: pa.Table, due_us: np.ndarray) -> None:
    producer = await lake.producer(TOPIC)
    for start in range(0, rows.num_rows, _BATCH_ROWS):
        await producer.send_batch(timed(rows.slice(start, _BATCH_ROWS), due_us[start : start + _BATCH_ROWS]))
    await producer.close()


# --- Rates, on local files ----------------------------------------------------------------------------------------------------------


def _rates(options: Options) -> Iterator[Figure]:
    count = options.scaled(200_000, 4_000)
    rows = arrow_rows(count)
    taken: list[float] = []
    plain: list[float] = []
    fired: list[float] = []
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        asyncio.run(_send(folder, rows.slice(0, 1_000), None))  # the first send of a process pays for what it loads
    for _ in range(options.repeats):  # in turns, so that a busy neighbour hits all alike
        with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
            plain.append(asyncio.run(_send(f"{folder}/plain", rows, None)))
            taken.append(asyncio.run(_send(f"{folder}/timed", rows, np.zeros(count, np.int64))))
            fired.append(asyncio.run(_fire(f"{folder}/timed", count)))
    for name, seconds in (("taken", taken), ("let go", fired), ("sent to a plain topic, beside them", plain)):
        yield Figure(
            name=f"delayed messages {name}" if seconds is not plain else f"messages {name}",
            unit="messages/s",
            better="higher",
            values=[count / one for one in seconds],
            note="batches of Arrow rows, 100 B, local files",
        )
    yield Figure(
        name="delayed messages taken, beside plain ones",
        unit="times as long",
        values=[one / other for one, other in zip(taken, plain, strict=True)],
    )


async def _send(root: str, rows: pa.Table, due_us: np.ndarray | None) -> float:
    lake = LogLake(LocalStore(root))
    try:
        await _create(lake, MessageType.FIFO if due_us is None else MessageType.DELAY)
        producer = await lake.producer(TOPIC)
        started_s = time.perf_counter()
        for start in range(0, rows.num_rows, _BATCH_ROWS):
            batch = rows.slice(start, _BATCH_ROWS)
            await producer.send_batch(batch if due_us is None else timed(batch, due_us[start : start + _BATCH_ROWS]))
        return time.perf_counter() - started_s
    finally:
        await lake.close()


async def _fire(root: str, count: int) -> float:
    lake = LogLake(LocalStore(root))
    try:
        started_s = time.perf_counter()
        done = await play_once(lake, timer_cells(lake), TOPIC)
        assert done.fired == count, f"{done.fired} of {count} were let go"
        return time.perf_counter() - started_s
    finally:
        await lake.close()


# --- Lateness and requests, in virtual time -----------------------------------------------------------------------------------------


@dataclass
class _Heard:
    """How late what was let go became visible, by the store's clock."""

    late_ms: list[float] = field(default_factory=list)

    def percentile(self, share: float) -> float:
        return float(np.percentile(self.late_ms, share)) if self.late_ms else float("nan")


async def _listen(client: Client, heard: _Heard) -> None:
    """What a consumer that follows the topic would see, but for its own polls: when each entry came to be."""
    reader = await client.lake.reader(TOPIC)
    async for batch in reader.read(follow=True, columns=["delivery_timestamp", "store_timestamp"]):
        stored = batch.column("store_timestamp").cast(pa.int64()).to_numpy()
        due = batch.column("delivery_timestamp").cast(pa.int64()).to_numpy()
        heard.late_ms += ((stored - due) / 1000).tolist()


def _at_full_rate(options: Options) -> Iterator[Figure]:
    """A thousand a second, sent one by one, each due a few seconds later.

    What sender and player ask for is counted while as many are let go as are sent, and from the first message to the last, with all that
    opening takes. What a third process asks for that publishes both topics meanwhile is told apart: that is done for any topic.
    """
    rate, seconds = 1_000, options.scaled(60, 3)
    world = World(1)
    heard = _Heard()
    counted: list[Client] = []
    marks: list[list[StoreStatistics]] = []

    def asked() -> list[StoreStatistics]:
        return [client.store.statistics() for client in counted]

    async def send(client: Client) -> None:
        producer = await client.lake.producer(TOPIC, options=ProducerOptions(linger=timedelta(milliseconds=400)))
        rng = np.random.default_rng(1)
        for turn in range(10 * seconds):
            if turn == 10 * seconds // 6:
                marks.append(asked())
            now = datetime.fromtimestamp(EPOCH_MS / 1000 + world.now_s, UTC)
            for delay_us in rng.integers(1_000_000, 10_000_000, rate // 10).tolist():
                producer.send(Message(b"x" * 100, delivery_timestamp=now + timedelta(microseconds=delay_us)))
            await asyncio.sleep(0.1)
        marks.append(asked())
        await producer.close()

    async def publish(client: Client, stop: asyncio.Event) -> None:
        both = await client.lake.timer_log(TOPIC, writable=True)
        await asyncio.gather(*(maintenance_of(client.store, topic).run_forever(stop) for topic in both))

    async def main() -> None:
        founder, sender, player, publisher, reader = map(world.client, ("founder", "sender", "player", "publisher", "reader"))
        counted[:] = sender, player, publisher
        await founder.process.run(_create(founder.lake))
        stop = asyncio.Event()
        playing = player.process.spawn(play(player.lake, timer_cells(player.lake), TOPIC, stop))
        publishing = publisher.process.spawn(publish(publisher, stop))
        listening = reader.process.spawn(_listen(reader, heard))
        await asyncio.sleep(5)
        marks.append(asked())
        await sender.process.run(send(sender))
        await asyncio.sleep(12)
        marks.append(asked())
        stop.set()
        await asyncio.gather(playing, publishing)
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)

    world.run(main())
    first, begun, ended, last = marks
    whole = [after - before for before, after in zip(first, last, strict=True)]
    steady = [after - before for before, after in zip(begun, ended, strict=True)]
    sent_steadily = rate * seconds - rate * (10 * seconds // 6) // 10
    count = rate * seconds
    assert len(heard.late_ms) == count, f"{len(heard.late_ms)} of {count} were let go"
    for name, (of_sender, of_player, of_publisher), messages in (("", steady, sent_steadily), (", opening included", whole, count)):
        yield Figure(
            name=f"delayed messages at 1,000/s: requests{name}",
            unit="requests/message",
            values=[(_requests(of_sender) + _requests(of_player)) / messages],
            target=None if name else 0.01,
            requests=by_verb(of_player, messages / 1000),
            per="by the player, a thousand",
            note=f"sender {1000 * _requests(of_sender) / messages:.1f} a thousand, linger 400 ms; "
            f"publishing both topics beside it {1000 * _requests(of_publisher) / messages:.1f}",
        )
    for share in (50, 95, 99):
        yield Figure(
            name=f"delayed messages at 1,000/s: lateness, p{share}",
            unit="ms",
            values=[heard.percentile(share)],
            target=1_000 if share == 95 else None,
        )


def _with_many_waiting(options: Options) -> Iterator[Figure]:
    """A hundred a second come due while many more wait."""
    waiting, rate, seconds = options.scaled(1_000_000, 4_000), 100, options.scaled(60, 3)
    world = World(2)
    heard = _Heard()

    async def main() -> StoreStatistics:
        founder, sender, player, reader = (world.client(name) for name in ("founder", "sender", "player", "reader"))
        await founder.process.run(_create(founder.lake))
        now_us = 1000 * EPOCH_MS + int(1e6 * world.now_s)
        rng = np.random.default_rng(2)
        due_us = now_us + _DAY_US + rng.integers(0, _FAR_US, waiting)
        soon_us = now_us + 1_800_000_000 + np.sort(rng.integers(0, 1_000_000 * seconds, rate * seconds))
        chosen = rng.choice(waiting, rate * seconds, replace=False)
        due_us[chosen] = soon_us
        stop = asyncio.Event()
        playing = player.process.spawn(play(player.lake, timer_cells(player.lake), TOPIC, stop))
        await sender.process.run(_fill(sender.lake, arrow_rows(waiting), due_us))
        listening = reader.process.spawn(_listen(reader, heard))
        await asyncio.sleep((soon_us[0] - now_us) / 1e6 - world.now_s)
        before = player.store.statistics()
        await asyncio.sleep(seconds + 10)
        found = player.store.statistics() - before
        stop.set()
        await playing
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)
        return found

    requests = world.run(main())
    assert len(heard.late_ms) == rate * seconds, f"{len(heard.late_ms)} of {rate * seconds} were let go"
    for share in (50, 95, 99):
        yield Figure(
            name=f"{waiting:,} waiting, 100/s due: lateness, p{share}",
            unit="ms",
            values=[heard.percentile(share)],
            target=1_000 if share == 95 else None,
            requests=by_verb(requests, seconds / 60) if share == 50 else {},
            per="by the player, a minute",
        )


def _idle(options: Options) -> Iterator[Figure]:
    """A player whose next message is due in days."""
    hours = options.scaled(3, 1)
    world = World(3)

    async def main() -> StoreStatistics:
        founder, player = world.client("founder"), world.client("player")
        await founder.process.run(_create(founder.lake))
        now_us = 1000 * EPOCH_MS + int(1e6 * world.now_s)
        await founder.process.run(_fill(founder.lake, arrow_rows(100), np.full(100, now_us + _FAR_US)))
        stop = asyncio.Event()
        playing = player.process.spawn(play(player.lake, timer_cells(player.lake), TOPIC, stop))
        await asyncio.sleep(600)
        before = player.store.statistics()
        await asyncio.sleep(3600 * hours)
        found = player.store.statistics() - before
        stop.set()
        await playing
        return found

    requests = world.run(main())
    yield Figure(
        name="an idle topic's timers, played",
        unit="requests/hour",
        values=[_requests(requests) / hours],
        requests=by_verb(requests, hours),
        per="an hour",
        note=f"{requests.cost_usd / hours * 730:.2f} USD a month",
    )


def _requests(statistics: StoreStatistics) -> int:
    return sum(one.requests for one in (statistics.put, statistics.get, statistics.list, statistics.delete))


# --- Memory --------------------------------------------------------------------------------------------------------------------------


def _memory(options: Options) -> Iterator[Figure]:
    for waiting in (4_000,) if options.small else (100_000, 1_000_000):
        with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
            elsewhere(_leave_waiting, folder, waiting)
            yield Figure(
                name=f"a player's RSS growth with {waiting:,} waiting",
                unit="MiB",
                values=[elsewhere(_played_rss, folder) / _MIB],
                note="bodies of 100 B; the peak, from taking over to the last run written",
            )


def _leave_waiting(root: str, count: int) -> float:
    async def work() -> None:
        lake = LogLake(LocalStore(root))
        await _create(lake)
        due_us = time.time_ns() // 1000 + _FAR_US + np.arange(count)
        await _fill(lake, arrow_rows(count), due_us)
        await lake.close()

    asyncio.run(work())
    return 0.0


def _played_rss(root: str) -> float:
    async def work() -> float:
        lake = LogLake(LocalStore(root))
        await lake.topic(TOPIC, writable=True)
        before = rss_bytes()
        await play_once(lake, timer_cells(lake), TOPIC)
        peak = rss_bytes("VmHWM")
        await lake.close()
        return peak - before

    return asyncio.run(work())
