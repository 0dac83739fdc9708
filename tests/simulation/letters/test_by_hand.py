"""Dead letters: the interleavings that double, lose or reorder them in a careless version, each by name."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest

from penstock.consumers.dead_letters.copy_writer import Copy, CopyWriter, SequencesTaken
from penstock.consumers.dead_letters.writer import DeadLetterWriter
from penstock.coordinator.queues.cell import QueueCell
from penstock.log import LogLake, Message, UnknownOutcome
from tests.simulation.letters.world import DLQ, GROUP, ORIGIN, Graveyard, Plot
from tests.simulation.patches import Patch, attribute
from tests.simulation.process import Crashed, SimProcess
from tests.simulation.small import small_log

pytestmark = pytest.mark.simulation

ONE_QUEUE = Plot(queues=1, messages=6, letters=2, redrivers=0)


class Owner:
    """One owner of queue 0, moved by hand."""

    def __init__(self, run: Graveyard, name: str) -> None:
        self.run = run
        self.process: SimProcess = run.kernel.process(name)
        self.lake: LogLake = run.lake(self.process)
        self.writer: DeadLetterWriter
        self.cell: QueueCell

    async def take(self) -> Owner:
        self.cell = self.run.cells[0] = self.run.cells[0].taken_by(self.process.name)
        self.writer = self.process.call(lambda: DeadLetterWriter(self.lake, GROUP, ORIGIN, 0))
        return self

    async def give(self, *offsets: int) -> None:
        self.cell = await self.run.change(0, self.cell.epoch, lambda cell: cell.with_dead_letters(offsets))

    async def write(self) -> None:
        """All that is assigned, as far as this owner knows."""
        given = self.cell.dead_letters.sequences()

        async def write() -> None:
            await self.writer.write(await self.run.letters(self.lake, 0, given))

        await self.process.run(write())

    async def bury(self) -> None:
        last = self.cell.dead_letters.next_sequence - 1
        self.cell = await self.run.change(0, self.cell.epoch, lambda cell: cell.with_dead_letters_written(last))

    def writing(self) -> asyncio.Task[None]:
        return asyncio.ensure_future(self.write())

    async def written_or_ahead(self, writing: asyncio.Task[None]) -> None:
        """The end of a write of an owner that was replaced: it is told, or finds all written."""
        (outcome,) = await asyncio.gather(writing, return_exceptions=True)
        assert outcome is None or isinstance(outcome, SequencesTaken)

    def held(self, side: Any) -> Any:
        """Hold the owner's next letter back, before or after it takes effect."""
        return self.run.store.hold(side, process=self.process.name, verb="put", key=lambda key: "dlq.billing/log/0" in key)


def scene(script: Callable[[Graveyard], Any], *, letters: int) -> Graveyard:
    run = Graveyard(1, plot=ONE_QUEUE)
    with small_log():
        wrong = run.play(lambda: script(run))
    assert not wrong, "\n".join(wrong)
    assert run.cells[0].dead_letters.next_sequence == len(run.evidence.dead) == letters
    return run


async def first_letter(run: Graveyard) -> Owner:
    """An owner that has buried one."""
    owner = await Owner(run, "first").take()
    await owner.give(0)
    await owner.write()
    await owner.bury()
    return owner


@pytest.mark.parametrize("side", ["before", "after"])
def test_an_owner_dies_as_it_writes_and_the_next_one_writes_only_what_is_not_there(side: str) -> None:
    async def script(run: Graveyard) -> None:
        owner = await first_letter(run)
        await owner.give(1, 2)
        gate = owner.held(side)
        writing = owner.writing()
        await gate.reached()
        owner.process.crash()
        gate.release()
        with pytest.raises(Crashed):
            await writing
        heir = await Owner(run, "heir").take()
        await heir.write()
        await heir.bury()

    scene(script, letters=3)


@pytest.mark.parametrize("side", ["before", "after"])
def test_an_owner_that_is_replaced_while_it_writes_adds_nothing(side: str) -> None:
    """The next one opens the name before the letter lands, writes it and one more; then the first one goes on."""

    async def script(run: Graveyard) -> None:
        owner = await first_letter(run)
        await owner.give(1)
        gate = owner.held(side)
        writing = owner.writing()
        await gate.reached()
        heir = await Owner(run, "heir").take()
        await heir.give(2)
        await heir.write()
        gate.release()
        await owner.written_or_ahead(writing)
        await heir.give(3)
        await heir.write()
        await heir.bury()

    scene(script, letters=4)


