"""The coordinator: leases, acknowledgements and group records over one compare-and-set table."""

from typing import TYPE_CHECKING

from ..log.lazy_names import lazy_names

if TYPE_CHECKING:
    from .coordination import Coordination as Coordination
    from .coordination import check_coordination as check_coordination
    from .coordination import open_coordination as open_coordination
    from .groups.record import ATTEMPTS_DEFAULT as ATTEMPTS_DEFAULT
    from .groups.record import DeadLetterPolicy as DeadLetterPolicy
    from .groups.record import DeadLetterPolicyLike as DeadLetterPolicyLike
    from .groups.record import DeliveryOrder as DeliveryOrder
    from .groups.record import DeliveryOrderLike as DeliveryOrderLike
    from .groups.record import GroupChanges as GroupChanges
    from .groups.record import GroupDeleted as GroupDeleted
    from .groups.record import GroupExists as GroupExists
    from .groups.record import GroupInUse as GroupInUse
    from .groups.record import GroupNotFound as GroupNotFound
    from .groups.record import GroupSettings as GroupSettings
    from .groups.retry import RetryPolicy as RetryPolicy
    from .groups.retry import RetrySchedule as RetrySchedule
    from .groups.retry import RetryScheduleLike as RetryScheduleLike
    from .maintenance import LakeMaintenance as LakeMaintenance
    from .operators.describe import GroupDescription as GroupDescription
    from .operators.describe import QueueProgress as QueueProgress
    from .operators.lake_table import CoordinationInUse as CoordinationInUse
    from .operators.operators import Operators as Operators
    from .operators.parked import ParkedGroup as ParkedGroup
    from .queues.keeper import OwnershipLost as OwnershipLost
    from .queues.receipt_handle import AlreadySettled as AlreadySettled
    from .queues.receipt_handle import DeadLettersWait as DeadLettersWait
    from .queues.receipt_handle import ForeignReceipt as ForeignReceipt
    from .queues.receipt_handle import ReceiptAhead as ReceiptAhead
    from .queues.receipt_handle import ReceiptExpired as ReceiptExpired
    from .queues.receipt_handle import ReceiptOutdated as ReceiptOutdated
    from .queues.receipt_handle import ReceiptRefused as ReceiptRefused
    from .queues.restores import InconsistentRestore as InconsistentRestore
    from .rebalance.roles import OfferedRole as OfferedRole
    from .rebalance.roles import run_roles as run_roles
    from .registry.failures import LastFailure as LastFailure
    from .tables import CellTable as CellTable
    from .tables import CoordinationMismatch as CoordinationMismatch
    from .tables import TableMismatch as TableMismatch
    from .tables import TableNotFound as TableNotFound
    from .tables import create_table as create_table
    from .tables import open_table as open_table
    from .timers.cell.state import NotRecallable as NotRecallable
    from .timers.player import TimerStatistics as TimerStatistics
    from .timers.role import Timers as Timers
    from .transactions.checking.checker import CheckedTransaction as CheckedTransaction
    from .transactions.checking.checker import TransactionResolution as TransactionResolution
    from .transactions.errors import AcksDecide as AcksDecide
    from .transactions.errors import CommittedNotVisible as CommittedNotVisible
    from .transactions.errors import HalfMessagesMissing as HalfMessagesMissing
    from .transactions.errors import TransactionCommitted as TransactionCommitted
    from .transactions.errors import TransactionEnded as TransactionEnded
    from .transactions.errors import TransactionExpired as TransactionExpired
    from .transactions.errors import TransactionFailed as TransactionFailed
    from .transactions.errors import TransactionNotFound as TransactionNotFound
    from .transactions.errors import TransactionRolledBack as TransactionRolledBack
    from .transactions.members.acks import SettledElsewhere as SettledElsewhere
    from .transactions.members.acks import TooManyUnnoted as TooManyUnnoted
    from .transactions.sending.transaction import TopicReceipt as TopicReceipt
    from .transactions.sending.transaction import TransactionReceipt as TransactionReceipt
    from .transactions.statistics import TransactionStatistics as TransactionStatistics
    from .workers.liveness import WorkerState as WorkerState
    from .workers.liveness import WorkerStatus as WorkerStatus
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
