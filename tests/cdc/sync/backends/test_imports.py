"""The sync without Spark needs neither PySpark nor Delta's package for it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cdc.sync.streams import TOPIC, event, rows, send

PROGRAM = """
import sys
for name in ("pyspark", "delta", "py4j"):
    sys.modules[name] = None  # so that importing it fails
from penstock.cdc.sync.backends.local import LocalBackend
from penstock.cdc.sync.options import SyncOptions
from penstock.cdc.sync.plan import SyncPlan
from penstock.cdc.sync.run import SyncRun
from penstock.coordinator.lakes import LakePlace
lake, topic, into = sys.argv[1:]
options = SyncOptions(into=into + "/by-the-loop", name="loop")
assert SyncRun(SyncPlan.of(LakePlace.of(lake), topic, options), LocalBackend).await_termination()
from penstock import sync
assert sync(lake, topic, SyncOptions(into=into + "/by-the-door", name="door")).await_termination()
assert not [name for name in sys.modules if name.startswith("penstock.spark")]
"""


@pytest.mark.slow
def test_a_sync_runs_where_pyspark_is_not_installed(tmp_path: Path) -> None:
    lake = str(tmp_path / "lake")
    send(lake, [event("c", "bills", {"id": 1}, {"id": 1}, at=1)], queues=1)
    subprocess.run([sys.executable, "-c", PROGRAM, lake, TOPIC, str(tmp_path)], check=True)
    assert rows(tmp_path / "by-the-loop" / "bills") == rows(tmp_path / "by-the-door" / "bills") == [{"id": 1}]
