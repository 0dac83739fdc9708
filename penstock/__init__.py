"""Ordered message queues with RocketMQ's semantics on nothing but object storage.

import penstock

with penstock.connect("memory://") as lake:
    lake.create_topic("orders", message_type="FIFO", queues=4)
    with lake.producer("orders") as producer:
        producer.send(penstock.Message(b"paid", message_group="user-7", tag="paid"))
    for message in lake.reader("orders").messages():
        print(message.queue, message.offset, message.body)
"""

from typing import TYPE_CHECKING

from penstock.log.lazy_names import lazy_names

if TYPE_CHECKING:
    from penstock.cdc.choice.masks import Mask as Mask
    from penstock.cdc.choice.tables import TableOptions as TableOptions
    from penstock.cdc.cuts.at_cut import AtCut as AtCut
    from penstock.cdc.cuts.at_cut import at_cut as at_cut
    from penstock.cdc.cuts.cut import CutTooOld as CutTooOld
    from penstock.cdc.cuts.cut import NoCut as NoCut
    from penstock.cdc.cuts.cut import TableNotInCut as TableNotInCut
    from penstock.cdc.retype.changes import ColumnChange as ColumnChange
    from penstock.cdc.retype.retype import RetypedTable as RetypedTable
    from penstock.cdc.sync.options import BatchReport as BatchReport
    from penstock.cdc.sync.options import SyncOptions as SyncOptions
    from penstock.cdc.sync.run import SyncRun as SyncRun
    from penstock.cdc.sync.run import SyncStatus as SyncStatus
    from penstock.consumers import BatchListener as BatchListener
    from penstock.consumers import BatchResult as BatchResult
    from penstock.consumers import ConsumeResult as ConsumeResult
    from penstock.consumers import Listener as Listener
    from penstock.consumers import RetryAfter as RetryAfter
    from penstock.coordinator import AcksDecide as AcksDecide
    from penstock.coordinator import AlreadySettled as AlreadySettled
    from penstock.coordinator import CheckedTransaction as CheckedTransaction
    from penstock.coordinator import CommittedNotVisible as CommittedNotVisible
    from penstock.coordinator import CoordinationInUse as CoordinationInUse
    from penstock.coordinator import CoordinationMismatch as CoordinationMismatch
    from penstock.coordinator import DeadLetterPolicy as DeadLetterPolicy
    from penstock.coordinator import DeadLetterPolicyLike as DeadLetterPolicyLike
    from penstock.coordinator import DeadLettersWait as DeadLettersWait
    from penstock.coordinator import DeliveryOrder as DeliveryOrder
    from penstock.coordinator import DeliveryOrderLike as DeliveryOrderLike
    from penstock.coordinator import ForeignReceipt as ForeignReceipt
    from penstock.coordinator import GroupDeleted as GroupDeleted
    from penstock.coordinator import GroupExists as GroupExists
    from penstock.coordinator import GroupInUse as GroupInUse
    from penstock.coordinator import GroupNotFound as GroupNotFound
    from penstock.coordinator import GroupSettings as GroupSettings
    from penstock.coordinator import HalfMessagesMissing as HalfMessagesMissing
    from penstock.coordinator import InconsistentRestore as InconsistentRestore
    from penstock.coordinator import NotRecallable as NotRecallable
    from penstock.coordinator import OwnershipLost as OwnershipLost
    from penstock.coordinator import ReceiptAhead as ReceiptAhead
    from penstock.coordinator import ReceiptExpired as ReceiptExpired
    from penstock.coordinator import ReceiptOutdated as ReceiptOutdated
    from penstock.coordinator import ReceiptRefused as ReceiptRefused
    from penstock.coordinator import RetryPolicy as RetryPolicy
    from penstock.coordinator import RetrySchedule as RetrySchedule
    from penstock.coordinator import RetryScheduleLike as RetryScheduleLike
    from penstock.coordinator import SettledElsewhere as SettledElsewhere
    from penstock.coordinator import TableMismatch as TableMismatch
    from penstock.coordinator import TableNotFound as TableNotFound
    from penstock.coordinator import TooManyUnnoted as TooManyUnnoted
    from penstock.coordinator import TopicReceipt as TopicReceipt
    from penstock.coordinator import TransactionCommitted as TransactionCommitted
    from penstock.coordinator import TransactionEnded as TransactionEnded
    from penstock.coordinator import TransactionExpired as TransactionExpired
    from penstock.coordinator import TransactionFailed as TransactionFailed
    from penstock.coordinator import TransactionNotFound as TransactionNotFound
    from penstock.coordinator import TransactionReceipt as TransactionReceipt
    from penstock.coordinator import TransactionResolution as TransactionResolution
    from penstock.coordinator import TransactionRolledBack as TransactionRolledBack
    from penstock.log import AccessLost as AccessLost
    from penstock.log import AccessRefused as AccessRefused
    from penstock.log import BackPressureError as BackPressureError
    from penstock.log import CallError as CallError
    from penstock.log import ClockSkewError as ClockSkewError
    from penstock.log import ClosedError as ClosedError
    from penstock.log import DataDamaged as DataDamaged
    from penstock.log import Duration as Duration
    from penstock.log import FencedError as FencedError
    from penstock.log import ForkedError as ForkedError
    from penstock.log import InternalError as InternalError
    from penstock.log import InvalidArgument as InvalidArgument
    from penstock.log import LimitExceeded as LimitExceeded
    from penstock.log import Message as Message
    from penstock.log import MessageNotFound as MessageNotFound
    from penstock.log import MessageType as MessageType
    from penstock.log import MessageTypeLike as MessageTypeLike
    from penstock.log import MessageTypeMismatch as MessageTypeMismatch
    from penstock.log import MessageView as MessageView
    from penstock.log import NewerFormatError as NewerFormatError
    from penstock.log import NotSupported as NotSupported
    from penstock.log import NotWritten as NotWritten
    from penstock.log import OffsetOutOfRange as OffsetOutOfRange
    from penstock.log import PenstockError as PenstockError
    from penstock.log import PermissionDenied as PermissionDenied
    from penstock.log import ProducerFailedError as ProducerFailedError
    from penstock.log import ReadOnlyError as ReadOnlyError
    from penstock.log import Receipt as Receipt
    from penstock.log import ReopenError as ReopenError
    from penstock.log import RetryError as RetryError
    from penstock.log import Routing as Routing
    from penstock.log import RoutingChanged as RoutingChanged
    from penstock.log import RoutingLike as RoutingLike
    from penstock.log import SchemaLike as SchemaLike
    from penstock.log import SchemaVersion as SchemaVersion
    from penstock.log import SendResult as SendResult
    from penstock.log import SequenceError as SequenceError
    from penstock.log import StorageFull as StorageFull
    from penstock.log import StoreUnavailable as StoreUnavailable
    from penstock.log import TopicDeleted as TopicDeleted
    from penstock.log import TopicExists as TopicExists
    from penstock.log import TopicLimits as TopicLimits
    from penstock.log import TopicNotFound as TopicNotFound
    from penstock.log import TopicSchema as TopicSchema
    from penstock.log import UnknownOutcome as UnknownOutcome
    from penstock.log import UnsafeStoreError as UnsafeStoreError
    from penstock.log import WaitingMessage as WaitingMessage
    from penstock.log import delay_level as delay_level

    from . import aio as aio
    from .app import App as App
    from .app import AppListener as AppListener
    from .app import ListenerOptions as ListenerOptions
    from .blocking.consumers import BroadcastConsumer as BroadcastConsumer
    from .blocking.consumers import PullConsumer as PullConsumer
    from .blocking.consumers import PushConsumer as PushConsumer
    from .blocking.consumers import SimpleConsumer as SimpleConsumer
    from .blocking.lake import Lake as Lake
    from .blocking.topics import Producer as Producer
    from .blocking.topics import Reader as Reader
    from .blocking.transactions import Transaction as Transaction
    from .change_data import retype as retype
    from .change_data import sync as sync
    from .lake import connect as connect
else:
    # The command line and the pytest plugin start without Arrow.
    __getattr__, __dir__, __all__ = lazy_names(__name__, modules=("aio", "consumers", "coordinator", "lake", "log"))
    __all__ += ["__version__"]

__version__ = "0.1.0"
