"""The interleavings that break a careless version of this protocol, each by name. The sweep's judge looks over every one of them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from penstock.log.errors import FencedError, NotWritten, PenstockError, TopicDeleted, TopicNotFound, UnknownOutcome, ViewLost
from penstock.log.format.fold import FoldedEntry, VoidReason, fold
from penstock.log.format.header import CloseJob, ForgetJob
from penstock.log.format.state import TopicState
from penstock.log.produce.accumulator import ProducerOptions
from penstock.log.produce.receipts import SendResult
from penstock.log.tail.view import View
from tests.log.test_fold import batch, header_on, step, topic
from tests.playing import played_on
from tests.rows import entry_rows
from tests.simulation.faults import Fault, ScriptedFaults, Where
from tests.simulation.log.stage import HOUR_S, PATIENT, Sending, Stage
from tests.simulation.log.world import TOPIC
from tests.simulation.store import SimClient

pytestmark = pytest.mark.simulation

DAY_S = 24 * HOUR_S
LARGE = "x" * 60_000

# --------------------------------------------------------------------------------------------------------------- trimming


@played_on(Stage)
async def test_the_floor_is_never_past_the_newest_checkpoint_nor_between_two(stage: Stage) -> None:
    await stage.fill(20)
    for key in [key for key in stage.archive._keys if key.startswith(stage.paths.checkpoints)][-1:]:
        await stage.archive.delete(key)  # as if its writer had crashed before it
    floor = await stage.trim()
    assert floor in {8, 16}
    assert stage.archive.holds(stage.paths.checkpoint(floor))
    assert min(stage.entries()) == floor + 1


@pytest.mark.parametrize("held", ["log/floor", "log/checkpoints", "log/0"])
@pytest.mark.parametrize("side", ["before", "after"])
@played_on(Stage)
async def test_a_reader_paused_across_a_trim(stage: Stage, held: str, side: str) -> None:
    """At any of its reads, so also between its floor read and its next one."""
    await stage.fill(20)
    process = stage.world.new_process("reader")
    view, seen = View(stage.world.store.client(process), stage.paths, process.runtime), list[int]()
    view.on_fold = lambda folded, _: seen.append(folded.number)

    async def read() -> None:
        await view.open()
        await view.catch_up()

    gate = stage.hold("reader", "list" if held.endswith("checkpoints") else "get", held, side)
    reading = asyncio.ensure_future(process.run(_until_it_holds(read)))
    await gate.reached()
    process.pause(3 * HOUR_S)
    await stage.trim()
    await stage.fill(20)
    await stage.trim()
    gate.release()
    await reading
    assert view.state.entry == max(stage.entries())
    assert seen == sorted(set(seen))
    assert view.state == (await _state_of_newcomer(stage))


@played_on(Stage)
async def test_a_reader_paused_between_a_listing_and_the_reads_of_what_it_listed(stage: Stage) -> None:
    await stage.fill(10)
    await stage.trim()
    await stage.fill(10)
    process = stage.world.new_process("reader")
    view = View(stage.world.store.client(process), stage.paths, process.runtime)
    gate = stage.hold("reader", "get", "log/checkpoints")
    opening = asyncio.ensure_future(process.run(view.open()))
    await gate.reached()
    await stage.fill(20)
    await stage.trim()
    gate.release()
    await opening
    await process.run(view.catch_up())
    assert view.state == (await _state_of_newcomer(stage))


async def _until_it_holds(read: Callable[[], Awaitable[None]]) -> None:
    while True:
        try:
            return await read()
        except ViewLost:
            continue


async def _state_of_newcomer(stage: Stage) -> TopicState:
    process = stage.world.new_process("newcomer")
    view = View(stage.world.store.client(process), stage.paths, process.runtime)
    await process.run(view.open())
    await process.run(view.catch_up())
    return view.state


@played_on(Stage)
async def test_a_201_that_arrives_below_the_floor_acknowledges_nothing(stage: Stage) -> None:
    """The writer's request waits for hours; meanwhile its key is written by another, trimmed, and free again."""
    await stage.fill(3)
    writer = await stage.producer("writer")
    gate = stage.hold_entry("writer")
    send = writer.send("late")
    await gate.reached()
    await stage.fill(20)
    assert await stage.trim() >= 8
    gate.release()
    assert isinstance(await writer.settle(send), UnknownOutcome)
    assert min(stage.entries()) <= stage.floor(), "it was created"
    later = await stage.producer("writer")
    assert isinstance(await later.sent("again"), SendResult)


