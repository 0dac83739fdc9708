"""A table that a batch brings gets its target in the middle of the fold, where its first event tells enough: the batch is folded once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from penstock import SyncOptions, sync
from penstock.cdc.fold.fold import TargetResolver
from penstock.cdc.sync.backends.fold_tasks import FoldInput
from penstock.cdc.sync.backends.local import LocalBackend, LocalFoldedBatch
from penstock.cdc.sync.plan import SyncPlan
from penstock.coordinator.lakes import LakePlace
from tests.cdc.sync.driving import drive_to_the_end
from tests.cdc.sync.streams import TOPIC, Row, event, group_for, rows, send

TYPES: Mapping[str, Mapping[str, str]] = {"a": {"id": "int", "x": "string"}, "b": {"id": "bigint"}}


@pytest.fixture
def folds(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of events of each fold."""
    seen: list[int] = []
    really = LocalBackend.fold

    def fold(self: LocalBackend, fold_input: FoldInput, resolve_target: TargetResolver) -> LocalFoldedBatch:
        seen.append(fold_input.events)
        return really(self, fold_input, resolve_target)

    monkeypatch.setattr(LocalBackend, "fold", fold)
    return seen


def of_both() -> list[Row]:
    first = [event("c", "a", {"id": n}, {"id": n, "x": str(n)}, at=n + 1) for n in range(3)]
    return [*first, *(event("c", "b", {"id": n}, {"id": n}, at=n + 9) for n in range(3))]


def run(lake: str, into: Path, **options: Any) -> dict[str, Any]:
    done = sync(lake, TOPIC, SyncOptions(into=into, **options))
    assert done.await_termination()
    return dict(done.stopped)


def ids(path: Path) -> list[int]:
    return sorted(row["id"] for row in rows(path))


def test_tables_whose_types_are_declared_cost_no_second_fold(tmp_path: Path, folds: list[int]) -> None:
    lake, into = str(tmp_path / "lake"), tmp_path / "targets"
    send(lake, of_both(), queues=1)
    assert run(lake, into, columns=TYPES) == {}
    assert folds == [6]
    assert ids(into / "a") == ids(into / "b") == [0, 1, 2]


def test_types_are_guessed_by_the_whole_batch(tmp_path: Path, folds: list[int]) -> None:
    lake, into = str(tmp_path / "lake"), tmp_path / "targets"
    send(lake, [event("c", "a", {"id": n}, {"id": n, "x": x}, at=n + 1) for n, x in enumerate((1, 1.5))], queues=1)
    assert run(lake, into) == {}
    assert folds == [2, 2]
    assert sorted(row["x"] for row in rows(into / "a")) == [1.0, 1.5]


def test_targets_that_a_run_before_made_cost_no_second_fold(tmp_path: Path, folds: list[int]) -> None:
    lake, into = str(tmp_path / "lake"), tmp_path / "targets"
    send(lake, of_both(), queues=1)
    run(lake, into)
    send(lake, [event("c", "b", {"id": 7}, {"id": 7}, at=20), event("c", "a", {"id": 7}, {"id": 7, "x": "y"}, at=21)], queues=1)
    del folds[:]
    assert run(lake, into) == {}
    assert folds == [2]
    assert ids(into / "a") == ids(into / "b") == [0, 1, 2, 7]


def test_events_that_one_task_has_seen_are_folded_where_another_task_has_met_their_target(tmp_path: Path) -> None:
    """A truncate that comes first tells too little to find the target."""
    lake, into = str(tmp_path / "lake"), tmp_path / "targets"
    here, there = (group_for(queue, 2) for queue in (0, 1))
    send(lake, [event("c", "b", {"id": 1}, {"id": 1}, at=1)], groups=[here])
    run(lake, into)
    events = [event("t", "b", None, at=2), *(event("c", "b", {"id": n}, {"id": n}, at=n + 1) for n in (2, 3))]
    send(lake, events, groups=[here, here, there])
    drive_to_the_end(None, SyncPlan.of(LakePlace.of(lake), TOPIC, SyncOptions(into=into), tasks=2))
    assert ids(into / "b") == [2, 3]


def test_columns_that_come_later_are_given_to_the_target_then(tmp_path: Path, folds: list[int]) -> None:
    lake, into = str(tmp_path / "lake"), tmp_path / "targets"
    send(lake, [event("c", "a", {"id": n}, {"id": n} | ({"x": "late"} if n else {}), at=n + 1) for n in range(2)], queues=1)
    assert run(lake, into, columns=TYPES) == {}
    assert folds == [2, 2]
    assert sorted((row["id"], row["x"]) for row in rows(into / "a")) == [(0, None), (1, "late")]


def test_a_table_that_begins_with_a_truncate_is_folded_again(tmp_path: Path, folds: list[int]) -> None:
    lake, into = str(tmp_path / "lake"), tmp_path / "targets"
    changes = [event("c", "a", {"id": n}, {"id": n, "x": "y"}, at=at) for n, at in ((1, 3), (2, 9))]
    send(lake, [event("t", "a", None, None, at=5), *changes], queues=1)
    assert run(lake, into, columns=TYPES) == {}
    assert ids(into / "a") == [2]
    assert folds == [3, 3]


def test_a_refused_table_stands_still_and_no_other(tmp_path: Path, folds: list[int]) -> None:
    lake, into = str(tmp_path / "lake"), tmp_path / "targets"
    send(lake, of_both(), queues=1)
    run(lake, into, tables=["a"], name="other", columns=TYPES)
    stopped = run(lake, into, columns=TYPES)
    assert list(stopped) == ["public.a"]
    assert "written by someone else" in stopped["public.a"][0].reason
    assert ids(into / "b") == [0, 1, 2]


@pytest.mark.parametrize("bad", [{"__x": "1"}, {"X": "1"}, {"half \ud800": "1"}], ids=["own", "case", "half"])
def test_columns_that_no_target_can_have_are_refused_as_ever(tmp_path: Path, bad: Mapping[str, str]) -> None:
    lake, into = str(tmp_path / "lake"), tmp_path / "targets"
    odd = json.dumps(event("c", "a", {"id": 1}, {"id": 1, "x": "y", **bad}, at=1)).encode()
    send(lake, [odd, *of_both()[3:]], queues=1)
    stopped = run(lake, into, columns={"a": {**TYPES["a"], **dict.fromkeys(bad, "string")}, "b": TYPES["b"]})
    assert list(stopped) == ["public.a"]
    assert ids(into / "b") == [0, 1, 2]
