"""A few kills of the campaigns that `make chaos` and `make sync-soak` run for long."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.processes.syncing.soak import Soak
from tests.processes.syncing.syncs import Syncs
from tests.processes.syncing.tables import Database


@pytest.mark.thorough
@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_sync_and_its_producer_are_killed_and_every_row_is_as_the_judge_says(tmp_path: Path) -> None:
    syncs = Syncs(tmp_path, kills=2, spark=0, chance=random.Random(1))
    syncs.run()
    assert sum(count for (process, _), count in syncs.killed.items() if process == "driver, deltalake") == syncs.checks == 2


@pytest.mark.thorough
@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_sync_of_many_tables_is_killed_and_ends_equal_to_its_source(tmp_path: Path) -> None:
    soak = Soak(tmp_path, seed=3, tables=12, rate=200, between_s=(2.0, 6.0))
    soak.run(20)
    assert soak.killed
    assert soak.changes
    assert soak.compared


def test_a_generated_database_follows_from_its_seed() -> None:
    """So that a producer which begins again goes on with it, and the judge knows its rows."""
    whole, again = Database(5, 10), Database(5, 10)
    told = [whole.change() for _ in range(3_000)]
    assert told == [again.change() for _ in range(3_000)]
    assert {one["value"]["op"] for one in told} == {"u", "c", "d", "t"}
    assert whole.unfit == sum(one["value"]["op"] == "c" for one in told) > 0
    moves = [one for one in told if one["value"]["op"] == "u" and one["value"]["before"]]
    assert moves
    assert {name[:6] for name in whole.targets()} >= {"sales_", "t1"}
