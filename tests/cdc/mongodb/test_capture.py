"""`penstock capture mongodb` on a real server: what is in the topic, and in the tables that a sync makes of it."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock import SyncOptions, sync
from penstock.cdc.capture import chunks
from penstock.cdc.capture.record_sender import Boundary, RecordSender
from penstock.cdc.capture.rows_sender import RowsSender
from penstock.cdc.mongodb import follower, rows, server
from penstock.cdc.mongodb.documents import key_of
from penstock.cdc.mongodb.server import MongoServer
from penstock.log import InvalidArgument
from tests.cdc.mongodb.conftest import TOPIC, Capturing

pytestmark = [pytest.mark.mongodb, pytest.mark.timeout(300)]


def synced(capture: Capturing, folder: Path) -> dict[str, dict[str, Any]]:
    """The documents of the newest cut by collection and id."""
    assert sync(capture.lake, TOPIC, SyncOptions(into=folder, cuts=True)).await_termination()
    tables = {name: table.to_pylist() for name, table in dict(penstock.at_cut(folder)).items()}
    return {name: {row["_id"]: json.loads(row["document"]) for row in rows} for name, rows in tables.items()}


def ids(tables: dict[str, dict[str, Any]]) -> dict[str, list[str]]:
    """The ids of each collection."""
    return {name: sorted(rows) for name, rows in tables.items()}


def test_documents_changes_and_a_transaction(capture: Capturing, tmp_path: Path) -> None:
    from bson import Decimal128, ObjectId

    db, number = capture.db, ObjectId()
    db.orders.insert_many(
        [{"_id": one, "amount": Decimal128("12.50"), "at": datetime(2026, 11, 27, tzinfo=UTC)} for one in range(5)]
    )
    db.people.insert_many([{"_id": number, "name": "Ä"}, {"_id": "s"}, {"_id": {"a": 1}}])
    assert json.loads(capture("--heartbeat"))["snapshot_rows"] == 8
    db.orders.update_one({"_id": 1}, {"$set": {"who": "you"}})
    db.orders.delete_one({"_id": 3})
    db.orders.replace_one({"_id": 2}, {"z": [1, None, 2.5]})
    with capture.server.client() as client, client.start_session() as session, session.start_transaction():
        orders = client[db.name].orders
        for one in range(100, 103):
            orders.insert_one({"_id": one}, session=session)
        orders.update_one({"_id": 100}, {"$set": {"paid": True}}, session=session)
    capture("--heartbeat")
    said = {"$date": "2026-11-27T00:00:00Z"}
    kept = {"amount": {"$numberDecimal": "12.50"}, "at": said}
    assert synced(capture, tmp_path / "into") == {
        "orders": {
            "0": {"_id": 0, **kept},
            "1": {"_id": 1, **kept, "who": "you"},
            "2": {"_id": 2, "z": [1, None, 2.5]},
            "4": {"_id": 4, **kept},
            "100": {"_id": 100, "paid": True},
            "101": {"_id": 101},
            "102": {"_id": 102},
        },
        "people": {
            f'{{"$oid":"{number}"}}': {"_id": {"$oid": str(number)}, "name": "Ä"},
            '"s"': {"_id": "s"},
            '{"a":1}': {"_id": {"a": 1}},
        },
    }


def test_a_collection_that_goes_that_gets_another_name_and_a_database_made_again(capture: Capturing, tmp_path: Path) -> None:
    db = capture.db
    db.gone.insert_one({"_id": 1})
    db.old.insert_one({"_id": 2})
    db.new.insert_one({"_id": 3})
    capture()
    db.gone.drop()
    db.old.rename("new", dropTarget=True)
    db.new.insert_one({"_id": 4})
    capture("--heartbeat")
    assert ids(synced(capture, tmp_path / "into")) == {
        "gone": [],
        "old": [],
        "new": ["2", "4"],
    }
    capture.db.client.drop_database(db.name)
    db.new.insert_one({"_id": 5})
    capture("--heartbeat")
    assert ids(synced(capture, tmp_path / "into")) == {"gone": [], "old": [], "new": ["5"]}


def test_no_cut_lies_between_a_rename_and_the_reading_of_the_new_name(
    capture: Capturing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    db = capture.db
    db.old.insert_one({"_id": 2})
    db.new.insert_one({"_id": 3})
    capture("--heartbeat")
    assert ids(synced(capture, tmp_path / "into")) == {"old": ["2"], "new": ["3"]}
    db.old.rename("new", dropTarget=True)

    def unreadable(*asked: object, **more: object) -> list[dict[str, Any]]:
        raise InvalidArgument("not yet", operation="capture")

    with monkeypatch.context() as patch:
        patch.setattr(MongoServer, "documents", unreadable)
        capture.error("--heartbeat")
    assert ids(synced(capture, tmp_path / "into")) == {"old": ["2"], "new": ["3"]}
    capture("--heartbeat")
    assert ids(synced(capture, tmp_path / "into")) == {"old": [], "new": ["2"]}


def test_the_end_is_a_cut_where_the_log_s_newest_entry_is_another_database_s(
    capture: Capturing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    db, beside = capture.db, f"{capture.db.name}_beside"

    def another_entry() -> None:
        with capture.server.client() as client:
            client[beside].b.insert_one({})

    def lacks_place(self: RecordSender, boundary: Boundary) -> bool:
        if not lacked:
            another_entry()
        lacked.append(lacks(self, boundary))
        return lacked[-1]

    db.a.insert_one({"_id": 1})
    capture("--heartbeat")
    db.a.insert_one({"_id": 2})
    another_entry()
    lacked, lacks = list[bool](), RecordSender.lacks_place
    monkeypatch.setattr(RecordSender, "lacks_place", lacks_place)
    capture("--heartbeat")
    assert ids(synced(capture, tmp_path / "into")) == {"a": ["1", "2"]}
    assert lacked[0]
    assert not lacked[-1]
    before = capture.events()
    assert json.loads(capture("--heartbeat"))["events"] == 0, "it is told already"
    assert capture.events() == before
    with capture.server.client() as client:
        client.drop_database(beside)


def test_nothing_comes_twice_and_a_signal_reads_again(capture: Capturing) -> None:
    capture.db.orders.insert_many([{"_id": one} for one in range(3)])
    capture()
    capture.db.orders.insert_one({"_id": 3})
    capture()
    before = capture.events()
    assert json.loads(capture())["events"] == 0
    assert capture.events() == before
    capture.command("capture", "signal", f"{capture.db.name}.orders", "--topic", TOPIC)
    assert json.loads(capture())["snapshot_rows"] == 4
    assert json.loads(capture())["snapshot_rows"] == 0


def test_some_collections_and_none_of_their_documents(capture: Capturing) -> None:
    capture.db.a.insert_one({"_id": 1})
    capture.db.b.insert_one({"_id": 1})
    capture("--table", "a", "--snapshot", "never")
    capture.db.a.insert_one({"_id": 2})
    capture.db.b.insert_one({"_id": 2})
    capture("--table", "a")
    assert [(one.collection, one.op, one.identity) for one in capture.events()] == [("a", "c", "2")]


def test_a_signal_reads_no_collection_that_is_not_captured(capture: Capturing) -> None:
    """Its changes would not follow, so no cut would be true of it."""
    capture.db.a.insert_one({"_id": 1})
    capture.db.b.insert_one({"_id": 1})
    capture("--table", "a")
    for table in (f"{capture.db.name}.b", "elsewhere.a"):
        capture.command("capture", "signal", table, "--topic", TOPIC)
    assert json.loads(capture("--table", "a"))["snapshot_rows"] == 0
    assert [(one.collection, one.op) for one in capture.events()] == [("a", "r")]


@pytest.mark.parametrize("goes", ["drop", "rename"])
def test_a_collection_that_goes_while_it_is_read(
    capture: Capturing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, goes: str
) -> None:
    monkeypatch.setattr(server, "_BATCH", 10)
    monkeypatch.setattr(chunks, "CHUNK_ROWS_MAX", 5)
    capture.db.a.insert_many([{"_id": one} for one in range(30)])
    capture.db.b.insert_one({"_id": 1})
    really = RowsSender._send

    def send(sender: RowsSender[Any], *given: Any) -> None:
        really(sender, *given)
        if "a" in capture.db.list_collection_names():
            _ = capture.db.a.drop() if goes == "drop" else capture.db.a.rename("c")

    monkeypatch.setattr(RowsSender, "_send", send)
    capture("--heartbeat")
    there = {"c": sorted(str(one) for one in range(30))} if goes == "rename" else {}
    assert ids(synced(capture, tmp_path / "into")) == {"a": [], "b": ["1"], **there}


def test_reading_goes_on_behind_an_id_also_where_python_finds_others_equal(capture: Capturing) -> None:
    from bson import SON, MaxKey

    ids = [1, SON([("a", 1), ("b", 2)]), SON([("b", 2), ("a", 1)]), True, MaxKey()]  # in MongoDB's order
    capture.db.things.insert_many([{"_id": one} for one in ids])
    there = MongoServer(capture.server.url(capture.db.name))
    try:
        now = there.now()
        for place, after in enumerate(ids):
            found = [key_of(one["_id"]) for one in there.documents("things", after=after, since=now)]
            assert found == [key_of(one) for one in ids[place + 1 :]]
    finally:
        there.close()


@pytest.mark.parametrize("nth", [1, pytest.param(2, marks=pytest.mark.thorough), 3])
@pytest.mark.parametrize("point", ["chunk planned", "chunk sent", "chunk durable"])
def test_a_reading_that_ends_goes_on_with_the_chunk_that_is_not_there(
    capture: Capturing, monkeypatch: pytest.MonkeyPatch, point: str, nth: int
) -> None:
    monkeypatch.setattr(chunks, "CHUNK_ROWS_MAX", 10)
    capture.db.a.insert_many([{"_id": one} for one in range(25)])
    really, left = rows.DocumentsReader.__init__, [nth]

    def begin(reader: Any, server: Any, name: str, state: Any, resources: Any, **more: Any) -> None:
        def reached(where: str) -> None:
            left[0] -= where == point
            assert left[0] or where != point, "it ends here"

        really(reader, server, name, state, replace(resources, reached=reached), **more)

    monkeypatch.setattr(rows.DocumentsReader, "__init__", begin)
    capture(code=1)
    capture()
    events = [(one.op, one.identity) for one in capture.events()]
    assert sorted(events, key=str) == sorted((("r", str(one)) for one in range(25)), key=str)


def test_all_is_read_again(capture: Capturing, tmp_path: Path) -> None:
    capture.db.a.insert_many([{"_id": 1}, {"_id": 2}])
    capture()
    capture.db.a.delete_one({"_id": 1})
    assert json.loads(capture("--snapshot", "again", "--heartbeat"))["snapshot_rows"] == 1
    assert synced(capture, tmp_path / "into") == {"a": {"2": {"_id": 2}}}


def test_a_capture_to_the_end_ends_beside_a_writer_that_does_not(capture: Capturing) -> None:
    """Changes that come one by one are sent soon, and signals are taken."""
    capture.db.a.insert_one({"_id": 0})
    capture()
    capture.command("capture", "signal", f"{capture.db.name}.a", "--topic", TOPIC)
    stopped = threading.Event()

    def write() -> None:
        for number in range(1, 2000):
            if stopped.wait(0.02):
                return
            capture.db.a.insert_one({"_id": number})

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert json.loads(capture().splitlines()[-1])["snapshot_rows"] > 0
        assert writer.is_alive()
    finally:
        stopped.set()
        writer.join()


def test_ids_that_mongodb_takes_for_equal_are_one_row(capture: Capturing, tmp_path: Path) -> None:
    from bson import Decimal128, Int64

    capture.db.a.insert_many([{"_id": 1.0}, {"_id": {"n": Int64(2)}}, {"_id": 0.5}, {"_id": 4}])
    capture("--heartbeat")
    capture.db.a.replace_one({"_id": 1}, {"_id": 1, "x": 1})
    capture.db.a.replace_one({"_id": {"n": 2}}, {"_id": {"n": Decimal128("2.0")}, "x": 2})
    capture.db.a.update_one({"_id": Decimal128("0.50")}, {"$set": {"x": 3}})
    capture.db.a.delete_one({"_id": Decimal128("4")})
    capture("--heartbeat")
    found = synced(capture, tmp_path / "into")["a"]
    assert {key: row.get("x") for key, row in found.items()} == {"1": 1, '{"n":2}': 2, "0.5": 3}


def test_a_capture_goes_on_behind_a_change_of_any_id(capture: Capturing) -> None:
    """A resume token tells the types of some numbers apart from the rest."""
    from bson import Decimal128

    capture.db.a.insert_one({"_id": "first"})
    capture()
    for identity in ({"a": 1.5}, Decimal128("NaN"), 1e300, {"a": 1.5, "b": Decimal128("3")}):
        capture.db.a.insert_one({"_id": identity})
        assert json.loads(capture())["events"] == 1
    capture.db.a.insert_one({"_id": "last"})
    assert json.loads(capture())["events"] == 1


def test_documents_that_others_cannot_read(capture: Capturing, tmp_path: Path) -> None:
    """Some come by reading, others by changes."""
    from bson import DatetimeMS, encode
    from bson.raw_bson import RawBSONDocument

    for number in (1, 11):
        odd = RawBSONDocument(encode({"_id": number, "s": "?"}).replace(b"?", b"\xff"))  # a string that is no UTF-8
        late = {"_id": number + 1, "d": DatetimeMS(1 << 55)}  # a date in a million years
        for document in (odd, late):
            capture.db.command("insert", "a", documents=[document])
        capture("--heartbeat")
    assert {one.identity: one.op for one in capture.events() if one.op in "rc"} == {"1": "r", "2": "r", "11": "c", "12": "c"}
    found = synced(capture, tmp_path / "into")["a"]
    for number in (1, 11):
        assert found[f"{number}"]["s"] == r"\xff"
        assert found[f"{number + 1}"]["d"] == {"$date": {"$numberLong": str(1 << 55)}}


def test_what_went_while_nobody_followed_goes_when_all_is_read_again(capture: Capturing, tmp_path: Path) -> None:
    capture.db.old.insert_one({"_id": 1})
    capture("--heartbeat")
    capture.db.new.insert_one({"_id": 1})  # known by its change only
    capture("--heartbeat")
    capture.db.old.drop()
    capture.db.new.drop()
    capture.db.other.insert_one({"_id": 1})
    capture("--snapshot", "again", "--heartbeat")
    assert ids(synced(capture, tmp_path / "into")) == {"old": [], "new": [], "other": ["1"]}


@pytest.mark.thorough
def test_a_large_transaction_is_no_sign_of_another_server(capture: Capturing) -> None:
    """The last of so many changes has a number of a later time."""
    capture.db.a.insert_one({"_id": -1})
    capture()
    with capture.server.client() as client, client.start_session() as session, session.start_transaction():
        client[capture.db.name].a.insert_many([{"_id": one} for one in range(20_000)], session=session)
    assert json.loads(capture())["events"] == 20_000
    assert json.loads(capture())["events"] == 0


def test_a_change_that_is_larger_with_what_was_set(capture: Capturing) -> None:
    """The server tells a change as one document, which has no room for both the whole and what was set of it."""
    capture.db.create_collection("a", changeStreamPreAndPostImages={"enabled": True})
    capture.db.a.insert_one({"_id": 1})
    capture()
    capture.db.a.update_one({"_id": 1}, {"$set": {"s": "x" * 9 * 1024 * 1024}})
    assert json.loads(capture())["events"] == 1


def test_many_documents_that_are_looked_up_are_not_in_memory_at_once(capture: Capturing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follower, "_GATHERED_BYTES_MAX", 100_000)
    sizes: list[int] = []
    really = MongoServer.lookup

    def lookup(server: MongoServer, collection: str, ids: Sequence[Any], *, since: Any) -> list[dict[str, Any]]:
        sizes.append(len(ids))
        return really(server, collection, ids, since=since)

    monkeypatch.setattr(MongoServer, "lookup", lookup)
    capture.db.a.insert_many([{"_id": one, "s": "x" * 10_000} for one in range(300)])
    capture()
    capture.db.a.update_many({}, {"$set": {"n": 1}})
    assert json.loads(capture())["events"] == 300
    assert (sizes[0], max(sizes[1:])) == (100, 9)


def test_a_document_that_is_looked_up_may_be_newer_than_the_others_so_there_is_no_cut(
    capture: Capturing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def seen() -> set[int]:
        return {row["x"] for row in synced(capture, tmp_path / "into")["a"].values()}

    capture.db.a.insert_many([{"_id": 1, "x": 0}, {"_id": 2, "x": 0}])
    capture("--heartbeat")
    assert seen() == {0}
    really = MongoServer.lookup

    def lookup(server: MongoServer, *given: Any, since: Any) -> list[dict[str, Any]]:
        monkeypatch.setattr(MongoServer, "lookup", really)
        capture.db.a.update_many({}, {"$set": {"x": 2}})
        return really(server, *given, since=since)

    monkeypatch.setattr(MongoServer, "lookup", lookup)
    capture.db.a.update_one({"_id": 1}, {"$set": {"x": 1}})
    capture("--heartbeat")
    assert seen() in ({0}, {2})
    capture("--heartbeat")
    assert seen() == {2}


def test_collections_that_the_server_makes_for_a_while_are_no_tables(capture: Capturing, tmp_path: Path) -> None:
    capture.db.a.insert_many([{"_id": one} for one in range(3)])
    capture("--heartbeat")
    list(capture.db.a.aggregate([{"$match": {"_id": 1}}, {"$out": "chosen"}]))
    capture.db.command("convertToCapped", "a", size=1_000_000)
    with capture.server.client() as client:
        client[f"{capture.db.name}_beside"].come.insert_one({"_id": 4})
        client.admin.command({"renameCollection": f"{capture.db.name}_beside.come", "to": f"{capture.db.name}.came"})
    capture.db.a.insert_one({"_id": 3})
    capture("--heartbeat")
    assert ids(synced(capture, tmp_path / "into")) == {"a": ["0", "1", "2", "3"], "chosen": ["1"], "came": ["4"]}


def test_a_signal_of_a_view_reads_nothing_and_what_comes_behind_goes_on(capture: Capturing) -> None:
    capture.db.a.insert_one({"_id": 1})
    capture.db.create_collection("seen", viewOn="a")
    capture.db.create_collection("times", timeseries={"timeField": "t"})
    capture()
    for name in ("seen", "times", ""):
        capture.command("capture", "signal", f"{capture.db.name}.{name}", "--topic", TOPIC)
    assert json.loads(capture())["snapshot_rows"] == 0
    capture.db.a.insert_one({"_id": 2})
    assert json.loads(capture())["events"] == 1
