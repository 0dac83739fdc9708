"""Timers, one interleaving at a time: two players, a month of silence, retention, what is left over, and recalls of what lies in runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any

import pytest

from penstock.coordinator import LakeMaintenance, open_coordination
from penstock.coordinator.cells.keys import timer_folder
from penstock.coordinator.timers.cell import preconditions
from penstock.coordinator.timers.cell.cell import timer_cells
from penstock.coordinator.timers.cell.state import DuePosition, NotRecallable
from penstock.coordinator.timers.delivery import play, play_once
from penstock.coordinator.timers.options import TimerOptions
from penstock.coordinator.timers.orphans import remove_orphans
from penstock.coordinator.timers.player import TimerPlayer
from penstock.coordinator.timers.waiting_messages import read_timer_state, recall, waiting
from penstock.log import DataDamaged, Message, TopicSettings
from penstock.log.lake import LogLake
from penstock.log.message.message_type import MessageType
from penstock.log.stores import MemoryStore, Put
from penstock.log.table.delta.delta_log import DeltaLog
from penstock.log.table.publisher import Publisher
from tests.coordinator.timers.test_delivery import check_times
from tests.playing import played_on
from tests.simulation.kernel import Kernel

DAY_S = 86_400.0
SMALL = TimerOptions(claim_rows=3, flush_rows=6, flush_bytes=10**9, merge_runs=2, group_bytes=700)


class Scene:
    """A store with a topic of type DELAY, and lakes of processes over it."""

    def __init__(self, name: str) -> None:
        self.kernel = Kernel(name, shuffle=False)
        self.process = self.kernel.process("host")
        self.store = MemoryStore(clock=self.process.clock)

    def lake(self) -> LogLake:
        return LogLake(self.store, runtime=self.process.runtime)

    def play(self, script: Callable[[], Coroutine[Any, Any, None]]) -> None:
        async def work() -> None:
            async with self.lake() as lake:
                await lake.create_topic("orders", TopicSettings(message_type=MessageType.DELAY, queues=2))
            await script()

        self.kernel.run(work())

    async def send(self, *delays_s: float) -> None:
        async with self.lake() as lake:
            producer = await lake.producer("orders")
            for delay_s in delays_s:
                producer.send(Message(b"%g" % delay_s, delay=timedelta(seconds=delay_s)))

    async def play_for(self, seconds: float, options: TimerOptions = SMALL) -> None:
        async with self.lake() as lake:
            stop = asyncio.Event()
            asyncio.get_running_loop().call_later(seconds, stop.set)
            await play(lake, timer_cells(lake), "orders", stop, options)

    async def come(self, *, late_s: float | None = 1.0) -> list[float]:
        """The delays of what came, sorted. Store times move by a day at most with an entry: after a long silence they tell nothing (None)."""
        async with self.lake() as lake:
            reader = await lake.reader("orders")
            messages = [one async for one in reader.messages()]
        if late_s is not None:
            check_times(messages, late_s=late_s)
        return sorted(float(one.body) for one in messages)


def test_two_players_at_once_double_nothing() -> None:
    scene = Scene("two players")
    delays = [float(1 + 3 * n % 20) for n in range(40)]

    async def script() -> None:
        await scene.send(*delays)
        await asyncio.gather(scene.play_for(30), scene.play_for(30), scene.play_for(25))
        assert await scene.come(late_s=5.0) == sorted(delays)

    scene.play(script)


@pytest.mark.parametrize("is_looked_up", [True, False])
def test_what_was_appended_a_month_ago_is_found_by_its_id(monkeypatch: pytest.MonkeyPatch, is_looked_up: bool) -> None:
    if not is_looked_up:
        monkeypatch.setattr(preconditions, "may_be_forgotten", lambda *_, **__: False)
    scene = Scene("a month")

    async def script() -> None:
        await scene.send(0, 0)
        async with scene.lake() as lake:
            player = TimerPlayer(lake, timer_cells(lake), *await lake.timer_log("orders"), SMALL)
            await player.begin()
            for _ in range(20):
                await asyncio.sleep(await player.step() and 0.1)
            assert player.statistics.fired == 2
            await player.close()  # it died: nothing was settled
        async with scene.lake() as lake:
            for day in range(32):  # a topic's time goes on by a day at most with an entry
                await asyncio.sleep(DAY_S)
                await (await lake.producer("orders", name=f"other-{day}", copies=True)).close()
        await scene.send(0)
        await scene.play_for(5)
        assert await scene.come(late_s=None) == ([0, 0, 0] if is_looked_up else [0, 0, 0, 0, 0])

    scene.play(script)


@played_on(Scene, "a month, unreadable")
async def test_what_was_appended_a_month_ago_into_a_file_that_cannot_be_read_is_not_appended_again(scene: Scene) -> None:
    """Until the file can be read."""
    await scene.send(0, 0)
    async with scene.lake() as lake:
        player = TimerPlayer(lake, timer_cells(lake), *await lake.timer_log("orders"), SMALL)
        await player.begin()
        for _ in range(20):
            await asyncio.sleep(await player.step() and 0.1)
        assert player.statistics.fired == 2
        await player.close()  # it died: nothing was settled
        for day in range(32):
            await asyncio.sleep(DAY_S)
            await (await lake.producer("orders", name=f"other-{day}", copies=True)).close()
        await published(lake)
    files = {key: (await scene.store.get(key)).data for key in await tables_of(scene)}
    assert files
    for key in files:
        await scene.store.delete(key)
    async with scene.lake() as lake:
        player = TimerPlayer(lake, timer_cells(lake), *await lake.timer_log("orders"), SMALL)
        await player.begin()
        with pytest.raises(DataDamaged, match="cannot be told whether these messages stand there"):
            await player.step()
        await player.close()
    for key, data in files.items():
        await scene.store.put(key, data, mode=Put.REPLACE)
    await scene.play_for(5)
    assert await scene.come(late_s=None) == [0, 0]


@played_on(Scene, "a month, unreadable beside")
async def test_what_was_appended_a_month_ago_is_found_though_a_file_beside_it_cannot_be_read(scene: Scene) -> None:
    await scene.send(0, 0)
    async with scene.lake() as lake:
        player = TimerPlayer(lake, timer_cells(lake), *await lake.timer_log("orders"), SMALL)
        await player.begin()
        for _ in range(20):
            await asyncio.sleep(await player.step() and 0.1)
        await player.close()  # it died: nothing was settled
        await published(lake)
        for day in range(32):
            await asyncio.sleep(DAY_S)
            await (await lake.producer("orders", name=f"other-{day}", copies=True)).close()
    first = await tables_of(scene)
    async with scene.lake() as lake:
        other = await lake.producer("orders", name="other", copies=True)
        await other.send(Message(b"x", delay=timedelta(0)), sequence=1)
        await other.close()
        await published(lake)
    (beside,) = await tables_of(scene) - first
    await scene.store.delete(beside)
    async with scene.lake() as lake:
        player = TimerPlayer(lake, timer_cells(lake), *await lake.timer_log("orders"), SMALL)
        await player.begin()
        await player.step()
        assert player.statistics.fired == 2
        await player.close()


async def published(lake: LogLake) -> None:
    """Move what the topic holds into its table."""
    topic = await lake.topic("orders")
    delta = DeltaLog(lake.store, topic.paths, topic.record.table, topic.runtime)
    await Publisher(lake.store, topic.paths, topic.record, topic.runtime, delta=delta).publish_once()


async def tables_of(scene: Scene) -> set[str]:
    """The files of the topic's table."""
    keys = {info.key for info in await scene.store.list("topics/orders/") if info.key.endswith(".parquet")}
    return {key for key in keys if "/log/" not in key}


