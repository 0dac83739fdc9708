"""One life of the engine, without a Java: which records are told, and where the next life goes on."""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.cdc.debezium.binlog_listener import BinlogEvent
from penstock.cdc.debezium.effects import Effects
from penstock.cdc.debezium.engine import RecordBatch
from penstock.cdc.debezium.follower import EngineFollower
from penstock.cdc.debezium.positions import between, sequence_of
from penstock.cdc.debezium.state import EngineState
from penstock.cdc.debezium.statements import BinlogStatement, statement_of
from penstock.log.errors import InternalError, PenstockError
from tests.cdc.debezium.silence import effects_of, following
from tests.cdc.debezium.test_parts import KNOWN, Sent, told
from tests.log.topics import HandClock

FILE = "mysql-bin.000003"
TABLES = (("shop", "users"), ("shop", "b"))
AHEAD_MS = 60_000
"""By so much the engine's clock is ahead of the store's."""
KEY = b'{"id":7}'


def batch(*places: int, behind: int) -> RecordBatch:
    """Changes of the table ``users`` at these places."""
    return RecordBatch([KEY] * len(places), [told("u", pos) for pos in places], ["0"] * len(places), {"file": FILE, "pos": behind})


def heartbeat(made_ms: int, *, behind: int) -> RecordBatch:
    return RecordBatch([KEY], [b'{"ts_ms":%d}' % made_ms], ["0"], {"file": FILE, "pos": behind})


def heard(pos: int, statement: BinlogStatement) -> BinlogEvent:
    return BinlogEvent(FILE, pos, 5, 0, statement, "QUERY")


class Life:
    """Hands over these batches, some seconds apart, and then has ended."""

    def __init__(self, effects: Effects, *batches: RecordBatch, state: EngineState | None = None) -> None:
        self.clock, self.left, self.schemas = HandClock(), deque(batches), KNOWN
        self.producer, self.saved = Sent(-1), list[EngineState]()
        self._effects, self._state = effects, state or begun()

    def run(self, *, until: int | None = None) -> tuple[EngineState, bool]:
        states = SimpleNamespace(save=self.saved.append, signals=dict, forget_signals=lambda asked: None)
        history = SimpleNamespace(keep=lambda: False, parts=1)
        given: Any = (self, self._effects, SimpleNamespace(domain="d"), history)
        lake: Any = {"producer": self.producer, "states": states, "clock": self.clock}
        follower = EngineFollower(*given, whole_from=between(FILE, 4, 0), where="db", **following(**lake))
        end = None if until is None else (FILE, until)
        return follower.run(
            self._state, lambda: until is None and not self.left, until=end, ended=lambda: PenstockError("it ended")
        )

    @property
    def sent(self) -> list[int]:
        """The sequences of what was sent."""
        return [sequence for sequences in self.producer.batches for sequence in sequences]

    # --- As an engine

    @property
    def ended(self) -> bool:
        return not self.left

    def next(self, wait_s: float) -> RecordBatch | None:
        self.clock.advance(seconds=3)
        return self.left.popleft() if self.left else None

    def give_back(self) -> None:
        """It has no memory of its own."""

    def now_ms(self) -> int:
        return self.clock.wall_ms() + AHEAD_MS

    def metric(self, domain: str, context: str, name: str) -> object:
        return {"Connected": True, "BinlogFilename": FILE, "BinlogPosition": 40}[name]


def begun(**more: Any) -> EngineState:
    return EngineState("life", "mysql", "7 x", offset='{"file":"mysql-bin.000003","pos":4}', history=1, **more)


def at(*places: int, op: str = "u") -> list[int]:
    return [sequence_of(FILE, pos, 0, op) for pos in places]


def test_a_log_is_not_read_to_its_end_where_an_event_could_not_be_read() -> None:
    ends = [batch(10, behind=15), heartbeat(10**15, behind=15)]
    Life(effects_of(tables=TABLES), *ends).run(until=10)
    with pytest.raises(PenstockError, match="it ended"):
        Life(effects_of(tables=TABLES, unread=(FILE, 20)), *ends).run(until=10)


def test_a_heartbeat_of_before_the_end_was_read_does_not_tell_that_all_before_it_is_out() -> None:
    life = Life(effects_of(tables=TABLES))
    early = life.now_ms() + 1
    life.left.extend((heartbeat(early, behind=5), heartbeat(early, behind=5), batch(10, behind=15), heartbeat(10**15, behind=15)))
    life.run(until=10)
    assert life.sent == at(10)


def test_no_record_is_taken_that_nobody_listened_to(monkeypatch: pytest.MonkeyPatch) -> None:
    effects = effects_of(tables=TABLES)

    def check() -> None:
        raise InternalError("nothing listens", operation="capture")

    monkeypatch.setattr(effects, "check", check)
    with pytest.raises(InternalError):
        Life(effects, batch(10, behind=15)).run()


def test_a_life_ends_at_the_place_where_a_table_is_to_be_read() -> None:
    effects = effects_of([heard(25, statement_of("ALTER TABLE users DROP PARTITION p", "shop"))], tables=TABLES)
    life = Life(effects, batch(10, 30, behind=50), batch(60, behind=70))
    state, goes_on = life.run()
    assert life.sent == [*at(10), *at(25, op="t")]
    assert len(life.left) == 1
    assert goes_on
    assert (state.pending, [table for table, _ in state.fresh]) == (("shop.users",), ["shop.users"])
    assert state.offset == begun().offset, "what is behind that place comes again"


def test_a_row_without_a_key_stops_its_table_and_what_was_before_is_told() -> None:
    keyless = RecordBatch([KEY, b"null"], [told("u", 20), told("u", 22)], ["0", "0"], {"file": FILE, "pos": 30})
    life = Life(effects_of(tables=TABLES), batch(10, behind=15), keyless)
    state, goes_on = life.run()
    assert life.sent == at(10, 20)
    assert goes_on
    assert [one.table for one in state.stopped] == ["shop.users"]


def test_rows_of_two_phases_are_held_and_noted() -> None:
    effects = effects_of([heard(5, BinlogStatement("prepares")), heard(20, BinlogStatement("prepared", xid="x"))], tables=TABLES)
    life = Life(effects, batch(10, behind=50))
    state, _ = life.run()
    assert not life.sent
    assert state.prepared == (("x", ("shop.users",)),)


def test_that_a_table_was_read_again_is_known_until_the_log_is_beyond_that() -> None:
    fresh = (("shop.users", between(FILE, 50, 0)), ("shop.b", between(FILE, 49, 0)))
    state, _ = Life(effects_of(tables=TABLES), batch(10, behind=50), state=begun(fresh=fresh)).run()
    assert state.fresh == fresh[:1]
