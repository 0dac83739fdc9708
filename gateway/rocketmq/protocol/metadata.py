"""The metadata that every SDK sends with a call: who calls, in which language, and by which credentials."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

CLIENT_ID: Final = "x-mq-client-id"
_FIELDS: Final = {
    CLIENT_ID: "client_id",
    "x-mq-language": "language",
    "x-mq-client-version": "version",
    "x-mq-request-id": "request_id",
    "x-mq-namespace": "namespace",
    "x-mq-date-time": "date_time",
    "x-mq-session-token": "session_token",
    "authorization": "authorization",
    "traceparent": "traceparent",
    "tracestate": "tracestate",
}


@dataclass(frozen=True, slots=True)
class CallMetadata:
    """What a call says of its caller; empty texts where it says nothing."""

    client_id: str = ""
    language: str = ""
    version: str = ""
    request_id: str = ""
    namespace: str = ""
    date_time: str = ""
    session_token: str = ""
    authorization: str = field(default="", repr=False)
    traceparent: str = ""
    tracestate: str = ""


def metadata_of(pairs: Iterable[tuple[str, str | bytes]] | None) -> CallMetadata:
    """The fields among a call's metadata. Of a name that occurs twice the last one counts."""
    found = {_FIELDS[name]: value for name, value in pairs or () if name in _FIELDS and isinstance(value, str)}
    return CallMetadata(**found)
