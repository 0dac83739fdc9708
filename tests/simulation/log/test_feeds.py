"""Feeds amid faults, trims, damage and deletions: every offset once and in order, nobody left waiting, and no request that nobody needs."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from penstock.consumers.feed.feed import Feed
from penstock.log.lake import LogLake
from penstock.log.stores.counting import CountingStore
from tests.simulation.log.campaign import CAMPAIGN
from tests.simulation.log.feeders import SCENARIOS
from tests.simulation.log.stage import HOUR_S, Stage
from tests.simulation.log.world import TOPIC
from tests.simulation.patches import attribute
from tests.simulation.sweeping import Run
from tests.thorough import thoroughly

pytestmark = pytest.mark.simulation

SEEDS = {
    "feeds": thoroughly(range(6), (0,)),
    "expiring": thoroughly((0, 1, 3), (3,)),
    "damaged": thoroughly((2, 3, 4), (4,)),
    "deleted": thoroughly((0, 1, 2, 3, 5), (0, 5)),
}
MUST_HAPPEN = (
    "feed: rows", "feed: gave up waiting", "feed: gave up fetching", "feed: out of range", "feed: damage named", "restart", "trim",
    "topic created again",
)  # fmt: skip


def play(scenario: str, seed: int) -> Run:
    return CAMPAIGN.play(f"feeds: {scenario}", seed)


@pytest.fixture(scope="module")
def counts() -> Counter[str]:
    return Counter()


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_offset_once_and_in_order(scenario: str, counts: Counter[str]) -> None:
    runs = [play(scenario, seed) for seed in SEEDS[scenario]]
    counts += sum((run.counts for run in runs), Counter[str]())
    wrong = [run.report() for run in runs if run.wrong]
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
def test_the_worlds_met_what_they_are_for(counts: Counter[str]) -> None:
    assert not [what for what in MUST_HAPPEN if not counts[what]], counts


def test_the_judge_notices_a_row_that_is_left_out_and_one_that_is_another() -> None:
    for change, said in ((lambda rows: rows.slice(1), "I6 f0 got offsets"), (_with_other_bodies, "I6 ")):

        def make(original: Any, change: Callable[[pa.RecordBatch], pa.RecordBatch] = change) -> Any:
            async def fetch(self: Feed, *where: Any, **limits: Any) -> pa.RecordBatch | None:
                rows = await original(self, *where, **limits)
                return change(rows) if rows is not None and rows.num_rows > 2 else rows

            return fetch

        with attribute(Feed, "fetch", make)():
            assert any(said in line for line in play("feeds", 0).wrong)


def _with_other_bodies(rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows.set_column(rows.schema.get_field_index("body"), "body", pa.array([b"other"] * rows.num_rows, pa.binary()))


def test_who_waits_costs_the_tails_probes_and_nobody_else_anything() -> None:
    """In an hour of silence: as many requests with six who wait as with one, one every five seconds; and none when nobody waits."""
    stage = Stage(queues=3)
    sent: list[int] = []

    async def script() -> None:
        await stage.fill(3)
        process = stage.world.new_process("consumer")
        store = CountingStore(stage.world.store.client(process))
        lake = LogLake(store, runtime=process.runtime, read_only=True)

        async def consume(waiting: int) -> None:
            feed = Feed(await lake.topic(TOPIC))
            for queue in range(3):
                feed.attach(queue)
                start = 0
                while (rows := await feed.fetch(queue, start, rows_max=10, bytes_max=1 << 20)) is not None:
                    start += rows.num_rows
            before = store.statistics().requests
            waiters = [asyncio.ensure_future(feed.arrived(at % 3, feed.next_offset(at % 3))) for at in range(waiting)]
            await asyncio.sleep(HOUR_S)
            for waiter in waiters:
                waiter.cancel()
            await asyncio.gather(*waiters, return_exceptions=True)
            sent.append(store.statistics().requests - before)
            await feed.close()
            await asyncio.sleep(60.0)  # the tail's last probe

        for waiting in (0, 1, 6):
            await process.run(consume(waiting))

    stage.play(script)
    assert sent[0] == 0
    assert 700 <= sent[1] <= 1000, sent
    assert abs(sent[2] - sent[1]) <= 2, sent
