"""The coordinator: leases, acknowledgements and group records over one compare-and-set table."""

from .coordination import Coordination, check_coordination, open_coordination
from .describe import GroupDescription, QueueStanding
from .groups import (
    ATTEMPTS_DEFAULT,
    DeadLetterPolicy,
    DeliveryOrder,
    GroupDeleted,
    GroupExists,
    GroupInUse,
    GroupNotFound,
    GroupSettings,
)
from .handles import AlreadySettled, ForeignReceipt, ReceiptAhead, ReceiptExpired, ReceiptOutdated, ReceiptRefused
from .keeper import OwnershipLost
from .living import WorkerSeen, WorkerState
from .operators import Operators
from .parked import ParkedGroup
from .put_back import InconsistentRestore
from .retry import RetryPolicy, Schedule
from .roles import Part, run_roles
from .tables import CellTable, TableMismatch, TableNotFound, create_table, open_table
from .timers.player import TimerStatistics
from .timers.role import Timers
from .timers.state import NotRecallable
from .transactions.acks import SettledElsewhere, TooManyUnnoted
from .transactions.asking import CheckedTransaction, TransactionResolution
from .transactions.errors import (
    AcksDecide,
    CommittedNotVisible,
    HalfMessagesMissing,
    TransactionCommitted,
    TransactionEnded,
    TransactionExpired,
    TransactionFailed,
    TransactionNotFound,
    TransactionRolledBack,
)
from .transactions.receipts import TopicReceipt, TransactionReceipt
from .transactions.statistics import TransactionStatistics
from .upkeep import Upkeep

__all__ = [
    "ATTEMPTS_DEFAULT",
    "AcksDecide",
    "AlreadySettled",
    "CellTable",
    "CheckedTransaction",
    "CommittedNotVisible",
    "Coordination",
    "DeadLetterPolicy",
    "DeliveryOrder",
    "ForeignReceipt",
    "GroupDeleted",
    "GroupDescription",
    "GroupExists",
    "GroupInUse",
    "GroupNotFound",
    "GroupSettings",
    "HalfMessagesMissing",
    "InconsistentRestore",
    "NotRecallable",
    "Operators",
    "OwnershipLost",
    "ParkedGroup",
    "Part",
    "QueueStanding",
    "ReceiptAhead",
    "ReceiptExpired",
    "ReceiptOutdated",
    "ReceiptRefused",
    "RetryPolicy",
    "Schedule",
    "SettledElsewhere",
    "TableMismatch",
    "TableNotFound",
    "TimerStatistics",
    "Timers",
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
    "TransactionStatistics",
    "Upkeep",
    "WorkerSeen",
    "WorkerState",
    "check_coordination",
    "create_table",
    "open_coordination",
    "open_table",
    "run_roles",
]
