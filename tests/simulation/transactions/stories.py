"""Small stories of transactions, for one fault at a time: together they meet every step of the protocol."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from penstock.coordinator.transactions.members.state import Decision
from penstock.log.errors import PenstockError
from tests.simulation.faults import Call, FaultPlan
from tests.simulation.network import Network
from tests.simulation.plans import HOUR_S
from tests.simulation.process import Crashed
from tests.simulation.singles import Story
from tests.simulation.sweeping import Played
from tests.simulation.table import CALM_NETWORK
from tests.simulation.transactions.applications import EXPECTED, commit, send
from tests.simulation.transactions.machine import Life
from tests.simulation.transactions.plot import GROUP, Plot
from tests.simulation.transactions.records import Book
from tests.simulation.transactions.scripts import Script, Scripted, emptied, settled_unnoted
from tests.simulation.transactions.world import Transacting

_STORE = Network(very_slow=0.0, time_out_s=8.0, slow_s=(2.0, 8.0), late_s=(1.0, 60.0), pause_s=(30.0, 90.0))
_TABLE = replace(CALM_NETWORK, late_s=(1.0, 60.0), pause_s=(30.0, 90.0))


_REST: dict[str, Any] = {"rest_every_s": 24 * HOUR_S, "rest_entries": 3}


def _transacting(seed: int, *, store: FaultPlan | None = None, table: FaultPlan | None = None, **stated: Any) -> Transacting:
    """Right clocks, and pauses during which others come."""
    calm: dict[str, Any] = {
        "queues": 1,
        "senders": 1,
        "transactions": 1,
        "think_s": (0.5, 2.0),
        "forgets": 0.0,
        "backs_out": 0.0,
        "first_check_s": 5.0,
        "check_every_s": (3.0, 6.0),
        "unsure": 0.0,
        "finishers": 1,
        "finish_every_s": (10.0, 20.0),
        "collectors": 0,
        "offset_ms": 0,
        "finisher_offset_ms": 0,
        "drift": 0.0,
        "faults_end_s": 15.0,
        **_REST,
    }
    plot = Plot(**{**calm, **stated})
    return Transacting(seed, plot, store_plan=store, table_plan=table, store_network=_STORE, table_network=_TABLE)


class _After(Scripted):
    """A script goes right; what comes after it meets the fault."""

    def __init__(
        self, script: Script, seed: int, *, finishers: int = 1, store: FaultPlan | None = None, table: FaultPlan | None = None
    ) -> None:
        super().__init__(script, seed)
        self.plot = replace(self.plot, finishers=finishers, finish_every_s=(1.0, 3.0), **_REST)
        self._later = (store, table)
        self.store.network, self.table.network = _STORE, _TABLE

    async def apart(self, name: str, work: Callable[[Life], Coroutine[Any, Any, None]]) -> None:
        """It meets no faults by its name; others do meanwhile."""
        await self.alone(name, work)

    def befall_from_now(self) -> None:
        self.store.plan, self.table.plan = self._later

    async def _whole(self) -> None:
        await self._script()
        self.befall_from_now()
        self.start_finishers()
        await asyncio.sleep(5.0)


async def _committed(world: Scripted) -> None:
    """Its sender died before the link."""
    await world.committed_unlinked()


async def _undecided(world: Scripted) -> None:
    """Its sender died, and nobody has a checker."""
    life = world.life("sender")
    await world.sent(life)
    life.process.crash()
    await asyncio.sleep(4 * HOUR_S - 30.0)


async def _both(world: Scripted) -> None:
    await _undecided(world)
    await world.committed_unlinked()


async def _ordered(world: Scripted) -> None:
    """An operator commits what a dead sender left undecided."""
    life = world.life("sender")
    told = await world.sent(life, book=Book.PAID)
    life.process.crash()
    assert isinstance(world, _After)
    world.befall_from_now()
    with suppress(Crashed):
        await world.operator(told, Decision.COMMITTED)


async def _begun_again(world: Scripted) -> None:
    """A producer group without members is forgotten while its next transaction begins."""
    await emptied(world)
    assert isinstance(world, _After)
    sender, forgetter = world.life("again"), world.life("forgetter")
    told = world.order(sender)

    async def pay(life: Life) -> None:
        with suppress(*EXPECTED, PenstockError):
            await send(world, told, told.handle, world.topic, world.rng)
            world.history.books[told.name] = Book.PAID
            await commit(world, told, told.handle, world.rng)

    async def forget(life: Life) -> None:
        for _ in range(2):
            with suppress(PenstockError):
                await life.transactions.groups.forget(GROUP)

    world.befall_from_now()
    work = [life.process.run(step(life)) for life, step in ((sender, pay), (forgetter, forget))]
    for ended in await asyncio.gather(*work, return_exceptions=True):
        if isinstance(ended, BaseException) and not isinstance(ended, Crashed):
            raise ended


def _decided(world: Played, service: str, call: Call) -> bool:
    """Until everything is decided and finished: then only days pass."""
    assert isinstance(world, Transacting)
    return call.number <= world.calls_decided[service]


def _of(*names: str) -> Any:
    """The processes whose names begin so, until everything is decided and finished."""

    def befallen(world: Played, service: str, call: Call) -> bool:
        return call.process.startswith(names) and _decided(world, service, call)

    return befallen


def _last_check(world: Played, service: str, call: Call) -> bool:
    """Those before it are as the one of the story of a checker that knows."""
    assert isinstance(world, Transacting)
    return _of("s")(world, service, call) and call.number > world.calls_decided[service] - 15


def _naming(world: Played, service: str, call: Call) -> bool:
    """What comes behind the two lists is as in the first story."""
    return re.match("producer", call.key) is not None and _of("again", "forgetter")(world, service, call)


def _of_transactions(world: Played, service: str, call: Call) -> bool:
    """What is asked for membership and ownership meets faults in the consumers' own world."""
    ours = service == "store" or re.match("transactions/|producer|queues/", call.key) is not None
    return ours and _of("p")(world, service, call)


