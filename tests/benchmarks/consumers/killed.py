"""Real processes on local files, cells in SQLite: how long queues stand still when a worker leaves, joins, and is killed.

As in `takeovers`, which shows the same in virtual time on S3: three workers share 12 queues, each of which gets 10 messages a second. What each
handles it writes down with the machine's monotonic clock.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

import penstock
from penstock.coordinator.workers.lease import LEASE_S, MARGIN
from tests.benchmarks.consumers.takeovers import Event
from tests.benchmarks.figures import Figure, Options
from tests.benchmarks.rows import BODY
from tests.benchmarks.topics import TOPIC

QUEUES = 12
WORKERS = 3
_GROUPS = 600
_PERIOD_S = 0.1
_PATIENCE_S = 60.0
_BUSY_S = 1.0
_STEADY_S = 2.0


class Handled(NamedTuple):
    """A handler's run."""

    worker: str
    queue: int
    offset: int
    from_s: float
    until_s: float


def measure(options: Options) -> Iterator[Figure]:
    queues, workers = (4, 2) if options.small else (QUEUES, WORKERS)
    events = (Event.LEAVE,) if options.small else tuple(Event)
    runs = [_run(queues, workers, events) for _ in range(min(3, options.repeats))]
    for event in events:
        pauses = [pause for run in runs for pause in run[event]]
        target = LEASE_S * (1 + MARGIN) + 1 if event is Event.KILL else 1.0
        what = f"{event.value}, real processes"
        yield Figure(name=f"{what}, a queue's pause", unit="s", values=pauses, note=f"{len(pauses)} queues in {len(runs)} runs")
        yield Figure(name=f"{what}, the worst queue's", unit="s", values=[max(pauses)], target=None if options.small else target)


def _run(queues: int, workers: int, events: tuple[Event, ...]) -> dict[Event, list[float]]:
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        stage = _Stage(Path(folder), queues)
        try:
            for _ in range(workers):
                stage.start_worker()
            stage.wait_until_shared()
            found = {}
            if Event.LEAVE in events:
                found[Event.LEAVE] = stage.leave()
            if Event.JOIN in events:
                found[Event.JOIN] = stage.join()
            stage.check_nothing_ran_twice()
            if Event.KILL in events:
                found[Event.KILL] = stage.kill()
            return found
        finally:
            stage.end()


class _Worker(NamedTuple):
    name: str
    process: multiprocessing.process.BaseProcess
    line: Connection


class _Stage:
    """A lake, a producer in a thread, and worker processes that come and go."""

    def __init__(self, folder: Path, queues: int) -> None:
        self.folder = folder
        self.queues = queues
        self.root = folder / "lake"
        self.workers: list[_Worker] = []
        self._count = 0
        self._stop = threading.Event()
        with penstock.connect(self.root, maintenance=False) as lake:
            lake.create_topic(TOPIC, message_type="FIFO", queues=queues)
        self._producing = threading.Thread(target=self._produce)
        self._producing.start()

    def start_worker(self) -> _Worker:
        spawn = multiprocessing.get_context("spawn")
        ours, theirs = spawn.Pipe()
        name = f"worker-{self._count}"
        self._count += 1
        process = spawn.Process(target=_work, args=(str(self.root), str(self.folder / f"{name}.log"), theirs), daemon=True)
        process.start()
        theirs.close()
        worker = _Worker(name, process, ours)
        self.workers.append(worker)
        return worker

    def leave(self) -> list[float]:
        worker = self.workers.pop(0)
        owned = self.queues_of(worker.name)
        worker.line.send("leave")
        worker.process.join(_PATIENCE_S)
        return [self._pause_s(queue, worker.name) for queue in owned]

    def join(self) -> list[float]:
        before = {queue: worker.name for worker in self.workers for queue in self.queues_of(worker.name)}
        joiner = self.start_worker()
        self.wait_until_shared()
        return [self._pause_s(queue, before[queue]) for queue in self.queues_of(joiner.name)]

    def kill(self) -> list[float]:
        worker = self.workers.pop(0)
        owned = self.queues_of(worker.name)
        assert worker.process.pid is not None, "it was started"
        died_s = time.monotonic()
        os.kill(worker.process.pid, signal.SIGKILL)
        worker.process.join(_PATIENCE_S)
        return [self._first(queue, worker.name, died_s).from_s - died_s for queue in owned]

    def end(self) -> None:
        self._stop.set()
        self._producing.join()
        for worker in self.workers:
            worker.line.send("leave")
        for worker in self.workers:
            worker.process.join(_PATIENCE_S)

    def wait_until_shared(self) -> None:
        """Each has its share, and has been handling messages of all its queues for a while."""
        share = -(-self.queues // len(self.workers))

        def shared() -> bool:
            counts = [len(self.queues_of(worker.name)) for worker in self.workers]
            return sum(counts) == self.queues and max(counts) <= share

        _wait(shared, "all queues are shared")
        time.sleep(_STEADY_S)

    def queues_of(self, worker: str) -> list[int]:
        """Where it was the last to handle a message, just now."""
        since_s = time.monotonic() - _BUSY_S
        last: dict[int, Handled] = {}
        for run in self._handled():
            if run.queue not in last or run.until_s > last[run.queue].until_s:
                last[run.queue] = run
        return [queue for queue, run in last.items() if run.worker == worker and run.until_s > since_s]

    def check_nothing_ran_twice(self) -> None:
        """As long as no worker was killed."""
        runs = [(run.queue, run.offset) for run in self._handled()]
        assert len(set(runs)) == len(runs), "a message ran twice"

    def _pause_s(self, queue: int, owner: str) -> float:
        last_s = max(run.until_s for run in self._handled() if (run.queue, run.worker) == (queue, owner))
        return max(0.0, self._first(queue, owner, last_s).from_s - last_s)

    def _first(self, queue: int, owner: str, from_s: float) -> Handled:
        """The first handler of a queue that another than ``owner`` ran since then."""

        def found() -> list[Handled]:
            return [run for run in self._handled() if run.queue == queue and run.worker != owner and run.from_s >= from_s]

        _wait(found, f"somebody else handles messages of queue {queue}")
        return min(found(), key=lambda run: run.from_s)

    def _handled(self) -> list[Handled]:
        found = []
        for file in self.folder.glob("*.log"):
            for line in file.read_text().splitlines():
                queue, offset, from_s, until_s = line.split()
                found.append(Handled(file.stem, int(queue), int(offset), float(from_s), float(until_s)))
        return found

    def _produce(self) -> None:
        with penstock.connect(self.root, maintenance=False) as lake, lake.producer(TOPIC) as producer:
            number = 0
            while not self._stop.wait(_PERIOD_S):
                for _ in range(self.queues):
                    producer.send(penstock.Message(BODY, f"group-{number * 7919 % _GROUPS}"))
                    number += 1


def _work(root: str, log: str, line: Connection) -> None:
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def handle(message: penstock.MessageView) -> penstock.ConsumeResult:
        from_s = time.monotonic()
        time.sleep(0.02 + message.offset % 7 * 0.01)
        os.write(file, f"{message.queue} {message.offset} {from_s} {time.monotonic()}\n".encode())
        return penstock.ConsumeResult.SUCCESS

    with penstock.connect(root, maintenance=False) as lake, lake.push_consumer(TOPIC, group="workers", listener=handle):
        line.recv()


def _wait(condition: Callable[[], object], what: str) -> None:
    deadline_s = time.monotonic() + _PATIENCE_S
    while not condition():
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"not within {_PATIENCE_S:g} s: {what}")
        time.sleep(0.05)
