"""Cuts of a MongoDB: all collections as of one transaction, beneath kills."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.cdc.mongodb.cutting import play

pytestmark = [pytest.mark.mongodb, pytest.mark.processes, pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.mark.thorough  # cuts beneath kills: `cuts/test_demo_live.py`; of MongoDB without: `test_capture.py`; its kills: `test_kills.py`
def test_each_cut_equals_the_source(tmp_path: Path) -> None:
    seen = play(tmp_path, random.Random(3), cuts=8, rounds=2, draw=8)
    assert seen.checked >= 8
    assert seen.transactions > 5
