"""The coordinator: leases, acknowledgements and group records over one compare-and-set table."""

from typing import TYPE_CHECKING

from ..log.lazy_names import lazy_names

if TYPE_CHECKING:
    from .coordination import Coordination, check_coordination, open_coordination
    from .groups.record import (
        ATTEMPTS_DEFAULT,
        DeadLetterPolicy,
        DeliveryOrder,
        GroupDeleted,
        GroupExists,
        GroupInUse,
        GroupNotFound,
        GroupSettings,
    )
    from .groups.retry import RetryPolicy, Schedule
    from .maintenance import LakeMaintenance
    from .operators.describe import GroupDescription, QueueProgress
    from .operators.operators import Operators
    from .operators.parked import ParkedGroup
    from .queues.keeper import OwnershipLost
    from .queues.receipt_handle import (
        AlreadySettled,
        DeadLettersWait,
        ForeignReceipt,
        ReceiptAhead,
        ReceiptExpired,
        ReceiptOutdated,
        ReceiptRefused,
    )
    from .queues.restores import InconsistentRestore
    from .rebalance.roles import OfferedRole, run_roles
    from .tables import CellTable, TableMismatch, TableNotFound, create_table, open_table
    from .timers.cell.state import NotRecallable
    from .timers.player import TimerStatistics
    from .timers.role import Timers
    from .transactions.checking.checker import CheckedTransaction, TransactionResolution
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
    from .transactions.members.acks import SettledElsewhere, TooManyUnnoted
    from .transactions.sending.transaction import TopicReceipt, TransactionReceipt
    from .transactions.statistics import TransactionStatistics
    from .workers.liveness import WorkerState, WorkerStatus

__all__ = [
    "ATTEMPTS_DEFAULT",
    "AcksDecide",
    "AlreadySettled",
    "CellTable",
    "CheckedTransaction",
    "CommittedNotVisible",
    "Coordination",
    "DeadLetterPolicy",
    "DeadLettersWait",
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
    "LakeMaintenance",
    "NotRecallable",
    "OfferedRole",
    "Operators",
    "OwnershipLost",
    "ParkedGroup",
    "QueueProgress",
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
    "WorkerState",
    "WorkerStatus",
    "check_coordination",
    "create_table",
    "open_coordination",
    "open_table",
    "run_roles",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            ".coordination": ["Coordination", "check_coordination", "open_coordination"],
            ".groups.record": [
                "ATTEMPTS_DEFAULT",
                "DeadLetterPolicy",
                "DeliveryOrder",
                "GroupDeleted",
                "GroupExists",
                "GroupInUse",
                "GroupNotFound",
                "GroupSettings",
            ],
            ".groups.retry": ["RetryPolicy", "Schedule"],
            ".operators.describe": ["GroupDescription", "QueueProgress"],
            ".operators.operators": ["Operators"],
            ".operators.parked": ["ParkedGroup"],
            ".queues.keeper": ["OwnershipLost"],
            ".queues.receipt_handle": [
                "AlreadySettled",
                "ForeignReceipt",
                "DeadLettersWait",
                "ReceiptAhead",
                "ReceiptExpired",
                "ReceiptOutdated",
                "ReceiptRefused",
            ],
            ".queues.restores": ["InconsistentRestore"],
            ".rebalance.roles": ["OfferedRole", "run_roles"],
            ".tables": ["CellTable", "TableMismatch", "TableNotFound", "create_table", "open_table"],
            ".timers.cell.state": ["NotRecallable"],
            ".timers.player": ["TimerStatistics"],
            ".timers.role": ["Timers"],
            ".transactions.checking.checker": ["CheckedTransaction", "TransactionResolution"],
            ".transactions.errors": [
                "AcksDecide",
                "CommittedNotVisible",
                "HalfMessagesMissing",
                "TransactionCommitted",
                "TransactionEnded",
                "TransactionExpired",
                "TransactionFailed",
                "TransactionNotFound",
                "TransactionRolledBack",
            ],
            ".transactions.members.acks": ["SettledElsewhere", "TooManyUnnoted"],
            ".transactions.sending.transaction": ["TopicReceipt", "TransactionReceipt"],
            ".transactions.statistics": ["TransactionStatistics"],
            ".maintenance": ["LakeMaintenance"],
            ".workers.liveness": ["WorkerStatus", "WorkerState"],
        },
    )
