"""A short form of the chaos of Kafka's gateways, and its judge, which must notice. `make kafka-chaos` sends more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.gateway.kafka.chaos.facts import Acknowledged, Facts, MemberJournal, acknowledgements
from tests.gateway.kafka.chaos.journal import Following, Journal
from tests.gateway.kafka.chaos.judge import judge
from tests.gateway.kafka.chaos.play import Plan, report, run

SEED = 11
PLAN = Plan(messages=20_000, per_second=1_000, deeds=9, every_s=0.5, deed_every_s=1.0, stop_s=(1.0, 4.0), drain_s=120)
"""Of nine deeds each is done once, and the killing of a gateway twice."""


@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.versitygw
@pytest.mark.timeout(400)
def test_killed_gateways_and_stores_lose_double_and_invert_nothing(tmp_path: Path) -> None:
    outcome = asyncio.run(run(PLAN, tmp_path, SEED, print))
    report(outcome, print)
    assert outcome.problems == []
    for what in ("kill gateway", "kill store", "kill member"):
        assert outcome.done[what] >= 1
    assert outcome.done.total() > PLAN.deeds, "connections were cut"


# --- The judge --------------------------------------------------------------------------------------------------------------------

GIVEN = """\
assigned 1.0
2.0 t/0 0 a:0
3.0 t/0 1 b:0
4.0 t/0 2 a:1
"""
AGAIN = """\
assigned 5.0
6.0 t/0 2 a:1
7.0 t/0 3 a:2
"""


def good() -> Facts:
    """Three records of a producer and one of another, given to two members in turn."""
    facts = Facts(sent={"a": 3, "b": 1})
    facts.acknowledged = {"a": list(acknowledgements(["0 t/0 0", "1 t/0 -1", "2 t/0 3"])), "b": [Acknowledged(0, "t/0", 1)]}
    facts.stored = {"t/0": ["a:0", "b:0", "a:1", "a:2"]}
    for name, lines in (("one", GIVEN), ("two", AGAIN)):
        given(facts, name, lines)
    return facts


def given(facts: Facts, name: str, lines: str) -> None:
    journal = MemberJournal(name)
    journal.read(lines.splitlines())
    facts.stretches += journal.stretches


def lose(facts: Facts) -> None:
    facts.stored["t/0"].remove("a:1")


def say_another_place(facts: Facts) -> None:
    facts.acknowledged["a"][2] = Acknowledged(2, "t/0", 1)


def not_acknowledge(facts: Facts) -> None:
    del facts.acknowledged["a"][1]


def store_twice(facts: Facts) -> None:
    facts.stored["t/1"] = ["a:2"]


def invert(facts: Facts) -> None:
    facts.stored["t/0"][2:] = ["a:2", "a:1"]


def never_give(facts: Facts) -> None:
    facts.stored["t/0"].append("b:1")


def pass_over(facts: Facts) -> None:
    given(facts, "three", "assigned 8.0\n9.0 t/0 1 b:0\n9.1 t/0 3 a:2\n")


def begin_too_late(facts: Facts) -> None:
    given(facts, "three", "assigned 1.0\n1.5 t/0 3 a:2\n")


def give_another(facts: Facts) -> None:
    given(facts, "three", "assigned 8.0\n9.0 t/0 0 b:0\n")


def test_a_good_run_is_good() -> None:
    assert judge(good()) == []


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lose, "a:1 was acknowledged at t/0 -1, and is not stored"),
        (say_another_place, "a:2 was acknowledged at t/0 1, where another record stands"),
        (not_acknowledge, "1 records of a were not acknowledged: [1]"),
        (store_twice, "a:2 is stored 2 times"),
        (invert, "a:1 stands at t/0 3, behind a:2"),
        (never_give, "1 records of t/0 were given to no member: [4]"),
        (pass_over, "three at t/0 was given 3, where 2 was due"),
        (begin_too_late, "three at t/0 began at 3, before the record ahead of it was given to anybody"),
        (give_another, "three at t/0 was given other values from 0 on than stand in the log"),
    ],
)
def test_what_is_wrong_is_noticed(spoil: Callable[[Facts], None], said: str) -> None:
    facts = good()
    spoil(facts)
    assert any(said in problem for problem in judge(facts)), judge(facts)


def test_offsets_that_a_client_counted_on_from_none_are_unknown() -> None:
    told = acknowledgements(["0 t/0 7", "1 t/0 -1", "2 t/1 0", "3 t/0 0", "4 t/0 1", "5 t/0 9", "6 t/0 2"])
    assert [one.offset for one in told] == [7, -1, 0, -1, -1, 9, 2]


def test_a_journal_is_followed_by_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    following = Following(path)
    assert following.lines() == []
    journal = Journal(str(path))
    journal.write(["1", "2"])
    assert following.lines() == ["1", "2"]
    with path.open("ab") as file:
        file.write(b"3")
    assert following.lines() == []
    journal.write([""])
    assert following.lines() == ["3"]
