"""What must be in the topic, and in tables made of it: judged by the server's own stream of changes, and by its documents."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import penstock
from penstock.cdc.events.debezium import position_of
from penstock.cdc.mongodb.documents import json_text
from penstock.cdc.mongodb.positions import ClusterTime, sequence_of
from tests.cdc.mongodb.writers import DATABASE
from tests.cdc.reference import rows_of
from tests.mongodb_server import MongoDBServer

_OPS = {"insert": "c", "update": "u", "replace": "u", "delete": "d", "drop": "t", "rename": "t"}


@dataclass(frozen=True)
class Told:
    """A change, as the server tells it."""

    sequence: int
    time: ClusterTime
    op: str
    collection: str
    identity: str | None
    is_whole: bool
    """Whether it tells the document behind it, where it leaves one."""
    document: str | None


def told_by(server: MongoDBServer, begin: ClusterTime) -> list[Told]:
    """All changes of the database behind a time, up to now."""
    from bson.timestamp import Timestamp

    found: list[Told] = []
    with server.client() as client:
        db = client[DATABASE]
        end = db.command("ping")["operationTime"]
        start = Timestamp(begin.sec, begin.ord + 1)
        with db.watch(start_at_operation_time=start, full_document="whenAvailable", max_await_time_ms=500) as stream:
            counted = Counter[ClusterTime]()
            while (change := stream.try_next()) is not None or int(stream.resume_token["_data"][2:18], 16) < (
                end.time << 32 | end.inc
            ):
                if change is None:
                    continue
                time = ClusterTime(change["clusterTime"].time, change["clusterTime"].inc)
                sequence = sequence_of(time, counted[time])
                counted[time] += 1
                if (op := _OPS.get(change["operationType"])) is not None:
                    identity = json_text(change["documentKey"]["_id"]) if "documentKey" in change else None
                    document = None if change.get("fullDocument") is None else json_text(change["fullDocument"])
                    is_whole = op in "td" or document is not None
                    found.append(Told(sequence, time, op, change["ns"]["coll"], identity, is_whole, document))
    return found


@dataclass(frozen=True)
class Seen:
    """An event of the topic."""

    queue: int
    offset: int
    op: str
    collection: str
    identity: str | None
    position: int
    is_read: bool
    """Whether a reading of documents sent it."""
    body: bytes


def events_of(lake: str, topic: str) -> list[Seen]:
    """All that the topic has, by queue and offset."""
    with penstock.connect(lake) as opened, opened.reader(topic) as reader:
        return [seen for message in reader.messages() if (seen := _seen(message)) is not None]


def _seen(message: Any) -> Seen | None:
    event = json.loads(message.body)
    value = event["value"].get("payload", event["value"])
    if "source" not in value:  # a heartbeat
        return None
    source = value["source"]
    position = position_of(source, value["transaction"])
    assert position is not None
    identity = None if value["op"] == "t" else event["key"]["payload"]["_id"]
    is_read = source["snapshot"] == "true"
    return Seen(message.queue, message.offset, value["op"], source["table"], identity, position, is_read, bytes(message.body))


def begun_at(lake: str) -> ClusterTime:
    """The time at which a capture that has just begun begins to follow."""
    (state,) = Path(lake).glob("captures/*/mongodb/penstock/state")
    offset = json.loads(json.loads(state.read_text())["offset"])
    return ClusterTime(offset["sec"], offset["ord"])


def check_stream(events: Sequence[Seen], told: Sequence[Told]) -> None:
    """Each change once, and nothing else. Only a change without its document may be missing: the document was gone when it was looked up."""
    changes = Counter((one.position, one.op, one.collection, one.identity) for one in events if not one.is_read)
    wanted = {(one.sequence, one.op, one.collection, one.identity): one.is_whole for one in told}
    assert max(changes.values(), default=0) == 1, changes.most_common(3)
    assert not changes.keys() - wanted.keys(), sorted(changes.keys() - wanted.keys())[:5]
    assert not [one for one in sorted(wanted.keys() - changes.keys()) if wanted[one]]


def folded(events: Sequence[Seen], *, batches: int) -> dict[str, dict[str, str]]:
    """The tables that the plain reference of the sync makes of them, in so many batches: documents by id."""
    return {
        table: {row["_id"]: row["document"] for row in rows.values()}
        for (_, table), rows in rows_of(events, batches=batches).items()
        if rows
    }


def found_in(server: MongoDBServer) -> dict[str, dict[str, str]]:
    """The same by reading them."""
    with server.client() as client:
        db = client[DATABASE]
        collections = {
            name: {json_text(one["_id"]): json_text(one) for one in db[name].find()} for name in db.list_collection_names()
        }
    return {name: documents for name, documents in collections.items() if documents}
