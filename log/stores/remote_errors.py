"""Translates obstore's errors by their text, as types distinguish too little."""

from __future__ import annotations

import re
from typing import TypeAlias

from obstore import exceptions

from ..errors import (
    NO_ROOM,
    NO_ROOM_HINT,
    ClockSkewError,
    InvalidArgument,
    NotSupported,
    PenstockError,
    PermissionDenied,
    StorageFull,
    StoreUnavailable,
)
from .protocol import Conflict, ObjectMissing

_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>(\w+)</Code>")
_QUERY = re.compile(r"\?[^\s)\"]*")
_NO_BUCKET = ("NoSuchBucket", "ContainerNotFound", "The specified bucket does not exist")
_CREDENTIAL_SERVICES = ("169.254.169.254", "169.254.170.2", "metadata.google.internal", "/latest/api/token")
_CREDENTIAL_CODES = {"ExpiredToken", "InvalidToken", "TokenRefreshRequired", "AccessDenied", "InvalidAccessKeyId"}
_FULL_CODES = {"XMinioStorageFull", "QuotaExceeded", "InsufficientStorage", "StorageFull", "InsufficientCapacity"}
_TRANSIENT_CODES = {"RequestTimeout", "SlowDown", "OperationAborted", "BadDigest", "IncompleteBody"}
_CREDENTIALS_HINT = (
    "Set the credentials in the environment (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, GOOGLE_APPLICATION_CREDENTIALS, "
    "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY) or give the machine a role. Profiles in ~/.aws are not read; "
    "`aws configure export-credentials --format env` prints one's"
)
_LOCKED_HINT = (
    "The bucket keeps objects by a default retention (Object Lock). Penstock replaces and deletes some of its objects: "
    "use a bucket without it"
)
REFUSED_HINT = "Check what they may do there"


_Meaning: TypeAlias = tuple[type[PenstockError], str, str | None]


def translate(
    error: BaseException, *, operation: str, object: str, bucket: str, conditional: bool = False, answered: bool = True
) -> PenstockError:
    """Our error for obstore's. ``answered``: this store has answered before, so a failure to fetch credentials is a passing one."""
    text = str(error).partition("\n\nDebug source")[0]
    status = int(match[1]) if (match := _STATUS.search(text)) else None
    code = match[1] if (match := _CODE.search(text)) else None
    absent = isinstance(error, FileNotFoundError)
    if any(sign in text for sign in _NO_BUCKET) or (absent and operation == "put" and not conditional):
        hint = f"Create {'/'.join(bucket.split('/')[:3])}, or check its name, region and endpoint in the URL"
        meaning: _Meaning = (InvalidArgument, "no such bucket", hint)
    else:
        meaning = (
            _access(error, text, status, code, answered)
            or _refusal(error, status, absent, conditional)
            or _failure(error, text, status, code)
        )
    kind, message, hint_or_none = meaning
    observed = _QUERY.sub("?…", text)[:300]  # a query may hold a signature
    return kind(message, operation=operation, object=object, observed=observed, hint=hint_or_none)


def _access(error: BaseException, text: str, status: int | None, code: str | None, answered: bool) -> _Meaning | None:
    if any(sign in text for sign in _CREDENTIAL_SERVICES):
        if answered:
            return StoreUnavailable, "the credentials could not be refreshed", None
        return PermissionDenied, "no credentials were found", _CREDENTIALS_HINT
    if code == "RequestTimeTooSkewed":
        return ClockSkewError, "the store refuses this machine's clock", "Set the clock, by NTP for example"
    denied = isinstance(error, exceptions.PermissionDeniedError | exceptions.UnauthenticatedError) or status in {401, 403}
    if denied or (status == 400 and code in _CREDENTIAL_CODES):
        return PermissionDenied, "the store refused the credentials, or this use of them", REFUSED_HINT
    return None


def _refusal(error: BaseException, status: int | None, absent: bool, conditional: bool) -> _Meaning | None:
    # A 409 on a create comes as AlreadyExistsError too, so neither says more than "not confirmed".
    if isinstance(error, exceptions.AlreadyExistsError | exceptions.PreconditionError) or status in {409, 412}:
        if conditional:
            return Conflict, "the store did not confirm the conditional write", None
        return StoreUnavailable, "the store is changing what this write meets", None
    if absent:
        return (Conflict if conditional else ObjectMissing), "there is no such object", None
    return None


def _failure(error: BaseException, text: str, status: int | None, code: str | None) -> _Meaning:
    if isinstance(error, exceptions.NotSupportedError) or status == 501:
        return NotSupported, "the store does not know this request", None
    if status == 507 or code in _FULL_CODES:
        return StorageFull, NO_ROOM, NO_ROOM_HINT
    if isinstance(error, ValueError | exceptions.InvalidPathError):
        return InvalidArgument, "the request cannot be made", None
    if "Object Lock" in text or "x-amz-checksum" in text:
        return InvalidArgument, "the store refused the request", _LOCKED_HINT
    if status is not None and status < 500 and status not in {408, 429} and code not in _TRANSIENT_CODES:
        return InvalidArgument, "the store refused the request", "Check the region and the endpoint in the URL"
    return StoreUnavailable, "the store did not answer as it should", None
