"""A log that tells nothing besides rows."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

from penstock.cdc.debezium.binlog_listener import BinlogEvent
from penstock.cdc.debezium.capture import EngineOptions
from penstock.cdc.debezium.effects import Effects
from penstock.cdc.debezium.state import EngineState
from tests.cdc.capture.resources import resources_of


def effects_of(
    events: Sequence[BinlogEvent] = (),
    *,
    tables: Sequence[tuple[str, str]] = (),
    state: EngineState | None = None,
    there: int = -1,
    unread: tuple[str, int] | None = None,
    gone: Sequence[tuple[str, str]] = (),
) -> Effects:
    """The effects of what was events; of these captured tables, of which the server has some no more."""
    listener: Any = SimpleNamespace(
        events=deque(events),
        unread=unread,
        check=lambda: None,
        is_captured=lambda database, table: (database, table) in tables,
        captured=lambda: list(tables),
    )
    server: Any = SimpleNamespace(
        end=lambda: ("binlog.000009", 4),
        has=lambda joined: joined in {".".join(table) for table in tables if table not in gone},
        runs_more=lambda names: None if "hidden" in names else "told" in names,
        name_of=lambda joined: next(table for table in tables if ".".join(table) == joined),
    )
    state = state or EngineState("life", "mariadb", "7 x")
    return Effects(listener, server, state, kind="mariadb", name="penstock", there=there, now_ms=lambda: 1)


def following(producer: Any, states: Any, clock: Any, reached: Callable[[str], None] = lambda point: None) -> dict[str, Any]:
    """What a follower needs besides the engine, and whose progress nobody looks at."""
    return {
        "resources": resources_of(producer, states, clock, reached),
        "options": EngineOptions(),
        "on_progress": lambda **progress: None,
    }
