"""The history of the tables' columns, which the connector appends to a file of this process: it goes into the lake as it grows."""

from __future__ import annotations

from pathlib import Path

from .state import EngineStates


class History:
    """The file of one life of the engine, all of which was in the lake when that began."""

    def __init__(self, path: Path, states: EngineStates, parts: int) -> None:
        self._path, self._states, self.parts = path, states, parts
        self._bytes = path.stat().st_size

    def keep(self) -> bool:
        """Put what the connector has added since, and return when it is durable. Returns whether there was anything.

        A line is there before the events that need it come out of the engine.
        """
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
