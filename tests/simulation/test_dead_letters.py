"""Dead letters under attack: each is written once and goes back once, in order, whoever dies, stops or is replaced, and when."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import pytest

from penstock.consumers import dead_letters
from penstock.consumers.copies import Copy, CopyWriter, Written
from penstock.consumers.dead_letters import DeadLettersAhead, DeadLetterWriter
from penstock.coordinator.cell import QueueCell
from penstock.log import Lake, PenstockError, UnknownOutcome
from tests.figures import FIGURES
from tests.simulation.faults import WRITES, Fault, ScriptedFaults, single_faults
from tests.simulation.graveyard import DLQ, GROUP, ORIGIN, Graveyard, Plot, graveyard
from tests.simulation.patches import Patch, attribute, both
from tests.simulation.process import Crashed, SimProcess
from tests.simulation.small import small_log

pytestmark = [pytest.mark.simulation, pytest.mark.slow, pytest.mark.timeout(300)]

SEEDS = 24
MUST_HAPPEN = (
    "crash", "pause", "suspend", "restart", "reset", "queue lost", "taken with letters assigned", "found written", "redriven",
    "found redriven", "error: store_unavailable", "fault: lost answer", "fault: crash after", "fault: pause before",
)  # fmt: skip
SMALL = Plot(messages=4, letters=3, owners=2, resets=0, blows_every_s=0.0)
ONE_QUEUE = Plot(queues=1, messages=6, letters=2, redrivers=0)


def play(run: Graveyard, *, mutant: Patch = nullcontext) -> list[str]:
    """What is wrong with a run, without the mutant's guard."""
    with small_log(), mutant(), counting_found(run.counts):
        try:
            return run.run()
        except (AssertionError, PenstockError, LookupError, ValueError) as error:
            return [f"{type(error).__name__}: {error}"]


def counting_found(counts: Counter[str]) -> AbstractContextManager[None]:
    """Count the dead letters that an owner found written when it came to write them."""

    def make(original: Any) -> Any:
        async def write(self: CopyWriter, copies: list[Copy]) -> Written:
            written: Written = await original(self, copies)
            counts["found written"] += written.duplicates * (self._sequence_property == dead_letters.SEQUENCE)
            return written

        return write

    return attribute(CopyWriter, "write", make)()


# --- Random attacks -------------------------------------------------------------------------------------------------------------


def test_each_letter_is_written_once_and_goes_back_once(record_property: Callable[[str, object], None]) -> None:
    counts: Counter[str] = Counter()
    wrong = []
    for seed in range(SEEDS):
        run = graveyard(seed)
        wrong += [f"seed {seed}: {one}" for one in play(run)]
        counts += run.counts
    assert not wrong, "\n".join(wrong)
    record_property(
        FIGURES, f"dead letters, {SEEDS} worlds\n" + "\n".join(f"{n:10,}  {what}" for what, n in sorted(counts.items()))
    )
    assert not [what for what in MUST_HAPPEN if not counts[what]]


def test_a_seed_is_the_same_run_again() -> None:
    first, second = graveyard(3), graveyard(3)
    assert play(first) == play(second) == []
    assert first.kernel.digest() == second.kernel.digest()


@pytest.mark.parametrize("fault", [Fault.CRASH_BEFORE, Fault.CRASH_IN_FLIGHT, Fault.CRASH_AFTER])
def test_a_crash_at_any_write(fault: Fault) -> None:
    """Of owners and redrivers, one at a time."""
    assert single_fault_runs([fault], only_writes=True) >= 5


def test_any_fault_at_some_requests() -> None:
    assert single_fault_runs(list(Fault), every=71) > 15


