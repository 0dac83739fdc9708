"""The judge itself: it sees what it is for, and counts what was met by its right name."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from tests.simulation.log.actors import Sender
from tests.simulation.log.checker import check
from tests.simulation.log.history import Damage
from tests.simulation.log.scenarios import calm
from tests.simulation.log.stage import Stage
from tests.simulation.log.world import World
from tests.simulation.small import small_log

pytestmark = pytest.mark.simulation


def played(world: World) -> World:
    with small_log():
        assert world.run() == []
    return world


def judged(world: World) -> set[str]:
    """The invariants that a second look finds broken."""
    with small_log():
        return {line.split()[0] for line in check(world)}


def test_a_lone_process_steps_in_for_nobody() -> None:
    world = World(1)
    world.process("only", Sender("s", bursts=10, large=1.0, large_bytes=(20_000, 40_000)))
    counts = played(world).counts
    assert counts["large batch beside its entry"]
    assert not counts["step-in"]
    assert not counts["hand-over"]


def test_a_send_that_a_closed_producer_left_without_an_outcome_is_wrong() -> None:
    stage = Stage()

    async def script() -> None:
        writer = await stage.producer("writer")
        gate = stage.hold_entry("writer")
        send = writer.send("on its way")
        await gate.reached()
        stage.world.history.closed(writer.session)  # as if it had been closed now
        gate.release()
        await writer.settle(send)
        stage.world.history.closed(writer.session)

    with small_log():
        stage.world.play(script)
    assert len(stage.world.history.wrong) == 1
    assert judged(stage.world) == {"I13"}


def test_a_row_that_a_reader_misses_is_wrong() -> None:
    world = played(calm(1))
    place = min(world.history.audit)
    body = world.history.audit.pop(place)
    assert judged(world) == {"I10"}
    world.history.audit[place] = body
    assert judged(world) == set()


def test_retention_takes_nothing_before_its_time() -> None:
    world = played(calm(1))
    life, queue, offset = min(world.history.audit)
    del world.history.audit[life, queue, offset]
    world.history.starts[queue] = offset + 1
    world.settings = replace(world.settings, retention=timedelta(milliseconds=1))
    assert judged(world) == set()
    world.settings = replace(world.settings, retention=timedelta(days=100))
    assert judged(world) == {"I10"}


def test_what_is_named_as_lost_must_have_been_damaged() -> None:
    world = played(calm(1))
    life, queue, offset = min(world.history.audit)
    world.history.lost.append((life, queue, offset, offset + 1))
    assert judged(world) == {"I12"}
    world.history.damaged[world.paths.entry(life)] = Damage(footer=True)
    assert judged(world) == set()


def test_an_entry_or_a_data_file_that_is_written_twice_is_wrong() -> None:
    world = played(calm(1))
    key = next(key for key in world.archive.objects() if "/queue=" in key)
    world.store.calls.append(next(call for call in world.store.calls if call.key == key and call.verb.startswith("put")))
    assert judged(world) == {"I10"}
    world.archive.replaced.append(world.paths.entry(2))
    assert judged(world) == {"I1", "I10"}
