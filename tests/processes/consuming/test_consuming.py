"""A short form of the consumers' chaos on each real store; `make chaos` runs it for long. And its check, which must notice."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from tests.processes.check import Row
from tests.processes.consuming.chaos import place, report, run
from tests.processes.consuming.check import History, Reset, Rules, Skip, check
from tests.processes.consuming.disk import CannotMount
from tests.processes.consuming.disturbed import KILL, STOP, Disturbed
from tests.processes.consuming.fates import Fate, Fates
from tests.processes.consuming.figures import Tenures, pauses
from tests.processes.consuming.judge import is_held_up
from tests.processes.consuming.nemesis import SHORT
from tests.processes.consuming.records import Handled, Noted, What
from tests.thorough import thoroughly

PLACES = ["local", pytest.param("versitygw", marks=[pytest.mark.s3, pytest.mark.versitygw, pytest.mark.thorough])]
SEEDS = {"local": 2, "versitygw": 3}


@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", PLACES)
def test_workers_killed_stopped_and_restarted_settle_every_message_in_order(kind: str, tmp_path: Path) -> None:
    print(f"replay: python -m tests.processes.consuming.chaos --short --seed {SEEDS[kind]} --store {kind}")
    with place(kind, tmp_path) as ground:
        outcome = run(ground, tmp_path, replace(SHORT, messages=thoroughly(SHORT.messages, 2_000)), seed=SEEDS[kind])
    report(outcome, print)
    assert outcome.found.problems == []
    assert outcome.acknowledged > 500
    assert outcome.done["kill"] == 4
    assert outcome.done["stop"] == 2
    assert outcome.pauses.failovers


@pytest.mark.thorough
@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_rolling_restarts_repeat_nothing(tmp_path: Path) -> None:
    print("replay: python -m tests.processes.consuming.chaos --short --seed 4 --store local --only restart --lease 5")
    with place("local", tmp_path) as ground:
        outcome = run(ground, tmp_path, replace(SHORT, deck={"restart": 3}, lease_s=5.0), seed=4)
    report(outcome, print)
    assert outcome.found.problems == []
    assert not outcome.found.repeats, "nobody was in trouble"
    assert outcome.pauses.handovers


@pytest.mark.thorough
@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_full_disk_loses_nothing_and_all_goes_on_when_there_is_room(tmp_path: Path) -> None:
    print("replay: python -m tests.processes.consuming.chaos --short --seed 6 --store small-disk --only full")
    with ExitStack() as stack:
        try:
            ground = stack.enter_context(place("small-disk", tmp_path))
        except CannotMount as error:
            pytest.skip(str(error))
        outcome = run(ground, tmp_path, replace(SHORT, messages=800, deck={"full": 1}), seed=6)
    report(outcome, print)
    assert outcome.found.problems == []
    assert outcome.done["full"] == 1


@pytest.mark.thorough
@pytest.mark.postgres
@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_killed_and_stopped_postgresql_loses_nothing_beneath_workers(tmp_path: Path) -> None:
    print("replay: python -m tests.processes.consuming.chaos --short --seed 8 --store postgres --lease 3")
    deck = {"kill": 1, "kill table": 2, "stop table": 1}
    with place("postgres", tmp_path) as ground:
        outcome = run(ground, tmp_path, replace(SHORT, messages=thoroughly(SHORT.messages, 1_000), deck=deck, lease_s=3.0), seed=8)
    report(outcome, print)
    assert outcome.found.problems == []
    assert (outcome.done["kill table"], outcome.done["stop table"]) == (2, 1)


# --- The check ------------------------------------------------------------------------------------------------------------------


def body_of(fate: Fate, number: int = 0) -> str:
    """The ``number``-th body that has this fate."""
    bodies = (f"p/{count}/1" for count in range(10**6))
    found = (body for body in bodies if Fates().of(body) is fate)
    for _ in range(number):
        next(found)
    return next(found)


FINE = [body_of(Fate.FINE, number) for number in range(4)]
POISON = body_of(Fate.POISON)
A, B = "worker-a.0", "worker-b.0"


def lines(*texts: str, bodies: list[str]) -> list[Handled]:
    """``at_s process what offset epoch.attempt`` each, of message group g in queue 0."""
    found = []
    for text in texts:
        at_s, process, what, offset, delivery = text.split()
        epoch, attempt = map(int, delivery.split("."))
        found.append(
            Handled(
                What(what),
                float(at_s),
                float(at_s),
                "ordered",
                "orders",
                0,
                int(offset),
                attempt,
                epoch,
                "g",
                bodies[int(offset)],
                {"a": A, "b": B}[process],
            )
        )
    return found


def history(*texts: str, bodies: list[str] | None = None, parks: bool = False, orderly: bool = True) -> History:
    bodies = FINE[:2] if bodies is None else bodies
    return History(
        rows=[Row(0, offset, body, "g") for offset, body in enumerate(bodies)],
        handled=lines(*texts, bodies=bodies),
        groups={"ordered": Rules(orderly, parks, 2)},
        repeats_max=1,
    )


STRAIGHT = ("1 a start 0 1.1", "2 a ok 0 1.1", "3 a start 1 1.1", "4 a ok 1 1.1")
TAKEN_OVER = (*STRAIGHT[:3], "6 b start 1 2.2", "7 b ok 1 2.2")
POISONED = ("1 a start 0 1.1", "1 a fail 0 1.1", "2 a start 0 1.2", "2 a fail 0 1.2", "3 a start 1 1.1", "4 a ok 1 1.1")


def killed(at_s: float = 5, process: str = A) -> list[Disturbed]:
    return [Disturbed(KILL, process, at_s, at_s)]


GOOD: dict[str, History] = {
    "straight": history(*STRAIGHT),
    "taken over": replace(history(*TAKEN_OVER), disturbed=killed()),
    "repeated after a kill": replace(
        history(*STRAIGHT[:2], "6 b start 0 2.2", "7 b ok 0 2.2", *TAKEN_OVER[3:]), disturbed=killed(3)
    ),
    "by one that stood still": replace(
        history(*STRAIGHT[:3], "6 b start 1 2.2", "7 b ok 1 2.2", "9 a ok 1 1.1"), disturbed=[Disturbed(STOP, A, 3.5, 8.5)]
    ),
    "poison": replace(history(*POISONED, bodies=[POISON, FINE[0]]), letters={"ordered": [(0, 0, POISON)]}),
    "parked and skipped": replace(
        history(*POISONED, bodies=[POISON, FINE[0]], parks=True),
        letters={"ordered": [(0, 0, POISON)]},
        skips=[Skip("ordered", 0, 0, 2.5)],
    ),
    "parked, and skipped as its driver ended": replace(
        history(*POISONED, bodies=[POISON, FINE[0]], parks=True),
        letters={"ordered": [(0, 0, POISON)]},
        skips=[Skip("ordered", None, None, 2.5)],
    ),
    "reset": replace(history(*STRAIGHT, "6 a start 1 1.1", "7 a ok 1 1.1"), resets=[Reset("ordered", 0, 1, 5)]),
    "passed over": replace(history(*STRAIGHT[2:]), resets=[Reset("ordered", 0, 1, 0)]),
    "acknowledged too late": history(
        *STRAIGHT[:2], "2.5 a late 0 1.1", "13 a start 0 1.2", "14 a ok 0 1.2", "15 a start 1 1.1", "16 a ok 1 1.1"
    ),
    "CONCURRENT": history("1 a start 1 1.1", "2 a start 0 1.1", "3 a ok 1 1.1", "4 a ok 0 1.1", orderly=False),
}


@pytest.mark.parametrize("name", GOOD)
def test_the_check_passes_what_is_right(name: str) -> None:
    assert check(GOOD[name]).problems == []


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        (history(*STRAIGHT[:2]), "never succeeded"),
        (history(*STRAIGHT[:3]), "never succeeded"),
        (history(*STRAIGHT, "5 a late 1 1.1"), "never succeeded"),
        (
            history(*STRAIGHT, "5 a late 1 1.1", "6 a start 0 1.2", "7 a ok 0 1.2", "8 a start 1 1.2", "9 a ok 1 1.2"),
            "had succeeded",
        ),
        (history("1 a start 1 1.1", "2 a ok 1 1.1", "3 a start 0 1.1", "4 a ok 0 1.1"), "was done"),
        (history("1 a start 0 1.1", "2 a start 1 1.1", "3 a ok 0 1.1", "4 a ok 1 1.1"), "was done"),
        (history(*STRAIGHT[:2], "3 a start 0 1.2", "4 a ok 0 1.2", *STRAIGHT[2:]), "had succeeded"),
        (history(*TAKEN_OVER), "started while"),
        (history(*STRAIGHT, "6 b start 1 2.2", "7 b ok 1 2.2"), "nothing was wrong with worker-a.0"),
        (replace(history(*STRAIGHT, "26 b start 1 2.2", "27 b ok 1 2.2"), disturbed=killed(25)), "nothing was wrong"),
        (replace(history(*STRAIGHT, "6 b start 0 2.2", "6.5 b ok 0 2.2", *TAKEN_OVER[3:]), disturbed=killed()), "can be in flight"),
        (replace(history(*STRAIGHT[:3], "6 b start 1 1.2", "7 b ok 1 1.2"), disturbed=killed()), "'s and worker-b.0's"),
        (replace(history(*STRAIGHT[:3], "6 b start 1 2.1", "7 b ok 1 2.1"), disturbed=killed()), "was delivered after"),
        (replace(GOOD["poison"], letters={}), "dead letter 0 times"),
        (replace(GOOD["poison"], letters={"ordered": [(0, 0, POISON)] * 2}), "dead letter 2 times"),
        (replace(GOOD["straight"], letters={"ordered": [(0, 0, FINE[0])]}), "dead letter 1 times"),
        (replace(GOOD["poison"], letters={"ordered": [(0, 0, FINE[1])]}), "says it was"),
        (replace(GOOD["parked and skipped"], skips=[]), "was done"),
        (replace(GOOD["parked and skipped"], skips=[Skip("ordered", None, None, 9)]), "was done"),
        (replace(GOOD["reset"], resets=[]), "was delivered after"),
        (replace(GOOD["straight"], resets=[Reset("ordered", 0, 1, 5)]), "not run again after a reset"),
        (replace(GOOD["straight"], rows=[Row(0, 0, FINE[1], "g"), Row(0, 1, FINE[0], "g")]), "was given"),
        (history(*POISONED[:2], *POISONED[4:], bodies=[POISON, FINE[0]]), "was done"),
    ],
)
def test_the_check_notices(wrong: History, problem: str) -> None:
    problems = check(wrong).problems
    assert any(problem in one for one in problems), problems


@pytest.mark.parametrize(
    ("at_s", "text", "excused"),
    [
        (6.0, "the lease could not be renewed (observed: the table did not answer in time)", True),
        (12.0, "another process holds the database's lock", True),
        (14.0, "another process holds the database's lock", False),
        (4.0, "the table did not answer in time", False),
        (6.0, "the group was deleted", False),
    ],
)
def test_who_gives_up_is_excused_only_while_one_that_was_stopped_may_hold_the_lock(at_s: float, text: str, excused: bool) -> None:
    assert is_held_up(Noted(What.ENDED, at_s, text, B), [Disturbed(STOP, A, 5, 10)], 3.0) is excused


def test_pauses_are_measured_from_the_last_sign_or_from_when_there_was_a_message() -> None:
    stored: dict[tuple[int, int], float] = {(0, 0): 0.0, (0, 1): 0.0}
    over = Tenures(lines(*TAKEN_OVER, bodies=FINE))
    assert pauses(over, stored, killed(3.25)).failovers == (3.0,)
    assert pauses(over, {**stored, (0, 1): 5.5}, killed(3.25)).failovers == (0.5,)
    assert pauses(over, stored, killed(5)).failovers == (), "it had nothing to do there when it died"

    def given(stored_s: float) -> tuple[float, ...]:
        return pauses(over, {**stored, (0, 1): stored_s}, []).handovers

    assert (given(0.0), given(5.5), given(6.5)) == ((3.0,), (0.5,), (0.0,))