def single_fault_runs(faults: list[Fault], *, only_writes: bool = False, every: int = 1) -> int:
    """Play the small plot with one fault at each ``every``-th request of its owners and redrivers; how many runs that were."""
    calm = Graveyard(1, plot=SMALL)
    assert not play(calm)
    calls = [call for call in calm.store.calls if call.process.startswith(("owner", "redriver"))]
    chosen = [call for call in calls if call.verb in WRITES or not only_writes]
    wrong, runs = [], 0
    for where, fault in list(single_faults(chosen, faults))[::every]:
        runs += 1
        plan = ScriptedFaults([(where, fault)])
        wrong += [
            f"{fault} at call {where.occurrence} of {where.process}: {one}" for one in play(Graveyard(1, plot=SMALL, plan=plan))
        ]
    assert not wrong, "\n".join(wrong)
    return runs


# --- Guards ---------------------------------------------------------------------------------------------------------------------


def nameless(_: Any) -> Any:
    async def last_sequence(self: CopyWriter, known: int = -1) -> int:
        if self._producer is None:
            if self._prepare is not None:
                await self._prepare()
            self._producer = await self._lake.producer(self._topic)
        return -1

    return last_sequence


def without_sequences(original: Any) -> Any:
    def rows(self: CopyWriter, batch: list[Copy]) -> Any:
        table = original(self, batch)
        return table.set_column(table.column_names.index("sequence"), "sequence", [[None] * table.num_rows])

    return rows


MUTANTS: dict[str, tuple[str, Patch, Plot]] = {
    "sequences": (
        "a letter is written under the name and sequence that it was given",
        both(attribute(CopyWriter, "last_sequence", nameless), attribute(CopyWriter, "_rows", without_sequences)),
        Plot(),
    ),
    "name-of-queue": (
        "each queue writes under a name of its own",
        attribute(dead_letters, "name_of", lambda original: lambda *parts: original(*parts[:-1])),
        Plot(),
    ),
    "given-first": ("a sequence is given before anything is written for it", nullcontext, Plot(careful=False)),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_missing_guard_is_noticed(name: str) -> None:
    guard, patch, plot = MUTANTS[name]
    for seed in range(40):
        run = graveyard(seed, rate=0.1, plot=plot)
        run.kernel.loop.max_steps = 150_000
        if play(run, mutant=patch):
            intact = graveyard(seed, rate=0.1, plot=replace(plot, careful=True))
            assert not play(intact), f"seed {seed} goes wrong with every guard in place"
            return
    pytest.fail(f"it goes unnoticed that {guard}")


@pytest.mark.parametrize("name", MUTANTS)
def test_a_calm_run_does_not_need_it(name: str) -> None:
    _, patch, plot = MUTANTS[name]
    calm = replace(plot, queues=1, owners=1, redrivers=0, resets=0, blows_every_s=0.0)
    assert not play(Graveyard(1, plot=calm), mutant=patch)


# --- Interleavings, each by name --------------------------------------------------------------------------------------------------


class Owner:
    """One owner of queue 0, moved by hand."""

    def __init__(self, run: Graveyard, name: str) -> None:
        self.run = run
        self.process: SimProcess = run.kernel.process(name)
        self.lake: Lake = run.lake(self.process)
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
        self.cell = await self.run.change(0, self.cell.epoch, lambda cell: cell.with_buried(last))

    def writing(self) -> asyncio.Task[None]:
        return asyncio.ensure_future(self.write())

    async def written_or_ahead(self, writing: asyncio.Task[None]) -> None:
        """The end of a write of an owner that was replaced: it is told, or finds all written."""
        (outcome,) = await asyncio.gather(writing, return_exceptions=True)
        assert outcome is None or isinstance(outcome, DeadLettersAhead)

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

    run = Graveyard(1, plot=ONE_QUEUE)
    with small_log(), nullcontext() if looks else attribute(CopyWriter, "_send", unknown_is_written)():
        wrong = run.play(lambda: script(run))
    assert wrong == ([] if looks else ["the letters of queue 0 are [0], of 2", "there are letters that nobody gave a sequence"])
