"""An engine that ends, is silent or refuses, without a Java."""

from __future__ import annotations

import json
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import pytest

from penstock.cdc.capture.errors import SourceUnavailable
from penstock.cdc.capture.records import ConnectSchemas
from penstock.cdc.debezium.capture import server_id_of
from penstock.cdc.debezium.configuration import MARIADB, MYSQL, streaming_properties
from penstock.cdc.debezium.engine import EmbeddedEngine, RecordBatch
from penstock.cdc.debezium.errors import ConnectorStopped
from penstock.cdc.debezium.follower import EngineFollower
from penstock.cdc.debezium.positions import between, sequence_of
from penstock.cdc.debezium.source import BinlogServer
from penstock.cdc.debezium.state import EngineState
from penstock.log.errors import InvalidArgument, PermissionDenied
from penstock.log.runtime.runtime import Clock
from tests.cdc.debezium.silence import effects_of, following


class Times:
    """A clock that goes on only by what a test says."""

    now_s = 0.0

    def monotonic_s(self) -> float:
        return self.now_s

    def pass_by(self, time_s: float) -> None:
        self.now_s += time_s


class Quiet:
    """An engine that reads a long history before it connects, tells one heartbeat, and then nothing."""

    ended = False
    schemas: ClassVar[dict[str, Any]] = {}

    def __init__(self, times: Times, connects_s: float) -> None:
        self._times, self._connects_s, self._told = times, connects_s, False

    def next(self, timeout_s: float) -> RecordBatch | None:
        self._times.pass_by(timeout_s)
        if self._told or self._times.now_s < self._connects_s + 5:
            return None
        self._told = True
        return RecordBatch([b"{}"], [b'{"ts_ms":1}'], ["0"], {"file": "binlog.000007", "pos": 4})

    def give_back(self) -> None:
        """It has no memory of its own."""

    def metric(self, domain: str, context: str, name: str) -> object:
        return True if self._times.now_s >= self._connects_s else None


@pytest.mark.parametrize(("connects_s", "lost_s"), [(0.0, 25.0), (300.0, 325.0), (1e9, 600.0)])
def test_a_connector_that_says_nothing_has_lost_its_connection_once_it_had_one(connects_s: float, lost_s: float) -> None:
    """Before that it reads the history of the tables' columns, which takes its time where there are thousands of tables."""
    times, nothing = Times(), cast("Any", None)
    follower = _quiet_follower(times, connects_s, {})
    with pytest.raises(SourceUnavailable, match="lost its connection"):
        follower.run(EngineState("life", "mariadb", "7 x", "{}", history=1), lambda: False, until=None, ended=nothing)
    assert lost_s < times.now_s < lost_s + 5


def test_a_signal_for_a_table_that_stands_still_says_so(caplog: pytest.LogCaptureFixture) -> None:
    follower = _quiet_follower(Times(), 0.0, {"one": ("shop.a", "shop.b")})
    state = EngineState("life", "mariadb", "7 x", "{}", history=1).with_stopped({"shop.a": "no key"})
    state, asked = follower.run(state, lambda: False, until=None, ended=cast("Any", None))
    assert (state.pending, asked) == (("shop.b",), True)
    (said,) = caplog.messages
    assert "shop.a" in said
    assert "no key. Change the table" in said
    assert said.endswith("then --snapshot again")


def test_nothing_behind_an_event_that_could_not_be_read_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The connector's client goes on behind it, until the connector ends: the next life would begin behind what is missing."""
    file, saved, sent = "binlog.000007", list[EngineState](), list[Any]()
    monkeypatch.setattr("penstock.cdc.capture.record_sender.send_events", lambda producer, table, through: sent.append(table))

    def row(pos: int) -> bytes:
        return json.dumps({"op": "d", "source": {"db": "shop", "table": "a", "file": file, "pos": pos, "row": 0}}).encode()

    class Unread(Quiet):
        schemas: ClassVar[dict[str, Any]] = {"0": ConnectSchemas(b"{}", b"{}")}
        batches: ClassVar = [
            RecordBatch([b"{}"], [b'{"ts_ms":1}'], ["0"], {"file": file, "pos": 300}),
            RecordBatch([b'{"id":1}'] * 2, [row(400), row(600)], ["0"] * 2, {"file": file, "pos": 350}),
            RecordBatch([b'{"id":1}'], [row(600)], ["0"], {"file": file, "pos": 350}),
            RecordBatch([b"{}"], [b'{"ts_ms":1}'], ["0"], {"file": file, "pos": 700}),
        ]

        def next(self, timeout_s: float) -> RecordBatch | None:
            self._times.pass_by(2)
            return self.batches.pop(0) if self.batches else None

        @property
        def ended(self) -> bool:  # type: ignore[override]
            return not self.batches

    times = Times()
    follower = _quiet_follower(times, 0.0, {}, engine=Unread(times, 0.0), saved=saved, unread=(file, 500))
    with pytest.raises(ConnectorStopped):
        follower.run(
            EngineState("life", "mariadb", "7 x", "{}", history=1),
            lambda: False,
            until=None,
            ended=lambda: ConnectorStopped("it ended"),
        )
    assert [json.loads(state.offset or "")["pos"] for state in saved] == [300]
    assert [number for table in sent for number in table["sequence"].to_pylist()] == [sequence_of(file, 400, 0, "d")]


