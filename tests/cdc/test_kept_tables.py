"""A table that was merged into is not opened anew for the next merge, and whatever became of it meanwhile is seen."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import cast

import pytest
from deltalake import DeltaTable

from penstock.cdc.delta import deltalake_targets as module
from penstock.cdc.delta.deltalake_targets import DeltalakeTargets
from penstock.cdc.sync.parallel import run_in_parallel
from tests.cdc.test_merges import Merged


@pytest.fixture
def merged(tmp_path: Path) -> Merged:
    made = Merged(tmp_path, "bigint")
    made.merge({(1,): 1})
    return made


@pytest.fixture
def opened(merged: Merged, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tables that were opened after the first merge."""
    names: list[str] = []
    really = DeltalakeTargets.open

    def opening(self: DeltalakeTargets, name: str) -> DeltaTable | None:
        names.append(name)
        return really(self, name)

    monkeypatch.setattr(DeltalakeTargets, "open", opening)
    return names


def test_the_next_merge_goes_on_with_the_table_as_it_was_left(merged: Merged, opened: list[str]) -> None:
    for number in range(2, 6):
        merged.merge({(number,): number, (1,): number})
    assert opened == []
    assert merged.rows() == {(1,): 5, (2,): 2, (3,): 3, (4,): 4, (5,): 5}


def test_what_others_committed_meanwhile_is_seen(merged: Merged, opened: list[str]) -> None:
    DeltaTable(merged.path).optimize.compact()
    DeltaTable(merged.path).delete("v = 1")
    merged.merge({(2,): 2})
    assert opened == ["t"]
    assert merged.rows() == {(2,): 2}


def test_a_merge_of_another_driver_is_not_done_again(merged: Merged) -> None:
    other = DeltalakeTargets(str(Path(merged.path).parent), by_position=True)
    mine, merged.tables = merged.tables, other
    merged.merge({(2,): 2})
    merged.tables, merged.merges = mine, 1
    with pytest.raises(AssertionError):
        merged.merge({(2,): 3})
    assert merged.rows() == {(1,): 1, (2,): 2}


@pytest.mark.parametrize("merges", [0, 1, 5])
def test_a_table_that_was_made_again_is_opened(merged: Merged, opened: list[str], merges: int) -> None:
    merged.merge({(7,): 7})
    shutil.rmtree(merged.path)
    again = Merged(Path(merged.path).parent, "bigint")
    for number in range(merges):
        again.merge({(100 + number,): number})
    del opened[:]
    merged.merges = 10
    merged.merge({(8,): 8})
    assert opened == ["t"]
    assert merged.rows() == {(8,): 8, **{(100 + number,): number for number in range(merges)}}


def test_a_table_whose_log_was_cleaned_is_opened(merged: Merged, opened: list[str]) -> None:
    DeltaTable(merged.path).optimize.compact()
    DeltaTable(merged.path).delete("v = 9")
    table = DeltaTable(merged.path)
    table.alter.set_table_properties({"delta.targetFileSize": "1000000"})
    table.create_checkpoint()
    for entry in sorted((Path(merged.path) / "_delta_log").glob("*.json"))[:-1]:
        entry.unlink()
    merged.merge({(2,): 2})
    assert opened == ["t"]
    assert merged.rows() == {(1,): 1, (2,): 2}


def test_few_tables_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.cdc.delta.deltalake_targets._KEPT_MAX", 1)
    one, two = Merged(tmp_path / "1", "bigint"), Merged(tmp_path / "2", "bigint")
    one.merge({(1,): 1})
    assert list(one.tables._kept) == ["t"]
    one.tables._keep("u", DeltaTable(two.path))
    assert list(one.tables._kept) == ["u"]


def test_more_tables_than_are_kept_are_merged_into_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The switch from thread to thread is made often; otherwise it would come between two lines once in hours."""
    monkeypatch.setattr(module, "_KEPT_MAX", 2)
    monkeypatch.setattr(module, "_newest_commit", lambda table: {"version": 1})
    tables, interval_s = DeltalakeTargets(str(tmp_path), by_position=True), sys.getswitchinterval()

    def keep(number: int) -> None:
        for name in range(20_000):
            tables._keep(f"{number} {name}", cast("DeltaTable", None))

    sys.setswitchinterval(1e-6)
    try:
        assert run_in_parallel(keep, range(4), 4) == [None] * 4
    finally:
        sys.setswitchinterval(interval_s)
