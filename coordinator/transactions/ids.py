"""Names of transactions and of their objects. A transaction's id alone gives its member, its uploads and the ids of its messages."""

from __future__ import annotations

from ...log.errors import InvalidArgument, LimitExceeded
from ...log.paths import check_topic_name
from ...log.runtime.runtime import Runtime
from ...log.stage.jobs import TRANSACTION_JOBS

PRODUCER_GROUP_CHARS_MAX = 120
"""The longest name of a producer group, as RocketMQ's."""
_MEMBER_CHARS = 16
_ID_CHARS = 32


def check_producer_group(name: object) -> None:
    """Raise unless this can be a producer group."""
    if not isinstance(name, str):
        raise InvalidArgument("a producer group's name must be a string", operation="transaction", observed=type(name).__name__)
    if len(name) > PRODUCER_GROUP_CHARS_MAX:
        raise LimitExceeded(
            "the producer group's name is too long",
            operation="transaction",
            expected=f"at most {PRODUCER_GROUP_CHARS_MAX} characters",
            observed=len(name),
        )
    try:
        if name.startswith("%"):
            raise InvalidArgument("reserved")
        check_topic_name(name)
    except InvalidArgument as error:
        raise InvalidArgument(
            "bad producer group name", operation="transaction", expected="letters, digits, '_' and '-'", observed=name
        ) from error


def new_member(runtime: Runtime) -> str:
    """A fresh member, which stands for one process for some time."""
    return runtime.new_id()[:_MEMBER_CHARS]


def new_transaction(member: str, runtime: Runtime) -> str:
    """A fresh transaction of a member: 32 hexadecimal digits, whose first half is the member's."""
    return member + runtime.new_id()[:_MEMBER_CHARS]


def member_of(transaction: str) -> str:
    """The member whose cell has the transaction. Raises `InvalidArgument` for text that is no transaction's id."""
    if not isinstance(transaction, str) or len(transaction) != _ID_CHARS or not set(transaction) <= set("0123456789abcdef"):
        raise InvalidArgument(
            "not a transaction's id", operation="transaction", expected=f"{_ID_CHARS} hexadecimal digits", observed=transaction
        )
    return transaction[:_MEMBER_CHARS]


def id_prefix(transaction: str) -> int:
    """The prefix of the ids of its messages."""
    return int(transaction[_MEMBER_CHARS:], 16)


def job_of(transaction: str) -> str:
    """The staged upload of its messages, in each of its topics."""
    return TRANSACTION_JOBS + transaction


def transaction_of(job: str) -> str | None:
    """The transaction that an upload belongs to. None for any other upload."""
    transaction = job.removeprefix(TRANSACTION_JOBS)
    return transaction if job.startswith(TRANSACTION_JOBS) and len(transaction) == _ID_CHARS else None
