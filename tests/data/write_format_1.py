"""Writes the fixture ``format-1.zip``: a small lake with every kind of object, and what must be read from it.

    python -m tests.data.write_format_1 tests/data/format-1.zip

Run once, by the version that introduced the format. A change that makes a new fixture necessary is a new format.
"""

from __future__ import annotations

import json
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa

import penstock
from penstock.log.append import appender
from penstock.log.format.header import Action, CloseJob
from penstock.log.paths import TopicPaths
from penstock.log.produce import producer as producer_module
from penstock.log.stage import jobs
from penstock.log.table.maintenance import MaintenanceOptions, TopicMaintenance

Message = penstock.Message
_FIELDS = 13
"""The fields that a message had in this format; later ones stand behind them."""
ENTRIES = 70
"""Beyond the first checkpoint of the log, which is at 64."""


def main(target: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with penstock.connect(folder / "lake") as lake:
            write(lake)
        with penstock.connect(folder / "lake") as lake:
            expected = {topic: {"rows": rows(lake, topic), "names": names(lake, topic)} for topic in lake.topics()}
        with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
            archive.writestr("expected.json", json.dumps(expected, ensure_ascii=False))
            for path in sorted((folder / "lake").rglob("*")):
                key = str(path.relative_to(folder))
                if path.is_file() and "/.penstock/" not in key:
                    archive.write(path, key)


def write(lake: penstock.Lake) -> None:
    lake.create_topic("orders", message_type="FIFO", queues=3, retention=None, limits=penstock.TopicLimits(max_properties=5))
    lake.create_topic("%DLQ%orders", queues=1, retention=timedelta(days=30_000), retention_bytes=10**15)
    lake.create_topic("again", queues=2)
    lake.delete_topic("again")
    lake.create_topic("again", queues=1, retention=None)
    for topic in ("%DLQ%orders", "again"):
        with lake.producer(topic) as unnamed:
            unnamed.send_batch([Message(b"%d" % n) for n in range(3)])
    with lake.producer("orders", name="lader-ü", linger=timedelta(0)) as named:
        for n in range(ENTRIES):
            named.send(message(n), sequence=10 * n).result()
    send_table(lake, 300, appender, "ALONE_INLINE_TIMES", 0)  # handed over and linked
    send_table(lake, 200, producer_module, "HANDED_BYTES_MAX", 10_000)  # staged in parts and linked
    lake._portal.run(lambda: maintain(lake))
    with lake.producer("orders") as unnamed:
        for n in range(20):
            unnamed.send(message(n))


def message(n: int) -> penstock.Message:
    return Message(
        f"Körper {n}".encode(),
        message_group=f"gruppe-{n % 7}",
        tag="paid" if n % 3 else None,
        keys=[f"order-{n}", "ü"][: n % 3],
        properties={f"p{m}": "ä" * m for m in range(n % 4)},
    )


def send_table(lake: penstock.Lake, count: int, module: Any, limit: str, value: int) -> None:
    table = pa.table({"body": [b"%d" % n * 50 for n in range(count)], "message_group": [f"t{n % 9}" for n in range(count)]})
    with (
        mock.patch.object(module, limit, value),
        mock.patch.object(jobs, "PART_BYTES", 20_000),
        lake.producer("orders") as producer,
    ):
        producer.send_batch(table)


async def maintain(lake: penstock.Lake) -> None:
    """Several commits, a compaction, checkpoints of the table, a floor, a closed job."""
    topic = await lake._core.topic("orders", writable=True)
    await topic.act(CloseJob("0" * 32))

    async def append(actions: Sequence[Action]) -> None:
        await topic.act(*actions)

    options = MaintenanceOptions(commit_bytes=200_000, compact_fan_in=2, checkpoint_versions=2)
    maintenance = TopicMaintenance(lake._core.store, TopicPaths.of("orders"), topic.record, lake._core.runtime, append, options)
    for _ in range(3):
        done = await maintenance.run_once()
        assert not done.errors, done.errors
        await topic.act(CloseJob("1" * 32))


def rows(lake: penstock.Lake, topic: str) -> list[list[Any]]:
    """All that a message says, in JSON's words."""
    found = sorted(lake.reader(topic).messages(), key=lambda one: (one.queue, one.offset))
    return [[part.hex() if isinstance(part, bytes) else plain(part) for part in one[:_FIELDS]] for one in found]


def plain(value: Any) -> Any:
    return (
        value
        if value is None or isinstance(value, int | str | dict)
        else list(value)
        if isinstance(value, tuple)
        else value.isoformat()
    )


def names(lake: penstock.Lake, topic: str) -> dict[str, int]:
    return lake.describe_topic(topic).named_producers


if __name__ == "__main__":
    main(Path(sys.argv[1]))
