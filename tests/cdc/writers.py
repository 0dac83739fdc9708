"""Writers that change a database side by side until they are told to stop."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Any

from tests.waiting import wait_until


class Writers:
    """Threads that write from `start` to `stop`, or within a ``with`` block."""

    def __init__(self, *, count: int, seed: int) -> None:
        self._stopped = threading.Event()
        self._failure: BaseException | None = None
        self._threads = [threading.Thread(target=self._run, args=(number, random.Random(seed + number))) for number in range(count)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Raises what has ended a writer."""
        self._stopped.set()
        for thread in self._threads:
            thread.join()
        if self._failure is not None:
            raise self._failure

    def __enter__(self) -> None:
        self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.stop()

    def _run(self, number: int, chance: random.Random) -> None:
        try:
            self._write(number, chance)
        except BaseException as error:
            self._failure = error
            raise

    def _write(self, number: int, chance: random.Random) -> None:
        """What one of them does until all are stopped."""
        raise NotImplementedError


class SqlWriters(Writers):
    """Writers with a connection each. Whoever is refused, or cut off, tries something else."""

    steps: Sequence[tuple[str, float]]
    """Statements with parameters, and how often each is chosen."""
    keys: int
    pause_s: float
    refusals: tuple[type[Exception], ...]
    """A restart, a deadlock, a key that another has taken, a table that is not there yet."""

    def __init__(self, *, count: int, seed: int) -> None:
        super().__init__(count=count, seed=seed)
        self.committed = 0
        self._lock = threading.Lock()

    def commit_more(self, transactions: int = 50) -> None:
        """Go on until so many more are committed: on a busy machine a capture may have been killed before each kind of change was made."""
        enough = self.committed + transactions
        wait_until(lambda: self._failure is not None or self.committed >= enough, "the writers get on", timeout_s=120)

    def connect(self) -> Any:
        raise NotImplementedError

    def is_open(self, connection: Any) -> bool:
        raise NotImplementedError

    def transaction(self, connection: Any, chance: random.Random) -> bool:
        """One to five steps. Returns whether they were committed."""
        raise NotImplementedError

    def _write(self, number: int, chance: random.Random) -> None:
        connection: Any = None
        try:
            while not self._stopped.wait(self.pause_s):
                try:
                    if connection is None or not self.is_open(connection):
                        connection = self.connect()
                    committed = self.transaction(connection, chance)
                except self.refusals:
                    self._close(connection)
                else:
                    with self._lock:
                        self.committed += committed
        finally:
            self._close(connection)

    def _close(self, connection: Any) -> None:
        if connection is not None and self.is_open(connection):
            connection.close()

    def step(self, cursor: Any, chance: random.Random) -> None:
        """One statement."""
        [statement] = chance.choices([step for step, _ in self.steps], [weight for _, weight in self.steps])
        values = {
            "k": chance.randrange(1, self.keys),
            "o": chance.randrange(1, self.keys),
            "n": chance.randrange(10**6),
            "few": chance.randrange(4),
            "t": f"t{chance.randrange(10**9)} 'ß'\n\t\\",
            "long": "".join(chance.choices("0123456789abcdef", k=3000)),
        }
        cursor.execute(statement, values)