@pytest.mark.parametrize("how", ["pause", "suspend"])
@pytest.mark.parametrize(("side", "outcome"), [("before", UnknownOutcome), ("after", SendResult)])
def test_a_writer_paused_across_a_trim_at_its_read_of_the_floor(how: str, side: str, outcome: type) -> None:
    """Its 201 comes too late to be believed without a look at the floor, and that look falls before or behind the trim."""
    stage = Stage()

    async def script() -> None:
        writer = await stage.producer("writer")
        await writer.sent("first")
        put = stage.hold_entry("writer", "after")
        send = writer.send("second")
        await put.reached()
        getattr(writer.process, how)(600.0)
        await asyncio.sleep(601.0)
        look = stage.hold("writer", "get", "log/floor", side)
        put.release()
        await look.reached()
        getattr(writer.process, how)(3 * HOUR_S)
        await stage.fill(20)
        assert await stage.trim() > 3, "the entry is behind the floor"
        await asyncio.sleep(4 * HOUR_S)
        look.release()
        settled = await writer.settle(send)
        assert isinstance(settled, outcome), settled

    world = stage.play(script)
    assert b"second" in world.history.audit.values()


def test_not_written_is_not_concluded_after_a_jump_over_entries() -> None:
    """The entry is there, its answer is late by hours, and the row that would tell has left the state."""
    stage = Stage()

    async def script() -> None:
        writer = await stage.producer("writer")
        gate = stage.hold_entry("writer", "after")
        send = writer.send("there")
        await gate.reached()
        await stage.fill(30)
        assert await stage.trim() >= 16
        gate.release()
        assert isinstance(await writer.settle(send), UnknownOutcome)

    world = stage.play(script)
    assert b"there" in world.history.audit.values()


def test_a_batch_of_an_old_epoch_is_not_taken_as_proved_by_the_new_epochs_row() -> None:
    stage = Stage()

    async def script() -> None:
        old = await stage.producer("old", "name")
        gate = stage.hold_entry("old")
        send = old.send("of the old epoch", sequence=5)
        await gate.reached()
        new = await stage.producer("new", "name")
        assert isinstance(await new.sent("of the new epoch", sequence=5), SendResult)
        await stage.fill(20)
        assert await stage.trim() >= 8
        gate.release()
        assert isinstance(await old.settle(send), UnknownOutcome)

    world = stage.play(script)
    assert b"of the old epoch" not in world.history.audit.values()


# ------------------------------------------------------------------------------------------------- order and identities


@played_on(Stage)
async def test_batch_six_is_not_linked_before_batch_five(stage: Stage) -> None:
    """While a hand-over is on its way, nothing of its producer is put anywhere, whatever is sent meanwhile."""
    others = [await stage.producer(f"other{number}") for number in range(3)]
    writer = await stage.producer("writer")
    leading = asyncio.gather(*(_keep_sending(other, 60) for other in others))
    await asyncio.sleep(1.0)
    await writer.sent("first")
    gate = stage.hold("writer", "put", "staged/handed")
    done = asyncio.ensure_future(writer.sent("x" * 20_000))  # more than fits an entry that is raced for
    await gate.reached()
    later = [writer.send(f"later{number}") for number in range(3)]
    await asyncio.sleep(5.0)
    handed = [c for c in stage.world.store.calls if c.process == "writer" and c.verb == "put" and "handed" in c.key]
    assert len(handed) == 1
    assert not any(send.receipt.done() for send in later)
    gate.release()
    outcomes = [await done, *[await writer.settle(one) for one in later]]
    assert all(isinstance(outcome, SendResult) for outcome in outcomes)
    await leading


async def _keep_sending(sending: Sending, times: int) -> list[float]:
    """Send one after another; how long each took, in seconds."""
    loop, took = asyncio.get_running_loop(), list[float]()
    for number in range(times):
        start_s = loop.time()
        outcome = await sending.sent(f"{sending.process.name}.{number}")
        assert isinstance(outcome, SendResult), outcome
        took.append(loop.time() - start_s)
    return took


