"""Targets are merged into side by side: none waits for another, what fails stops nothing that is under way, and nothing new begins then."""

from __future__ import annotations

from pathlib import Path
from threading import Barrier, Event

import pytest

from penstock.cdc.sync.options import NO_STEPS, Moment, SyncOptions, SyncSteps
from penstock.cdc.sync.parallel import run_in_parallel
from penstock.cdc.sync.plan import SyncPlan
from penstock.coordinator.lakes import LakePlace
from tests.cdc.sync.crashes import Crash
from tests.cdc.sync.driving import drive_to_the_end
from tests.cdc.sync.streams import TOPIC, event, rows, send

PATIENCE_S = 60.0


def test_results_come_in_the_order_of_their_items() -> None:
    second = Event()

    def work(item: int) -> int:
        if item == 1:
            assert second.wait(PATIENCE_S)
        if item == 2:
            second.set()
        return item * 10

    assert run_in_parallel(work, [1, 2, 3], 2) == [10, 20, 30]
    assert run_in_parallel(work, [], 2) == []


def test_an_error_lets_what_is_under_way_end_and_nothing_new_begin() -> None:
    both, begun, ended = Barrier(2), list[int](), list[int]()
    failed = Event()

    def work(item: int) -> None:
        begun.append(item)
        both.wait(PATIENCE_S)
        if item == 1:
            failed.set()
            raise Crash("one")
        assert failed.wait(PATIENCE_S)
        ended.append(item)

    with pytest.raises(Crash, match="one"):
        run_in_parallel(work, [1, 2], 2)
    assert (sorted(begun), ended) == ([1, 2], [2])
    later = list[int]()

    def fails_first(item: int) -> None:
        if item == 1:
            raise Crash("one")
        later.append(item)

    with pytest.raises(Crash):
        run_in_parallel(fails_first, [1, 2, 3], 1)
    assert later == []


def test_what_waits_for_its_turn_does_not_begin_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    failed, begun = Event(), list[int]()
    monkeypatch.setattr("penstock.cdc.sync.parallel.Event", lambda: failed)

    def work(item: int) -> None:
        begun.append(item)
        if item == 1:
            raise Crash("one")
        assert failed.wait(PATIENCE_S), "the second one is under way until the first has failed"

    with pytest.raises(Crash, match="one"):
        run_in_parallel(work, [1, 2, 3, 4], 2)
    assert {*begun} <= {1, 2}


class Together:
    """Lets a merge go on once another one has come as far; the one of table ``dies`` ends its driver then."""

    def __init__(self, dies: str = "") -> None:
        self._both, self._dies = Barrier(2), dies

    def reached(self, step: str, moment: Moment, what: str = "") -> None:
        if (step, moment) == ("merge", "in"):
            self._both.wait(PATIENCE_S)
            if what == self._dies:
                raise Crash(what)


def plan(tmp_path: Path, steps: SyncSteps) -> SyncPlan:
    place = LakePlace.of(str(tmp_path / "lake"))
    return SyncPlan.of(place, TOPIC, SyncOptions(into=tmp_path / "targets", name="s", merges_at_once=2), steps=steps)


def test_two_targets_are_merged_into_at_once(tmp_path: Path) -> None:
    send(str(tmp_path / "lake"), [event("c", table, {"id": n}, {"id": n}, at=n) for table in ("a", "b") for n in range(3)])
    assert not drive_to_the_end(None, plan(tmp_path, Together())).stopped
    for table in ("a", "b"):
        assert rows(tmp_path / "targets" / table) == [{"id": 0}, {"id": 1}, {"id": 2}]


def test_a_driver_that_ends_in_one_merge_has_ended_the_other(tmp_path: Path) -> None:
    """Its lease is given up behind both, so nobody writes beside its successor."""
    send(str(tmp_path / "lake"), [event("c", table, {"id": 1}, {"id": 1}, at=1) for table in ("a", "b")])
    with pytest.raises(Crash):
        drive_to_the_end(None, plan(tmp_path, Together(dies="a")))
    assert rows(tmp_path / "targets" / "a") == []
    assert rows(tmp_path / "targets" / "b") == [{"id": 1}]
    assert not drive_to_the_end(None, plan(tmp_path, NO_STEPS)).stopped
    assert rows(tmp_path / "targets" / "a") == [{"id": 1}]
