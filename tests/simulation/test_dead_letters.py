"""Dead letters under attack: each is written once and goes back once, in order, whoever dies, stops or is replaced, and when."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from penstock.consumers.dead_letters import copy_writer, writer
from penstock.consumers.dead_letters.copy_writer import Copy, CopyResult, CopyWriter
from penstock.consumers.dead_letters.redrive_cell import RedriveCell
from penstock.coordinator.queues.cell import QueueCell
from penstock.log import PenstockError
from tests.figures import FIGURES
from tests.simulation.consuming import patches
from tests.simulation.faults import WRITES, Fault, ScriptedFaults, single_faults
from tests.simulation.graveyard import Graveyard, Plot, graveyard
from tests.simulation.patches import Patch, attribute, both
from tests.simulation.small import small_log
from tests.simulation.stand_ins import played
from tests.thorough import THOROUGH, thoroughly

pytestmark = [pytest.mark.simulation, pytest.mark.slow, pytest.mark.timeout(300)]

SEEDS = thoroughly(tuple(range(24)), (4, 7, 9, 10))
"""The few meet everything that must happen."""
MUST_HAPPEN = (
    "crash", "pause", "suspend", "restart", "reset", "queue lost", "taken with letters assigned", "found written", "redriven",
    "found redriven", "veiled", "error: store_unavailable", "fault: lost answer", "fault: crash after", "fault: pause before",
)  # fmt: skip
VEILED = Plot(veiled=0.6, blows_every_s=4.0)
SMALL = Plot(messages=4, letters=3, owners=2, resets=0, blows_every_s=0.0)


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
        async def write(self: CopyWriter, copies: list[Copy]) -> CopyResult:
            written: CopyResult = await original(self, copies)
            counts["found written"] += written.duplicates * (writer.SEQUENCE in self._marks)
            return written

        return write

    return attribute(CopyWriter, "write", make)()


# --- Random attacks -------------------------------------------------------------------------------------------------------------


def test_each_letter_is_written_once_and_goes_back_once(record_property: Callable[[str, object], None]) -> None:
    counts: Counter[str] = Counter()
    wrong = []
    for seed in SEEDS:
        run = graveyard(seed, plot=VEILED if seed % 3 == 1 else Plot(choosing=seed % 3 == 0))
        wrong += [f"seed {seed}: {one}" for one in play(run)]
        counts += run.counts
    assert not wrong, "\n".join(wrong)
    record_property(
        FIGURES, f"dead letters, {len(SEEDS)} worlds\n" + "\n".join(f"{n:10,}  {what}" for what, n in sorted(counts.items()))
    )
    assert not [what for what in MUST_HAPPEN if not counts[what]]


@pytest.mark.thorough
def test_a_seed_is_the_same_run_again() -> None:
    first, second = graveyard(4), graveyard(4)
    assert play(first) == play(second) == []
    assert first.kernel.digest() == second.kernel.digest()


CRASHES = (Fault.CRASH_BEFORE, Fault.CRASH_IN_FLIGHT, Fault.CRASH_AFTER)


@pytest.mark.thorough
@pytest.mark.parametrize("fault", CRASHES)
def test_a_crash_at_any_write(fault: Fault) -> None:
    """Of owners and redrivers, one at a time. In each run of the tests every write meets one of them."""
    assert single_fault_runs([fault], only_writes=True) >= 5


def test_a_crash_before_in_or_after_any_write() -> None:
    """Of owners and redrivers, one at a time: the three kinds of crash in turns."""
    assert single_fault_runs(CRASHES, only_writes=True, in_turns=True) >= 5


def test_any_fault_at_some_requests() -> None:
    assert single_fault_runs(list(Fault), every=thoroughly(71, 263)) > thoroughly(7, 3)


def single_fault_runs(faults: Sequence[Fault], *, only_writes: bool = False, in_turns: bool = False, every: int = 1) -> int:
    """Play the small plot with one fault at each ``every``-th request of its owners and redrivers; how many runs that were.

    ``in_turns``: each request meets one of the faults, and the next request the next one.
    """
    calm = Graveyard(1, plot=SMALL)
    assert not play(calm)
    calls = [call for call in calm.store.calls if call.process.startswith(("owner", "redriver"))]
    chosen = [call for call in calls if call.verb in WRITES or not only_writes]
    wrong, runs = [], 0
    of_call = [[faults[number % len(faults)]] if in_turns else faults for number in range(len(chosen))]
    script = [one for call, kinds in zip(chosen, of_call, strict=True) for one in single_faults([call], kinds)]
    for where, fault in script[::every]:
        runs += 1
        plan = ScriptedFaults([(where, fault)])
        wrong += [
            f"{fault} at call {where.occurrence} of {where.process}: {one}" for one in play(Graveyard(1, plot=SMALL, plan=plan))
        ]
    assert not wrong, "\n".join(wrong)
    return runs


# --- Guards ---------------------------------------------------------------------------------------------------------------------


def forgetful(_: Any) -> Any:
    async def change(self: RedriveCell, change: Callable[[QueueCell], QueueCell]) -> None:
        self._document.value = change(self.cell)

    return change


MUTANTS: dict[str, tuple[str, Patch, Plot]] = {
    "sequences": (
        "a letter is written under the name and sequence that it was given",
        both(attribute(CopyWriter, "last_sequence", patches.nameless), attribute(CopyWriter, "_rows", patches.without_sequences)),
        Plot(),
    ),
    "name-of-queue": (
        "each queue writes under a name of its own",
        attribute(writer, "name_of", patches.one_name),
        Plot(),
    ),
    "remembered": (
        "a redrive remembers what it gave a sequence before it sends",
        attribute(RedriveCell, "_change", forgetful),
        Plot(),
    ),
    "unseen": (
        "what a search passed over as it cannot be read now does not count as absent",
        attribute(copy_writer, "not_seen", lambda _: lambda *_: None),
        VEILED,
    ),
    "given-first": ("a sequence is given before anything is written for it", nullcontext, Plot(careful=False)),
}


@cache
def intact(seed: int, plot: Plot) -> list[str]:
    """What is wrong with the run that has every guard, which mutants are compared with."""
    return play(graveyard(seed, rate=0.1, plot=plot))


@pytest.mark.parametrize("name", played("letters", MUTANTS))
def test_a_missing_guard_is_noticed(name: str) -> None:
    guard, patch, plot = MUTANTS[name]
    for seed in dict.fromkeys((2, *range(40))):
        run = graveyard(seed, rate=0.1, plot=plot)
        run.kernel.loop.max_steps = 30_000  # three times what an intact run takes
        if play(run, mutant=patch):
            assert not THOROUGH or not intact(seed, replace(plot, careful=True)), (
                f"seed {seed} goes wrong with every guard in place"
            )
            return
    pytest.fail(f"it goes unnoticed that {guard}")


@pytest.mark.parametrize("name", MUTANTS)
def test_a_calm_run_does_not_need_it(name: str) -> None:
    _, patch, plot = MUTANTS[name]
    calm = replace(plot, queues=1, owners=1, redrivers=0, resets=0, blows_every_s=0.0)
    assert not play(Graveyard(1, plot=calm), mutant=patch)
