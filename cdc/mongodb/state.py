"""The state of a MongoDB's capture in the lake."""

from __future__ import annotations

import json
from dataclasses import dataclass

from ...log.format.stored_json import Number, StoredForm
from ..capture.state import SourceState, SourceStateForm, SourceStateStore, parse_source_state


@dataclass(frozen=True, slots=True)
class MongoState(SourceState):
    """The state of one name and one topic."""

    known: tuple[str, ...] = ()
    """Collections that the topic may have documents of, even dropped ones."""

    @property
    def place(self) -> str | None:
        if self.offset is None:
            return None
        found = json.loads(self.offset)
        return f"{found['sec']}:{found['ord']}"


class _ClusterTime(StoredForm, frozen=True):
    sec: Number
    ord: Number
    token: str | None = None
    event: str | None = None


_NOTHING = ("history", "prepared", "fresh", "stopped", "unknown", "learnt")
"""Fields of earlier releases, without meaning for MongoDB."""


class _Form(SourceStateForm, frozen=True, kw_only=True):
    known: tuple[str, ...] = ()
    history: Number = 0
    prepared: tuple[()] = ()
    fresh: tuple[()] = ()
    stopped: tuple[()] = ()
    unknown: tuple[()] = ()
    learnt: tuple[()] = ()


class MongoStateStore(SourceStateStore[MongoState]):
    """Reads and writes the state."""

    kind = "mongodb"

    @staticmethod
    def parse(data: bytes, where: str) -> MongoState:
        """A stored state. Raises `DataDamaged`, `NewerFormatError`."""
        fields = parse_source_state(data, where, _Form, _ClusterTime).fields()
        return MongoState(**{name: value for name, value in fields.items() if name not in _NOTHING})
