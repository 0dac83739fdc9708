"""Captures that are killed again and again, on servers that crash, beneath writers that never rest: nothing is lost, nothing doubled."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.cdc.kill_campaign import SOURCES
from tests.cdc.killing import KillRun, killed_at, running

pytestmark = [pytest.mark.processes, pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.mark.parametrize(
    ("kind", "points"),
    [
        pytest.param("mariadb", ["batch sent:3"], marks=pytest.mark.mariadb),
        pytest.param("mongodb", ["chunk sent:2", "batch sent:3"], marks=[pytest.mark.mongodb, pytest.mark.thorough]),
    ],
)
def test_nothing_is_lost_or_doubled(kind: str, points: list[str], tmp_path: Path) -> None:
    with SOURCES[kind](None) as source, running(source, tmp_path, random.Random(1)) as run:
        for point in points:
            run.die_at(point)


@pytest.mark.thorough
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=getattr(pytest.mark, kind)) for kind in ("postgres", "mariadb", "mongodb")]
)
def test_nothing_is_lost_or_doubled_wherever_it_is_killed(kind: str, tmp_path: Path) -> None:
    with SOURCES[kind](None) as source:
        then = [lambda run: run.crash_server(*source.crashes), KillRun.die_anywhere]
        killed = killed_at(source, tmp_path, random.Random(2), then)
    of_capture = {point.partition(":")[0] for point in (*source.begins_at, *source.points)}
    of_server = {f"any moment, by {how.name}" for how in source.crashes}
    assert killed.keys() == {("capture", point) for point in (*of_capture, "any moment")} | {
        ("server", point) for point in of_server
    }