def _quiet_follower(
    times: Times,
    connects_s: float,
    signals: dict[str, tuple[str, ...]],
    *,
    engine: Quiet | None = None,
    saved: list[EngineState] | None = None,
    unread: tuple[str, int] | None = None,
) -> EngineFollower:
    kept: Any = SimpleNamespace(
        signals=lambda: signals,
        save=[].append if saved is None else saved.append,
        keep=lambda: False,
        parts=1,
        forget_signals=lambda keys: None,
    )
    return EngineFollower(
        cast("Any", engine or Quiet(times, connects_s)),
        effects_of(unread=unread),
        MARIADB,
        kept,
        whole_from=between("binlog.000007", 4, 0),
        where="db:3306",
        **following(cast("Any", SimpleNamespace(last_sequence=-1)), kept, cast("Clock", times)),
    )


def test_an_engine_that_does_not_take_its_end_while_it_starts_is_told_again() -> None:
    engine = EmbeddedEngine({}, characters_of=lambda charset: {})

    class Starting:
        asked = 0

        def close(self) -> None:
            self.asked += 1
            if self.asked < 3:
                raise RuntimeError("Cannot stop engine while tasks are starting")
            engine._ended.set()

    starting = engine._engine = Starting()
    engine._jpype = SimpleNamespace(JException=RuntimeError)
    engine._attached = nullcontext  # type: ignore[method-assign, assignment]
    engine.close()
    assert starting.asked == 3


def test_what_holding_back_and_places_hang_on_is_not_the_configuration_s(tmp_path: Any) -> None:
    given = {"heartbeat.interval.ms": "60000", "provide.transaction.metadata": "false", "decimal.handling.mode": "string"}
    found = streaming_properties(given, name="n", server_id=1, offsets=tmp_path, history=tmp_path, more={})
    assert (found["heartbeat.interval.ms"], found["provide.transaction.metadata"]) == ("100", "true")
    assert found["decimal.handling.mode"] == "string"


def test_a_server_that_tells_parts_of_documents_only(monkeypatch: pytest.MonkeyPatch) -> None:
    said = {"log_bin": "ON", "binlog_format": "ROW", "binlog_row_image": "FULL", "binlog_row_value_options": "PARTIAL_JSON"}
    monkeypatch.setattr(BinlogServer, "_variable", lambda server, name: said.get(name))
    monkeypatch.setattr(BinlogServer, "_check_rights", lambda server: None)
    with pytest.raises(InvalidArgument, match="does not have what a capture needs") as error:
        BinlogServer(MYSQL, {}).check()
    assert error.value.expected == "binlog_row_value_options = nothing"
    assert error.value.observed == "binlog_row_value_options = PARTIAL_JSON"
    said["binlog_row_value_options"] = ""
    BinlogServer(MARIADB, {}).check()


@pytest.mark.parametrize(
    ("grants", "missing"),
    [
        (
            ["GRANT RELOAD, REPLICATION SLAVE, BINLOG MONITOR ON *.* TO `p`@`%`", "GRANT ALL PRIVILEGES ON `shop`.* TO `p`@`%`"],
            None,
        ),
        (["GRANT ALL PRIVILEGES ON *.* TO `p`@`%` WITH GRANT OPTION"], None),
        (["GRANT USAGE ON *.* TO `p`@`%`", "GRANT ALL PRIVILEGES ON `shop`.* TO `p`@`%`"], "RELOAD and no REPLICATION SLAVE"),
        (["GRANT RELOAD, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO `p`@`%`"], "SELECT"),
    ],
)
def test_which_rights_a_user_needs(monkeypatch: pytest.MonkeyPatch, grants: list[str], missing: str | None) -> None:
    monkeypatch.setattr(BinlogServer, "ask", lambda server, query: [(grant,) for grant in grants])
    with nullcontext() if missing is None else pytest.raises(PermissionDenied, match=f"the user has no {missing}"):
        BinlogServer(MARIADB, {})._check_rights()


def test_captures_of_one_name_into_two_lakes_are_two_replicas() -> None:
    """The server ends one replica when another comes under its number."""
    key = "captures/shop/debezium/penstock/state"
    assert server_id_of(key, "one lake's topic", "stream") != server_id_of(key, "another's", "stream")
