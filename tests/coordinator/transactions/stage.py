"""Processes with transactions in virtual time, over one simulated store and one simulated table."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar

from penstock.coordinator.coordination import Coordination
from penstock.coordinator.transactions.checking.check_back_role import CheckBackRole
from penstock.coordinator.transactions.checking.checker import CheckedTransaction, RegisteredChecker, TransactionResolution
from penstock.coordinator.transactions.finisher import Finisher
from penstock.coordinator.transactions.sending.transaction import Transaction
from penstock.coordinator.transactions.service import Transactions
from penstock.coordinator.transactions.settlement_cells import SettlementCells
from penstock.log import LogLake, Message, MessageType, TopicSettings
from penstock.log.errors import PenstockError
from tests.simulation.faults import FaultPlan
from tests.simulation.kernel import Kernel
from tests.simulation.network import Network
from tests.simulation.process import SimProcess
from tests.simulation.table import CALM_NETWORK

T = TypeVar("T")
GROUP = "pay"
COMMIT, ROLLBACK, UNKNOWN = TransactionResolution.COMMIT, TransactionResolution.ROLLBACK, TransactionResolution.UNKNOWN
Answer = Callable[[CheckedTransaction], Coroutine[Any, Any, object]]


@dataclass
class Answering:
    """A checker that answers, and notes when it was asked what."""

    stage: Stage
    answers: list[object]
    """One after the other; the last one for ever."""
    asked: list[tuple[float, CheckedTransaction]] = field(default_factory=list)

    async def __call__(self, transaction: CheckedTransaction) -> object:
        self.asked.append((self.stage.now_s, transaction))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, BaseException):
            raise answer
        return answer


class Member:
    """A process with a lake open."""

    def __init__(self, stage: Stage, process: SimProcess) -> None:
        self.stage, self.process = stage, process
        self.lake = LogLake(stage.store.client(process), runtime=process.runtime)
        self.coordination = Coordination(stage.table.client(process), self.lake.runtime)
        self.transactions = Transactions(self.lake, self.coordination)
        self.errors: list[tuple[str, PenstockError]] = []

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        result: T = await self.process.run(work)
        return result

    def begin(self, *, group: str = GROUP, first_check: timedelta | None = timedelta(seconds=60)) -> Transaction:
        return Transaction(self.transactions, group, first_check=first_check)

    async def sent(self, *bodies: bytes, topics: tuple[str, ...] = ("paid",), **options: Any) -> Transaction:
        """A transaction with these messages to each topic."""
        transaction = self.begin(**options)
        for topic in topics:
            await self.run(transaction.send(topic, *(Message(body) for body in bodies)))
        return transaction

    def check_backs(self, answers: list[object]) -> tuple[CheckBackRole, Answering]:
        checker = Answering(self.stage, answers)
        service = self.transactions
        asked = RegisteredChecker(checker, group=GROUP)
        return CheckBackRole(service.groups, service.cells, service, self.lake.runtime.clock, asked), checker

    def finisher(self) -> Finisher:
        service = self.transactions
        queues = SettlementCells(self.coordination.cells, service.cells, self.lake.runtime)
        return Finisher(
            service.groups,
            service.cells,
            service,
            queues,
            self.lake.runtime.clock,
            report=lambda what, error: self.errors.append((what, error)),
        )


class Stage:
    """`play` a script on it."""

    def __init__(self, seed: int | str = "transactions", *, plan: FaultPlan | None = None) -> None:
        self.kernel = Kernel(seed)
        self.store = self.kernel.store(network=Network(very_slow=0.0))
        self.table = self.kernel.table(plan=plan, network=CALM_NETWORK)

    @property
    def now_s(self) -> float:
        return self.kernel.loop.now

    def member(self, name: str = "one") -> Member:
        return Member(self, self.kernel.process(name))

    async def let_pass(self, seconds: float) -> None:
        await self.kernel.let_pass(timedelta(seconds=seconds))

    def play(self, script: Callable[[], Coroutine[Any, Any, None]], *, topics: tuple[str, ...] = ("paid", "booked")) -> None:
        async def main() -> None:
            founder = self.member("founder")
            for topic in topics:
                settings = TopicSettings(queues=1, message_type=MessageType.TRANSACTION)
                await founder.run(founder.lake.create_topic(topic, settings))
            await script()

        self.kernel.run(main())

    async def bodies(self, topic: str = "paid") -> list[bytes]:
        """What its readers see."""
        reader = self.member("reader")

        async def read() -> list[bytes]:
            found = await reader.lake.reader(topic)
            return [message.body async for message in found.messages()]

        return await reader.run(read())
