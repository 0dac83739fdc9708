"""Transactions of every kind against a MongoDB, drawn by chance: documents by ids of many types, the collections themselves, and some that
stay open.
"""

from __future__ import annotations

import json
import random
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from bson import Decimal128, Int64, ObjectId, Timestamp, json_util
from pymongo.client_session import ClientSession
from pymongo.errors import OperationFailure

from tests.cdc.ddl.history import Table
from tests.cdc.ddl.source import Note
from tests.mongodb_server import MongoDBServer

IDS: tuple[Callable[[int], Any], ...] = (
    int,
    Int64,
    str,
    lambda number: number + 0.5,
    lambda number: {"of": number, "at": [number, "ü"]},
    lambda number: ObjectId(f"{number:024x}"),
    lambda number: Decimal128(f"{number}.1"),
    lambda number: Decimal128(f"{number}.50"),  # the id that the double is
    lambda number: number % 2 == 0,
)
FIXED = frozenset({"plain", "capped", "lookedup"})
ODD = ("odd name", "größe", "dotted.name", "with-dash", "back`tick", "quo'te", "日本", "a#b", "UPPER")


KEYS, KEYS_OF_LONG = range(8), range(100, 108)


class MongoDB:
    """One thread that makes all transactions: most of them in one session, and in another one that stays open."""

    producer, empties, rest = "mongodb/penstock", True, 0.06
    refused: tuple[type[Exception], ...] = (OperationFailure,)
    doing = ""

    def __init__(self, server: MongoDBServer, chance: random.Random) -> None:
        self._server, self._chance = server, chance
        self._made = 0
        self._long: ClientSession | None = None
        self._held = set[str]()
        """The collections of the transaction that stays open: nothing is done to them but to their documents, as it would wait for its end."""
        self._known: dict[str, Table] = {}
        self._noted = Timestamp(0, 0)
        self._between: dict[str, Table] | None = None
        """The collections at a time of the log amid what one command does."""
        self._connect()

    def _connect(self) -> None:
        import pymongo

        self._client = pymongo.MongoClient[dict[str, Any]](self._server.url("admin"), tz_aware=True)
        self._session = self._client.start_session()
        self._db = self._client["shop"]

    def close(self) -> None:
        self._release()
        self._session.end_session()
        self._client.close()

    def capture(self) -> tuple[str, ...]:
        return ("mongodb", self._server.url("shop"))

    def environment(self) -> Mapping[str, str]:
        return {}

    def place_of(self, text: str) -> int:
        seconds, _, ordinal = text.partition(":")
        return (int(seconds) << 32) + int(ordinal)

    def _committed(self, note: Note) -> None:
        """Behind the newest operation of the log: the time that an answer names may lie before what `$out` has done."""
        own = {"op": {"$ne": "n"}, "ns": {"$not": {"$regex": "^(config|local)"}}}
        newest, former = self._client["local"]["oplog.rs"].find(own).sort("$natural", -1).limit(2)
        if (newest["op"], newest["ns"]) == ("d", "shop.capped") and former["ts"] > self._noted:
            before, after = self._known["shop_capped"], self._read()  # it is full: what it takes and what it loses are two entries
            self._between = {**after, "shop_capped": replace(before, rows=before.rows | after["shop_capped"].rows)}
            self._note(note, former["ts"])
            self._between = None
        self._note(note, newest["ts"])

    def _note(self, note: Note, time: Timestamp) -> None:
        self._noted = time
        note((time.time << 32) + time.inc - 1)  # a place at that very time has it

    def prepare(self) -> None:
        self._create("plain")
        self._create("capped", capped=True, size=100_000, max=6)
        self._db.create_collection("lookedup")
        for name in sorted(FIXED):
            self._db[name].insert_many([{"_id": number, "a": name, "n": number} for number in range(5)])

    def _create(self, name: str, **options: Any) -> None:
        images = {"enabled": self._chance.random() < 0.9}
        if not options and self._chance.random() < 0.1:
            options = {"clusteredIndex": {"key": {"_id": 1}, "unique": True}}
        self._db.create_collection(name, session=self._session, changeStreamPreAndPostImages=images, **options)

    @contextmanager
    def beside(self) -> Iterator[None]:
        yield

    def restart(self) -> signal.Signals:
        how = self._chance.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGTERM))
        self._server.restart(how)
        self.close()
        self._connect()
        return how

    def unseen(self, note: Note) -> None:
        """Nothing: a capture goes on with all."""

    def rollback(self) -> None:
        if self._session.in_transaction:
            self._session.abort_transaction()

    def finish(self, note: Note) -> None:
        if self._long is not None:
            self._end_long(note)

    def tables(self) -> dict[str, Table]:
        self._known = self._read() if self._between is None else self._between
        return self._known

    def _read(self) -> dict[str, Table]:
        return {
            _folder(name): Table(
                frozenset((("_id", _text(_key(one["_id"]))), ("document", _text(one))) for one in self._db[name].find()),
                ("_id", "document"),
            )
            for name in self._names()
        }

    def shown(self, found: pa.Table) -> pa.Table:
        """As JSON of one form."""
        columns = {
            name: [None if text is None else _normal(text) for text in found[name].to_pylist()] for name in ("_id", "document")
        }
        return pa.table({name: pa.array(texts, pa.string()) for name, texts in columns.items()})

    def _names(self) -> list[str]:
        return sorted(
            one["name"]
            for one in self._db.list_collections()
            if one["type"] == "collection" and not one["name"].startswith("system.")
        )

    # --- What is done ---------------------------------------------------------------------------------------------------------------

    def transact(self, note: Note) -> str:
        if (ended := self._go_on(note)) is not None:
            return ended
        kind = self._chance.choice(self.KINDS) if self._chance.random() < 0.25 else MongoDB.change
        if self._long is not None and kind in self.OF_THE_DATABASE:
            self._end_long(note)
        self.doing = kind.__name__
        kind(self, note)
        return self.doing

    def change(self, note: Note) -> None:
        if self._chance.random() < 0.5:
            self._change(self._chance.choice(self._names()))
        else:
            with self._session.start_transaction():
                for _ in range(self._chance.choice((2, 5, 20))):
                    self._change(self._chance.choice([name for name in self._names() if name != "capped"]))
        self._committed(note)

    def _change(self, name: str, *, long: ClientSession | None = None) -> None:
        collection, session = self._db[name], long or self._session
        number = self._chance.choice(KEYS_OF_LONG if long else KEYS)
        of = {"_id": self._chance.choice(IDS[:-1] if long else IDS)(number)}
        drawn = self._chance.randrange(3 if name == "capped" else 9)
        if drawn < 2:
            value = self._chance.randrange(10**6)
            collection.update_one(
                of, {"$set": {"a": f"s{value}", "n": value, "in": {"x": [value, None]}}}, upsert=True, session=session
            )
        elif drawn == 2:
            collection.update_one(of, {"$inc": {"n": 1}, "$push": {"list": number}}, session=session)
        elif drawn == 3:
            with_list = {**of, "list": {"$exists": True}}
            collection.update_one(with_list, {"$unset": {"in": 1}, "$set": {"list.0": "first"}}, session=session)
        elif drawn == 4:
            collection.replace_one(of, {"only": number}, upsert=True, session=session)
        elif drawn == 5:
            collection.update_one(of, [{"$set": {"n": {"$size": {"$ifNull": ["$list", []]}}}}, {"$unset": "a"}], session=session)
        elif drawn == 6:
            collection.find_one_and_update(
                of, {"$push": {"list": {"$each": [number, number + 1], "$slice": -3}}, "$rename": {"n": "m"}}, session=session
            )
        else:
            collection.delete_one(of, session=session)

    def many(self, note: Note) -> None:
        """More than one entry of the log has: many documents, and large ones, of which few stay."""
        if self._chance.random() < 0.15:
            collection = self._db[self._some(note)]
            with self._session.start_transaction():
                collection.insert_many([{"_id": f"many{number}", "n": number} for number in range(1500)], session=self._session)
                collection.insert_many(
                    [{"_id": f"large{number}", "of": "x" * 700_000} for number in range(30)], session=self._session
                )
                collection.update_many({"_id": {"$regex": "^many1"}}, {"$inc": {"n": 1}}, session=self._session)
                collection.delete_many({"_id": {"$regex": "^(many[0-9]{2}|large)"}}, session=self._session)
            self._committed(note)
            collection.delete_many({"_id": {"$regex": "^many"}}, session=self._session)
            self._committed(note)

    # --- One that stays open --------------------------------------------------------------------------------------------------------

    def _go_on(self, note: Note) -> str | None:
        """Perhaps begin a transaction that stays open, or go on with it. Returns what it was if it ended."""
        drawn = self._chance.random()
        if self._long is None:
            if drawn < 0.04:
                self._long = self._client.start_session()
                self._long.start_transaction()
                self._step(self._long)
        elif drawn < 0.03:
            return self._end_long(note)
        elif drawn < 0.2:
            self._step(self._long)
        return None

    def _step(self, long: ClientSession) -> None:
        if not self._held or self._chance.random() < 0.2:
            self._held.add(self._chance.choice([name for name in self._names() if name != "capped"]))
        try:
            for _ in range(3):
                self._change(self._chance.choice(sorted(self._held)), long=long)
        except OperationFailure:  # a collection that is newer than what it sees
            self._release()

    def _end_long(self, note: Note) -> str:
        assert self._long is not None
        keeps = self._long.in_transaction and self._chance.random() < 0.8
        if keeps:
            self.doing = "one that stayed open"
            self._long.commit_transaction()
            self._committed(note)
        self._release()
        return "one that stayed open" if keeps else "rolled back after it stayed open"

    def _release(self) -> None:
        if self._long is not None:
            self._long.end_session()
        self._long = None
        self._held.clear()

    # --- Collections ----------------------------------------------------------------------------------------------------------------

    def _some(self, note: Note) -> str:
        found = [name for name in self._names() if name not in FIXED | self._held]
        return self._chance.choice(found) if found else self._new(note)

    def _fresh(self) -> str:
        self._made += 1
        return f"{self._chance.choice(ODD)} {self._made}" if self._chance.random() < 0.3 else f"made{self._made}"

    def _new(self, note: Note, name: str = "") -> str:
        name = name or self._fresh()
        self._create(name)
        self._committed(note)
        with self._session.start_transaction():
            self._db[name].insert_many(
                [{"_id": make(number), "n": number} for number in (1, 3) for make in IDS[2:7]], session=self._session
            )
        self._committed(note)
        return name

    def make(self, note: Note) -> None:
        self._new(note)

    def rename(self, note: Note) -> None:
        name, new = self._some(note), self._fresh()
        self._db[name].rename(new, session=self._session)
        self._committed(note)
        self._change(new)
        self._committed(note)

    def rename_and_make_anew(self, note: Note) -> None:
        name = self._some(note)
        self._db[name].rename(self._fresh(), session=self._session)
        self._committed(note)
        self._new(note, name)

    def rename_over(self, note: Note) -> None:
        one, other = self._some(note), self._new(note)
        self._db[other].rename(one, session=self._session, dropTarget=True)
        self._committed(note)

    def drop(self, note: Note) -> None:
        self._db.drop_collection(self._some(note), session=self._session)
        self._committed(note)

    def drop_and_make_anew(self, note: Note) -> None:
        name = self._some(note)
        self._db.drop_collection(name, session=self._session)
        self._committed(note)
        self._new(note, name)

    def move_away(self, note: Note) -> None:
        """Into a database that is not captured."""
        self._made += 1
        names = {"renameCollection": f"shop.{self._some(note)}", "to": f"elsewhere.away{self._made}"}
        self._client.admin.command(names, session=self._session)
        self._committed(note)

    def move_here(self, note: Note) -> None:
        """From a database that is not captured, perhaps over a collection that is there."""
        self._made += 1
        away, over = f"come{self._made}", self._chance.random() < 0.4
        self._client["elsewhere"][away].insert_many([{"_id": make(number)} for number in (1, 3, 5) for make in IDS[2:5]])
        names = {"renameCollection": f"elsewhere.{away}", "to": f"shop.{self._some(note) if over else self._fresh()}"}
        self._client.admin.command({**names, "dropTarget": over}, session=self._session)
        self._committed(note)

    def drop_all(self, note: Note) -> None:
        """The database, one collection after the other. Seldom."""
        if self._chance.random() < 0.7:
            return
        self._client.drop_database("shop")
        drops = {"ts": {"$gt": self._noted}, "ns": "shop.$cmd", "o.drop": {"$exists": True}}
        for entry in list(self._client["local"]["oplog.rs"].find(drops).sort("$natural", 1)):
            self._between = {name: table for name, table in self._known.items() if name != _folder(entry["o"]["drop"])}
            self._note(note, entry["ts"])
        self._between = None
        self._committed(note)
        self._create("capped", capped=True, size=100_000, max=6)
        self._db.create_collection("lookedup")
        self._committed(note)
        self._new(note, "plain")

    def time_series(self, note: Note) -> None:
        """No changes of it are told. Its name may be an ordinary collection's later."""
        name = self._fresh()
        self._db.create_collection(name, timeseries={"timeField": "at"}, session=self._session)
        self._db[name].insert_one({"at": datetime.now(UTC), "n": 1})
        if self._chance.random() < 0.6:
            self._db.drop_collection(name, session=self._session)
            self._committed(note)
            self._new(note, name)
        self._committed(note)

    def replace_by_query(self, note: Note) -> None:
        self._db["plain"].aggregate([{"$set": {"out": 1}}, {"$out": self._some(note)}], session=self._session)
        self._committed(note)

    def to_capped(self, note: Note) -> None:
        self._db.command({"convertToCapped": self._some(note), "size": 100_000}, session=self._session)
        self._committed(note)

    def one_more_than_full(self, note: Note) -> None:
        self._made += 1
        self._db["capped"].insert_one({"_id": f"more{self._made}"}, session=self._session)
        self._committed(note)

    def images(self, note: Note) -> None:
        name = self._some(note)
        self._db.command(
            {"collMod": name, "changeStreamPreAndPostImages": {"enabled": self._chance.random() < 0.7}}, session=self._session
        )
        self._change(name)
        self._committed(note)

    def no_collections(self, note: Note) -> None:
        """An index, and a view."""
        self._made += 1
        if "plain" not in self._held:
            self._db["plain"].create_index(f"f{self._made}", session=self._session)
        self._db.command({"create": f"view{self._made}", "viewOn": "plain", "pipeline": []}, session=self._session)
        self._committed(note)

    KINDS: tuple[Callable[[Any, Note], None], ...] = (
        make, rename, rename_and_make_anew, rename_over, drop, drop_and_make_anew, move_away, move_here, drop_all, time_series,
        replace_by_query, to_capped, one_more_than_full, images, no_collections, many,
    )  # fmt: skip
    OF_THE_DATABASE = (move_away, move_here, drop_all, replace_by_query, to_capped)
    """They wait until nobody uses the database."""


def _folder(name: str) -> str:
    return "shop_" + name.replace("#", "~23").replace("`", "~60")


def _key(value: Any) -> Any:
    """An id with each number in one form: a decimal that a double is equal to as that."""
    if isinstance(value, Decimal128) and (exact := value.to_decimal()) == float(exact):
        return float(exact)
    return value


def _text(value: Any) -> str:
    return _normal(json_util.dumps(value, json_options=json_util.RELAXED_JSON_OPTIONS))


def _normal(text: str) -> str:
    return json.dumps(json.loads(text), sort_keys=True, ensure_ascii=False)
