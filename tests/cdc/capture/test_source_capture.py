"""The state of captures whose place is kept in the lake: whose it is, and which tables are."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.cdc.capture.chosen_tables import may_overlap
from penstock.cdc.capture.state import RowsChunk
from penstock.cdc.debezium.state import EngineState, EngineStateStore
from penstock.cdc.mongodb.capture import MongoCapture, MongoOptions
from penstock.cdc.mongodb.positions import EPOCH_S, ClusterTime
from penstock.cdc.mongodb.state import MongoState, MongoStateStore
from penstock.log.errors import InvalidArgument
from penstock.log.runtime.portal import Portal
from penstock.log.stores import open_store
from tests.cdc.capture.resources import resources_of


def mongo_capture(tmp_path: Path, portal: Portal, entry: int, options: MongoOptions) -> MongoCapture:
    """A capture of a server that only tells its time and its collection, into a topic that knows no names."""
    server: Any = SimpleNamespace(
        where="db", database="shop", identity=lambda: "rs0 shop", now=lambda: ClusterTime(EPOCH_S, 1), collections=lambda: ["a"]
    )
    producer: Any = SimpleNamespace(last_sequence=-1, epoch=SimpleNamespace(entry=entry, position=0))
    states = MongoStateStore(open_store(str(tmp_path / "lake")), portal.run, topic="t", name=options.name)
    return MongoCapture(server, options, resources_of(producer, states))


def test_what_is_read_again_is_emptied_also_where_the_topic_has_forgotten_the_names(tmp_path: Path, portal: Portal) -> None:
    """Names are forgotten after a while, in which the source's log may have been lost."""

    def begun(entry: int, known: tuple[str, ...], options: MongoOptions) -> MongoState:
        capture = mongo_capture(tmp_path, portal, entry, options)
        state = capture._begin(capture._prepared())
        capture._states.save(replace(state, known=known))
        return state

    assert begun(1, ("a", "gone"), MongoOptions()).emptied == ()
    assert begun(2, (), MongoOptions(snapshot="again")).emptied == ("a", "gone")


def test_of_two_captures_that_begin_at_once_one_is_refused(tmp_path: Path, portal: Portal, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = (mongo_capture(tmp_path, portal, entry, MongoOptions(name=name)) for entry, name in ((1, "one"), (2, "two")))
    really = MongoCapture._check_alone

    def check_alone(capture: MongoCapture, server: str) -> None:
        really(capture, server)
        monkeypatch.setattr(MongoCapture, "_check_alone", really)
        with pytest.raises(InvalidArgument, match="another capture sends"):
            two._prepared()

    monkeypatch.setattr(MongoCapture, "_check_alone", check_alone)
    assert one._begin(one._prepared()).offset is not None
    assert two._states.load() is None


@pytest.mark.parametrize(
    ("one", "other", "may"),
    [
        ({}, {}, True),
        ({"table.include.list": "d.a"}, {}, True),
        ({"table.include.list": "d.a,d.b"}, {"table.include.list": "d.b"}, True),
        ({"table.include.list": "d.a"}, {"table.include.list": "d.b"}, False),
        ({"database.include.list": "d"}, {"database.include.list": "e", "table.include.list": "e.a"}, False),
        ({"database.include.list": "d"}, {"database.include.list": "d", "table.include.list": "d.a"}, True),
        ({"table.include.list": r"d\.a"}, {"table.include.list": "d.b, D.a"}, True),
        ({"table.include.list": r"d\.a\$,d\.b"}, {"table.include.list": "d.a"}, False),
        ({"table.include.list": "d.a.*"}, {"table.include.list": "d.b"}, True),
        ({"database.include.list": "d|e"}, {"database.include.list": "d"}, True),
    ],
)
def test_which_captures_may_send_the_same_tables(one: dict[str, str], other: dict[str, str], may: bool) -> None:
    assert may_overlap(tuple(one.items()), tuple(other.items())) is may
    assert may_overlap(tuple(other.items()), tuple(one.items())) is may


def test_a_state_of_a_release_that_had_one_form_for_all_captures_is_read_as_it_was() -> None:
    common = {
        "format": 1,
        "life": "1",
        "server": "7 x",
        "pending": ["a"],
        "emptied": ["a"],
        "chunk": {"table": "a", "begins": True, "after": None, "last": ["x"], "end": 7},
        "chosen": [["table.include.list", "a"]],
        "renewed": True,
        "prepared": [],
        "stopped": [],
        "fresh": [],
        "unknown": [],
        "learnt": [],
        "opened": [5, 0],
    }
    fields: dict[str, Any] = {
        "pending": ("a",),
        "emptied": ("a",),
        "chunk": RowsChunk("a", True, None, ("x",), 7),
        "chosen": (("table.include.list", "a"),),
        "renewed": True,
        "opened": (5, 0),
    }
    time, file = '{"sec":9,"ord":6,"token":null,"event":null}', '{"file":"b.000007","pos":4}'
    of_mongodb = {**common, "connector": "mongodb", "offset": time, "history": 0, "known": ["a", "b"]}
    of_mariadb = {**common, "connector": "mariadb", "offset": file, "history": 2, "known": []}
    documents = MongoStateStore.parse(json.dumps(of_mongodb).encode(), "here")
    rows = EngineStateStore.parse(json.dumps(of_mariadb).encode(), "here")
    assert documents == MongoState("1", "mongodb", "7 x", time, known=("a", "b"), **fields)
    assert rows == EngineState("1", "mariadb", "7 x", file, history=2, **fields)
    assert (documents.place, rows.place) == ("9:6", "b.000007:4")
