"""A short form of the gateways' chaos, and its judge, which must notice. `make test-all` sends more, and `make gateway-chaos` most."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.gateway.chaos.facts import ASKED, ATTEMPTS, PUSHED, Facts, Load, Run, Stored, is_poison
from tests.gateway.chaos.judge import judge
from tests.gateway.chaos.play import Plan, report, run
from tests.gateway.sdk import JAVA, PYTHON
from tests.thorough import thoroughly

SEED = 11
PLAN = thoroughly(
    Plan(
        messages=10_000,
        deeds=10,
        every_s=1.5,
        deed_every_s=6.0,
        stop_s=(1.0, 6.0),
        send_s=400,
        # The SDK for Java does not repeat a receive whose answer was lost with a gateway: its messages come after two minutes.
        pushed_to=("python",),
    ),
    Plan(messages=300, deeds=4, every_s=0.5, deed_every_s=1.0, stop_s=(1.0, 3.0), send_s=120, drain_s=120, in_a_hurry=True),
)
"""Of four deeds each is done once, and the killing twice."""


@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.timeout(thoroughly(1_200, 400))
def test_gateways_killed_stopped_and_cut_off_lose_nothing_and_keep_order(tmp_path: Path) -> None:
    there = tuple(language for language, where in (("java", JAVA), ("python", PYTHON)) if where.exists())
    outcome = asyncio.run(run(replace(PLAN, languages=there), tmp_path, SEED, print))
    report(outcome, print)
    assert outcome.problems == []
    assert outcome.done["kill gateway"] >= 1
    assert outcome.done["stop gateway"] >= 1
    assert outcome.done.total() > PLAN.deeds, "connections were cut"


# --- The judge --------------------------------------------------------------------------------------------------------------------

POISON = next(f"x:{number}" for number in range(100_000) if is_poison(f"x:{number}"))


def good() -> Facts:
    """Two messages of a message group, and one that nobody can handle."""
    facts = Facts(loads=[Load("b", 2, 1, 1)])
    facts.stored = [Stored(0, 0, "b:0", "b-0"), Stored(0, 1, "b:0", "b-0"), Stored(0, 2, "b:1", "b-0"), Stored(1, 0, POISON, "x")]
    for group in (PUSHED, ASKED):
        facts.runs[group] = [Run(1.0, "one", "b:0", 1, False), Run(2.0, "two", "b:0", 1, False), Run(3.0, "one", "b:1", 1, False)]
        facts.letters[group] = [(POISON, 1)]
    return facts


def lose(facts: Facts) -> None:
    del facts.stored[2]


def never_handle(facts: Facts) -> None:
    del facts.runs[PUSHED][2]


def invert(facts: Facts) -> None:
    facts.runs[ASKED][2] = Run(0.5, "one", "b:1", 1, False)


def give_twice(facts: Facts) -> None:
    facts.runs[PUSHED].append(Run(4.0, "two", "b:1", 1, False))


def give_up(facts: Facts) -> None:
    facts.letters[PUSHED].append(("b:1", 1))


def write_twice(facts: Facts) -> None:
    facts.letters[ASKED] *= 2


def skip_an_attempt(facts: Facts) -> None:
    facts.gave((0, 2), 1, "r1")
    facts.gave((0, 2), 3, "r2")


def repeat_an_attempt(facts: Facts) -> None:
    facts.gave((0, 2), 1, "r1")
    facts.gave((0, 2), 1, "r2")


def try_for_ever(facts: Facts) -> None:
    facts.runs[ASKED] += [Run(5.0, "one", POISON, attempt, True, (1, 0)) for attempt in range(1, ATTEMPTS + 2)]


def not_end(facts: Facts) -> None:
    facts.unsettled[PUSHED] = "3 messages"


def test_a_good_run_is_good() -> None:
    assert judge(good()) == []


def test_the_last_attempt_is_told_of_every_later_one() -> None:
    facts = good()
    for attempt in range(1, ATTEMPTS + 1):
        facts.gave((0, 2), attempt, f"r{attempt}")
    facts.gave((0, 2), ATTEMPTS, "r9")
    assert judge(facts) == []


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lose, "answered OK, and are not stored"),
        (never_handle, "b:1 was never handled"),
        (invert, "before the earlier b:0"),
        (give_twice, "attempt 1 of b:1 went to two and one"),
        (give_up, "is a dead letter, and no poison"),
        (write_twice, "is stored 1 times, and is 2 dead letters"),
        (skip_an_attempt, "1 attempts were counted that nobody saw"),
        (repeat_an_attempt, "went to receives r1 and r2"),
        (try_for_ever, "failed 9 times, of 8"),
        (not_end, "did not get through"),
    ],
)
def test_what_is_wrong_is_noticed(spoil: Callable[[Facts], None], said: str) -> None:
    facts = good()
    spoil(facts)
    assert any(said in problem for problem in judge(facts)), judge(facts)