def test_a_later_letter_never_stands_before_an_earlier_one() -> None:
    """Letter 1 is on its way and held; letter 2 is given meanwhile, and its write waits; the next owner writes both."""

    async def script(run: Graveyard) -> None:
        owner = await first_letter(run)
        await owner.give(1)
        gate = owner.held("before")
        writing = owner.writing()
        await gate.reached()
        await owner.give(2)
        behind = owner.writing()
        heir = await Owner(run, "heir").take()
        await heir.write()
        gate.release()
        await owner.written_or_ahead(writing)
        await behind
        await heir.bury()

    scene(script, letters=3)


def test_a_reset_leaves_what_was_given_to_be_written_first() -> None:
    async def script(run: Graveyard) -> None:
        owner = await first_letter(run)
        await owner.give(1)
        owner.process.crash()
        run.cells[0] = run.cells[0].reset_to(0, 1)
        heir = await Owner(run, "heir").take()
        assert heir.cell.dead_letters.sequences() == [(1, 1)]
        await heir.write()
        await heir.give(0, 1)  # both die again
        await heir.write()
        await heir.bury()

    run = scene(script, letters=4)
    assert [one.body for one in run.evidence.dead] == [b"0/0", b"0/1", b"0/0", b"0/1"]


def test_owners_open_the_name_in_turns_and_neither_has_written() -> None:
    """Each opening fences the other; in the end each letter is there once."""

    async def script(run: Graveyard) -> None:
        owner = await first_letter(run)
        await owner.give(1, 2)
        gate = owner.held("before")
        writing = owner.writing()
        await gate.reached()
        heir = await Owner(run, "heir").take()
        heir_gate = heir.held("after")  # its opening
        heir_writing = heir.writing()
        await heir_gate.reached()
        gate.release()
        await asyncio.sleep(60.0)  # the first one finds itself fenced, opens anew and writes
        heir_gate.release()
        await asyncio.gather(writing, heir_writing)
        await heir.bury()

    run = scene(script, letters=3)
    assert {one.topic for one in run.evidence.dead} == {DLQ}


def unknown_is_written(original: Any) -> Any:
    async def send(self: CopyWriter, batch: list[Copy]) -> int:
        try:
            sequence: int = await original(self, batch)
        except UnknownOutcome:
            return batch[-1].sequence
        return sequence

    return send


@pytest.mark.parametrize("looks", [True, False])
def test_what_became_of_an_unknown_write_is_looked_at(looks: bool) -> None:
    """The request is on its way for longer than the owner waits, and its place in the log is taken meanwhile."""

    async def script(run: Graveyard) -> None:
        owner = await first_letter(run)
        await owner.give(1)
        gate = owner.held("before")
        writing = owner.writing()
        await gate.reached()
        await asyncio.sleep(40.0)
        stranger = run.kernel.process("stranger")
        lake = run.lake(stranger)
        await stranger.run(lake.producer(DLQ, name="stranger"))
        gate.release()
        await writing
        await owner.bury()

    wrong = without(attribute(CopyWriter, "_send", unknown_is_written), script, applies=not looks)
    assert wrong == ([] if looks else ["the letters of queue 0 are [0], of 2"])


def unlooked(_: Any) -> Any:
    async def unwritten(self: CopyWriter, copies: list[Copy]) -> list[Copy]:
        return copies

    return unwritten


@pytest.mark.parametrize("looks", [True, False])
def test_a_letter_under_a_name_that_has_left_the_state_is_looked_for(looks: bool) -> None:
    """The owner died between the append and the cell's write, and nobody came for a month, in which others wrote to the topic."""

    async def script(run: Graveyard) -> None:
        owner = await first_letter(run)
        await owner.give(1)
        await owner.write()
        owner.process.crash()
        stranger = run.kernel.process("stranger")

        async def month() -> None:
            producer = await run.lake(stranger).producer(DLQ)
            for _ in range(31):
                await asyncio.sleep(86_400.0)
                await producer.send(Message(b"a day"))

        await stranger.run(month())
        heir = await Owner(run, "heir").take()
        await heir.give(2)
        await heir.write()
        await heir.bury()

    wrong = without(attribute(CopyWriter, "_unwritten", unlooked), script, applies=not looks)
    assert wrong == ([] if looks else ["the letters of queue 0 are [0, 1, 1, 2], of 3"])


def without(guard: Patch, script: Callable[[Graveyard], Any], *, applies: bool) -> list[str]:
    """What a script leaves that is wrong, without this guard if that ``applies``."""
    run = Graveyard(1, plot=ONE_QUEUE)
    with small_log(), guard() if applies else nullcontext():
        return run.play(lambda: script(run))
