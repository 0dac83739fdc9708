"""The history of tables' columns: the connector appends it to a local file, which goes into the lake as it grows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .state import EngineStateStore
from .statements import Name, quoted_name


class SchemaHistory:
    """The file of one life of the engine, from the lake at first."""

    def __init__(self, path: Path, states: EngineStateStore, parts: int) -> None:
        self._path, self._states, self.parts = path, states, parts
        self._bytes = path.stat().st_size

    def keep(self) -> bool:
        """Store the connector's new lines durably, before events that need them come out. Returns whether there were any."""
        if self._path.stat().st_size == self._bytes:
            return False
        with self._path.open("rb") as file:
            file.seek(self._bytes)
            added = file.read()
        whole = added[: added.rfind(b"\n") + 1]
        if not whole:
            return False
        self._states.add_history(self.parts, whole)
        self.parts += 1
        self._bytes += len(whole)
        return True


def has_known(history: bytes, table: Name) -> bool:
    return bool(_lines_about(table, _parsed(history)))


def lines_of(history: bytes, table: Name, offset: str) -> str:
    """The lines with a table's columns, after one that has the connector forget the table. ``offset``: of that line."""
    lines = _parsed(history)
    found = _lines_about(table, lines)
    forgets = {
        "source": lines[0][1]["source"],
        "position": found[0][1]["position"] if found else json.loads(offset),
        "ts_ms": lines[0][1]["ts_ms"],
        "databaseName": table[0],
        "ddl": f"DROP TABLE IF EXISTS {quoted_name(table)}",
        "tableChanges": [],
    }
    first = json.dumps(forgets, separators=(",", ":"), ensure_ascii=False)
    return "".join(f"{line}\n" for line in (first, *(line for line, _ in found)))


def _parsed(history: bytes) -> list[tuple[str, Any]]:
    return [(line, json.loads(line)) for line in history.decode().split("\n") if line]


def _lines_about(table: Name, lines: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    names = {".".join(f'"{part}"' for part in parts) for parts in (table, [part.replace('"', '""') for part in table])}
    return [
        (line, change)
        for line, change in lines
        if any({of.get("id"), of.get("previousId")} & names for of in change["tableChanges"])
    ]
