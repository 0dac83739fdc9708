"""`make demo-gateway` as users run it, and what its verdict counts."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.tree import ROOT

SCRIPT = ROOT / "examples" / "gateway" / "demo.py"
RUN_S = 300.0


@pytest.fixture(scope="module")
def demo() -> dict[str, Any]:
    return runpy.run_path(str(SCRIPT))


def test_a_group_is_out_of_order_where_a_number_comes_first_behind_a_later_one(demo: dict[str, Any]) -> None:
    group_of = {0: "a", 1: "a", 2: "b", 3: "a", 4: "b"}
    assert demo["out_of_order"]([0, 2, 1, 4, 3], group_of) == set()
    assert demo["out_of_order"]([0, 1, 3, 1, 2, 4], group_of) == set(), "once more is not out of order"
    assert demo["out_of_order"]([0, 3, 1, 4, 2], group_of) == {"a", "b"}


def test_a_message_that_begins_before_the_one_ahead_is_done_is_counted(demo: dict[str, Any]) -> None:
    done = demo["Done"]
    group_of = {0: "a", 1: "a", 2: "b"}
    others = {0: done("x", 0, 0, 10), 2: done("x", 2, 5, 6)}
    assert demo["overlapping"]({**others, 1: done("y", 1, 10, 11)}, group_of) == 0
    assert demo["overlapping"]({**others, 1: done("y", 1, 9, 11)}, group_of) == 1


def test_the_orders_are_real_and_each_is_a_message_group(demo: dict[str, Any]) -> None:
    orders = list(demo["real_orders"](5))
    assert [one.number for one in orders] == list(range(len(orders)))
    assert len({one.group for one in orders}) == 5
    assert {one.tag for one in orders} == {"orders", "order_items"}


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.java_sdk
@pytest.mark.python_sdk
@pytest.mark.timeout(RUN_S)
def test_the_sdks_go_on_at_another_gateway(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "examples.gateway.demo", "--orders", "25", "--lake", str(tmp_path / "lake")]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    run = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=RUN_S, env=environment, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    for told in (
        "two gateways serve",
        "is killed",
        "goes on at the other gateway",
        "Nothing is lost, and every order is in order.",
    ):
        assert told in run.stdout
    assert re.search(r"dead letters +0\n", run.stdout)
    assert [one for one in tmp_path.iterdir() if one.name != "lake"] == [], "logs are left after a good end"
    running = [" ".join(one.info["cmdline"] or ()) for one in psutil.process_iter(["cmdline"])]
    left = [one for one in running if str(tmp_path) in one]
    assert left == [], "processes are left"
