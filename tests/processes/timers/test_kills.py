"""Real processes that let delayed messages go and are killed amid it, two at a time: each message once, none early, all in order."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import penstock
import penstock.aio
from penstock import Message
from penstock.coordinator.timers.role import Timers
from tests.processes.timers.worker import TOPIC
from tests.tree import ROOT

SEED = 5
MACHINES = 2
LIVES = 6
MESSAGES = 320
GROUPS = 5
FIRST_IN_S = 3.0
SLOT_S = 0.2
"""Several are due at one time."""
PATIENCE_S = 400


@pytest.mark.thorough
@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_each_message_goes_once_and_none_early_in_order(tmp_path: Path) -> None:
    url = str(tmp_path / "lake")
    with penstock.connect(url, maintenance=False) as lake:
        lake.create_topic(TOPIC, message_type="DELAY", queues=2)
        begin = datetime.now(UTC) + timedelta(seconds=FIRST_IN_S)
        with lake.producer(TOPIC) as producer:  # as one batch: its order holds also where all of it is due before it is read
            producer.send_batch(
                Message(
                    b"%d" % number,
                    message_group=f"customer-{number % GROUPS}",
                    delivery_timestamp=begin + timedelta(seconds=SLOT_S * (number * 7 % 25)),
                )
                for number in range(MESSAGES)
            )
    machines = [
        subprocess.Popen([sys.executable, "-m", "tests.processes.timers.worker", url, f"{SEED + one}", f"{LIVES}"], cwd=ROOT)
        for one in range(MACHINES)
    ]
    try:
        killed = [machine.wait(PATIENCE_S) for machine in machines]
    finally:
        for machine in machines:
            machine.kill()
            machine.wait()
    assert max(killed) <= LIVES, "a player ended by itself"
    assert sum(killed) > MACHINES, "lives were killed amid it"  # how many is chance: on a busy machine a life lets more go at once
    asyncio.run(_let_go_what_is_left(url))
    with penstock.connect(url, read_only=True) as lake:
        messages = list(lake.reader(TOPIC).messages())
        assert lake.waiting(TOPIC) == []
    assert sorted(int(message.body) for message in messages) == list(range(MESSAGES))
    lanes: dict[str, list[tuple[datetime, int]]] = defaultdict(list)
    for message in sorted(messages, key=lambda one: (one.queue, one.offset)):
        assert message.delivery_timestamp is not None
        assert message.store_timestamp >= message.delivery_timestamp - timedelta(microseconds=999), (
            "store times are cut to milliseconds"
        )
        lanes[str(message.message_group)].append((message.delivery_timestamp, int(message.body)))
    assert len(lanes) == GROUPS
    assert all(lane == sorted(lane) for lane in lanes.values())


async def _let_go_what_is_left(url: str) -> None:
    """As `penstock maintain --once` does, until nothing waits."""
    async with penstock.aio.connect(url, maintenance=False) as lake, asyncio.timeout(PATIENCE_S):
        timers = Timers(lake)
        while await lake.waiting(TOPIC, limit=1):
            await timers.once(TOPIC)
        await timers.once(TOPIC)
