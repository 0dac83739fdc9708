"""The metadata of a call: caller, language, and credentials."""

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
    """The caller's fields in a call; empty texts where absent."""

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
    """The last of a repeated name counts."""
    found = {_FIELDS[name]: value for name, value in pairs or () if name in _FIELDS and isinstance(value, str)}
    return CallMetadata(**found)
