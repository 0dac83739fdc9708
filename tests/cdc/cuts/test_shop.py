"""Cuts of a real PostgreSQL and a real MariaDB whose capture and sync are killed: `campaign` does the same for long.

In `make test` the same is seen of a PostgreSQL by `test_demo_live`, and of a MariaDB without kills by `debezium/test_stopped`.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.cdc.cuts.campaign import play

pytestmark = [pytest.mark.processes, pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.mark.parametrize(
    ("kind", "seed", "rounds", "cuts"),
    [
        pytest.param("mariadb", 1, 1, 2, marks=[pytest.mark.mariadb, pytest.mark.thorough]),
        pytest.param("mariadb", 2, 3, 12, marks=[pytest.mark.mariadb, pytest.mark.thorough]),
        pytest.param("postgres", 2, 3, 12, marks=[pytest.mark.postgres, pytest.mark.thorough]),
    ],
)
def test_at_each_cut_all_tables_are_as_of_one_place(tmp_path: Path, kind: str, seed: int, rounds: int, cuts: int) -> None:
    seen = play(tmp_path, random.Random(seed), cuts=cuts, rounds=rounds, looks=1, draw=50, kind=kind)
    assert seen.checked >= 3
    assert seen.with_snapshot
