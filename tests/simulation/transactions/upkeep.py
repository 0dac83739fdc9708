"""What keeps transactions and topics up in a run, round by round: finishers, check-backs, collectors. As their roles do it, without leases:
any number at once, whenever they come, must be harmless.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from penstock.coordinator.transactions import held_uploads
from penstock.coordinator.transactions.checking.check_back_role import CheckBackRole
from penstock.coordinator.transactions.checking.checker import RegisteredChecker
from penstock.coordinator.transactions.finisher import Finisher
from penstock.coordinator.transactions.settlement_cells import SettlementCells
from penstock.log.errors import PenstockError
from penstock.log.format.header import Action, CloseJob
from penstock.log.paths import TopicPaths
from penstock.log.table.maintenance import TopicMaintenance
from penstock.log.topic.records import read_record
from tests.simulation.simulated import log_uniform
from tests.simulation.transactions.machine import Life
from tests.simulation.transactions.plot import GROUP


@dataclass(frozen=True, slots=True)
class Finishing:
    """The finisher of one process."""

    finisher: Finisher
    failed: list[str]
    """What it reported lately."""


def finisher_of(life: Life) -> Finishing:
    failed: list[str] = []
    transactions, runtime = life.transactions, life.lake.runtime
    queues = SettlementCells(life.coordination.cells, transactions.cells, runtime)

    def report(what: str, error: PenstockError) -> None:
        failed.append(what)
        life.world.check_expected(f"{life.process.name}, {what}", error)

    finisher = Finisher(transactions.groups, transactions.cells, transactions, queues, runtime.clock, report=report)
    return Finishing(finisher, failed)


async def finish_once(life: Life, finishing: Finishing) -> None:
    """Bring to its end whatever can be, and forget what is old. T10: nothing stays that was decided before, unless something failed."""
    ledger, finisher = life.world.ledger, finishing.finisher
    finishing.failed.clear()
    decided = ledger.decided()
    await life.lake.keep_time()
    for group in sorted(await finisher.groups()):
        await finisher.once(group)
    if not finishing.failed and (left := sorted(decided & ledger.decided())):
        ledger.blame(
            "T10", f"{life.process.name} looked for what is to be finished, and left these that were decided before: {left}"
        )


async def check_forever(life: Life, asked: RegisteredChecker, rng: random.Random) -> None:
    """Look for transactions to be checked, at one's own pace."""
    transactions, world = life.transactions, life.world
    checks = CheckBackRole(transactions.groups, transactions.cells, transactions, life.lake.runtime.clock, asked)
    while not life.leaving.is_set():
        await life.pause(log_uniform(rng, *((10.0, 100.0) if world.quiet else world.plot.check_every_s)))
        try:
            await life.lake.keep_time()
            await checks.look(GROUP)
            await checks.settle()
        except PenstockError as error:
            world.check_expected(life.process.name, error)


async def collect_once(life: Life, name: str) -> None:
    """Every step of a topic's maintenance once."""
    found = await read_record(life.lake.store, TopicPaths.of(name))
    if found is None:
        return
    record = found[0]

    async def append(actions: Sequence[Action]) -> None:
        if not record.deleted:
            await (await life.lake.topic(name, writable=True)).act(*actions)

    maintenance = TopicMaintenance(
        life.lake.store,
        TopicPaths.of(name),
        record,
        life.lake.runtime,
        append,
        held_jobs=lambda jobs: held_uploads.held_jobs(life.coordination.cells, jobs),
    )
    for step in maintenance.steps().values():
        try:
            await step()
        except PenstockError as error:
            life.world.check_expected(f"{life.process.name}, {name}", error)


async def fill(life: Life, topics: Sequence[str], entries: int) -> None:
    """Entries that say nothing, so that the log can be trimmed to behind all that matters."""
    for name in topics:
        topic = await life.lake.topic(name, writable=True)
        for number in range(entries):
            await topic.act(CloseJob(f"nothing-{name}-{number}"))
