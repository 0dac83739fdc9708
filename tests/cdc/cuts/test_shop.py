"""Cuts of a real PostgreSQL and a real MariaDB whose capture and sync are killed: `campaign` does the same for long."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.cdc.cuts.campaign import play

pytestmark = [pytest.mark.processes, pytest.mark.slow, pytest.mark.timeout(600)]
POSTGRES, MARIADB = (pytest.param(kind, marks=getattr(pytest.mark, kind)) for kind in ("postgres", "mariadb"))


@pytest.mark.parametrize("kind", [POSTGRES, MARIADB])
@pytest.mark.parametrize(("seed", "rounds", "cuts"), [(1, 1, 2), pytest.param(2, 3, 12, marks=pytest.mark.thorough)])
def test_at_each_cut_all_tables_are_as_of_one_place(tmp_path: Path, kind: str, seed: int, rounds: int, cuts: int) -> None:
    seen = play(tmp_path, random.Random(seed), cuts=cuts, rounds=rounds, looks=1, draw=50, kind=kind)
    assert seen.checked >= 3
    assert seen.with_snapshot
