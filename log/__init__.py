"""The log on object storage: topics, producers, readers and the Delta table, asynchronously."""

from typing import TYPE_CHECKING

from .lazy_names import lazy_names

if TYPE_CHECKING:
    from .append.contention import Pace as Pace
    from .describe import QueueDescription as QueueDescription
    from .describe import TopicDescription as TopicDescription
    from .errors import AccessLost as AccessLost
    from .errors import AccessRefused as AccessRefused
    from .errors import BackPressureError as BackPressureError
    from .errors import CallError as CallError
    from .errors import ClockSkewError as ClockSkewError
    from .errors import ClosedError as ClosedError
    from .errors import DataDamaged as DataDamaged
    from .errors import FencedError as FencedError
    from .errors import ForeignObject as ForeignObject
    from .errors import ForkedError as ForkedError
    from .errors import InternalError as InternalError
    from .errors import InvalidArgument as InvalidArgument
    from .errors import LimitExceeded as LimitExceeded
    from .errors import MessageNotFound as MessageNotFound
    from .errors import MessageTypeMismatch as MessageTypeMismatch
    from .errors import NewerFormatError as NewerFormatError
    from .errors import NotSupported as NotSupported
    from .errors import NotWritten as NotWritten
    from .errors import OffsetOutOfRange as OffsetOutOfRange
    from .errors import PenstockError as PenstockError
    from .errors import PermissionDenied as PermissionDenied
    from .errors import ProducerFailedError as ProducerFailedError
    from .errors import ReadOnlyError as ReadOnlyError
    from .errors import ReopenError as ReopenError
    from .errors import RetryError as RetryError
    from .errors import RoutingChanged as RoutingChanged
    from .errors import SequenceError as SequenceError
    from .errors import StorageFull as StorageFull
    from .errors import StoreUnavailable as StoreUnavailable
    from .errors import TopicDeleted as TopicDeleted
    from .errors import TopicExists as TopicExists
    from .errors import TopicNotFound as TopicNotFound
    from .errors import UnknownOutcome as UnknownOutcome
    from .errors import UnsafeStoreError as UnsafeStoreError
    from .errors import ViewLost as ViewLost
    from .filter.tags import TagFilter as TagFilter
    from .format.state import SchemaVersion as SchemaVersion
    from .lake import LogLake as LogLake
    from .limits import Duration as Duration
    from .limits import TopicLimits as TopicLimits
    from .message.message import LOG_SCHEMA as LOG_SCHEMA
    from .message.message import MESSAGE_SCHEMA as MESSAGE_SCHEMA
    from .message.message import SEND_SCHEMA as SEND_SCHEMA
    from .message.message import Message as Message
    from .message.message import MessageView as MessageView
    from .message.message import views as views
    from .message.message_type import MessageType as MessageType
    from .message.message_type import MessageTypeLike as MessageTypeLike
    from .message.routing import queue_of as queue_of
    from .message.routing_type import Routing as Routing
    from .message.routing_type import RoutingLike as RoutingLike
    from .produce.accumulator import BatchOutcome as BatchOutcome
    from .produce.accumulator import ProducerOptions as ProducerOptions
    from .produce.accumulator import ProducerStatistics as ProducerStatistics
    from .produce.delay_levels import DELAY_LEVELS as DELAY_LEVELS
    from .produce.delay_levels import delay_level as delay_level
    from .produce.delays import WaitingMessage as WaitingMessage
    from .produce.producer import Producer as Producer
    from .produce.receipts import BatchReceipt as BatchReceipt
    from .produce.receipts import Receipt as Receipt
    from .produce.receipts import SendBatchResult as SendBatchResult
    from .produce.receipts import SendResult as SendResult
    from .read.reader import Position as Position
    from .read.reader import Reader as Reader
    from .read.reader import SkippedRange as SkippedRange
    from .runtime.runtime import Clock as Clock
    from .runtime.runtime import Runtime as Runtime
    from .runtime.runtime import SystemClock as SystemClock
    from .schema.sources import SchemaLike as SchemaLike
    from .schema.topic_schema import TopicSchema as TopicSchema
    from .stores import ObjectStore as ObjectStore
    from .stores import open_store as open_store
    from .topic.settings import TopicRecord as TopicRecord
    from .topic.settings import TopicSettings as TopicSettings
    from .topic.topics import Topic as Topic
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
