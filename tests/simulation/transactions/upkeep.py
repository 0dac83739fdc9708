"""What keeps transactions and topics up in a run, round by round: finishers, check-backs, collectors. As their roles do it, without leases:
any number at once, whenever they come, must be harmless.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from penstock.coordinator.transactions import guard
from penstock.coordinator.transactions.asking import Asked
from penstock.coordinator.transactions.checks import CheckBacks
from penstock.coordinator.transactions.finisher import Finisher
from penstock.coordinator.transactions.judging import SettlingQueues
from penstock.log.errors import PenstockError
from penstock.log.header import Action, CloseJob
from penstock.log.paths import TopicPaths
from penstock.log.table.maintenance import Maintenance
from penstock.log.topics import read_record
from tests.simulation.transactions.machine import Life
from tests.simulation.transactions.plot import GROUP
from tests.simulation.world import log_uniform


def finisher_of(life: Life) -> Finisher:
    """The finisher of one process."""
    transactions, runtime = life.transactions, life.lake.runtime
    queues = SettlingQueues(life.coordination.cells, transactions.cells, runtime)

    def report(what: str, error: PenstockError) -> None:
        life.world.check_expected(f"{life.process.name}, {what}", error)

    return Finisher(transactions.groups, transactions.cells, transactions, queues, runtime.clock, report=report)


async def finish_once(life: Life, finisher: Finisher) -> None:
    """Bring to its end whatever can be, and forget what is old."""
    await life.lake.keep_time()
    for group in sorted(await finisher.groups()):
        await finisher.once(group)


async def check_forever(life: Life, asked: Asked, rng: random.Random) -> None:
    """Look for transactions to be checked, at one's own pace."""
    transactions, world = life.transactions, life.world
    checks = CheckBacks(transactions.groups, transactions.cells, transactions, life.lake.runtime.clock, asked)
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

    maintenance = Maintenance(
        life.lake.store,
        TopicPaths.of(name),
        record,
        life.lake.runtime,
        append,
        held_jobs=lambda jobs: guard.held_jobs(life.coordination.cells, jobs),
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