def test_a_batch_linked_out_of_order_would_be_void() -> None:
    six, five = batch(previous=5), batch(previous=4)
    assert step(topic(), batches=[six, five]).verdicts == ({0: 0}, VoidReason.PREVIOUS)
    assert step(step(topic(), batches=[batch(previous=3)]).state, batches=[six, five, six]).verdicts == (
        VoidReason.PREVIOUS, {0: 1}, {0: 2},
    )  # fmt: skip


@pytest.mark.parametrize("openers", [2, 100])
@played_on(Stage, steady=False)
async def test_openers_at_once_have_epochs_of_their_own_and_one_remains(stage: Stage, openers: int) -> None:
    opened = await asyncio.gather(*(stage.producer(f"p{number}", "name") for number in range(openers)))
    epochs = [one.producer.epoch for one in opened]
    assert len(set(epochs)) == openers
    outcomes = await asyncio.gather(*(one.sent(one.process.name, sequence=7) for one in opened))
    won = [epoch for epoch, outcome in zip(epochs, outcomes, strict=True) if isinstance(outcome, SendResult)]
    assert len(won) == 1
    assert won[0] == max(epoch for epoch in epochs if epoch is not None)
    assert sum(isinstance(outcome, FencedError) for outcome in outcomes) == openers - 1


@pytest.mark.parametrize("fault", [Fault.CRASH_AFTER, Fault.CRASH_BEFORE, Fault.CRASH_IN_FLIGHT, Fault.LATE_APPLY])
def test_a_restart_that_batches_the_same_messages_differently(fault: Fault) -> None:
    """The first life dies (or gives up) with a batch of five on its way; the second sends the same in batches of two."""
    plan = ScriptedFaults([(Where(process="first", verb="put", key=lambda key: "/log/0" in key, occurrence=3), fault)])
    stage = Stage(plan=plan)

    async def script() -> None:
        first = await stage.producer("first", "name")
        await first.sent("0", sequence=0)
        for number in range(1, 6):
            first.send(str(number), sequence=number)
        await asyncio.sleep(1.0)
        second = await stage.producer("second", "name")
        known = second.producer.last_sequence
        assert known in {0, 5}
        for number in range(1, 9, 2):
            pair = [second.send(str(sequence), sequence=sequence) for sequence in (number, number + 1)]
            assert isinstance(await second.settle(pair[-1]), SendResult)

    world = stage.play(script)
    assert plan.done
    queue = [body for _, body in sorted(world.history.audit.items()) if body.isdigit()]
    assert queue == [str(number).encode() for number in range(9)]


def test_an_entry_built_from_a_stale_view_that_carries_a_handed_batch_again() -> None:
    """Whoever writes it, the batch counts once: an entry's key is free for one only, and behind it the batch is void."""
    state = topic()
    handed = batch("p", rows={0: 2})
    stale = header_on(state, batches=[handed])
    after = fold(state, replace(stale, write_id="other")).state
    again = step(after, batches=[handed, batch("q")])
    assert again.verdicts == (VoidReason.PREVIOUS, {0: 2})
    stage = Stage()
    held = 0

    async def script() -> None:
        nonlocal held
        everybody = [await stage.producer(f"p{number}") for number in range(4)]
        sending = asyncio.gather(*(_keep_sending(one, 100) for one in everybody))
        while not sending.done():
            await asyncio.sleep(0.1)
            gate = stage.world.store.hold(verb="put", key=lambda key: stage.paths.entry_number(key) is not None)
            either: list[asyncio.Future[Any]] = [asyncio.ensure_future(gate.reached()), sending]
            await asyncio.wait(either, return_when="FIRST_COMPLETED")
            held += not sending.done()
            await asyncio.sleep(1.5)  # others step in and append what the held entry links
            gate.release()
        await sending

    world = stage.play(script)
    assert held >= 10, "nobody was sending any more"
    assert world.counts["lost race"] >= held, "whoever was held found its place taken"
    assert world.counts["step-in"] + world.counts["hand-over"] > held


def test_a_put_that_lands_after_the_caller_gave_up() -> None:
    plan = ScriptedFaults([(Where(process="writer", verb="put", key=lambda key: "/log/0" in key, occurrence=2), Fault.LATE_APPLY)])
    stage = Stage(plan=plan)

    async def script() -> None:
        writer = await stage.producer("writer", options=ProducerOptions(delivery_timeout=timedelta(seconds=10)))
        await writer.sent("in time")
        assert isinstance(await writer.sent("late"), UnknownOutcome)
        await asyncio.sleep(5 * HOUR_S)
        again = await stage.producer("writer")
        assert isinstance(await again.sent("again"), SendResult)

    stage.play(script)
    assert plan.done


