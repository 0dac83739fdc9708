"""Ordered message queues with RocketMQ's semantics on nothing but object storage.

import penstock

with penstock.connect("memory://") as lake:
    lake.create_topic("orders", message_type="FIFO", queues=4)
    with lake.producer("orders") as producer:
        producer.send(penstock.Message(b"paid", message_group="user-7", tag="paid"))
    for message in lake.reader("orders").messages():
        print(message.queue, message.offset, message.body)
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.consumers import BatchResult, ConsumeResult, RetryAfter
    from penstock.coordinator import (
        AcksDecide,
        AlreadySettled,
        CheckedTransaction,
        CommittedNotVisible,
        DeadLetterPolicy,
        DeliveryOrder,
        ForeignReceipt,
        GroupDeleted,
        GroupExists,
        GroupInUse,
        GroupNotFound,
        GroupSettings,
        HalfMessagesMissing,
        InconsistentRestore,
        NotRecallable,
        OwnershipLost,
        ReceiptAhead,
        ReceiptExpired,
        ReceiptOutdated,
        ReceiptRefused,
        RetryPolicy,
        Schedule,
        SettledElsewhere,
        TableMismatch,
        TableNotFound,
        TooManyUnnoted,
        TopicReceipt,
        TransactionCommitted,
        TransactionEnded,
        TransactionExpired,
        TransactionFailed,
        TransactionNotFound,
        TransactionReceipt,
        TransactionResolution,
        TransactionRolledBack,
    )
    from penstock.log import (
        BackPressureError,
        CallError,
        ClockSkewError,
        ClosedError,
        DataDamaged,
        Duration,
        FencedError,
        ForkedError,
        InternalError,
        InvalidArgument,
        LimitExceeded,
        Message,
        MessageNotFound,
        MessageType,
        MessageTypeMismatch,
        MessageView,
        NewerFormatError,
        NotSupported,
        NotWritten,
        OffsetOutOfRange,
        PenstockError,
        PermissionDenied,
        ProducerFailedError,
        ReadOnlyError,
        Receipt,
        ReopenError,
        RetryError,
        SendResult,
        SequenceError,
        StorageFull,
        StoreUnavailable,
        TopicDeleted,
        TopicExists,
        TopicLimits,
        TopicNotFound,
        UnknownOutcome,
        UnsafeStoreError,
        WaitingMessage,
        delay_level,
    )

    from . import aio as aio
    from .blocking.consumers import BroadcastConsumer, PullConsumer, PushConsumer, SimpleConsumer
    from .blocking.lake import Lake
    from .blocking.topics import Producer, Reader
    from .blocking.transactions import Transaction
    from .lake import connect

__version__ = "0.1.0"

__all__ = [
    "AcksDecide",
    "AlreadySettled",
    "BackPressureError",
    "BatchResult",
    "BroadcastConsumer",
    "CallError",
    "CheckedTransaction",
    "ClockSkewError",
    "ClosedError",
    "CommittedNotVisible",
    "ConsumeResult",
    "DataDamaged",
    "DeadLetterPolicy",
    "DeliveryOrder",
    "Duration",
    "FencedError",
    "ForeignReceipt",
    "ForkedError",
    "GroupDeleted",
    "GroupExists",
    "GroupInUse",
    "GroupNotFound",
    "GroupSettings",
    "HalfMessagesMissing",
    "InconsistentRestore",
    "InternalError",
    "InvalidArgument",
    "Lake",
    "LimitExceeded",
    "Message",
    "MessageNotFound",
    "MessageType",
    "MessageTypeMismatch",
    "MessageView",
    "NewerFormatError",
    "NotRecallable",
    "NotSupported",
    "NotWritten",
    "OffsetOutOfRange",
    "OwnershipLost",
    "PenstockError",
    "PermissionDenied",
    "Producer",
    "ProducerFailedError",
    "PullConsumer",
    "PushConsumer",
    "ReadOnlyError",
    "Reader",
    "Receipt",
    "ReceiptAhead",
    "ReceiptExpired",
    "ReceiptOutdated",
    "ReceiptRefused",
    "ReopenError",
    "RetryAfter",
    "RetryError",
    "RetryPolicy",
    "Schedule",
    "SendResult",
    "SequenceError",
    "SettledElsewhere",
    "SimpleConsumer",
    "StorageFull",
    "StoreUnavailable",
    "TableMismatch",
    "TableNotFound",
    "TooManyUnnoted",
    "TopicDeleted",
    "TopicExists",
    "TopicLimits",
    "TopicNotFound",
    "TopicReceipt",
    "Transaction",
    "TransactionCommitted",
    "TransactionEnded",
    "TransactionExpired",
    "TransactionFailed",
    "TransactionNotFound",
    "TransactionReceipt",
    "TransactionResolution",
    "TransactionRolledBack",
    "UnknownOutcome",
    "UnsafeStoreError",
    "WaitingMessage",
    "__version__",
    "connect",
    "delay_level",
]

_MODULES = {"aio", "consumers", "coordinator", "lake", "log"}
_PLACES = {
    ".lake": {"connect"},
    ".blocking.lake": {"Lake"},
    ".blocking.consumers": {"BroadcastConsumer", "PullConsumer", "PushConsumer", "SimpleConsumer"},
    ".blocking.topics": {"Producer", "Reader"},
    ".consumers": {"BatchResult", "ConsumeResult", "RetryAfter"},
    ".blocking.transactions": {"Transaction"},
    ".coordinator": {
        "AcksDecide",
        "AlreadySettled",
        "CheckedTransaction",
        "CommittedNotVisible",
        "DeadLetterPolicy",
        "DeliveryOrder",
        "ForeignReceipt",
        "GroupDeleted",
        "GroupExists",
        "GroupInUse",
        "GroupNotFound",
        "GroupSettings",
        "HalfMessagesMissing",
        "InconsistentRestore",
        "NotRecallable",
        "OwnershipLost",
        "ReceiptAhead",
        "ReceiptExpired",
        "ReceiptOutdated",
        "ReceiptRefused",
        "RetryPolicy",
        "Schedule",
        "SettledElsewhere",
        "TableMismatch",
        "TableNotFound",
        "TooManyUnnoted",
        "TopicReceipt",
        "TransactionCommitted",
        "TransactionEnded",
        "TransactionExpired",
        "TransactionFailed",
        "TransactionNotFound",
        "TransactionReceipt",
        "TransactionResolution",
        "TransactionRolledBack",
    },
}
"""The modules of public names; all other names are in the log."""

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Import a public name when it is first used: the command line and the pytest plugin start without Arrow."""
        if name in _MODULES:
            return import_module(f".{name}", __name__)
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        place = next((place for place, names in _PLACES.items() if name in names), ".log")
        value = getattr(import_module(place, __name__), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(set(__all__) | _MODULES)
