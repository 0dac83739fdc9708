"""Roles of topics, played by whoever has the lake open: one at a time, shared evenly, and taken over from the dead."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field

import pytest

from penstock.coordinator.cells.keys import role_key
from penstock.coordinator.rebalance.roles import MAINTENANCE, OfferedRole, run_roles, stand_in
from penstock.coordinator.workers.worker import LeaseLost
from penstock.log.errors import PenstockError, PermissionDenied, StoreUnavailable, TopicDeleted
from tests.coordinator.stage import Stage
from tests.simulation.process import SimProcess

PATIENCE_S = 10.0


@dataclass
class Lake:
    """Its topics, and who plays for which right now."""

    stage: Stage
    topics: list[str]
    playing: dict[str, set[str]] = field(default_factory=dict)
    together: list[str] = field(default_factory=list)
    plays: Counter[str] = field(default_factory=Counter)
    errors: list[PenstockError] = field(default_factory=list)
    ends_in_s: float = 0.2
    """How long a step takes that is under way when a play is to end."""

    def open(self, name: str) -> Player:
        return Player(self, name)

    def stand_in(self, name: str, for_s: float) -> Player:
        """A process that plays for the first topic for a while, as long as no player has it."""
        return Player(self, name, for_s)

    def players(self) -> Counter[str]:
        """How many topics each plays for."""
        return Counter(name for names in self.playing.values() for name in names)

    def all_played(self) -> bool:
        return all(len(self.playing.get(topic, ())) == 1 for topic in self.topics)


class Player:
    """A process with the lake open."""

    def __init__(self, lake: Lake, name: str, for_s: float | None = None) -> None:
        self.lake = lake
        self.process: SimProcess = lake.stage.process(name)
        self.stop = self.process.call(asyncio.Event)
        self.worker = lake.stage.worker(self.process)
        part = OfferedRole(topics=self._topics, play=self._play)
        if for_s is not None:
            cells, watch = lake.stage.cells(self.process), lake.stage.watch(self.process)
            self.task = self.process.spawn(
                stand_in(cells, self.worker, watch, self.process.runtime, part, lake.topics[0], self.stop, for_s=for_s)
            )
            return
        self.task = self.process.spawn(
            run_roles(
                lake.stage.cells(self.process),
                self.worker,
                lake.stage.watch(self.process),
                self.process.runtime,
                part,
                self.stop,
                report=lambda topic, error: lake.errors.append(error),
                patience_s=PATIENCE_S,
            )
        )

    def crash(self) -> None:
        self.process.crash()
        for names in self.lake.playing.values():
            names.discard(self.process.name)

    async def close(self) -> None:
        self.stop.set()
        await self.task

    async def _topics(self) -> list[str]:
        return list(self.lake.topics)

    async def _play(self, topic: str, stop: asyncio.Event) -> None:
        playing = self.lake.playing.setdefault(topic, set())
        if playing:
            self.lake.together.append(topic)
        playing.add(self.process.name)
        self.lake.plays[topic] += 1
        await stop.wait()
        await asyncio.sleep(self.lake.ends_in_s)
        playing.discard(self.process.name)


def lake(*topics: str) -> Lake:
    return Lake(Stage(), list(topics))


async def until(condition: object, within_s: float) -> None:
    assert callable(condition)
    async with asyncio.timeout(within_s):
        while not condition():  # noqa: ASYNC110 - of state that no event tells of
            await asyncio.sleep(0.05)


def test_roles_are_shared_and_handed_over_and_nobody_plays_along() -> None:
    lake_ = lake(*(f"t{number}" for number in range(6)))

    async def script() -> None:
        first = lake_.open("first")
        await until(lake_.all_played, PATIENCE_S + 2)
        others = [lake_.open("second"), lake_.open("third")]
        await until(lambda: sorted(lake_.players().values()) == [2, 2, 2] and lake_.all_played(), PATIENCE_S + 15)
        await first.close()
        await until(lake_.all_played, 5)
        assert sorted(lake_.players().values()) == [3, 3]
        for other in others:
            await other.close()
        assert not lake_.players()
        assert not lake_.together
        assert not lake_.errors

    lake_.stage.play(script)


def test_who_opens_a_lake_for_a_moment_takes_no_part() -> None:
    lake_ = lake("orders")

    async def script() -> None:
        player = lake_.open("script")
        await asyncio.sleep(PATIENCE_S - 1)
        await player.close()
        assert not lake_.stage.table.calls

    lake_.stage.play(script)


def test_who_is_broken_off_while_it_stands_in_leaves_when_its_play_has_ended() -> None:
    stage, ended = Stage(), list[str]()

    async def script() -> None:
        process, began = stage.process("sender"), asyncio.Event()

        async def topics() -> list[str]:
            return ["orders"]

        async def play(topic: str, stop: asyncio.Event) -> None:
            began.set()
            try:
                await stop.wait()
            finally:
                await asyncio.sleep(1)
                ended.append(topic)

        part, stop = OfferedRole(topics=topics, play=play), process.call(asyncio.Event)
        cells, watch, worker = stage.cells(process), stage.watch(process), stage.worker(process)
        standing = process.spawn(stand_in(cells, worker, watch, process.runtime, part, "orders", stop, for_s=60))
        await began.wait()
        standing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await standing
        assert ended == ["orders"]

    stage.play(script)


def test_who_stands_in_plays_for_so_long_and_leaves_it_to_the_players() -> None:
    lake_ = lake("orders")

    async def script() -> None:
        standing = lake_.stand_in("sender", for_s=20)
        await until(lake_.all_played, 2)
        worker = standing.worker.id
        player = lake_.open("player")
        await asyncio.sleep(PATIENCE_S + 5)
        assert lake_.players() == {"sender": 1}
        await standing.task
        beat = await lake_.stage.heartbeat(worker)
        assert beat is not None
        assert beat.fenced, "nobody has to wait until it is dead"
        await until(lake_.all_played, 5)
        await player.close()
        assert not lake_.together

    lake_.stage.play(script)


def test_nobody_stands_in_for_a_player_or_beside_another() -> None:
    lake_ = lake("orders")

    async def script() -> None:
        key = role_key("orders", MAINTENANCE)
        held = lake_.stage.table.hold(process="slow", verb="put", key=lambda called: called == key)
        slow = lake_.stand_in("slow", for_s=60)
        await held.reached()
        quick = lake_.stand_in("quick", for_s=60)
        await until(lake_.all_played, 2)
        held.release()
        await slow.task
        later = lake_.stand_in("later", for_s=60)
        await later.task
        assert lake_.players() == {"quick": 1}
        assert not lake_.stage.count("put", later.process), "it looks first"
        await quick.close()
        assert lake_.plays == {"orders": 1}

    lake_.stage.play(script)


def test_who_stood_in_and_slept_beyond_its_lease_says_so_and_gives_nothing_back() -> None:
    lake_ = lake("orders")

    async def script() -> None:
        standing = lake_.stand_in("sender", for_s=120)
        await until(lake_.all_played, 2)
        standing.process.pause(60)
        lake_.playing["orders"].clear()  # what it does is fenced now
        player = lake_.open("player")
        await until(lake_.all_played, PATIENCE_S + 20)
        with pytest.raises(LeaseLost):
            await standing.task
        await player.close()
        written = [call for call in lake_.stage.table.calls if call.key == role_key("orders", MAINTENANCE) and call.verb == "put"]
        assert [call.process for call in written].count("sender") == 1

    lake_.stage.play(script)


def test_a_role_of_the_dead_is_taken_over() -> None:
    lake_ = lake("orders", "refunds")

    async def script() -> None:
        players = [lake_.open("a"), lake_.open("b")]
        await until(lambda: sorted(lake_.players().values()) == [1, 1], PATIENCE_S + 15)
        players[0].crash()
        await until(lake_.all_played, 5 * 1.25 + 1)
        assert lake_.players() == {"b": 2}
        await asyncio.sleep(900)  # idle by now, with a long lease
        third = lake_.open("c")
        await until(lambda: sorted(lake_.players().values()) == [1, 1], PATIENCE_S + 30)
        players[1].crash()
        await until(lake_.all_played, 60 * 1.25 + 10)
        assert lake_.players() == {"c": 2}
        await third.close()
        assert not lake_.together

    lake_.stage.play(script)


def test_topics_come_and_go() -> None:
    lake_ = lake("orders")

    async def script() -> None:
        player = lake_.open("a")
        await until(lake_.all_played, PATIENCE_S + 2)
        lake_.topics.append("refunds")
        await until(lake_.all_played, 65)
        lake_.topics.remove("orders")
        await until(lambda: not lake_.playing["orders"], 65)
        await asyncio.sleep(120)
        assert lake_.plays == {"orders": 1, "refunds": 1}
        await player.close()

    lake_.stage.play(script)


@pytest.mark.parametrize(
    "error", [TopicDeleted("gone"), ValueError("a bug"), StoreUnavailable("no answer")], ids=["known", "bug", "store"]
)
def test_a_play_that_fails_is_reported_and_tried_again(error: Exception) -> None:
    lake_ = lake("orders", "refunds")

    async def script() -> None:
        player = lake_.open("a")
        good = player._play
        failing = 3

        async def play(topic: str, stop: asyncio.Event) -> None:
            nonlocal failing
            if topic == "orders" and failing:
                failing -= 1
                raise error
            await good(topic, stop)

        player._play = play  # type: ignore[method-assign]
        part = OfferedRole(topics=player._topics, play=play)
        await player.close()
        task = player.process.spawn(
            run_roles(
                lake_.stage.cells(player.process),
                player.worker,
                lake_.stage.watch(player.process),
                player.process.runtime,
                part,
                stop := player.process.call(asyncio.Event),
                report=lambda topic, error: lake_.errors.append(error),
                patience_s=0,
            )
        )
        await until(lake_.all_played, 10)
        assert len(lake_.errors) == 3
        assert lake_.plays == {"orders": 1, "refunds": 1}
        stop.set()
        await task

    lake_.stage.play(script)


def test_a_sleeper_that_lost_its_lease_ends_its_plays_and_comes_again() -> None:
    lake_ = lake("orders", "refunds")

    async def script() -> None:
        players = [lake_.open("a"), lake_.open("b")]
        await until(lambda: sorted(lake_.players().values()) == [1, 1], PATIENCE_S + 15)
        players[0].process.pause(30)
        await asyncio.sleep(20)
        assert max(len(names) for names in lake_.playing.values()) == 2  # the sleeper knows of nothing
        await asyncio.sleep(20)
        await until(lambda: lake_.all_played() and sorted(lake_.players().values()) == [1, 1], 20)
        for player in players:
            await player.close()

    lake_.stage.play(script)


def test_when_cancelled_it_breaks_off_and_gives_the_roles_back() -> None:
    """While it is waiting for its plays to end, too: a process that ends has no time for a long step."""
    lake_ = lake("orders", "refunds")
    lake_.ends_in_s = 3600

    async def script() -> None:
        player = lake_.open("a")
        await until(lake_.all_played, PATIENCE_S + 2)
        player.stop.set()
        await asyncio.sleep(5)
        assert not player.task.done()
        player.task.cancel()
        since_s = lake_.stage.now_s
        await asyncio.wait([player.task])
        assert player.task.cancelled()
        assert lake_.stage.now_s - since_s < 1
        lake_.playing.clear()
        other = lake_.open("b")
        await until(lake_.all_played, PATIENCE_S + 2)
        other.crash()

    lake_.stage.play(script)


def test_without_the_right_to_write_it_is_said_and_tried_again() -> None:
    lake_ = lake("orders")

    async def script() -> None:
        player = lake_.open("a")

        async def refused(*args: object, **options: object) -> None:
            raise PermissionDenied("no right to write", operation="put")

        memory = lake_.stage.table.memory
        allowed, memory.put = memory.put, refused  # type: ignore[method-assign, assignment]
        await asyncio.sleep(60)
        assert lake_.errors
        assert len(lake_.errors) < 15
        memory.put = allowed  # type: ignore[method-assign]
        await until(lake_.all_played, 20)
        await player.close()

    lake_.stage.play(script)
