"""Ordered message queues with RocketMQ's semantics on nothing but object storage.

import penstock

with penstock.connect("memory://") as lake:
lake.create_topic("orders", message_type="FIFO", queues=4)
with lake.producer("orders") as producer:
producer.send(penstock.Message(b"paid", message_group="user-7", tag="paid"))
for message in lake.reader("orders").messages():
print(message.queue, message.offset, message.body)
"""

from penstock.log import (
    BackPressureError,
    CallError,
    ClockSkewError,
    ClosedError,
    DataDamaged,
    FencedError,
    ForkedError,
    InternalError,
    InvalidArgument,
    LimitExceeded,
    Message,
    MessageType,
    MessageTypeMismatch,
    MessageView,
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
    StoreUnavailable,
    TopicDeleted,
    TopicExists,
    TopicLimits,
    TopicNotFound,
    UnknownOutcome,
    UnsafeStoreError,
)

from .lake import Lake, Producer, Reader, connect

__version__ = "0.1.0"

__all__ = [
    "BackPressureError",
    "CallError",
    "ClockSkewError",
    "ClosedError",
    "DataDamaged",
    "FencedError",
    "ForkedError",
    "InternalError",
    "InvalidArgument",
    "Lake",
    "LimitExceeded",
    "Message",
    "MessageType",
    "MessageTypeMismatch",
    "MessageView",
    "NotSupported",
    "NotWritten",
    "OffsetOutOfRange",
    "PenstockError",
    "PermissionDenied",
    "Producer",
    "ProducerFailedError",
    "ReadOnlyError",
    "Reader",
    "Receipt",
    "ReopenError",
    "RetryError",
    "SendResult",
    "SequenceError",
    "StoreUnavailable",
    "TopicDeleted",
    "TopicExists",
    "TopicLimits",
    "TopicNotFound",
    "UnknownOutcome",
    "UnsafeStoreError",
    "__version__",
    "connect",
]
