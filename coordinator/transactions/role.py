"""The finisher of a lake's transactions as a role, shared by all processes that maintain the lake. Without transactions it costs a read
a minute.
"""

from __future__ import annotations

import asyncio

from ...log.errors import PenstockError
from ...log.runtime.backoff import pause
from ..coordination import Coordination
from ..rebalance.roles import Part, run_roles
from .finisher import TRANSACTIONS, Finisher, Report
from .service import Transactions

_LOOK_S = 60.0


def finisher_of(transactions: Transactions, *, report: Report) -> Finisher:
    """A finisher that works with the topics that a lake has open."""
    clock = transactions.lake.runtime.clock
    return Finisher(
        transactions.groups,
        transactions.cells,
        transactions,
        transactions.queues,
        clock,
        report=report,
        on_look=transactions.counting.looked,
    )


async def run_finisher(
    transactions: Transactions, coordination: Coordination, stop: asyncio.Event, *, report: Report, patience_s: float = 0.0
) -> None:
    """Play the role for a fair share of the producer groups until ``stop`` is set, once there is a group."""
    finisher = finisher_of(transactions, report=report)
    while not stop.is_set():
        try:
            if await finisher.groups():
                break
        except PenstockError as error:
            report("-", error)
        await pause(stop, _LOOK_S)
    else:
        return
    await run_roles(
        coordination.cells,
        coordination.worker,
        coordination.watch,
        transactions.lake.runtime,
        Part(role=TRANSACTIONS, topics=finisher.groups, play=finisher.play),
        stop,
        ready=coordination.claim,
        report=report,
        patience_s=patience_s,
    )
