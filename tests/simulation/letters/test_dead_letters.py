"""Dead letters under attack: each is written once and goes back once, in order, whoever dies, stops or is replaced, and when."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import pytest

from tests.figures import FIGURES
from tests.simulation.faults import WRITES, Fault, ScriptedFaults, single_faults
from tests.simulation.letters.campaign import CAMPAIGN
from tests.simulation.letters.world import VEILED, Graveyard, Plot, graveyard
from tests.simulation.small import small_log
from tests.simulation.stand_ins import calm, played
from tests.thorough import thoroughly

pytestmark = [pytest.mark.simulation, pytest.mark.slow, pytest.mark.timeout(300)]

SEEDS = thoroughly(tuple(range(24)), (4, 7, 9, 10))
"""The few meet everything that must happen."""
SMALL = Plot(messages=4, letters=3, owners=2, resets=0, blows_every_s=0.0)


def play(run: Graveyard) -> list[str]:
    """What is wrong with a run."""
    with small_log():
        return run.run()


# --- Random attacks -------------------------------------------------------------------------------------------------------------


def test_each_letter_is_written_once_and_goes_back_once(record_property: Callable[[str, object], None]) -> None:
    counts: Counter[str] = Counter()
    wrong = []
    for seed in SEEDS:
        run = graveyard(seed, plot=VEILED if seed % 3 == 1 else Plot(choosing=seed % 3 == 0))
        wrong += [f"seed {seed}: {one}" for one in play(run)]
        counts += run.counts
    assert not wrong, "\n".join(wrong)
    record_property(FIGURES, f"dead letters, {len(SEEDS)} worlds\n{CAMPAIGN.table(counts)}")
    assert not [what for what in CAMPAIGN.must_happen if not counts[what]]


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


@pytest.mark.parametrize("name", played("letters"))
def test_a_missing_guard_is_noticed(name: str) -> None:
    CAMPAIGN.check_noticed(name, others=40)


@pytest.mark.parametrize("name", calm("letters"))
def test_a_calm_run_does_not_need_it(name: str) -> None:
    scenario = {"plain": "calm", "veiled": "calm, veiled"}[CAMPAIGN.mutants[name].scenario]
    run = CAMPAIGN.play(scenario, 1, mutant=name)
    assert not run.wrong, run.report()
