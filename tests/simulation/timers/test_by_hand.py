"""Interleavings of players, senders and recalls by name, one at a time."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from penstock.log.errors import PenstockError
from tests.playing import played_on
from tests.simulation.faults import Fault, ScriptedFaults, Where
from tests.simulation.requests import Gate
from tests.simulation.timers.mutants import MUTANTS_BY_HAND
from tests.simulation.timers.plot import SMALL
from tests.simulation.timers.records import Outcome
from tests.simulation.timers.stage import Stage

pytestmark = [pytest.mark.simulation, pytest.mark.timeout(120)]

DAY_S = 86_400.0
SLOW = replace(SMALL, settle=timedelta(hours=1), probe=timedelta(hours=1))
CELL = "coordination/timers/orders/"
ENTRY = "topics/orders/log/0"


@played_on(Stage, options=replace(SMALL, claim_rows=2, flush_rows=3, settle=timedelta(hours=1), tick=timedelta(milliseconds=100)))
async def test_what_waits_in_runs_goes_claim_after_claim(stage: Stage) -> None:
    await stage.start()
    for number in range(12):
        await stage.send(f"m{number}", due_s=30.0 + number / 100)
    await stage.until("gathered", lambda: stage.state().gathered >= 12)
    await asyncio.sleep(33.0 - stage.now_s)
    assert len(await stage.fired()) == 12


@played_on(Stage, options=replace(SMALL, claim_rows=100, flush_rows=1_000))
async def test_messages_that_come_due_one_by_one_go_tick_by_tick(stage: Stage) -> None:
    await stage.start()
    for number in range(200):
        await stage.send(f"m{number}", due_s=20.0 + number / 20)
    await asyncio.sleep(31.0 - stage.now_s)
    assert len(await stage.fired()) == 200
    assert stage.world.counts["claim"] <= 10.0 / SMALL.tick.total_seconds()


@played_on(Stage, players=2)
async def test_a_player_that_slept_between_claim_and_append_adds_nothing(stage: Stage) -> None:
    await stage.start(0)
    held = stage.hold(0, "put", ENTRY)
    await stage.send("a", "b", due_s=5.0)
    await held.reached()  # claimed, and the entry is on its way
    await stage.start(1)
    await stage.until("let go by the other", lambda: stage.state().settled.known == 2, within_s=30)
    await stage.send("c", due_s=stage.now_s + 1)
    await stage.until("let go too", lambda: stage.state().bounds.known == 3)
    held.release()
    await asyncio.sleep(20)
    assert await stage.fired() == [b"a", b"b", b"c"]


@played_on(Stage)
async def test_a_recall_that_was_written_before_the_claim_wins(stage: Stage) -> None:
    await stage.start()
    (a, b) = await stage.send("a", "b", due_s=6.0)
    held = stage.hold(0, "put", CELL)
    await held.reached()  # the claim of both
    assert await stage.recall(a) is Outcome.DONE
    held.release()
    await asyncio.sleep(5)
    assert await stage.fired() == [b"b"]
    assert await stage.recall(b) is Outcome.FAILED


@played_on(Stage)
async def test_a_recall_behind_the_claim_is_refused(stage: Stage) -> None:
    await stage.start()
    (a,) = await stage.send("a", due_s=6.0)
    held = stage.hold(0, "put", ENTRY)
    await held.reached()
    assert await stage.recall(a) is Outcome.FAILED
    held.release()
    await asyncio.sleep(5)
    assert await stage.fired() == [b"a"]


@played_on(Stage)
async def test_who_is_not_told_that_a_message_was_recalled_is_not_told_that_it_was_not(stage: Stage) -> None:
    await stage.start()
    (a, _) = [*await stage.send("a", due_s=40.0), *await stage.send("b", due_s=7.0)]
    await asyncio.sleep(6.0 - stage.now_s)
    noted = Where(process="recaller", verb="put", key=lambda key: CELL in key)
    stage.world.store.plan = ScriptedFaults([(noted, Fault.LOST_ANSWER)])
    assert await stage.recall(a) is Outcome.UNKNOWN  # b was let go meanwhile, so the cell has been written since
    assert await stage.recall(a) is Outcome.FAILED


@played_on(Stage, options=replace(SMALL, settle=timedelta(days=400), probe=timedelta(hours=1)), quiet_s=86_400.0)
async def test_a_claim_that_was_appended_is_not_appended_again_a_month_later(stage: Stage) -> None:
    await stage.start()
    await stage.send("a", "b", due_s=5.0)
    await asyncio.sleep(10)
    assert await stage.fired() == [b"a", b"b"]
    assert stage.state().claim is not None
    stage.world.machines[0].away_s = 32 * 86_400.0
    stage.process().crash()
    await asyncio.sleep(33 * 86_400.0)
    await stage.send("c", due_s=stage.now_s + 1)
    await asyncio.sleep(2 * 3600)
    assert await stage.fired() == [b"a", b"b", b"c"]


@played_on(Stage, players=2)
async def test_messages_of_a_deleted_topic_come_out_in_no_later_one(stage: Stage) -> None:
    await stage.start(0)
    await stage.send("a", due_s=6.0)
    held = stage.hold(0, "put", CELL)
    await held.reached()  # the claim
    await stage.world.remake()
    await stage.start(1)
    held.release()
    await asyncio.sleep(10)
    assert await stage.fired() == []


def test_a_player_that_slept_while_its_runs_were_merged_and_removed_goes_on() -> None:
    slow = replace(SMALL, flush_rows=2, settle=timedelta(hours=1), probe=timedelta(hours=1))
    stage = Stage(options=slow, players=2, quiet_s=7 * 86_400.0)
    day_s = 86_400.0

    async def script() -> None:
        await stage.start(0)
        await stage.send("a", "b", due_s=12 * day_s)
        await stage.until("gathered", lambda: len(stage.state().runs) == 1, within_s=9_000)
        named = stage.state().runs
        held = stage.hold(0, "get_range", f"{named[0].name}.parquet")
        await stage.send("c", "d", due_s=11 * day_s)
        await held.reached()  # it is about to merge them
        await stage.start(1)
        await stage.until(
            "merged by the other", lambda: stage.state().gathered == 4 and len(stage.state().runs) == 1, within_s=90_000
        )
        await asyncio.sleep(3 * day_s)
        await stage.maintain()
        assert stage.world.counts["run deleted"] >= 1
        held.release()
        await asyncio.sleep(2 * 3_600)
        assert not stage.world.counts["error: data_damaged"]

    stage.play(script)


@played_on(Stage, options=replace(SLOW, flush_rows=2), players=2, quiet_s=20 * DAY_S)
async def test_a_run_that_was_removed_as_an_orphan_is_not_named_by_a_write_that_was_on_its_way(stage: Stage) -> None:
    await stage.start(0)
    named = stage.hold(0, "put", CELL, occurrence=2)  # the first notes what is known
    await stage.send("a", "b", due_s=12 * DAY_S)
    await named.reached()
    stage.process().crash()
    stage.world.machines[0].away_s = 20 * DAY_S
    await asyncio.sleep(3 * DAY_S)
    await stage.maintain()
    assert stage.world.counts["run deleted"] == 1
    named.release()
    await stage.start(1)


@played_on(Stage, options=replace(SLOW, flush_rows=2), quiet_s=20 * DAY_S)
async def test_a_run_that_was_removed_as_an_orphan_is_not_named_by_who_slept(stage: Stage) -> None:
    await stage.start(0)
    written = stage.hold(0, "put_large", "timers/orders", "after")
    await stage.send("a", "b", due_s=12 * DAY_S)
    await written.reached()
    stage.process().pause(3 * DAY_S)
    written.release()
    await asyncio.sleep(2.5 * DAY_S)
    await stage.maintain()
    assert stage.world.counts["run deleted"] == 1


@played_on(Stage, options=replace(SLOW, flush_rows=2), quiet_s=20 * DAY_S, max_steps=20_000)
async def test_a_run_that_was_removed_as_an_orphan_is_not_named_by_who_read_the_cell_since(stage: Stage) -> None:
    await stage.start(0)
    written = stage.hold(0, "put_large", "timers/orders", "after")
    await stage.send("a", "b", due_s=12 * DAY_S)
    await written.reached()
    await stage.send("c", due_s=2.6 * DAY_S)
    stage.process().pause(3 * DAY_S)
    await asyncio.sleep(2.5 * DAY_S)
    await stage.maintain()
    assert stage.world.counts["run deleted"] == 1
    await asyncio.sleep(0.5 * DAY_S + 60.0)
    assert await stage.fired() == [b"c"]  # so it has seen that the cell was written
    written.release()


@played_on(Stage, options=SLOW, players=2, quiet_s=DAY_S)
async def test_a_claim_that_another_settled_is_not_appended_by_who_slept_until_the_name_was_forgotten(stage: Stage) -> None:
    opening = await _falls_asleep_as_it_opens_the_name(stage)
    await stage.start(1)
    await stage.until("settled by the other", lambda: stage.state().settled.known == 2, within_s=7_300.0)
    await stage.maintain()
    await _is_gone_for_a_month(stage)
    await stage.maintain()  # the messages are too old to be kept, so the topic does not tell that they were there
    opening.release()
    await asyncio.sleep(1.5 * DAY_S)
    assert await stage.fired() == [b"a", b"b"]


@played_on(Stage, options=SLOW, players=2, quiet_s=DAY_S)
async def test_a_claim_that_another_appended_and_left_open_is_not_appended_by_who_slept_until_the_name_was_forgotten(
    stage: Stage,
) -> None:
    opening = await _falls_asleep_as_it_opens_the_name(stage)
    await stage.start(1)
    await asyncio.sleep(20.0)
    assert await stage.fired() == [b"a", b"b"]
    assert stage.state().claim is not None
    assert stage.state().settled.known == 0
    await _is_gone_for_a_month(stage)
    opening.release()
    await asyncio.sleep(1.5 * DAY_S)
    assert await stage.fired() == [b"a", b"b"]


async def _falls_asleep_as_it_opens_the_name(stage: Stage) -> Gate:
    """A player that has claimed; when it wakes it does not know what became of the opening, and tries again."""
    await stage.start(0)
    held = stage.hold(0, "put", ENTRY)
    await stage.send("a", "b", due_s=5.0)
    await held.reached()
    stage.process(0).pause(33 * DAY_S)
    return held


async def _is_gone_for_a_month(stage: Stage) -> None:
    """The other player, which comes back when the one that sleeps is awake; meanwhile others write to the topic."""
    stage.world.machines[1].away_s = 33.5 * DAY_S
    stage.process(1).crash()
    await stage.month()


@played_on(Stage, options=replace(SLOW, settle=timedelta(days=400)), quiet_s=86_400.0)
async def test_a_claim_that_was_appended_before_its_name_was_forgotten_is_found_by_its_ids(stage: Stage) -> None:
    await stage.start()
    await stage.send("a", "b", due_s=5.0)
    await asyncio.sleep(10.0)
    assert await stage.fired() == [b"a", b"b"]
    stage.world.machines[0].away_s = 33 * DAY_S
    stage.process().crash()
    await stage.month()
    await asyncio.sleep(2 * DAY_S)
    assert await stage.fired() == [b"a", b"b"]


@played_on(Stage, players=2)
async def test_a_successor_whose_clock_is_behind_stamps_nothing_early(stage: Stage) -> None:
    await stage.start(0)
    held = stage.hold(0, "put", ENTRY)
    await stage.send("a", due_s=5.0)
    await held.reached()  # claimed
    stage.world.machines[0].away_s = 60.0
    stage.process(0).crash()
    stage.world.machines[1].start()
    await asyncio.sleep(0.001)
    stage.process(1).step_clock(-1_900)  # too little for the lake's clock to follow the store's
    await stage.until("arrived", lambda: stage.state().settled.known == 1)
    held.release()
    assert await stage.fired() == [b"a"]


BY_HAND = {
    "still-open": test_a_claim_that_another_settled_is_not_appended_by_who_slept_until_the_name_was_forgotten,
    "touch": test_a_run_that_was_removed_as_an_orphan_is_not_named_by_a_write_that_was_on_its_way,
    "named-soon": test_a_run_that_was_removed_as_an_orphan_is_not_named_by_who_read_the_cell_since,
    "forgotten": test_a_claim_that_was_appended_before_its_name_was_forgotten_is_found_by_its_ids,
    "too-soon": test_a_successor_whose_clock_is_behind_stamps_nothing_early,
}
"""What only happens in months and by bad luck: the guards that need these interleavings to be noticed missing."""


@pytest.mark.parametrize("name", BY_HAND)
def test_each_goes_wrong_without_its_guard(name: str) -> None:
    with MUTANTS_BY_HAND[name].patch(), pytest.raises((AssertionError, PenstockError)):
        BY_HAND[name]()
