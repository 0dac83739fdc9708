"""The failures of a MongoDB, and the driver's errors as Penstock's."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ...log.errors import (
    CallError,
    DataDamaged,
    InternalError,
    InvalidArgument,
    LimitExceeded,
    PenstockError,
    PermissionDenied,
)
from ..capture.errors import SourceReplaced, SourceUnavailable, load_extra

_DENIED, _NOT_KNOWN = 13, 18
_LOST = (136, 222, 280, 286)
"""CappedPositionLost, CloseChangeStream, ChangeStreamFatalError, ChangeStreamHistoryLost."""
_ENDED = (43, 50, 175, 237)
"""CursorNotFound, MaxTimeMSExpired, QueryPlanKilled (its collection was dropped or renamed), CursorKilled."""
_TOO_LARGE = 10334
_NO_REPLICAS = 40573
_NO_SESSIONS = "Sessions are not supported"
"""The driver's mistake about a server that has just started."""
_WHERE_FROM = "a user's password comes from PENSTOCK_DATABASE_PASSWORD"


class OplogLost(CallError):
    """The server no longer has the log after the topic's end: changes are missing."""

    kind = "oplog_lost"


def load_pymongo() -> Any:  # noqa: ANN401 - a module
    """The extra PyMongo. Raises `MissingDependency`."""
    return load_extra("pymongo", "reading MongoDB needs PyMongo", "mongodb")


@contextmanager
def translated(where: str) -> Iterator[None]:
    errors = load_pymongo().errors
    from bson.errors import BSONError

    try:
        yield
    except errors.PyMongoError as error:
        raise translation(error, where) from error
    except BSONError as error:
        raise DataDamaged(
            "the driver cannot read what the server tells", operation="capture", object=where, observed=str(error)[:300]
        ) from error


def translation(error: Any, where: str) -> PenstockError:  # noqa: ANN401 - PyMongo is an extra
    errors = load_pymongo().errors
    observed = re.split(r", full error| \(configured timeouts", str(error))[0][:300]
    facts: dict[str, Any] = {"operation": "capture", "object": where, "observed": observed}
    code = getattr(error, "code", None)
    if code == _NOT_KNOWN:
        return PermissionDenied("the database does not know the user by this password", hint=_WHERE_FROM, **facts)
    if code == _DENIED:
        return PermissionDenied(
            "the database refused it to this user",
            hint="it needs the role read on the database: db.grantRolesToUser('penstock', [{role: 'read', db: 'shop'}])",
            **facts,
        )
    if code in _LOST and "resume token was not found" in observed:
        return SourceReplaced(
            "the server's log does not have the last change: it has another history, as a restored server has it",
            hint="begin again by reading all collections: --snapshot again",
            **facts,
        )
    if code in _LOST:
        return OplogLost(
            "the oplog is lost: the server has removed changes that are not in the topic",
            hint="begin again by reading all collections: --snapshot again; and keep the oplog longer (replSetResizeOplog, minRetentionHours)",
            **facts,
        )
    if code == _TOO_LARGE:
        return LimitExceeded(
            "a change is too large for the server's stream of changes, which tells each as one document of at most 16 MiB",
            hint="store less in one document; then begin again by reading all collections: --snapshot again",
            **facts,
        )
    if code == _NO_REPLICAS:
        return no_replica_set(where)
    if isinstance(error, errors.ConfigurationError) and _NO_SESSIONS in observed:
        return SourceUnavailable("the server does not take part in its replica set yet", **facts)
    if isinstance(error, errors.ConfigurationError | errors.InvalidURI):
        return InvalidArgument("the driver refuses the URL", hint=_WHERE_FROM, **facts)
    if isinstance(error, errors.ConnectionFailure) or error.has_error_label("ResumableChangeStreamError"):
        return SourceUnavailable("the database does not answer", **facts)
    if code in _ENDED:
        return SourceUnavailable("the server has ended a reading", **facts)  # the next one finds what is there
    return InternalError("the driver failed", **facts)


def no_replica_set(where: str) -> InvalidArgument:
    return InvalidArgument(
        "the server is in no replica set, so it keeps no log of changes",
        operation="capture",
        object=where,
        expected="a replica set; one server may be a set of its own",
        observed="a server that runs alone",
        hint="start it with --replSet rs0, then rs.initiate() once in mongosh",
    )
