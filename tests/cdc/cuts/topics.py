"""Topics as a capture of PostgreSQL leaves them, without one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

import penstock
from penstock import SyncOptions, SyncRun, sync
from penstock.cdc.events.stop_message import STOPPED
from penstock.cdc.postgres.positions import base_of, split
from penstock.cdc.sync.options import NO_STEPS, SyncSteps

TOPIC = "shop"
Change = tuple[str, int | None, int | None]
"""Table, key and value; without a value the row is deleted, and without a key all rows are."""


class Source:
    """Sends transactions, each 64 bytes of the log long, as one batch or in parts."""

    def __init__(self, producer: penstock.Producer) -> None:
        self._producer = producer
        self.lsn = 800

    def send(self, *changes: Change, whole: bool = True, more: bool = False) -> int:
        """The place where the transaction ends. Without ``whole`` nothing says that it does; with ``more`` it does not."""
        first = max(base_of(self.lsn), self._producer.last_sequence) + 1
        return self._send([_row(first + number, *change) for number, change in enumerate(changes)], whole=whole, more=more)

    def stop(self, *tables: str, schema: str = "public") -> int:
        """Say that tables are not captured any more."""
        first = max(base_of(self.lsn), self._producer.last_sequence) + 1
        return self._send([_row(first + number, table, None, None, schema, STOPPED) for number, table in enumerate(tables)])

    def _send(self, rows: list[dict[str, Any]], *, whole: bool = True, more: bool = False) -> int:
        end = self.lsn + 64
        self._producer.send_batch(pa.Table.from_pylist(rows), through=base_of(end) if whole and not more else None).result()
        self.lsn = self.lsn if more else end
        return end


def _row(
    position: int, table: str, key: int | None, value: int | None, schema: str = "public", said: str | None = None
) -> dict[str, Any]:
    lsn, order = split(position)
    source = {
        "connector": "postgresql",
        "db": "d",
        "schema": schema,
        "table": table,
        "ts_ms": lsn,
        "sequence": f'["{lsn}","{lsn}"]',
    }
    row = {"id": key, "v": value}
    event: dict[str, Any] = {
        "before": None if value is not None or key is None else {"id": key},
        "after": None if value is None else row,
        "op": "t" if key is None else "d" if value is None else "c",
        "source": source,
        "transaction": {"id": "1", "total_order": order},
    }
    if said is not None:
        event |= {"op": "m", "message": {"prefix": said, "content": f"{table} has no key"}}
    body = json.dumps({"key": None if key is None else {"id": key}, "value": event}).encode()
    return {"body": body, "message_group": table if key is None else f"{table}-{key}", "sequence": position}


@contextmanager
def shop(folder: Path, *, queues: int = 3, name: str = "postgres/penstock", lake_url: str | None = None) -> Iterator[Source]:
    """A topic with its capture's producer open."""
    with penstock.connect(lake_url or str(folder / "lake")) as lake:
        lake.create_topic(TOPIC, message_type="FIFO", queues=queues)
        with lake.producer(TOPIC, name=name) as producer:
            yield Source(producer)


def synced(folder: Path, *, steps: SyncSteps = NO_STEPS, **options: Any) -> SyncRun:
    """To the end of the topic, with cuts."""
    run = sync(str(folder / "lake"), TOPIC, SyncOptions(into=folder / "into", **{"cuts": True, **options}), steps=steps)
    assert run.await_termination()
    return run


def rows(found: penstock.AtCut, table: str) -> dict[int, int]:
    """Values by key."""
    read = found[table]
    return dict(zip(read["id"].to_pylist(), read["v"].to_pylist(), strict=True))


def numbers(folder: Path, names: Sequence[str] = ()) -> list[dict[str, dict[int, int]]]:
    """The rows of every cut that is kept, by table."""
    from penstock.cdc.cuts.cut_history import kept_cuts

    into = str(folder / "into")
    cuts = [penstock.at_cut(into, cut.number) for cut in kept_cuts(into).cuts]
    return [{table: rows(cut, table) for table in cut} for cut in cuts]