def test_a_later_batch_does_not_overtake_a_failed_one() -> None:
    plan = ScriptedFaults(
        [(Where(process="writer", verb="put", key=lambda key: "/log/0" in key, occurrence=2), Fault.LOST_REQUEST)]
    )
    stage = Stage(plan=plan)

    async def script() -> None:
        writer = await stage.producer("writer", options=ProducerOptions(delivery_timeout=timedelta(seconds=5)))
        await writer.sent("0")
        failed = writer.send("1")
        await asyncio.sleep(1.0)
        queued = [writer.send(str(number)) for number in (2, 3)]
        assert isinstance(await writer.settle(failed), UnknownOutcome | NotWritten)
        for one in queued:
            assert isinstance(await writer.settle(one), PenstockError)
        with pytest.raises(PenstockError):
            writer.send("4")

    world = stage.play(script)
    assert b"2" not in world.history.audit.values()


# ---------------------------------------------------------------------------------------------------- helping each other


def test_a_live_hand_over_is_not_deleted() -> None:
    """The collector comes between a hand-over and the entry that links it, and again while readers still need its rows."""
    stage = Stage()

    async def script() -> None:
        everybody = [await stage.producer(f"p{number}") for number in range(4)]
        upkeep, maintenance = await stage.maintenance()
        sending = asyncio.gather(*(_keep_sending(one, 30) for one in everybody))
        while not sending.done():
            await upkeep.run(maintenance.collect())
            await asyncio.sleep(0.05)
        await sending
        process = stage.world.new_process("reader")
        store = stage.world.store.client(process)
        view, folds = View(store, stage.paths, process.runtime), list[tuple[FoldedEntry, bytes]]()
        view.on_fold = lambda folded, data: folds.append((folded, data))
        await process.run(view.catch_up())
        for folded, data in folds:
            assert not (await process.run(entry_rows(store, stage.paths, folded, data))).lost

    world = stage.play(script)
    assert world.counts["hand-over"], "nobody handed over"


@pytest.mark.parametrize("fillers", [4, 7])
@played_on(Stage)
async def test_a_hand_over_below_the_floor_is_not_deleted_before_its_validity_is_over(stage: Stage, fillers: int) -> None:
    """The floor comes to stand between a hand-over and the entry that links it, in its last moment or a little before."""
    await stage.fill(10)
    writer = await stage.producer("writer")
    await writer.sent("first")
    tail = max(stage.entries())
    gate = stage.hold_entry("writer")
    send = writer.send("x" * 20_000)  # more than fits an entry, so it is handed over at the tail
    await gate.reached()
    for _ in range(fillers):  # each a process of its own, that has no reason to look for what others handed over
        await asyncio.sleep(10.0)
        await stage.fill(1)
    floor = await stage.trim()
    assert tail < floor < tail + 8, "it lies between the hand-over and its end"
    upkeep, maintenance = await stage.maintenance()
    await upkeep.run(maintenance.collect())
    gate.release()
    assert isinstance(await writer.settle(send), SendResult)
    assert max(stage.entries()) == tail + fillers + 1
    await stage.fill(20)
    assert await stage.trim() > tail + 8
    await upkeep.run(maintenance.collect())
    assert not await stage.archive.list(stage.paths.handed), "it has served"


@pytest.mark.parametrize("followers", [1, 5])
def test_a_leader_that_never_loses_a_race_starves_nobody(followers: int) -> None:
    """Every request takes the same time, so whoever appended last is first again."""
    stage = Stage()
    took: list[float] = []

    async def script() -> None:
        leader = await stage.producer("leader")
        others = [await stage.producer(f"follower{number}") for number in range(followers)]
        leading = asyncio.ensure_future(_keep_sending(leader, 300))
        for times in await asyncio.gather(*(_keep_sending(other, 10) for other in others)):
            took.extend(times)
        await leading

    stage.play(script)
    assert max(took) < 3.0, sorted(took)[-5:]


@played_on(Stage, steady=False)
async def test_a_hundred_producers_all_get_on(stage: Stage) -> None:
    everybody = await asyncio.gather(*(stage.producer(f"p{number}") for number in range(100)))
    took = await asyncio.gather(*(_keep_sending(one, 2) for one in everybody))
    assert max(map(max, took)) < 10.0


