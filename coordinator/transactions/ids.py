"""Names that follow from a transaction's id."""

from __future__ import annotations

import re

from ...log.errors import InvalidArgument, LimitExceeded
from ...log.runtime.runtime import Runtime
from ...log.stage.jobs import TRANSACTION_JOBS

PRODUCER_GROUP_CHARS_MAX = 120
"""The longest name of a producer group, as RocketMQ's."""
_PRODUCER_GROUP = re.compile(r"[A-Za-z0-9_-]+")
_MEMBER_CHARS = 16
_ID_CHARS = 32


def check_producer_group(name: object) -> None:
    if not isinstance(name, str):
        raise InvalidArgument("a producer group's name must be a string", operation="transaction", observed=type(name).__name__)
    if len(name) > PRODUCER_GROUP_CHARS_MAX:
        raise LimitExceeded(
            "the producer group's name is too long",
            operation="transaction",
            expected=f"at most {PRODUCER_GROUP_CHARS_MAX} characters",
            observed=len(name),
        )
    if not _PRODUCER_GROUP.fullmatch(name):
        raise InvalidArgument(
            "bad producer group name", operation="transaction", expected="letters, digits, '_' and '-'", observed=name
        )


def new_member(runtime: Runtime) -> str:
    return runtime.new_id()[:_MEMBER_CHARS]


def new_transaction(member: str, runtime: Runtime) -> str:
    """32 hexadecimal digits, whose first half is the member's."""
    return member + runtime.new_id()[:_MEMBER_CHARS]


def member_of(transaction: str) -> str:
    """Raises `InvalidArgument` for text that is no id."""
    if not isinstance(transaction, str) or len(transaction) != _ID_CHARS or not set(transaction) <= set("0123456789abcdef"):
        raise InvalidArgument(
            "not a transaction's id", operation="transaction", expected=f"{_ID_CHARS} hexadecimal digits", observed=transaction
        )
    return transaction[:_MEMBER_CHARS]


def id_prefix(transaction: str) -> int:
    return int(transaction[_MEMBER_CHARS:], 16)


def job_of(transaction: str) -> str:
    """The staged upload in each of its topics."""
    return TRANSACTION_JOBS + transaction


def transaction_of(job: str) -> str | None:
    """None for any other upload."""
    transaction = job.removeprefix(TRANSACTION_JOBS)
    return transaction if job.startswith(TRANSACTION_JOBS) and len(transaction) == _ID_CHARS else None
