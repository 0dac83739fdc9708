"""A tiny capture in the form of the shipped one, the dumps that go with it, and a plain-Python run of producing and applying it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from examples.demo.checks.capture import Dump, Row, event_of
from examples.demo.checks.check_stream import Stored
from penstock.log.message.routing import queue_of

QUEUES = 4


def event(commit: int, order: int, table: str, op: str, key: Row, rest: Row | None = None) -> bytes:
    """One line of a capture; ``commit`` is the commit's LSN, ``order`` the event's number within its transaction."""
    row = None if rest is None else {**key, **rest}
    source = {
        "connector": "postgresql",
        "db": "shop",
        "schema": "public",
        "table": table,
        "txId": commit,
        # Transactions overlap: an event's own LSN says nothing of the order of commits.
        "sequence": json.dumps([str(commit * 1000), str(99_000 - commit * 1000 + order)]),
    }
    value = {
        "before": {**key} if op == "d" else None,
        "after": row,
        "source": source,
        "op": op,
        "transaction": {"id": f"{commit}:{commit * 1000}", "total_order": order},
    }
    return json.dumps({"topic": f"shop.public.{table}", "key": key, "value": value}, ensure_ascii=False).encode()


def _paid(amount: str, second: int, note: str | None = None) -> Row:
    return {"amount": amount, "paid_at": f"2026-11-20 12:00:{second:02}.5+00", "note": note}


CAPTURE = [
    event(1, 1, "bills", "c", {"id": 1}, _paid("1.00", 1)),
    event(1, 2, "lines", "c", {"id": 1, "line": 1}, {"count": 3}),
    event(1, 3, "lines", "c", {"id": 1, "line": 2}, {"count": 4}),
    event(2, 1, "bills", "c", {"id": 2}, _paid("2.50", 2, "zwölf, “quoted”")),
    event(3, 1, "bills", "u", {"id": 1}, _paid("1.10", 3)),
    event(4, 1, "lines", "u", {"id": 1, "line": 1}, {"count": 5}),
    event(5, 1, "bills", "u", {"id": 2}, _paid("3.00", 4, None)),
    event(6, 1, "bills", "u", {"id": 1}, _paid("7.75", 5, "last")),
    event(6, 2, "lines", "d", {"id": 1, "line": 2}),
    event(7, 1, "bills", "c", {"id": 3}, _paid("0.01", 6)),
    event(8, 1, "bills", "d", {"id": 3}),
]
TABLES = ("bills", "lines")
DUMPS = {
    "bills.csv": "id,amount,paid_at,note\n1,7.75,2026-11-20 12:00:05.5+00,last\n2,3.00,2026-11-20 12:00:04.5+00,\n",
    "lines.csv": "id,line,count\n1,1,5\n",
}
PAIRS = [
    (first, second)
    for second in range(len(CAPTURE))
    for first in range(second)
    if event_of(CAPTURE[first]).row == event_of(CAPTURE[second]).row
]
"""Indexes of two events of one row."""


def dropped(index: int) -> list[bytes]:
    return [*CAPTURE[:index], *CAPTURE[index + 1 :]]


def doubled(index: int) -> list[bytes]:
    return [*CAPTURE[: index + 1], *CAPTURE[index:]]


def swapped(first: int, second: int) -> list[bytes]:
    lines = list(CAPTURE)
    lines[first], lines[second] = lines[second], lines[first]
    return lines


def produce(lines: Iterable[bytes], queues: int = QUEUES) -> list[Stored]:
    """What a topic holds after the lines were sent in this order."""
    ends: Counter[int] = Counter()
    stored = []
    for line in lines:
        sent = event_of(line)
        queue = queue_of("-".join(sent.row), queues)
        stored.append(Stored(queue, ends[queue], sent))
        ends[queue] += 1
    return sorted(stored, key=lambda message: (message.queue, message.offset))


def apply(stored: Sequence[Stored]) -> dict[str, list[Row]]:
    """What the target tables hold after these messages were applied, in values as Delta has them."""
    last: dict[tuple[str, str], Row | None] = {}
    for message in stored:
        last[message.event.row] = json.loads(message.event.body)["value"]["after"]
    tables: dict[str, list[Row]] = {table: [] for table, _ in last}
    for (table, _), row in last.items():
        if row is not None:
            tables[table].append({name: _typed(name, value) for name, value in row.items()})
    return tables


def _typed(name: str, value: Any) -> Any:
    if name.endswith("_at"):
        return datetime.fromisoformat(value)
    return Decimal(value) if name in {"amount", "price", "balance"} else value


def dumps_of(texts: dict[str, str]) -> list[Dump]:
    """The dumps, parsed by hand: nothing is quoted in them."""
    parsed = []
    for name, text in sorted(texts.items()):
        header, *lines = [line.split(",") for line in text.splitlines()]
        parsed.append(
            Dump(name.removesuffix(".csv"), [{c: v or None for c, v in zip(header, line, strict=True)} for line in lines])
        )
    return parsed
