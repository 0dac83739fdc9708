"""The meaning of botocore's errors for a table of cells."""

from __future__ import annotations

from typing import TypeAlias

from botocore import exceptions

from ...log.errors import (
    ClockSkewError,
    InvalidArgument,
    LimitExceeded,
    PenstockError,
    PermissionDenied,
    StoreUnavailable,
)
from ...log.stores.protocol import Conflict
from .protocol import TableMismatch, TableNotFound

_Meaning: TypeAlias = tuple[type[PenstockError], str, str | None]

_CREDENTIALS_HINT = (
    "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, in the environment, or give the machine a role"
)
_RIGHTS_HINT = "Allow dynamodb:GetItem, PutItem and DeleteItem on the table (Scan too for operators)"
_NOT_FOUND_HINT = "Make it with penstock.coordinator.create_table(url), or check its name, region and endpoint in the URL"

_MEANINGS: dict[str, _Meaning] = {
    "ConditionalCheckFailedException": (Conflict, "the cell is not as expected", None),
    "ResourceNotFoundException": (TableNotFound, "there is no such DynamoDB table", _NOT_FOUND_HINT),
    "AccessDeniedException": (PermissionDenied, "DynamoDB refused this use of the credentials", _RIGHTS_HINT),
    "ItemCollectionSizeLimitExceededException": (LimitExceeded, "the item is too large", None),
    "RequestExpired": (ClockSkewError, "DynamoDB refuses this machine's clock", "Set the clock, by NTP for example"),
    **dict.fromkeys(
        (
            "UnrecognizedClientException",
            "InvalidSignatureException",
            "InvalidClientTokenId",
            "IncompleteSignature",
            "MissingAuthenticationToken",
            "MissingAuthenticationTokenException",
            "ExpiredTokenException",
            "ExpiredToken",
        ),
        (PermissionDenied, "DynamoDB refused the credentials", _CREDENTIALS_HINT),
    ),
    **dict.fromkeys(
        (
            "ProvisionedThroughputExceededException",
            "RequestLimitExceeded",
            "Throttling",
            "ThrottlingException",
            "ThrottledException",
            "TooManyRequestsException",
            "LimitExceededException",
        ),
        (
            StoreUnavailable,
            "DynamoDB throttles the table",
            "One cell takes 1,000 writes of 1 KiB a second; else raise the table's capacity, or make it on demand",
        ),
    ),
    **dict.fromkeys(
        ("TransactionConflictException", "ReplicatedWriteConflictException", "ResourceInUseException"),
        (StoreUnavailable, "DynamoDB is changing what this call meets", None),
    ),
}


def code_of(error: BaseException) -> str:
    return str(error.response.get("Error", {}).get("Code", "")) if isinstance(error, exceptions.ClientError) else ""


def translate(error: exceptions.BotoCoreError | exceptions.ClientError, *, operation: str, object: str) -> PenstockError:
    kind, message, hint = _answered(error) if isinstance(error, exceptions.ClientError) else _unanswered(error)
    return kind(message, operation=operation, object=object, observed=str(error)[:300], hint=hint)


def mismatch(table: str, description: dict[str, object]) -> TableMismatch | None:
    """The difference of a table's key from the expected one."""
    expected = "partition key 'pk' of type S, no sort key"
    types = {one["AttributeName"]: one["AttributeType"] for one in _rows(description, "AttributeDefinitions")}
    keys = [f"{one['AttributeName']!r} of type {types.get(one['AttributeName'], '?')}" for one in _rows(description, "KeySchema")]
    if keys == ["'pk' of type S"]:
        return None
    return TableMismatch(
        "the DynamoDB table has another key than a table of cells",
        object=table,
        expected=expected,
        observed=", sort key ".join([f"partition key {keys[0]}", *keys[1:]]) if keys else "no key",
        hint="Name another table, or make one with penstock.coordinator.create_table(url)",
    )


def _rows(description: dict[str, object], name: str) -> list[dict[str, str]]:
    rows = description.get(name)
    return rows if isinstance(rows, list) else []


def _answered(error: exceptions.ClientError) -> _Meaning:
    code, status = code_of(error), error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    if code == "InvalidSignatureException" and any(sign in str(error) for sign in ("expired", "not yet current")):
        return _MEANINGS["RequestExpired"]
    if code in _MEANINGS:
        return _MEANINGS[code]
    # An answer that is cut off has no code, only a status, which says nothing.
    if code.isidentifier() and 400 <= status < 500 and status not in {408, 429}:
        return InvalidArgument, "DynamoDB refused the request", "Check the table's name, region and endpoint in the URL"
    return StoreUnavailable, "DynamoDB did not answer as it should", None


def _unanswered(error: exceptions.BotoCoreError) -> _Meaning:
    match error:
        case exceptions.NoCredentialsError() | exceptions.PartialCredentialsError():
            return PermissionDenied, "no credentials were found", _CREDENTIALS_HINT
        case exceptions.ProfileNotFound() | exceptions.ConfigParseError():
            return PermissionDenied, "the profile of AWS's settings cannot be used", _CREDENTIALS_HINT
        case exceptions.NoRegionError():
            return InvalidArgument, "no region is named", "Write dynamodb://table?region=…, or set AWS_REGION"
        case exceptions.InvalidRegionError() | exceptions.ParamValidationError() | exceptions.InvalidEndpointConfigurationError():
            return InvalidArgument, "the request cannot be made", "Check the table's name, region and endpoint in the URL"
        case _:
            return StoreUnavailable, "DynamoDB did not answer", None
