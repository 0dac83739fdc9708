"""What groups' handlers answer where something went wrong. Pure."""

from __future__ import annotations

from ....coordinator.groups.record import GroupMixed, GroupNotFound
from ....log.errors import InvalidArgument, LimitExceeded, NewerFormatError, PermissionDenied, ReopenError, RetryError
from ..wire.errors import ErrorCode, KafkaRefusal, refusal_of

_AGAIN = (RetryError, ReopenError, PermissionDenied, NewerFormatError)
"""The table does not answer, or not so that it can be read here. Members of a group try again after one code only."""
MIXED = ErrorCode.INVALID_GROUP_ID
"""A group of Penstock's own consumers, as clients end with it."""


def group_refusal(error: Exception) -> KafkaRefusal:
    """The code and text for a request about a group."""
    if isinstance(error, KafkaRefusal):
        return error
    if isinstance(error, GroupMixed):
        return KafkaRefusal(MIXED, str(error))
    if isinstance(error, GroupNotFound):
        return KafkaRefusal(ErrorCode.GROUP_ID_NOT_FOUND, str(error))
    if isinstance(error, InvalidArgument | LimitExceeded):
        return KafkaRefusal(ErrorCode.INVALID_GROUP_ID, str(error))
    if isinstance(error, _AGAIN):
        return KafkaRefusal(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error))
    return refusal_of(error)
