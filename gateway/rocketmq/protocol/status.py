"""RocketMQ's codes for Penstock's errors. A business failure is a status in the answer of a successful call."""

from __future__ import annotations

from typing import Final

from ....coordinator import GroupNotFound, NotRecallable, ReceiptExpired, ReceiptRefused, TransactionNotFound
from ....log import (
    BackPressureError,
    InvalidArgument,
    LimitExceeded,
    MessageTypeMismatch,
    NotSupported,
    PenstockError,
    PermissionDenied,
    ReadOnlyError,
    RetryError,
    TopicDeleted,
    TopicNotFound,
)
from ...access.refusals import Forbidden, Unauthorized
from . import rocketmq_pb2 as pb

_CODES: tuple[tuple[type[PenstockError], pb.Code], ...] = (
    (TopicNotFound, pb.TOPIC_NOT_FOUND),
    (TopicDeleted, pb.TOPIC_NOT_FOUND),
    (GroupNotFound, pb.CONSUMER_GROUP_NOT_FOUND),
    (MessageTypeMismatch, pb.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE),
    (ReceiptExpired, pb.INVALID_RECEIPT_HANDLE),
    (ReceiptRefused, pb.INVALID_RECEIPT_HANDLE),
    (TransactionNotFound, pb.INVALID_TRANSACTION_ID),
    (NotRecallable, pb.BAD_REQUEST),
    (BackPressureError, pb.TOO_MANY_REQUESTS),
    (Unauthorized, pb.UNAUTHORIZED),
    (Forbidden, pb.FORBIDDEN),
    (PermissionDenied, pb.INTERNAL_SERVER_ERROR),
    (ReadOnlyError, pb.FORBIDDEN),
    (NotSupported, pb.UNSUPPORTED),
    (LimitExceeded, pb.BAD_REQUEST),
    (InvalidArgument, pb.BAD_REQUEST),
    (RetryError, pb.INTERNAL_SERVER_ERROR),
)
"""The first that fits counts. The store's refusals are none of the client's making."""


class StatusError(Exception):
    """An answer with a status instead of a result."""

    def __init__(self, code: pb.Code, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class ClientGone(Exception):
    """A client ended its call."""


def status(code: pb.Code, message: str = "") -> pb.Status:
    """The text has the name of a refused handle's code, for which RocketMQ's own suite looks."""
    name = pb.Code.Name(code)
    if code == pb.INVALID_RECEIPT_HANDLE and name not in message:
        message = f"{name}: {message}" if message else name
    return pb.Status(code=code, message=message or name)


_OK: Final = pb.Status(code=pb.OK, message="OK")


def ok() -> pb.Status:
    """The same for all, to be put into answers, which copy it."""
    return _OK


def code_of(error: PenstockError) -> pb.Code:
    """`INTERNAL_SERVER_ERROR` for an error that no call can cause or mend."""
    return next((code for kind, code in _CODES if isinstance(error, kind)), pb.INTERNAL_SERVER_ERROR)


def status_of(error: BaseException) -> pb.Status:
    if isinstance(error, StatusError):
        return status(error.code, error.message)
    if isinstance(error, TopicNotFound):
        return status(pb.TOPIC_NOT_FOUND, f"No topic route info for the topic: {error.object}. {error}")
    if isinstance(error, PenstockError):
        return status(code_of(error), str(error))
    return status(pb.INTERNAL_SERVER_ERROR, f"the gateway failed in an unforeseen way: {type(error).__name__}")
