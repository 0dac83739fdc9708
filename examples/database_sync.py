"""A worker that keeps a database equal to its source, each change applied exactly once, whatever dies.

Delivery is at least once: a worker may die between its commit and the acknowledgement, and the change comes again. So the target itself
remembers, in the transaction that applies a change, how far each row's message group is (its offset in the queue, which may be another one once
the topic got more queues), and under which ownership of the queue (its epoch). A change that comes again is passed over; a worker that was paused,
and replaced meanwhile, is refused.

    python examples/database_sync.py [LAKE]
"""

from __future__ import annotations

import itertools
import random
import sqlite3
import sys
import tempfile
import threading
from pathlib import Path

import penstock
from penstock import ConsumeResult, Message, MessageView

KEYS = 30


class Target:
    """The database to be kept equal: table ``stock``, and what was applied."""

    def __init__(self, path: Path) -> None:
        self._lock = threading.Lock()  # SQLite has one writer at a time
        self._database = sqlite3.connect(path, check_same_thread=False)
        self._database.executescript(
            "CREATE TABLE IF NOT EXISTS stock (item TEXT PRIMARY KEY, count INTEGER, changes INTEGER);"
            "CREATE TABLE IF NOT EXISTS applied (message_group TEXT, queue INTEGER, offset INTEGER, PRIMARY KEY (message_group, queue));"
            "CREATE TABLE IF NOT EXISTS owners (queue INTEGER PRIMARY KEY, epoch INTEGER);"
        )

    def apply(self, messages: list[MessageView]) -> int:
        """Apply changes and note them, in one transaction; how many of them were there already."""
        with self._lock, self._database:
            new = [message for message in messages if self._is_new(message)]
            for message in new:
                self._change(**message.json())
        return len(messages) - len(new)

    def _is_new(self, message: MessageView) -> bool:
        """Whether it was not applied before. Raises when a later owner of the queue has been here."""
        queue, epoch, offset, _ = message.fencing_token
        known = self._database.execute("SELECT epoch FROM owners WHERE queue = ?", (queue,)).fetchone()
        if known is not None and known[0] > epoch:
            raise RuntimeError(f"queue {queue} has another owner by now")
        self._database.execute("INSERT OR REPLACE INTO owners VALUES (?, ?)", (queue, epoch))
        place = (message.message_group, queue)
        last = self._database.execute("SELECT offset FROM applied WHERE message_group = ? AND queue = ?", place).fetchone()
        if last is not None and last[0] >= offset:
            return False
        self._database.execute("INSERT OR REPLACE INTO applied VALUES (?, ?, ?)", (*place, offset))
        return True

    def _change(self, item: str, kind: str, by: int) -> None:
        if kind == "delete":
            self._database.execute("DELETE FROM stock WHERE item = ?", (item,))
        else:  # adding twice, or in another order than a delete, would show
            self._database.execute(
                "INSERT INTO stock VALUES (?, ?, 1) ON CONFLICT (item) DO UPDATE SET count = count + ?, changes = changes + 1",
                (item, by, by),
            )

    def rows(self) -> dict[str, tuple[int, int]]:
        """(count, changes) by item."""
        with self._lock:
            return {item: (count, changes) for item, count, changes in self._database.execute("SELECT * FROM stock")}

    def close(self) -> None:
        """Let go of the database."""
        self._database.close()


def send_changes(lake: penstock.Lake, count: int) -> dict[str, tuple[int, int]]:
    """Changes of a source, each item's in one message group. Returns what the source looks like in the end."""
    chance, source = random.Random(11), dict[str, tuple[int, int]]()
    with lake.producer("stock", name="warehouse") as producer:
        for sequence in range(count):
            if sequence == count // 2:
                lake.alter_topic("stock", queues=8)  # items move to other queues, and begin anew there
            item, by = f"item-{chance.randrange(KEYS)}", chance.randint(-5, 9)
            kind = "delete" if chance.random() < 0.1 else "add"
            if kind == "delete":
                source.pop(item, None)
            else:
                before = source.get(item, (0, 0))
                source[item] = (before[0] + by, before[1] + 1)
            producer.send(Message.json({"item": item, "kind": kind, "by": by}, message_group=item), sequence=sequence)
    return source


def main(lake_url: str, count: int = 500) -> None:
    """Sync with a worker that fails between commit and acknowledgement, and is replaced half way."""
    with penstock.connect(lake_url) as lake, tempfile.TemporaryDirectory() as folder:
        lake.create_topic("stock", message_type="FIFO", queues=4)
        source = send_changes(lake, count)
        target = Target(Path(folder) / "target.db")
        calls, known = itertools.count(1), list[int]()
        done: set[tuple[int, int]] = set()
        half_way, all_done = threading.Event(), threading.Event()

        def listen(messages: list[MessageView]) -> ConsumeResult:
            known.append(target.apply(messages))
            if next(calls) % 3 == 0:
                raise ConnectionError("the connection broke after the commit")
            done.update((message.queue, message.offset) for message in messages)
            if len(done) >= count / 2:
                half_way.set()
            if len(done) == count:
                all_done.set()
            return ConsumeResult.SUCCESS

        with lake.push_consumer("stock", group="sync", listener=listen, delivery_order="ORDERLY", batch="queue"):
            half_way.wait()  # then a deployment: it lets handlers end, and the next worker takes over
        with lake.push_consumer("stock", group="sync", listener=listen, batch="queue"):
            all_done.wait()
        rows = target.rows()
        target.close()
        if rows != source:
            raise SystemExit("the target differs from its source")
    print(f"{count} changes, {sum(known)} delivered again, {len(rows)} rows equal to the source")


if __name__ == "__main__":
    main(sys.argv[1] if sys.argv[1:] else "memory://")
