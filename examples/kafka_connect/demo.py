"""The story: a shop opens, Debezium captures it while gateways and workers are killed, it closes, and every row is compared."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import penstock
from examples.live import lake as lakes
from examples.live.books import TABLES, differences
from examples.live.errors import DemoFailedError
from examples.live.postgres import Postgres, free_port
from examples.live.processes import PENSTOCK, Service
from examples.live.shop import TILLS, Sales, build, trade

from .connect import CONNECT, DEBEZIUM, ConnectWorker, connector

PATIENCE_S = 240.0
"""How long to wait for whatever should come, on a machine that is busy with other things."""
LOOK_EVERY_S = 0.2
SLOT = "debezium"
"""What Debezium calls its place in PostgreSQL's log."""


@dataclass(frozen=True)
class Comparison:
    """What a run has found."""

    transactions: int
    events: int
    repeated: int
    """Events that came once more: Connect sends at least once."""
    kills: dict[str, int]
    rows: dict[str, int]
    """Of each table at the source."""
    differences: dict[str, list[str]]
    """The rows of each table that differ from the source."""

    @property
    def well(self) -> bool:
        return any(self.rows.values()) and not any(self.differences.values())


@dataclass
class ConnectDemo:
    """One run."""

    folder: Path
    """For lake and tables."""
    scratch: Path
    """For the database, what processes log, and what they leave when they are killed."""
    transactions: int
    rate: float
    seed: int
    say: Callable[[str, str], None]
    sales: Sales = field(default_factory=Sales)

    def __post_init__(self) -> None:
        (self.scratch / "database").mkdir()
        self.source = Postgres(self.scratch / "database")
        self.lake_url, self.into = str(self.folder / "lake"), self.folder / "tables"
        ports = [free_port() for _ in range(2)]
        serve = ["--lake", self.lake_url, "gateway", "kafka", "--create-topics", "--port"]
        self.gateways = {
            port: Service.of_penstock(f"gateway-{number}", [*serve, str(port)], self.scratch)
            for number, port in enumerate(ports, 1)
        }
        at = [f"127.0.0.1:{port}" for port in ports]
        self.workers = [ConnectWorker(number, at, free_port(), self.scratch) for number in (1, 2)]
        self.sync = Service.of_penstock("sync", [*self._sync, "--interval", "500ms"], self.scratch)
        self._closed, self._tasks = threading.Event(), list[Future[None]]()

    @property
    def _sync(self) -> list[str]:
        return ["--lake", self.lake_url, "sync", lakes.TOPIC, "--into", str(self.into), "--engine", "deltalake"]

    @property
    def _services(self) -> list[Service]:
        return [*self.gateways.values(), *(one.service for one in self.workers), self.sync]

    # --- The story ----------------------------------------------------------------------------------------------------------------

    def run(self) -> Comparison:
        """From the empty database to the comparison. Raises `DemoFailedError`."""
        with ExitStack() as stack:
            stack.enter_context(self.source.running())
            build(self.source, self.seed)
            self.say("✓", f"{self.source.name} has a shop of {len(TABLES)} tables")
            lake = stack.enter_context(penstock.connect(self.lake_url))
            for service in self._services:
                stack.callback(service.end)
            self._start()
            self._capture(lake)
            stack.enter_context(self._trading())
            self._kill_in_turns()
            self._wait(partial(self._has_sold, self.transactions), "the last transaction")
            self._closed.set()
            self._wait(lambda: all(till.done() for till in self._tasks), "the tills' last transactions")
            self._drain()
            return self._compared(lake)

    def _start(self) -> None:
        for gateway in self.gateways.values():
            gateway.start()
        self._wait(lambda: all(map(_is_open, self.gateways)), "a gateway that listens")
        self.say("✓", f"two gateways serve the folder {self.lake_url}; no broker runs anywhere")
        for worker in self.workers:
            worker.service.start()
        self._wait(lambda: all(worker.is_ready for worker in self.workers), "a worker that has read its topics")
        self.say("✓", f"two workers of Kafka Connect ({CONNECT.name}) share the group `connect` and its three topics")

    def _capture(self, lake: penstock.Lake) -> None:
        """Have the rows that there are in the topic, and the sync behind it."""
        settings, rows = connector(self.source.dsn), self._rows_at_source()
        self._wait(lambda: self.workers[0].configure(settings), "a worker that takes the connector")
        self._wait(lambda: lakes.events(lake) >= rows, "the rows that the shop has at first")
        self.say("✓", f"Debezium ({DEBEZIUM.name}) has sent the {rows:,} rows that there were")
        self.sync.start()
        self.say("✓", f"$ {self.sync}")

    def _kill_in_turns(self) -> None:
        """Each gateway, and the worker that has the task between them."""
        first, second = self.gateways.values()
        victims: list[Callable[[], Service]] = [lambda: first, self._working, lambda: second]
        for number, victim in enumerate(victims, 1):
            enough = self.transactions * number // (len(victims) + 1)
            self._wait(partial(self._has_sold, enough), "another transaction")
            service = victim()
            service.kill()
            killed_s, place = time.monotonic(), self.source.place()
            self.say("✗", f"kill -9: {service.name}, after {self.sales.transactions:,} transactions; it is started again")
            self._wait(partial(self._is_through, place), "a change that is newer than the kill")
            self.say("✓", f"changes go on {time.monotonic() - killed_s:.0f} s later{self._by()}")

    def _working(self) -> Service:
        """The worker that has the task."""
        found: list[ConnectWorker] = []

        def has_one() -> bool:
            state, worker_id = self._task()
            found[:] = [one for one in self.workers if one.id == worker_id]
            return state == "RUNNING" and bool(found)

        self._wait(has_one, "a worker that runs the task")
        return found[0].service

    def _by(self) -> str:
        names = [one.service.name for one in self.workers if one.id == self._task()[1]]
        return f", by {names[0]}" if names else ""

    def _drain(self) -> None:
        """Wait until all that was sold is in the tables."""
        place = self.source.place()
        with self.source.connect() as connection:
            connection.execute("INSERT INTO ledger VALUES (0, 'the shop is closed', 0)")
        entries = len(self.source.snapshot().rows["ledger"])

        def is_there() -> bool:
            newest = lakes.newest(self.into)
            return newest is not None and len(newest["ledger"]) == entries and self._is_through(place)

        self._wait(is_there, "all that was sold")
        self.say("✓", f"the shop is closed after {self.sales.transactions:,} transactions; all of them came through")

    def _compared(self, lake: penstock.Lake) -> Comparison:
        self.sync.end()
        environment = {**os.environ, "TMPDIR": str(self.scratch)}
        rest = subprocess.run([*PENSTOCK, *self._sync, "--once"], env=environment, capture_output=True, text=True, check=False)
        if rest.returncode:
            raise DemoFailedError(f"penstock sync: {rest.stderr.strip()}")
        ours, theirs = lakes.newest(self.into), self.source.snapshot().rows
        assert ours is not None, "all tables were there before"
        with lake.reader(lakes.TOPIC) as reader:
            repeated = repeats(message.body for message in reader.messages())
        return Comparison(
            transactions=self.sales.transactions,
            events=lakes.events(lake),
            repeated=repeated,
            kills={service.name: service.kills for service in self._services if service.kills},
            rows={name: len(rows) for name, rows in theirs.items()},
            differences={name: differences(name, theirs[name], ours[name]) for name in TABLES},
        )

    # --- Beside it ----------------------------------------------------------------------------------------------------------------

    @contextmanager
    def _trading(self) -> Iterator[None]:
        """The shop's tills, each in a thread."""
        with ThreadPoolExecutor(TILLS) as pool:
            self._tasks = [
                pool.submit(trade, self.source, self.sales, self._closed, number=number, rate=self.rate / TILLS, seed=self.seed)
                for number in range(TILLS)
            ]
            self.say("✓", f"the shop is open: {TILLS} tills, {self.rate:.0f} transactions a second")
            try:
                yield
            finally:
                self._closed.set()

    def _task(self) -> tuple[str, str]:
        """As the first worker says that answers."""
        return next((told for worker in self.workers if (told := worker.task()) != ("", "")), ("", ""))

    def _has_sold(self, transactions: int) -> bool:
        return self.sales.transactions >= transactions

    def _is_through(self, place: str) -> bool:
        """Whether Connect has noted as sent what Debezium read at that place of PostgreSQL's log, or later."""
        with self.source.connect() as connection:
            query = "SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = %s"
            found = connection.execute(query, (SLOT,)).fetchone()
        return found is not None and found[0] is not None and self.source.order(found[0]) >= self.source.order(place)

    def _rows_at_source(self) -> int:
        return sum(map(len, self.source.snapshot().rows.values()))

    def _wait(self, enough: Callable[[], bool], what: str) -> None:
        """Wait for something, while everything runs."""
        until_s = time.monotonic() + PATIENCE_S
        while not enough():
            for till in self._tasks:
                if till.done():
                    till.result()
            for service in self._services:
                service.check()
            if time.monotonic() > until_s:
                said = "\n".join(f"{service.name}: {service.said()}" for service in self._services)
                raise DemoFailedError(f"{what} did not come within {PATIENCE_S:.0f} s (task: {self._task()})\n{said}")
            time.sleep(LOOK_EVERY_S)


def repeats(bodies: Iterable[bytes | None]) -> int:
    """How many changes came once more: a change is known by its transaction, and its number there."""
    told = Counter[tuple[str, int]]()
    for body in bodies:
        change = json.loads(body)["payload"] if body else {}
        if change.get("source") and change["transaction"]:
            told[change["transaction"]["id"], change["transaction"]["total_order"]] += 1
    return sum(told.values()) - len(told)


def _is_open(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False
