"""Eight producer processes and two of maintenance, killed and paused at random while readers watch.

    python -m tests.processes.chaos --minutes 2 --seed 7 [--store local|versitygw]

What is done to whom follows from the seed; when, from the progress that the journals show. So a seed does not repeat a run to the
letter, and does repeat its kind.
"""

from __future__ import annotations

import argparse
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import penstock
from tests.processes.check import Row, Verdict, check
from tests.processes.worker import TOPIC, Job, read_journal, start_argument
from tests.servers import die_with_parent, versitygw_server
from tests.tree import ROOT
from tests.waiting import wait_until

PRODUCERS = 8
NAMED = 4
MAINTAINERS = 2
QUEUES = 6
STEP_BYTES = 6_000
"""Of journals, between two things that are done."""
PATIENCE_S = 240.0


@dataclass
class Process:
    """A place in the run, and the process that fills it now."""

    name: str
    job: Job
    errors: Path
    running: subprocess.Popen[bytes] | None = None
    paused: list[subprocess.Popen[bytes]] = field(default_factory=list)
    replaced: list[subprocess.Popen[bytes]] = field(default_factory=list)
    """Those whose name a newer instance took while they were paused: they go on, to learn it."""

    @property
    def all(self) -> list[subprocess.Popen[bytes]]:
        """Every process of this place that may be alive."""
        return [*self.replaced, *([self.running] if self.running else [])]

    def start(self) -> None:
        with self.errors.open("ab") as errors:
            self.running = subprocess.Popen([*die_with_parent(), *start_argument(self.job)], cwd=ROOT, stdout=errors, stderr=errors)

    def revive(self) -> None:
        """Start again if it has ended, as a fenced producer does."""
        if self.running is None or self.running.poll() is not None:
            self.start()


class Chaos:
    """One run."""

    def __init__(self, folder: Path, url: str, options: dict[str, str], seed: int) -> None:
        self.url, self.options = url, options
        self.chance = random.Random(seed)
        self.done: Counter[str] = Counter()
        self.processes = [
            self._process(folder, number, f"loader-{number}" if number < NAMED else "") for number in range(PRODUCERS)
        ] + [
            Process(f"maintenance-{n}", Job(url=url, options=options), folder / f"maintenance-{n}.err") for n in range(MAINTAINERS)
        ]
        self.names = [one.job.name for one in self.processes if one.job.name]

    def _process(self, folder: Path, number: int, name: str) -> Process:
        journal = str(folder / f"journal-{number}")
        job = Job(url=self.url, options=self.options, name=name, journal=journal, seed=self.chance.getrandbits(32))
        return Process(name or f"unnamed-{number}", job, folder / f"producer-{number}.err")

    def journal_bytes(self) -> int:
        paths = [Path(one.job.journal) for one in self.processes if one.job.journal]
        return sum(path.stat().st_size for path in paths if path.exists())

    def run(self, seconds: float, deeds: int) -> None:
        """For so long, and longer where the machine is slow: until so much was done."""
        until_s = time.monotonic() + seconds
        for one in self.processes:
            one.start()
        progress = self._progress(0)
        while time.monotonic() < until_s or self.done.total() < deeds:
            self._do_something()
            progress = self._progress(progress)
        self._end()

    def _progress(self, before: int) -> int:
        wait_until(lambda: self.journal_bytes() >= before + STEP_BYTES, "the producers get on", timeout_s=PATIENCE_S)
        return self.journal_bytes()

    def _do_something(self) -> None:
        one = self.chance.choice(self.processes)
        what = self.chance.choice(["kill", "kill", "pause", "pause", "replace"])
        if what == "replace" and not one.job.name:
            what = "kill"
        for other in self.processes:
            self._resume(other)
            other.revive()
        process = one.running
        if process is None:
            return
        self.done[what] += 1
        if what == "kill":
            process.kill()
            process.wait()
            one.start()
            return
        process.send_signal(signal.SIGSTOP)
        one.paused.append(process)
        if what == "replace":  # a second instance of the name, while the first is paused amid whatever it does
            one.start()

    def _resume(self, one: Process) -> None:
        for process in one.paused:
            process.send_signal(signal.SIGCONT)
            if process is not one.running:
                one.replaced.append(process)
        one.paused.clear()

    def _end(self) -> None:
        for one in self.processes:
            self._resume(one)
            for process in one.all:
                process.send_signal(signal.SIGTERM)
        for one in self.processes:
            for process in one.all:
                process.wait(PATIENCE_S)

    def kill_all(self) -> None:
        for one in self.processes:
            for process in [*one.paused, *one.all]:
                process.kill()
                process.wait()

    def journal(self) -> Iterator[list[str]]:
        for one in self.processes:
            if one.job.journal:
                yield from read_journal(Path(one.job.journal))

    def complaints(self) -> str:
        """What processes wrote before they died of something that nobody did to them."""
        return "".join(one.errors.read_text() for one in self.processes if one.errors.exists())


