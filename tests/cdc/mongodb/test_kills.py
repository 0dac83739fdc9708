"""A capture of a MongoDB that is killed again and again, on a server that crashes: nothing is lost, nothing doubled."""

from __future__ import annotations

import random
import signal
from pathlib import Path

import pytest

from tests.cdc.mongodb.killing import POINTS, running

pytestmark = [pytest.mark.mongodb, pytest.mark.processes, pytest.mark.slow, pytest.mark.timeout(900)]


def test_nothing_is_lost_or_doubled(tmp_path: Path) -> None:
    with running(tmp_path, random.Random(1)) as run:
        for point in ("chunk sent:2", "batch sent:3"):
            run.die_at(point)


@pytest.mark.thorough
def test_nothing_is_lost_or_doubled_wherever_it_is_killed(tmp_path: Path) -> None:
    with running(tmp_path, random.Random(2)) as run:
        for point in POINTS:
            run.die_at(point)
        run.crash_server(signal.SIGKILL, signal.SIGTERM)
        run.die_anywhere()
