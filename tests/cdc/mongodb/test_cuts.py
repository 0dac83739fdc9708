"""Cuts of a MongoDB: all collections as of one transaction, beneath kills."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.cdc.mongodb.cutting import play
from tests.thorough import thoroughly

pytestmark = [pytest.mark.mongodb, pytest.mark.processes, pytest.mark.slow, pytest.mark.timeout(900)]


def test_each_cut_equals_the_source(tmp_path: Path) -> None:
    cuts = thoroughly(8, 4)
    seen = play(tmp_path, random.Random(3), cuts=cuts, rounds=thoroughly(2, 1), draw=cuts)
    assert seen.checked >= cuts
    assert seen.transactions > 5
