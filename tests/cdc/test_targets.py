from __future__ import annotations

import json

from tests.cdc.applied import Memory
from tests.cdc.reference import Message


def test_events_with_positions_count_after_a_truncate_without_one() -> None:
    """As when a connector's transaction metadata is switched on later, or a transaction has more events than positions have numbers."""

    def message(offset: int, op: str, key: dict[str, int] | None, position: int | None) -> Message:
        source = {"connector": "mysql", "db": "shop", "table": "t"}
        place = {} if position is None else {"file": "binlog.1", "pos": position, "row": 0}
        value = {"op": op, "before": None, "after": key, "source": {**source, **place}}
        return Message(0, offset, json.dumps({"key": key, "value": value}).encode())

    tables = Memory()
    for one in (message(0, "c", {"id": 1}, 5), message(1, "t", None, None), message(2, "c", {"id": 2}, 9)):
        tables.apply([one])
    assert tables.rows()["t"].keys() == {(2,)}