class Follower:
    """Reads the topic while it is written; what it saw must be what stands there in the end."""

    def __init__(self, lake: penstock.Lake) -> None:
        self._reader = lake.reader(TOPIC)
        self.rows: list[Row] = []
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._follow)
        self._thread.start()

    def _follow(self) -> None:
        try:
            for batch in self._reader.read(follow=True, columns=["queue", "offset", "body", "message_group"]):
                self.rows += rows_of(batch.to_pylist())
        except penstock.PenstockError as error:
            self.error = error

    def close(self) -> None:
        self._reader.close()
        self._thread.join()


def rows_of(values: list[dict[str, object]]) -> list[Row]:
    return [Row(int(str(v["queue"])), int(str(v["offset"])), bytes(v["body"]).decode(), str(v["message_group"])) for v in values]  # type: ignore[call-overload]


def run(
    url: str, options: dict[str, str], folder: Path, *, seed: int, seconds: float, deeds: int = 0
) -> tuple[Verdict, Counter[str]]:
    """One run on an empty place, and what its check found."""
    with penstock.connect(url, options=options, maintenance=False) as lake:
        lake.create_topic(TOPIC, message_type="FIFO", queues=QUEUES)
        chaos = Chaos(folder, url, options, seed)
        follower = Follower(lake)
        try:
            chaos.run(seconds, deeds)
            wanted = sum(end for _, end in lake.reader(TOPIC).offsets().values())
            wait_until(lambda: len(follower.rows) >= wanted or follower.error, "the follower catches up", timeout_s=PATIENCE_S)
        finally:
            chaos.kill_all()
            follower.close()
        table = lake.reader(TOPIC).to_arrow(columns=["queue", "offset", "body", "message_group"])
    rows = rows_of(table.to_pylist())
    verdict = check(rows, chaos.journal(), chaos.names, QUEUES)
    if follower.error is not None:
        verdict.problems.append(f"the follower ended with {follower.error}")
    for queue in range(QUEUES):
        if [row for row in follower.rows if row.queue == queue] != [row for row in rows if row.queue == queue]:
            verdict.problems.append(f"the follower saw something else in queue {queue}")
    if complaints := chaos.complaints():
        verdict.problems.append(f"processes complained:\n{complaints[-3000:]}")
    return verdict, chaos.done


@contextmanager
def place(kind: str, folder: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """An empty lake's URL and options."""
    with ExitStack() as stack:
        if kind == "local":
            yield str(folder / "lake"), {}
        else:
            server = stack.enter_context(versitygw_server(folder / "server"))
            yield server.url("lake"), server.credentials


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=2)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--store", choices=["local", "versitygw"], action="append")
    chosen = parser.parse_args()
    seed = random.SystemRandom().randrange(10**6) if chosen.seed is None else chosen.seed
    failed = False
    kinds = chosen.store or ["local", "versitygw"]
    for kind in kinds:
        print(f"replay: python -m tests.processes.chaos --minutes {chosen.minutes:g} --seed {seed} --store {kind}", flush=True)
        with tempfile.TemporaryDirectory() as name, place(kind, Path(name)) as (url, options):
            verdict, done = run(url, options, Path(name), seed=seed, seconds=60 * chosen.minutes / len(kinds))
        print(
            f"{kind}: {verdict.acknowledged} acknowledged, {verdict.not_written} not written, without an answer "
            f"{verdict.unknown_in} in the log and {verdict.unknown_out} not; done: {dict(done)}"
        )
        for problem in verdict.problems[:20]:
            print(f"  WRONG: {problem}")
        failed |= bool(verdict.problems)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
