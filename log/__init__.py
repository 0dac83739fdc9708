"""The log on object storage: topics, producers, readers and the Delta table, asynchronously.

`penstock.connect` gives the same to synchronous callers; `penstock.aio` is this module's face for asynchronous ones.
"""

from typing import TYPE_CHECKING

from .lazy_names import lazy_names

if TYPE_CHECKING:
    from .append.contention import Pace
    from .describe import QueueDescription, TopicDescription
    from .errors import (
        AccessLost,
        AccessRefused,
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
    from .format.state import SchemaVersion
    from .lake import LogLake
    from .limits import Duration, TopicLimits
    from .message.message import LOG_SCHEMA, MESSAGE_SCHEMA, SEND_SCHEMA, Message, MessageView, views
    from .message.message_type import MessageType
    from .message.routing import queue_of
    from .produce.accumulator import BatchOutcome, ProducerOptions, ProducerStatistics
    from .produce.delay_levels import DELAY_LEVELS, delay_level
    from .produce.delays import WaitingMessage
    from .produce.producer import Producer
    from .produce.receipts import BatchReceipt, Receipt, SendBatchResult, SendResult
    from .read.reader import Position, Reader, SkippedRange
    from .runtime.runtime import Clock, Runtime, SystemClock
    from .schema.sources import SchemaLike
    from .schema.topic_schema import TopicSchema
    from .stores import ObjectStore, open_store
    from .topic.settings import TopicRecord, TopicSettings
    from .topic.topics import Topic

__all__ = [
    "DELAY_LEVELS",
    "LOG_SCHEMA",
    "MESSAGE_SCHEMA",
    "SEND_SCHEMA",
    "AccessLost",
    "AccessRefused",
    "BackPressureError",
    "BatchOutcome",
    "BatchReceipt",
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
    "LimitExceeded",
    "LogLake",
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
    "SchemaLike",
    "SchemaVersion",
    "SendBatchResult",
    "SendResult",
    "SequenceError",
    "SkippedRange",
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
    "TopicSchema",
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

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            ".append.contention": ["Pace"],
            ".describe": ["QueueDescription", "TopicDescription"],
            ".errors": [
                "AccessLost",
                "AccessRefused",
                "BackPressureError",
                "CallError",
                "ClockSkewError",
                "ClosedError",
                "DataDamaged",
                "FencedError",
                "ForeignObject",
                "ForkedError",
                "InternalError",
                "InvalidArgument",
                "LimitExceeded",
                "MessageNotFound",
                "MessageTypeMismatch",
                "NewerFormatError",
                "NotSupported",
                "NotWritten",
                "OffsetOutOfRange",
                "PenstockError",
                "PermissionDenied",
                "ProducerFailedError",
                "ReadOnlyError",
                "ReopenError",
                "RetryError",
                "SequenceError",
                "StorageFull",
                "StoreUnavailable",
                "TopicDeleted",
                "TopicExists",
                "TopicNotFound",
                "UnknownOutcome",
                "UnsafeStoreError",
                "ViewLost",
            ],
            ".filter.tags": ["TagFilter"],
            ".format.state": ["SchemaVersion"],
            ".lake": ["LogLake"],
            ".limits": ["Duration", "TopicLimits"],
            ".message.message": ["LOG_SCHEMA", "MESSAGE_SCHEMA", "SEND_SCHEMA", "Message", "MessageView", "views"],
            ".message.message_type": ["MessageType"],
            ".message.routing": ["queue_of"],
            ".produce.accumulator": ["BatchOutcome", "ProducerOptions", "ProducerStatistics"],
            ".produce.delay_levels": ["DELAY_LEVELS", "delay_level"],
            ".produce.delays": ["WaitingMessage"],
            ".produce.producer": ["Producer"],
            ".produce.receipts": ["BatchReceipt", "SendBatchResult", "Receipt", "SendResult"],
            ".read.reader": ["SkippedRange", "Position", "Reader"],
            ".runtime.runtime": ["Clock", "Runtime", "SystemClock"],
            ".schema.sources": ["SchemaLike"],
            ".schema.topic_schema": ["TopicSchema"],
            ".stores": ["ObjectStore", "open_store"],
            ".topic.settings": ["TopicRecord", "TopicSettings"],
            ".topic.topics": ["Topic"],
        },
    )