def _collecting(world: Played, service: str, call: Call) -> bool:
    """Maintenance as far as it is of transactions: publishing and trimming a log meet faults in the log's own world."""
    return call.process.partition("#")[0] == "c" and (service == "table" or "/staged/jobs/" in call.key)


COMMITTED, ROLLED_BACK = "transaction: committed", "transaction: rolled back"
STORIES: Mapping[str, Story] = {
    "begin, send to two topics, commit": Story(
        make=partial(_transacting, 6),
        meets=("commit", COMMITTED, "put: an entry of orders", "put: an entry of mails"),
        befallen=_of("s"),
    ),
    "begin, send, roll back": Story(
        make=partial(_transacting, 1, topics=1, backs_out=1.0), meets=("rollback", ROLLED_BACK), befallen=_of("s")
    ),
    "its sender forgets it, and its checker commits": Story(
        make=partial(_transacting, 5, topics=1, forgets=1.0), meets=("check-back", COMMITTED), befallen=_of("s")
    ),
    "its checker never knows, and the last check rolls back": Story(
        make=partial(_transacting, 1, topics=1, forgets=1.0, unsure=1.0, check_every_s=(55.0, 65.0)),
        meets=("check-back", ROLLED_BACK),
        befallen=_last_check,
    ),
    "two finishers link what a dead sender committed": Story(
        make=partial(_After, _committed, 3, finishers=2), meets=(COMMITTED,), befallen=_of("f")
    ),
    "nobody decides, and a finisher ends it by its age": Story(
        make=partial(_After, _undecided, 1), meets=(ROLLED_BACK,), befallen=_of("f")
    ),
    "an operator commits what a dead sender left": Story(
        make=partial(_After, _ordered, 1), meets=(COMMITTED,), befallen=_of("operator")
    ),
    "its group is forgotten while it begins": Story(
        make=partial(_After, _begun_again, 1), meets=("producer group forgotten", COMMITTED), befallen=_naming
    ),
    "consume, process, produce": Story(
        make=partial(_transacting, 1, topics=1, senders=0, consumers=1, messages=1, invisible_s=(20.0, 30.0)),
        meets=("settled by a transaction", COMMITTED),
        befallen=_of_transactions,
    ),
    "a finisher notes what a dead consumer settled": Story(
        make=partial(_After, settled_unnoted, 1), meets=("settled by a transaction", COMMITTED), befallen=_of("f")
    ),
    "what is linked, and what was given up, is collected": Story(
        make=partial(_After, _both, 1), meets=(COMMITTED, ROLLED_BACK), befallen=_collecting
    ),
}

_KINDS = (
    (r"transactions/", "the member's cell"),
    (r"producers/", "the producer group's record"),
    (r"producer-groups", "the list of producer groups"),
    (r"queues/", "the consumed queue's cell"),
    (r"topics/([^/]*)/staged/jobs/.", "staged messages"),
    (r"topics/[^/]*/staged/", "uploads"),
    (r"topics/([^/]*)/log/\d", "an entry of {}"),
    (r"topics/[^/]*/table/", "a table"),
    (r"topics/[^/]*/", "a topic's other objects"),
)


def step_of(service: str, call: Call) -> str:
    """What a request is for."""
    if call.verb == "clock":
        return "the store's time"
    for pattern, kind in _KINDS:
        if found := re.match(pattern, call.key):
            return f"{call.verb.replace('_', ' ')}: {kind.format(*found.groups())}"
    return f"{call.verb}: cells of consumers" if service == "table" else f"{call.verb}: the lake's other objects"
