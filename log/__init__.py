"""The log on object storage: topics, producers, readers and the Delta table, asynchronously.

`penstock.connect` gives the same to synchronous callers; `penstock.aio` is this module's face for asynchronous ones.
"""

from .append.contention import Pace
from .describe import QueueDescription, TopicDescription
from .errors import (
    BackPressureError,
    CallError,
    ClockSkewError,
    ClosedError,
    DataDamaged,
    FencedError,
    ForeignObject,
    ForkedError,
    InternalError,
    InvalidArgument,
    LimitExceeded,
    MessageNotFound,
    MessageTypeMismatch,
    NewerFormatError,
    NotSupported,
    NotWritten,
    OffsetOutOfRange,
    PenstockError,
    PermissionDenied,
    ProducerFailedError,
    ReadOnlyError,
    ReopenError,
    RetryError,
    SequenceError,
    StorageFull,
    StoreUnavailable,
    TopicDeleted,
    TopicExists,
    TopicNotFound,
    UnknownOutcome,
    UnsafeStoreError,
    ViewLost,
)
from .filter.tags import TagFilter
from .lake import Lake
from .limits import Duration, TopicLimits
from .message.message import LOG_SCHEMA, MESSAGE_SCHEMA, SEND_SCHEMA, Message, MessageType, MessageView, views
from .message.routing import queue_of
from .produce.accumulator import BatchSent, ProducerOptions, ProducerStatistics
from .produce.delays import DELAY_LEVELS, WaitingMessage, delay_level
from .produce.producer import Producer
from .produce.receipts import BatchReceipt, BatchResult, Receipt, SendResult
from .read.reader import LeftOut, Position, Reader
from .runtime.runtime import Clock, Runtime, SystemClock
from .stores import ObjectStore, open_store
from .topic.settings import TopicRecord, TopicSettings
from .topic.topics import Topic

__all__ = [
    "DELAY_LEVELS",
    "LOG_SCHEMA",
    "MESSAGE_SCHEMA",
    "SEND_SCHEMA",
    "BackPressureError",
    "BatchReceipt",
    "BatchResult",
    "BatchSent",
    "CallError",
    "Clock",
    "ClockSkewError",
    "ClosedError",
    "DataDamaged",
    "Duration",
    "FencedError",
    "ForeignObject",
    "ForkedError",
    "InternalError",
    "InvalidArgument",
    "Lake",
    "LeftOut",
    "LimitExceeded",
    "Message",
    "MessageNotFound",
    "MessageType",
    "MessageTypeMismatch",
    "MessageView",
    "NewerFormatError",
    "NotSupported",
    "NotWritten",
    "ObjectStore",
    "OffsetOutOfRange",
    "Pace",
    "PenstockError",
    "PermissionDenied",
    "Position",
    "Producer",
    "ProducerFailedError",
    "ProducerOptions",
    "ProducerStatistics",
    "QueueDescription",
    "ReadOnlyError",
    "Reader",
    "Receipt",
    "ReopenError",
    "RetryError",
    "Runtime",
    "SendResult",
    "SequenceError",
    "StorageFull",
    "StoreUnavailable",
    "SystemClock",
    "TagFilter",
    "Topic",
    "TopicDeleted",
    "TopicDescription",
    "TopicExists",
    "TopicLimits",
    "TopicNotFound",
    "TopicRecord",
    "TopicSettings",
    "UnknownOutcome",
    "UnsafeStoreError",
    "ViewLost",
    "WaitingMessage",
    "delay_level",
    "open_store",
    "queue_of",
    "views",
]
