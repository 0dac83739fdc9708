"""A test that ends its worker fails alone, and the run goes on to its end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from xdist.remote import Producer

from tests.scheduling import Scheduling
from tests.tree import ROOT

CONFTEST = """
from tests.scheduling import Scheduling

def pytest_xdist_make_scheduler(config, log):
    return Scheduling(config, log, lambda test, file: file)
"""
FINE = "def test_fine(): pass\ndef test_as_fine(): pass\n"
FATAL = "import os\ndef test_fine(): pass\ndef test_fatal(): os._exit(3)\ndef test_behind(): pass\n"


def test_a_test_that_ends_its_worker_fails_and_the_others_run(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    for number in range(12):
        (tmp_path / f"test_{number:02}.py").write_text(FATAL if number == 5 else FINE)
    environment = {name: value for name, value in os.environ.items() if name != "CI" and not name.startswith("PYTEST")}
    command = [sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(tmp_path)]
    run = subprocess.run(
        [*command, "-p", "no:cacheprovider", "-n", "2", "--dist", "loadfile", "--no-loadscope-reorder", str(tmp_path)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert "1 failed, 24 passed" in run.stdout, run.stdout
    assert "crashed while running 'test_05.py::test_fatal'" in run.stdout


class _Worker:
    """What a schedule sees of one; ``ended``: its channel is closed, and nothing else tells it yet."""

    shutting_down = False
    gateway = SimpleNamespace(id="worker")

    def __init__(self) -> None:
        self.ended, self.given = False, list[int]()

    def send_runtest_some(self, indices: list[int]) -> None:
        if self.ended:
            raise OSError("cannot send (already closed?)")
        self.given += indices

    def shutdown(self) -> None:
        self.shutting_down = True


def test_work_for_a_worker_whose_end_is_not_told_yet_goes_to_the_others() -> None:
    collection = [f"test_{number}.py::test_{name}" for number in range(9) for name in "ab"]
    config: Any = SimpleNamespace(option=SimpleNamespace(loadscopereorder=False), getvalue=lambda _: ["popen", "popen"])
    schedule = Scheduling(config, Producer("test", enabled=False), lambda _, file: file)
    fatal, other = _Worker(), _Worker()
    for worker in (fatal, other):
        schedule.add_node(worker)
        schedule.add_node_collection(worker, collection)
    schedule.schedule()
    done = fatal.given[:2]
    schedule.mark_test_complete(fatal, done[0])
    fatal.ended = True
    schedule.mark_test_complete(fatal, done[1])
    running = fatal.given[2]
    assert schedule.remove_node(fatal) == collection[running]
    for index in other.given:
        schedule.mark_test_complete(other, index)
    assert sorted([*done, running, *other.given]) == list(range(len(collection)))
    assert schedule.assigned_work == {other: {}}, "what is done is counted again for each test"
