"""What the collector leaves alone of transactions, and what it removes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

from penstock.coordinator.cells.keys import transactions_key
from penstock.coordinator.coordination import Coordination
from penstock.coordinator.maintenance import LakeMaintenance
from penstock.coordinator.tables import Cell, MemoryTable
from penstock.coordinator.transactions.held_uploads import held_jobs
from penstock.coordinator.transactions.ids import job_of, member_of
from penstock.coordinator.transactions.members.state import Decider, Decision
from penstock.coordinator.transactions.sending.transaction import Transaction
from penstock.coordinator.transactions.service import Transactions
from penstock.log import LogLake, Message, MessageType, Runtime, StoreUnavailable, TopicSettings
from penstock.log.paths import TopicPaths
from penstock.log.stores import MemoryStore
from penstock.log.table.collector import all_held
from tests.coordinator.transactions.test_crash_points import LoopClock
from tests.log.stores.virtual_time import run_virtual

TOPIC = "orders"
PATHS = TopicPaths.of(TOPIC)
DAY_S = 24 * 3600.0


class Table(MemoryTable):
    silent = False

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    async def get(self, key: str) -> Cell | None:
        self.asked.append(key)
        if self.silent and key.startswith("transactions/"):
            raise StoreUnavailable("no answer", object=key)
        return await super().get(key)


class World:
    def __init__(self) -> None:
        runtime = Runtime(clock=LoopClock(), threads=False)
        self.store = MemoryStore(clock=LoopClock())
        self.table = Table()
        self.lake = LogLake(self.store, runtime=runtime)
        self.coordination = Coordination(self.table, self.lake.runtime)
        self.transactions = Transactions(self.lake, self.coordination)
        self.faults: list[tuple[str, object]] = []

    async def sent(self, body: bytes = b"half") -> Transaction:
        transaction = Transaction(self.transactions, "shop", first_check=timedelta(seconds=60))
        await transaction.send(TOPIC, Message(body))
        return transaction

    async def collected(self, *, rounds: int = 1) -> None:
        def heard(topic: str, step: str, result: object) -> None:
            if isinstance(result, Exception):
                self.faults.append((step, result))

        upkeep = LakeMaintenance(self.lake, self.coordination.cells, self.coordination.groups, on_step=heard)
        for _ in range(rounds):
            await upkeep.once(TOPIC)
            await asyncio.sleep(2 * 3600.0)

    async def staged(self) -> list[str]:
        return [info.key for info in await self.store.list(PATHS.jobs)]

    async def bodies(self) -> list[bytes]:
        reader = await self.lake.reader(TOPIC)
        return sorted((await reader.to_arrow(columns=["body"]))["body"].to_pylist())


def play(work: Callable[[World], Awaitable[None]]) -> None:
    async def main() -> None:
        world = World()
        await world.lake.create_topic(TOPIC, TopicSettings(message_type=MessageType.TRANSACTION, queues=1))
        await work(world)
        await world.lake.close()

    run_virtual(main())


def test_a_transaction_that_nobody_finishes_is_left_alone_for_any_time_and_then_linked() -> None:
    async def work(world: World) -> None:
        transaction = await world.sent()
        assert transaction.id is not None
        await world.transactions.decide(transaction.id, Decision.COMMITTED, Decider.CHECKER)
        await asyncio.sleep(10 * DAY_S)
        await world.collected(rounds=3)
        assert len(await world.staged()) == 1
        await world.transactions.finish(transaction.id)
        assert await world.bodies() == [b"half"]
        assert world.faults == []

    play(work)


def test_an_open_one_is_left_alone_too() -> None:
    async def work(world: World) -> None:
        await world.sent()
        await asyncio.sleep(10 * DAY_S)
        await world.collected(rounds=2)
        assert len(await world.staged()) == 1

    play(work)


def test_what_is_linked_and_done_with_goes_and_is_forgotten_by_the_log() -> None:
    async def work(world: World) -> None:
        transaction = await world.sent()
        assert transaction.id is not None
        await transaction.commit()
        await world.transactions.close()
        await world.collected(rounds=1)
        assert len(await world.staged()) == 1, "an entry that is kept needs it"
        for number in range(140):  # past the entry's validity, and two checkpoints
            await (await world.sent(b"%d" % number)).commit()
        await world.transactions.close()
        await world.collected(rounds=4)
        assert not [key for key in await world.staged() if transaction.id in key]
        for number in range(70):
            await (await world.sent(b"%d" % (1000 + number))).commit()
        await world.transactions.close()
        await world.collected(rounds=2)
        topic = await world.lake.topic(TOPIC, writable=True)
        await topic.tail.catch_up()
        assert job_of(transaction.id) not in topic.tail.state.closed_jobs
        assert len(await world.bodies()) == 211
        assert world.faults == []

    play(work)


def test_strays_of_a_crash_go_after_two_days() -> None:
    async def work(world: World) -> None:
        transaction = await world.sent()
        assert transaction.id is not None
        await world.transactions.decide(transaction.id, Decision.ROLLED_BACK, Decider.OPERATOR)
        # A part that landed after the rollback had looked what there is.
        stray = PATHS.job_part(job_of(transaction.id), "00000001")
        await world.transactions.finish(transaction.id)
        await world.store.put_large(stray, b"late")
        assert await world.staged() == [stray]
        await asyncio.sleep(1.5 * DAY_S)
        await world.collected()
        assert await world.staged() == [stray]
        await asyncio.sleep(DAY_S)
        await world.collected(rounds=2)
        assert await world.staged() == []
        assert world.faults == []

    play(work)


def test_what_was_sent_to_a_topic_that_was_deleted_goes_too() -> None:
    async def work(world: World) -> None:
        opened, committed = await world.sent(), await world.sent()
        assert committed.id is not None
        await world.lake.delete_topic(TOPIC)
        await world.transactions.decide(committed.id, Decision.COMMITTED, Decider.CHECKER)
        row = await world.transactions.finish(committed.id)
        assert [one.linked and one.linked.gone for one in row.destinations] == [True]
        await asyncio.sleep(3 * DAY_S)
        await world.transactions.tidy("shop")
        await world.collected()
        assert [key for key in await world.staged() if committed.id in key] == []
        assert len(await world.staged()) == 1, "of the one that is open"
        await opened.rollback()
        assert await world.staged() == []
        assert world.faults == []

    play(work)


def test_while_the_table_does_not_answer_nothing_is_touched() -> None:
    async def work(world: World) -> None:
        transaction = await world.sent()
        assert transaction.id is not None
        stored = await world.coordination.cells.read(transactions_key(member_of(transaction.id)))
        assert stored is not None
        await asyncio.sleep(10 * DAY_S)
        world.table.silent = True
        await world.collected()
        assert [step for step, _ in world.faults] == ["collect"]
        assert len(await world.staged()) == 1

    play(work)


def test_only_what_rows_name_is_held() -> None:
    async def work(world: World) -> None:
        opened, gone = await world.sent(), await world.sent()
        assert opened.id is not None
        assert gone.id is not None
        await gone.rollback()
        cells = world.coordination.cells
        jobs = {job_of(opened.id), job_of(gone.id), job_of("0" * 32), "tx-nothing", "tx-" + "z" * 32}
        assert await held_jobs(cells, jobs) == {job_of(opened.id)}

    play(work)


def test_without_anybody_to_ask_all_is_held() -> None:
    assert asyncio.run(_all(["tx-1"])) == ["tx-1"]


async def _all(jobs: list[str]) -> list[str]:
    return list(await all_held(jobs))


def test_cells_are_asked_in_an_order_of_their_own() -> None:
    """A set of jobs has another order in every process: simulated runs could not be played again."""

    async def work(world: World) -> None:
        jobs = [job_of(f"{number:032x}") for number in range(1 << 120, 9 << 120, 1 << 120)]
        await held_jobs(world.coordination.cells, jobs)
        asked, world.table.asked = world.table.asked, []
        await held_jobs(world.coordination.cells, jobs[::-1])
        assert len(set(asked)) == len(jobs)
        assert world.table.asked == asked

    play(work)