# --------------------------------------------------------------------------------------------------------------- damage


@played_on(Stage)
async def test_a_damaged_entry_in_mid_log_forks_nobody_and_stops_nobody(stage: Stage) -> None:
    """A reader and a writer that stand before it are led around by the checkpoint behind it, to the same state."""
    writer = await stage.producer("writer")
    await writer.sent("before")
    process = stage.world.new_process("reader")
    view = View(stage.world.store.client(process), stage.paths, process.runtime)
    await process.run(view.open())
    await process.run(view.catch_up())
    await stage.fill(12)
    key = stage.paths.entry(5)
    whole = (await stage.archive.get(key)).data
    await stage.archive.damage(key, whole[:200] + b"\xff" + whole[201:])
    await process.run(view.catch_up())
    assert view.skipped
    assert view.state == (await _state_of_newcomer(stage))
    assert isinstance(await writer.sent("after"), SendResult), "it was never exposed to an entry that was passed over"
    await stage.archive.damage(key, whole)  # for the judge, who reads everything


@played_on(Stage)
async def test_a_damaged_entry_before_a_checkpoint_that_ends_the_log_stops_nobody(stage: Stage) -> None:
    """Nothing vouches for the checkpoint yet; but whoever comes now starts from it, so whoever is behind goes on from it too."""
    await stage.fill(9)
    process = stage.world.new_process("reader")
    view = View(stage.world.store.client(process), stage.paths, process.runtime)
    await process.run(view.open())
    await process.run(view.catch_up())
    await stage.fill(6)
    assert max(stage.entries()) == 16
    await asyncio.sleep(1.0)
    assert stage.archive.holds(stage.paths.checkpoint(16))
    key = stage.paths.entry(13)
    whole = (await stage.archive.get(key)).data
    await stage.archive.damage(key, whole[: len(whole) // 2])
    await process.run(view.catch_up())
    assert view.skipped
    assert view.state == (await _state_of_newcomer(stage))
    await stage.fill(3)
    await process.run(view.catch_up())
    assert view.state == (await _state_of_newcomer(stage))
    await stage.archive.damage(key, whole)  # for the judge, who reads everything


# ----------------------------------------------------------------------------------------------- table files and jobs


def test_no_name_of_a_data_file_is_used_twice_around_a_slow_collector() -> None:
    """Two publishers bring the same rows while a collector that listed before sleeps for days."""
    stage = Stage()

    async def script() -> None:
        await stage.fill(4)
        collecting, collector = await stage.maintenance("collector")
        await collecting.run(collector.publish())
        gate = stage.hold("collector", "list", "queue=", "after")
        collection = asyncio.ensure_future(collecting.run(collector.collect()))
        await gate.reached()
        pair = [await stage.maintenance(f"publisher{number}") for number in range(2)]
        await stage.fill(6)
        await asyncio.gather(*(process.run(upkeep.publish()) for process, upkeep in pair))
        await asyncio.sleep(3 * DAY_S)
        await stage.fill(3)
        await asyncio.gather(*(process.run(upkeep.publish()) for process, upkeep in pair))
        gate.release()
        await collection

    world = stage.play(script)
    written = Counter(call.key for call in world.store.calls if call.verb in {"put", "put_large"} and "/queue=" in call.key)
    # Two bring the rows of six entries, and at least one the rows behind them; what loses the race for the commit is not used again.
    assert len(written) >= 3
    assert set(written.values()) == {1}, written


@played_on(Stage)
async def test_a_collector_with_an_old_snapshot_deletes_no_live_file(stage: Stage) -> None:
    await stage.fill(4)
    collecting, collector = await stage.maintenance("collector")
    await collecting.run(collector.publish())
    process, upkeep = await stage.maintenance("publisher")
    await stage.fill(6)
    await process.run(upkeep.publish())
    await asyncio.sleep(3 * DAY_S)
    await collecting.run(collector.collect())


@pytest.mark.parametrize("forgotten", [False, True])
@played_on(Stage)
async def test_a_job_closed_while_its_link_is_in_flight(stage: Stage, forgotten: bool) -> None:
    """The collector gives an upload up while the entry that links it waits to be sent: it counts for nothing, ever after."""
    writer = await stage.producer("writer", options=replace(PATIENT, delivery_timeout=timedelta(days=1)))
    await writer.sent("small")
    gate = stage.hold_entry("writer")
    send = writer.send(LARGE)
    await gate.reached()
    (job,) = await stage.archive.list_folders(stage.paths.jobs)
    closer = await stage.producer("closer")
    topic_ = await closer.process.run(closer.lake.topic(TOPIC))
    await closer.process.run(topic_.act(CloseJob(job)))
    if forgotten:
        for info in await stage.archive.list(stage.paths.job(job)):
            await stage.archive.delete(info.key)
        await stage.fill(10)
        await closer.process.run(topic_.act(ForgetJob(job)))
        await stage.fill(12)
        assert await stage.trim() >= 16
    gate.release()
    assert isinstance(await writer.settle(send), NotWritten | UnknownOutcome)


@played_on(Stage)
async def test_a_suspended_writer_links_no_job_that_was_given_up_and_forgotten(stage: Stage) -> None:
    """Timers sleep with the machine: the deadline is asked of the clock that does not."""
    writer = await stage.producer("writer", "name", options=replace(PATIENT, delivery_timeout=timedelta(days=1)))
    await writer.sent("small", sequence=1)
    gate = stage.hold_entry("writer")
    send = writer.send(LARGE, sequence=2)
    await gate.reached()
    writer.process.suspend(3 * DAY_S)
    (job,) = await stage.archive.list_folders(stage.paths.jobs)
    closer = await stage.producer("closer")
    topic_ = await closer.process.run(closer.lake.topic(TOPIC))
    await closer.process.run(topic_.act(CloseJob(job)))
    for info in await stage.archive.list(stage.paths.job(job)):
        await stage.archive.delete(info.key)
    await stage.fill(10)
    await closer.process.run(topic_.act(ForgetJob(job)))
    await stage.fill(12)
    assert await stage.trim() >= 16
    gate.release()
    assert isinstance(await writer.settle(send), NotWritten | UnknownOutcome)


# ------------------------------------------------------------------------------------------------------ lives of a topic


async def _recreate(stage: Stage) -> None:
    process = stage.world.new_process("admin")
    lake = stage.world.lake(process)
    await process.run(lake.delete_topic(TOPIC))
    await process.run(lake.create_topic(TOPIC, stage.world.settings))


@pytest.mark.parametrize("side", ["before", "after"])
def test_a_topic_deleted_and_created_again_under_a_paused_writer(side: str) -> None:
    stage = Stage()

    async def script() -> None:
        await stage.fill(5)
        writer = await stage.producer("writer")
        gate = stage.hold_entry("writer", side)
        send = writer.send("of the first life")
        await gate.reached()
        await _recreate(stage)
        gate.release()
        outcome = await writer.settle(send)
        assert isinstance(outcome, TopicDeleted if side == "before" else SendResult)
        await stage.fill(3)

    world = stage.play(script)
    assert b"of the first life" not in world.history.audit.values()


@played_on(Stage)
async def test_a_topic_deleted_and_created_again_under_a_paused_trimmer(stage: Stage) -> None:
    await stage.fill(20)
    process, upkeep = await stage.maintenance("trimmer")
    await process.run(upkeep.publish())
    gate = stage.hold("trimmer", "put", "log/floor")
    trimming = asyncio.ensure_future(process.run(upkeep.trim()))
    await gate.reached()
    await _recreate(stage)
    await stage.fill(20)
    gate.release()
    await trimming
    await asyncio.sleep(2 * HOUR_S)
    await process.run(upkeep.trim())
    await stage.trim()


@played_on(Stage)
async def test_one_that_slept_through_a_whole_life_does_not_raise_the_dead(stage: Stage) -> None:
    """It read the settings of the first life; by the time it goes on, the second one has ended too."""
    process = stage.world.new_process("sleeper")
    lake = stage.world.lake(process)
    gate = stage.hold("sleeper", "get", "topic.json", "after")
    opening = asyncio.ensure_future(process.run(lake.topic(TOPIC)))
    await gate.reached()
    await _recreate(stage)
    admin = stage.world.new_process("admin")
    other = stage.world.lake(admin)
    await admin.run(other.delete_topic(TOPIC))
    gate.release()
    with pytest.raises(TopicNotFound):
        await opening
    await admin.run(other.create_topic(TOPIC, stage.world.settings))
    await stage.fill(2)


def test_the_stage_itself_uses_the_simulated_store() -> None:
    stage = Stage()
    assert isinstance(stage.world.store.client(stage.world.new_process("p")), SimClient)
