"""The signature MQv2-HMAC-SHA1, as RocketMQ's SDKs send it with every call. Pure.

It signs the header ``x-mq-date-time`` and nothing else. SDKs write their *local* time there, although it ends in Z; Rust's alone writes RFC 3339. So
a time is valid within `SKEW` of the gateway's clock in some zone; with ``utc_only`` it must be UTC.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from ...access.refusals import Unauthorized

SKEW: Final = timedelta(minutes=15)
_WEST, _EAST = timedelta(hours=-12), timedelta(hours=14)
_HEADER: Final = re.compile(
    r"MQv2-HMAC-SHA1 +Credential=(?P<key>[^,/\s]+)(?:/[^,\s]*)?, *SignedHeaders=(?P<headers>[^,\s]*), *Signature=(?P<hex>[0-9a-fA-F]{40})"
)
_DATE_TIME: Final = "x-mq-date-time"
_FORM: Final = re.compile(r"\d{8}T\d{6}Z", re.ASCII)
_RFC_3339: Final = re.compile(r"(?P<second>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.\d{1,9})?(?P<zone>Z|[+-]\d\d:\d\d)", re.ASCII)
_CHARS_MAX: Final = 1024


@dataclass(frozen=True, slots=True)
class Signature:
    """An unproved statement of a call."""

    access_key: str
    date_time: str
    digest: bytes

    def is_by(self, secret: str) -> bool:
        return hmac.compare_digest(self.digest, digest_of(secret, self.date_time))


def digest_of(secret: str, date_time: str) -> bytes:
    return hmac.digest(secret.encode(), date_time.encode(), hashlib.sha1)


def signature_of(authorization: str, date_time: str) -> Signature:
    """Raises `Unauthorized` without a signature of this kind."""
    if not authorization:
        raise Unauthorized("the call is not signed: give the client an access key and a secret")
    found = _HEADER.fullmatch(authorization) if len(authorization) <= _CHARS_MAX else None
    if found is None:
        raise Unauthorized(
            "the authorization is not 'MQv2-HMAC-SHA1 Credential=…, SignedHeaders=x-mq-date-time, Signature=…'; were a key and a secret given?"
        )
    if found["headers"] != _DATE_TIME:
        raise Unauthorized(f"the signature must be of the header {_DATE_TIME} alone")
    return Signature(found["key"], date_time, bytes.fromhex(found["hex"]))


def check_time(date_time: str, now_ms: int, *, utc_only: bool) -> None:
    """Raise `Unauthorized` unless a call was signed just now."""
    now = datetime.fromtimestamp(now_ms / 1000, UTC)
    zoned = _RFC_3339.fullmatch(date_time)
    try:
        if zoned is not None:
            signed = datetime.fromisoformat(zoned["second"] + zoned["zone"])
        elif _FORM.fullmatch(date_time):
            signed = datetime.strptime(date_time, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        else:
            raise ValueError(date_time)
    except ValueError:
        raise Unauthorized(f"{_DATE_TIME} is no time of the form 20260131T235959Z, nor of RFC 3339") from None
    exact = utc_only or zoned is not None
    west, east = (timedelta(0), timedelta(0)) if exact else (_WEST, _EAST)
    if not west - SKEW <= signed - now <= east + SKEW:
        minutes = round(SKEW / timedelta(minutes=1))
        where = "the gateway's clock" if exact else "the gateway's clock in any zone"
        raise Unauthorized(
            f"the signature has expired: it was made at {date_time}, more than {minutes} minutes from {where} ({now:%Y%m%dT%H%M%SZ})"
        )