@played_on(Scene, "retention")
async def test_retention_spares_what_waits_in_the_timer_log_however_old_it_is(scene: Scene) -> None:
    await scene.send(30 * DAY_S, 1)

    async def maintain() -> dict[str, object]:
        async with scene.lake() as lake:
            coordination = open_coordination(None, store=lake.store, runtime=lake.runtime)
            results: dict[str, object] = {}
            upkeep = LakeMaintenance(
                lake, coordination.cells, coordination.groups, on_step=lambda _, step, result: results.update({step: result})
            )
            await upkeep.once("%TIMER%orders")
            return results

    await maintain()
    await asyncio.sleep(20 * DAY_S)
    assert (await maintain())["retain"] == 0  # nobody has gathered what waits
    async with scene.lake() as lake:
        await play_once(lake, timer_cells(lake), "orders", TimerOptions(flush_age=timedelta(0)))
        assert (await standing_of(lake)).gathered == 0
    await scene.play_for(5, TimerOptions(flush_age=timedelta(0)))
    async with scene.lake() as lake:
        assert (await standing_of(lake)).gathered == 2
    assert (await maintain())["retain"] == 2
    await asyncio.sleep(11 * DAY_S)
    await scene.play_for(5)
    assert await scene.come(late_s=None) == [1, 30 * DAY_S]


async def standing_of(lake: LogLake) -> Any:
    _, log = await lake.timer_log("orders")
    return await read_timer_state(timer_cells(lake), lake.runtime.clock, "orders", log.record.incarnation)


