"""A MongoDB's clock, collections, documents, and stream of changes."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from ...log.errors import InvalidArgument, NotSupported
from .documents import identity_text
from .errors import load_pymongo, no_replica_set, translated
from .places import StreamPlace, token_of
from .positions import ClusterTime

_ANSWER_MS, _LOOKUP_MS = 10_000, 60_000
_AWAIT_MS = 100
_BATCH = 2000
_POST_IMAGES = (6, 0)
_OWN = ("admin", "config", "local")
_BAD_VALUE, _SHORTENED = 2, 286
"""ChangeStreamHistoryLost: the log is too short for that time."""
_STAGES = [{"$unset": "updateDescription"}]
"""An unused field could exceed the server's limit on events."""


class MongoServer:
    """One database of a replica set."""

    def __init__(self, url: str, *, password: str | None = None) -> None:
        """``url`` names the database: ``mongodb://user@host:27017/shop?replicaSet=rs0``. Raises `InvalidArgument`, `MissingDependency`."""
        self.where = re.sub(r"//[^/@]*@", "//", url).partition("?")[0]
        pymongo = load_pymongo()
        with translated(self.where):
            parsed = pymongo.uri_parser.parse_uri(url, validate=True) if url.startswith("mongodb://") else {}
        database = parsed.get("database") or urlsplit(url).path.strip("/")
        if not database:
            raise InvalidArgument(
                "the URL names no database", operation="capture", object=self.where, expected="mongodb://user@host:27017/database"
            )
        if database in _OWN:
            raise InvalidArgument(
                "the database is the server's own", operation="capture", object=self.where, expected=f"none of {', '.join(_OWN)}"
            )
        self._url, self._password, self.database = url, password, database
        self._open: Any = None

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None

    @property
    def _client(self) -> Any:  # noqa: ANN401 - PyMongo is an extra
        if self._open is None:
            more = {} if self._password is None else {"password": self._password}
            self._open = load_pymongo().MongoClient(
                self._url,
                appname="penstock",
                serverSelectionTimeoutMS=_ANSWER_MS,
                connectTimeoutMS=_ANSWER_MS,
                **more,
            )
        return self._open

    @property
    def _db(self) -> Any:  # noqa: ANN401 - PyMongo is an extra
        majority = load_pymongo().read_concern.ReadConcern("majority")
        from bson.codec_options import CodecOptions, DatetimeConversion

        # What other drivers have written may be of any year, and no UTF-8.
        odd = CodecOptions[dict[str, Any]](
            tz_aware=True, datetime_conversion=DatetimeConversion.DATETIME_AUTO, unicode_decode_error_handler="backslashreplace"
        )
        return self._client.get_database(self.database, read_concern=majority, codec_options=odd)

    def check(self) -> None:
        """Raise `InvalidArgument` for a server without a log of changes, and `translation`'s errors for a user who may not read
        it.
        """
        with translated(self.where):
            hello = self._client.admin.command("hello")
            if hello.get("msg") == "isdbgrid":
                raise NotSupported(
                    "nothing tells the order of changes that several shards make at one time, so one could be in the topic twice, or not at all",
                    operation="capture",
                    object=self.where,
                    expected="a replica set",
                    observed="a sharded cluster",
                    hint="a database that lies on one shard may be captured from that shard's replica set",
                )
            if "setName" not in hello:
                raise no_replica_set(self.where)
            with self._db.watch(max_await_time_ms=1):
                pass

    def identity(self) -> str:
        """The cluster's identity, which survives a restart. Its last word, the replica set's id, needs the role clusterMonitor."""
        operation_failure = load_pymongo().errors.OperationFailure
        with translated(self.where):
            admin = self._client.admin
            name = f"{admin.command('hello')['setName']} {self.database}"
            try:
                return f"{name} {admin.command('replSetGetConfig')['config']['settings']['replicaSetId']}"
            except operation_failure:  # not allowed
                return name

    def now(self) -> ClusterTime:
        """The cluster's time: not before any readable change."""
        with translated(self.where):
            return _time(self._db.command("ping")["operationTime"])

    def collections(self) -> list[str]:
        with translated(self.where):
            listed = self._db.list_collections(filter={"type": "collection"}, nameOnly=True)
            return sorted(found["name"] for found in listed if not found["name"].startswith("system."))

    def time_series(self) -> list[str]:
        """The collections of time series, which have no change streams."""
        with translated(self.where):
            return sorted(found["name"] for found in self._db.list_collections(filter={"type": "timeseries"}, nameOnly=True))

    def documents(self, collection: str, *, after: Any, since: ClusterTime) -> Iterator[dict[str, Any]]:  # noqa: ANN401 - of any type
        """A collection's documents in the order of ids, after an id if given, with all changes up to ``since``."""
        from bson import MaxKey

        with self._since(since) as session, translated(self.where):
            # Fails where no majority answers, for which the reading itself would wait for ever.
            self._db[collection].find_one({}, {"_id": 1}, session=session, max_time_ms=_ANSWER_MS)
            found = self._db[collection].find(batch_size=_BATCH, session=session).hint([("_id", 1)])
            if after is None:
                yield from found
                return
            if isinstance(after, MaxKey):
                return
            last = self._db[collection].find({"_id": MaxKey()}, session=session)  # which `min` leaves out
            for number, document in enumerate(itertools.chain(found.min([("_id", after)]), last)):
                # Ids are unique, so only the first may be that one.
                if number or identity_text(document["_id"]) != identity_text(after):
                    yield document

    def lookup(self, collection: str, ids: Sequence[Any], *, since: ClusterTime) -> list[dict[str, Any]]:
        with self._since(since) as session, translated(self.where):
            return list(self._db[collection].find({"_id": {"$in": list(ids)}}, session=session, max_time_ms=_LOOKUP_MS))

    @contextmanager
    def _since(self, time: ClusterTime) -> Iterator[Any]:
        with self._client.start_session(causal_consistency=True) as session:
            session.advance_operation_time(_timestamp(time))
            yield session

    def watch(self, place: StreamPlace) -> Any:  # noqa: ANN401 - PyMongo is an extra
        """The database's changes after a place. Raises `OplogLost`, and `SourceReplaced` where the log has another history."""
        with translated(self.where):
            if place.event not in (None, place.token):
                self._check_event(place.event)
            if place.token is None:
                start = ClusterTime(place.time.sec, place.time.ord + 1)
                begin: dict[str, Any] = {"start_at_operation_time": _timestamp(start)}
            else:
                begin = {"start_after": token_of(place.token)}
            begin |= {"max_await_time_ms": _AWAIT_MS, "batch_size": _BATCH}
            if tuple(self._client.server_info()["versionArray"][:2]) >= _POST_IMAGES:
                try:
                    return self._db.watch(_STAGES, full_document="whenAvailable", **begin)
                except load_pymongo().errors.OperationFailure as error:
                    if error.code != _BAD_VALUE:  # a server that still behaves as an earlier version
                        raise
            return self._db.watch(_STAGES, **begin)

    def _check_event(self, event: str) -> None:
        """Raise the server's error for a log that never had an event. A log's time is no proof of its history: it goes on with
        the clock.
        """
        operation_failure = load_pymongo().errors.OperationFailure
        try:
            with self._db.watch(start_after=token_of(event), max_await_time_ms=1, batch_size=1) as stream:
                stream.try_next()
        except operation_failure as error:
            if error.code != _SHORTENED:
                raise


def _time(timestamp: Any) -> ClusterTime:  # noqa: ANN401 - PyMongo is an extra
    return ClusterTime(timestamp.time, timestamp.inc)


def _timestamp(time: ClusterTime) -> Any:  # noqa: ANN401 - PyMongo is an extra
    from bson.timestamp import Timestamp

    return Timestamp(time.sec, time.ord)
