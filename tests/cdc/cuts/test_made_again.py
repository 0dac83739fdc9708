"""Targets that were deleted and made again, and drivers that end amid it: no cut is of another table than the one that it was recorded for."""

from __future__ import annotations

import shutil
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest
from deltalake import DeltaTable

import penstock
from penstock import CutTooOld
from penstock.cdc.cuts.cut_history import kept_cuts
from penstock.cdc.cuts.segment import decode
from penstock.log.errors import DataDamaged
from tests.cdc.cuts.topics import rows, shop, synced


class Ends:
    """Ends a driver at the first of these steps."""

    def __init__(self, step: str, moment: str) -> None:
        self._at = step, moment

    def reached(self, step: str, moment: str, what: str = "") -> None:
        if (step, moment) == self._at:
            raise OSError("the driver ends here")


def cut_of(folder: Path, which: int | datetime | None = None) -> penstock.AtCut:
    return penstock.at_cut(folder / "into", "latest" if which is None else which)


def test_cuts_of_a_table_that_was_made_again_are_too_old(tmp_path: Path) -> None:
    with shop(tmp_path) as source:
        source.send(("a", 1, 1), ("b", 1, 1))
        synced(tmp_path)
        source.send(("a", 1, 2))
        synced(tmp_path)
        shutil.rmtree(tmp_path / "into" / "a")
        source.send(("a", 1, 3))
        synced(tmp_path)
        source.send(("a", 1, 4))
        synced(tmp_path)
    for number in (1, 2):
        with pytest.raises(CutTooOld, match="no longer there") as error:
            cut_of(tmp_path, number)["a"]
        assert error.value.hint == "the table was deleted and made again"
        assert str(error.value.expected).startswith("cut 3 or later")
        assert rows(cut_of(tmp_path, number), "b") == {1: 1}
    assert [rows(cut_of(tmp_path, number), "a") for number in (3, 4)] == [{1: 3}, {1: 4}]


@pytest.mark.parametrize(
    ("step", "moment"),
    [
        ("create", "after"),
        ("merge", "after"),
        ("progress", "before"),
        ("progress", "after"),
        ("cut", "before"),
        ("cut", "after"),
    ],
)
@pytest.mark.parametrize("cuts", [True, pytest.param(False, marks=pytest.mark.thorough)])
def test_a_driver_that_ends_while_a_table_is_made_again(tmp_path: Path, step: str, moment: str, cuts: bool) -> None:
    """The new table gets as many commits as the old one had, in fewer versions: only its id tells them apart."""
    with shop(tmp_path) as source:
        for number in range(1, 6):
            if number == 5:
                DeltaTable(str(tmp_path / "into" / "a")).optimize.z_order(["id"])
            source.send(("a", 1, number), ("b", 1, number))
            synced(tmp_path)
        shutil.rmtree(tmp_path / "into" / "a")
        with suppress(OSError):
            synced(tmp_path, steps=Ends(step, moment), max_events=1, cuts=cuts)
        source.send(("b", 1, 6))
        for _ in range(2):
            synced(tmp_path, max_events=1)
    assert DeltaTable(str(tmp_path / "into" / "a")).to_pyarrow_table()["v"].to_pylist() == [5]
    assert {table: rows(cut_of(tmp_path), table) for table in ("a", "b")} == {"a": {1: 5}, "b": {1: 6}}


def test_a_driver_that_ends_before_it_has_kept_anything(tmp_path: Path) -> None:
    """All is one batch, so the target is there before the batch's record is."""
    with shop(tmp_path) as source:
        source.send(("a", 1, 1), ("a", 2, 1))
        synced(tmp_path)
        shutil.rmtree(tmp_path / "into" / "a")
        with pytest.raises(OSError, match="ends here"):
            synced(tmp_path, steps=Ends("create", "after"))
        source.send(("a", 1, 2))
        synced(tmp_path)
    assert rows(cut_of(tmp_path), "a") == {1: 2, 2: 1}


@pytest.mark.parametrize(("step", "moment"), [("merge", "after"), ("progress", "after"), ("cut", "before")])
def test_a_time_counts_changes_of_a_driver_that_ended_before_its_cut(tmp_path: Path, step: str, moment: str) -> None:
    with shop(tmp_path) as source:
        source.send(("a", 1, 1))
        synced(tmp_path)
        source.send(("a", 1, 2))
        with pytest.raises(OSError, match="ends here"):
            synced(tmp_path, steps=Ends(step, moment))
        synced(tmp_path)
    assert cut_of(tmp_path).cut.source_us == 864_000
    assert rows(cut_of(tmp_path), "a") == {1: 2}
    assert rows(cut_of(tmp_path, datetime.fromtimestamp(0.8, UTC)), "a") == {1: 1}


def test_a_version_without_its_table_s_id_is_damaged(tmp_path: Path) -> None:
    with shop(tmp_path) as source:
        source.send(("a", 1, 1))
        synced(tmp_path)
    (path,) = (tmp_path / "into" / "_cuts").glob("*/*.json")
    (cut,) = kept_cuts(str(tmp_path / "into")).cuts
    data = path.read_bytes()
    with pytest.raises(DataDamaged, match="no id of a"):
        decode(data.replace(f'"a":"{cut.tables["a"].table}"'.encode(), b""), where="there")