@played_on(Scene, "orphans")
async def test_runs_that_nobody_names_go_after_two_days(scene: Scene) -> None:
    await scene.send(*[10 * DAY_S] * 10)
    await scene.play_for(5)
    async with scene.lake() as lake:
        _, log = await lake.timer_log("orders")
        folder = timer_folder("orders", log.record.incarnation)
        named = {f"{folder}{run.name}.parquet" for run in (await standing_of(lake)).runs}
        assert named
        old_life = f"{timer_folder('orders', 'f' * 32)}{'e' * 32}.parquet"
        for key in (f"{folder}{'d' * 32}.parquet", old_life):
            await lake.store.put(key, b"x", mode=Put.CREATE)
        assert await remove_orphans(lake, "%TIMER%orders") == 0
        await asyncio.sleep(2.1 * DAY_S)
        assert await remove_orphans(lake, "%TIMER%orders") == 2
        assert {info.key for info in await lake.store.list("timers/")} == named


@played_on(Scene, "recalled")
async def test_what_is_recalled_from_a_run_does_not_come(scene: Scene) -> None:
    await scene.send(*[float(20 + n) for n in range(12)])
    await scene.play_for(3)
    async with scene.lake() as lake:
        cells, clock = timer_cells(lake), lake.runtime.clock
        _, log = await lake.timer_log("orders")
        life = log.record.incarnation
        assert (await standing_of(lake)).runs
        rows = await waiting(lake, cells, "orders")
        dues = [
            DuePosition(time, offset)
            for time, offset in zip(
                rows.column("delivery_timestamp").cast("int64").to_pylist(), rows.column("offset").to_pylist(), strict=True
            )
        ]
        for due in (dues[0], dues[5], dues[11]):
            await recall(cells, clock, "orders", life, due)
        with pytest.raises(NotRecallable, match="recalled before"):
            await recall(cells, clock, "orders", life, dues[5])
        assert (await waiting(lake, cells, "orders", limit=3)).column("body").to_pylist() == [b"21", b"22", b"23"]
    await scene.play_for(40)
    assert await scene.come() == [float(20 + n) for n in range(12) if n not in (0, 5, 11)]
    async with scene.lake() as lake:
        assert (await standing_of(lake)).recalled == frozenset()
        for due in (dues[3], dues[5]):  # the one let go, the other recalled: of neither anything is kept
            with pytest.raises(NotRecallable, match="it was delivered, is on its way, or was recalled"):
                await recall(timer_cells(lake), lake.runtime.clock, "orders", life, due)


def test_many_recalls_leave_the_cell_for_objects_and_are_forgotten_when_their_times_have_passed() -> None:
    scene = Scene("many recalls")
    dues: dict[int, DuePosition] = {}
    options = TimerOptions(claim_rows=5, recalled_rows=4, flush_rows=9, flush_bytes=10**9, merge_runs=2, group_bytes=700)

    async def script() -> None:
        nonlocal dues
        await scene.send(*[float(40 + n) for n in range(60)])
        for first in range(0, 60, 10):
            await scene.play_for(2, options)
            async with scene.lake() as lake:
                cells, clock = timer_cells(lake), lake.runtime.clock
                _, log = await lake.timer_log("orders")
                rows = await waiting(lake, cells, "orders")
                times = rows.column("delivery_timestamp").cast("int64").to_pylist()
                dues = {
                    offset: DuePosition(time, offset) for time, offset in zip(times, rows.column("offset").to_pylist(), strict=True)
                }
                for offset in range(first, first + 8):
                    await recall(cells, clock, "orders", log.record.incarnation, dues[offset], lake=lake)
        await scene.play_for(2, options)
        async with scene.lake() as lake:
            _, log = await lake.timer_log("orders")
            state = await standing_of(lake)
            assert len(state.recalled) < 8
            assert 1 <= len(state.recalls) <= 4
            assert len(state.recalled) + sum(run.rows for run in state.recalls) == 48
            assert (await waiting(lake, timer_cells(lake), "orders")).num_rows == 12
            with pytest.raises(NotRecallable, match="recalled before"):
                await recall(timer_cells(lake), lake.runtime.clock, "orders", log.record.incarnation, dues[50], lake=lake)
        await scene.play_for(100, options)
        assert await scene.come() == [float(40 + n) for n in range(60) if n % 10 >= 8]
        async with scene.lake() as lake:
            state = await standing_of(lake)
            assert (state.recalled, state.recalls) == (frozenset(), ())
            await asyncio.sleep(3 * DAY_S)
            await remove_orphans(lake, "%TIMER%orders")
            assert [info.key for info in await lake.store.list("timers/")] == []

    scene.play(script)


@played_on(Scene, "lost cell")
async def test_a_lost_cell_is_seen(scene: Scene) -> None:
    await scene.send(1, 2)
    await scene.play_for(5)
    async with scene.lake() as lake:
        for info in await lake.store.list("coordination/timers/"):
            await lake.store.delete(info.key)
    with pytest.raises(DataDamaged, match="never let go"):
        await scene.play_for(5)
    assert await scene.come() == [1, 2]
