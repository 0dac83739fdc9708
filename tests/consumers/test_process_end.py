"""A program that ends, by an error of its own say, with consumers open."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Awaitable, Callable
from concurrent.futures import thread
from pathlib import Path

import pytest

from penstock.coordinator.tables.threads import TableThreads
from penstock.log.errors import ClosedError
from penstock.log.runtime.runtime import Runtime
from penstock.log.stores import LocalStore
from tests.lakes import TIMEOUT_S

_PROGRAM = """
import sys, threading

lingering = []


def linger():
    # The pools are shut down, and the main thread is alive: until the consumer has met that.
    while lingering and not lingering[0].has_ended:
        threading.Event().wait(0.01)


threading._register_atexit(linger)  # registered before the pools' own, and so called after it
import penstock
from penstock.coordinator import coordination

coordination.LEASE_S = 1.5
lake = penstock.connect(sys.argv[1])
lake.create_topic("orders", message_type="FIFO", queues=1)
heard = threading.Event()
with lake.producer("orders") as producer:
    producer.send(penstock.Message(b"paid", message_group="a"))


def listen(message):
    heard.set()
    return penstock.ConsumeResult.SUCCESS


if sys.argv[2] == "push":
    consumer = lake.push_consumer("orders", group="billing", listener=listen)
    assert heard.wait(50)
else:
    consumer = lake.simple_consumer("orders", group="billing")
    assert consumer.receive()
if "lingers" in sys.argv:
    lingering.append(consumer._core)
raise SystemExit("a mistake of the program's own")
"""


@pytest.mark.parametrize("shutdown", ["at once", "lingers"])
@pytest.mark.parametrize("kind", ["push", "simple"])
def test_a_program_that_ends_without_closing_its_lake_says_what_it_has_to_say_and_no_more(
    tmp_path: Path, kind: str, shutdown: str
) -> None:
    command = [sys.executable, "-c", _PROGRAM, str(tmp_path), kind, shutdown]
    ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=TIMEOUT_S)
    assert (ended.returncode, ended.stdout, ended.stderr) == (1, "", "a mistake of the program's own\n")


@pytest.mark.parametrize("kind", ["store", "table", "loop"])
async def test_work_that_is_refused_as_the_interpreter_shuts_down_is_told_as_the_end(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pools refuse work a moment before the main thread counts as ended."""
    store, workers = LocalStore(tmp_path), TableThreads("cells", 1, url="sqlite:///cells")
    asked: dict[str, Callable[[], Awaitable[object]]] = {
        "store": lambda: store.get("a"),
        "table": lambda: workers.run(lambda: None),
        "loop": lambda: Runtime().offload(lambda: None),
    }
    monkeypatch.setattr(thread, "_shutdown", True)
    with pytest.raises(ClosedError, match="the process ends"):
        await asked[kind]()
    monkeypatch.undo()
