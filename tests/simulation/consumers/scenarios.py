"""The worlds with consumers that the campaigns sweep: each a function of its seed."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal

from penstock.coordinator.groups.record import DeadLetterPolicy, DeliveryOrder
from tests.simulation.consumers.failovers import Failovers
from tests.simulation.consumers.growing import Growing
from tests.simulation.consumers.lives import Lives
from tests.simulation.consumers.plot import CALM, MIXED, GroupPlan, Plot, Temper
from tests.simulation.consumers.rewinds import Rewinds
from tests.simulation.consumers.world import STORE_NETWORK, Consuming
from tests.simulation.faults import Fault, FaultPlan, Outage, RandomFaults
from tests.simulation.kernel import Kernel
from tests.simulation.network import Network
from tests.simulation.plans import Choosing, rng_of
from tests.simulation.simulated import log_uniform
from tests.simulation.table import CELLS_ON_S3_MS, DYNAMODB_MS, SQLITE_MS, TABLE_NETWORK


def _plan(seed: int | str, of: str, rate: float) -> RandomFaults | None:
    return RandomFaults.swarm(Kernel(f"{seed}/{of}").rng, rate=rate) if rate else None


def _make(seed: int | str, rate: float, plot: Plot, kind: type[Consuming] = Consuming) -> Consuming:
    """A world on one of the three tables, with faults of the table and, fewer, of the store."""
    rng = rng_of(f"{seed}/table")
    latency_ms, lease_s = rng.choice([(DYNAMODB_MS, 5.0), (CELLS_ON_S3_MS, 15.0), (SQLITE_MS, 5.0)])
    network = Network(
        latency_ms=latency_ms, very_slow=0.001, time_out_s=2.0, slow_s=(0.2, 4.0), late_s=(0.5, 30.0), pause_s=plot.pause_s
    )
    return kind(
        seed,
        replace(plot, lease_s=lease_s),
        table_plan=_plan(seed, "table", rate),
        store_plan=_plan(seed, "store", rate / 3),
        table_network=network,
        store_network=replace(STORE_NETWORK, pause_s=plot.pause_s),
    )


def _orderly(rng: random.Random, **more: Any) -> GroupPlan:
    batches: list[Literal["group", "queue"] | None] = [None, None, "group", "queue"]
    batch = rng.choice(batches)
    return GroupPlan(
        policy=rng.choice(list(DeadLetterPolicy)),
        max_attempts=rng.randint(2, 4),
        retry_s=log_uniform(rng, 0.2, 5.0),
        batch=batch,
        batch_messages=rng.choice([2, 8]),
        threads=rng.choice([1, 3, 8]),
        **more,
    )


def orderly(seed: int | str, *, rate: float = 0.02) -> Consuming:
    """One ORDERLY group, all that messages do to handlers, and all that befalls processes and requests."""
    rng = rng_of(seed)
    return _make(
        seed,
        rate,
        Plot(
            groups={"billing": _orderly(rng)},
            queues=rng.choice([1, 2, 4]),
            machines=rng.randint(2, 4),
            message_groups=rng.choice([3, 12]),
            tempers=MIXED,
            blows_every_s=rng.choice([4.0, 15.0]) if rate else 0.0,
            deploys_every_s=rng.choice([0.0, 30.0]) if rate else 0.0,
            patience_s=rng.choice([None, 2.0]),
            orders_every_s=rng.choice([0.0, 8.0]),
        ),
    )


def concurrent(seed: int | str, *, rate: float = 0.02) -> Consuming:
    """The same of a CONCURRENT group."""
    rng = rng_of(seed)
    plan = replace(_orderly(rng), order=DeliveryOrder.CONCURRENT, policy=DeadLetterPolicy.CONTINUE)
    return _make(
        seed,
        rate,
        Plot(
            groups={"billing": replace(plan, batch=None if plan.batch == "group" else plan.batch)},
            queues=rng.choice([1, 2, 4]),
            keyless=rng.random() < 0.5,
            machines=rng.randint(2, 4),
            blows_every_s=rng.choice([4.0, 15.0]) if rate else 0.0,
            deploys_every_s=rng.choice([0.0, 30.0]) if rate else 0.0,
            patience_s=rng.choice([None, 2.0]),
            orders_every_s=rng.choice([0.0, 8.0]),
        ),
    )


def neighbours(seed: int | str, *, rate: float = 0.02) -> Consuming:
    """Several groups in each process, and messages that end it while others' are in flight."""
    rng = rng_of(seed)
    tempers = {**CALM, Temper.GOOD: 30.0, Temper.SLOW: 3.0, Temper.KILLS: 1.0, Temper.KILLS_ONCE: 1.0, Temper.RAISES: 1.0}
    concurrent = GroupPlan(order=DeliveryOrder.CONCURRENT, max_attempts=2)
    return _make(
        seed,
        rate,
        Plot(
            groups={"billing": _orderly(rng), "mailing": concurrent},
            queues=2,
            messages=40,
            machines=rng.randint(2, 3),
            tempers=tempers,
            blows_every_s=rng.choice([0.0, 15.0]) if rate else 0.0,
        ),
    )


def crowded(seed: int | str, *, rate: float = 0.02) -> Consuming:
    """Messages that fail again and again, of which a cell has room for a few only; the others wait outside of it."""
    rng = rng_of(seed)
    plan = GroupPlan(
        order=DeliveryOrder.CONCURRENT,
        max_attempts=rng.randint(3, 5),
        retry_s=log_uniform(rng, 0.5, 8.0),
        threads=rng.choice([3, 8, 20]),
        waiting=rng.choice([1, 2, 5]),
    )
    tempers = {
        Temper.GOOD: 6.0,
        Temper.RAISES: 10.0,
        Temper.FAILS: 5.0,
        Temper.LATER: 3.0,
        Temper.POISON: 1.0,
        Temper.KILLS_ONCE: 0.2,
    }
    return _make(
        seed,
        rate,
        Plot(
            groups={"billing": plan},
            queues=rng.choice([1, 2]),
            machines=rng.randint(2, 3),
            messages=50,
            burst=(1, 20),
            send_for_s=12.0,
            faults_end_s=30.0,
            tempers=tempers,
            blows_every_s=rng.choice([5.0, 15.0]) if rate else 0.0,
            deploys_every_s=rng.choice([0.0, 15.0]) if rate else 0.0,
            orders_every_s=rng.choice([0.0, 2.0, 6.0]),
        ),
    )


def deploys(seed: int | str, *, rate: float = 0.01) -> Consuming:
    """Rolling deploys one after the other, with handlers that take their time, and nobody killed."""
    rng = rng_of(seed)
    tempers = {Temper.GOOD: 20.0, Temper.SLOW: 5.0, Temper.RAISES: 2.0, Temper.LATER: 2.0}
    return _make(
        seed,
        rate,
        Plot(
            groups={"billing": _orderly(rng)},
            tempers=tempers,
            machines=3,
            queues=4,
            deploys_every_s=3.0,
            patience_s=rng.choice([None, None, 2.0]),
        ),
    )


def resets(seed: int | str, *, rate: float = 0.02) -> Consuming:
    """Operators that reset, release, skip and redrive all the time."""
    rng = rng_of(seed)
    return _make(
        seed,
        rate,
        Plot(
            groups={"billing": _orderly(rng)},
            queues=rng.choice([1, 3]),
            machines=rng.randint(1, 3),
            messages=40,
            tempers={**MIXED, Temper.POISON: 4.0, Temper.REJECTED: 3.0, Temper.KILLS: 0.0, Temper.SLOW: 3.0},
            blows_every_s=rng.choice([0.0, 10.0]) if rate else 0.0,
            orders_every_s=2.5,
        ),
    )


def pauses(seed: int | str, *, rate: float = 0.02) -> Consuming:
    """Processes that stand still, mostly beyond their lease, and clocks that are wrong by minutes."""
    rng = rng_of(seed)
    return _make(
        seed,
        rate,
        Plot(
            groups={"billing": _orderly(rng)},
            queues=3,
            machines=3,
            tempers={**MIXED, Temper.KILLS: 0.0},
            blows_every_s=3.0 if rate else 0.0,
            pause_s=(2.0, 60.0),
            step_ms_max=20_000,
            offset_ms=10_000,
            drift=0.05,
        ),
    )


def narrow(seed: int | str, *, rate: float = 0.02) -> Consuming:
    """Little room: windows and caches that a few messages fill."""
    rng = rng_of(seed)
    return _make(
        seed,
        rate,
        Plot(
            groups={"billing": _orderly(rng, cache_messages=rng.choice([2, 6]), window=rng.choice([4, 10]))},
            queues=2,
            machines=2,
            message_groups=5,
            messages=80,
            tempers={**MIXED, Temper.SLOW: 4.0, Temper.KILLS: 0.1},
            blows_every_s=rng.choice([0.0, 15.0]) if rate else 0.0,
            orders_every_s=rng.choice([0.0, 15.0]),
        ),
    )


def sluggish(seed: int | str, *, rate: float = 0.2) -> Consuming:
    """A table whose answers come late or not at all, so that leases are lost by those who live."""
    rng = rng_of(seed)
    world = _make(
        seed,
        0.0,
        Plot(groups={"billing": _orderly(rng)}, queues=3, machines=3, tempers={Temper.GOOD: 9.0, Temper.SLOW: 2.0}, drift=0.05),
    )
    late = (Fault.LATE_APPLY, Fault.OVERTAKEN, Fault.OVERTAKEN, Fault.LOST_ANSWER, Fault.LOST_REQUEST)
    kinds = (Fault.SLOW, Fault.SLOW, *late, Fault.PAUSE_AFTER)
    plan = (
        RandomFaults({kind: rate * kinds.count(kind) / len(kinds) for kind in kinds}, Kernel(f"{seed}/table").rng) if rate else None
    )
    world.befall_table(plan)
    world.table.network = replace(world.table.network, slow_s=(0.5, 6.0), time_out_s=7.0, pause_s=(0.5, 8.0))
    return world


def overtaken(seed: int | str, *, rate: float = 0.2) -> Consuming:
    """A table where writes get no answer and are carried out when their writer has read back and decided: grants, takes, releases,
    acknowledgements, orders, heartbeats. Nothing else fails, so nobody else comes to the rescue of who stands still.
    """
    rng = rng_of(seed)
    world = _make(
        seed,
        0.0,
        Plot(
            groups={"billing": _either(rng)},
            queues=rng.choice([3, 5]),
            machines=rng.randint(2, 3),
            tempers={Temper.GOOD: 9.0, Temper.RAISES: 1.0},
            deploys_every_s=rng.choice([3.0, 8.0]) if rate else 0.0,
            orders_every_s=rng.choice([0.0, 8.0]) if rate else 0.0,
        ),
    )
    of = rng.choice(["queues/", "queues/", "queues/", ""])
    world.befall_table(Choosing({Fault.OVERTAKEN: rate}, Kernel(f"{seed}/table").rng, of) if rate else None)
    return world


def outage(seed: int | str, *, rate: float = 0.02) -> Consuming:
    """A dead-letter queue that cannot be written for most of the run, room for few letters, and messages that die."""
    rng = rng_of(seed)
    order = rng.choice(list(DeliveryOrder))
    plan = _orderly(rng)
    if order is DeliveryOrder.CONCURRENT:
        batch = None if plan.batch == "group" else plan.batch
        plan = replace(plan, order=order, policy=DeadLetterPolicy.CONTINUE, batch=batch)
    world = _make(
        seed,
        rate,
        Plot(
            groups={"billing": replace(plan, max_attempts=rng.choice([1, 2]))},
            queues=rng.choice([1, 2]),
            machines=rng.randint(1, 3),
            message_groups=rng.choice([3, 12]),
            tempers={**MIXED, Temper.POISON: 10.0, Temper.REJECTED: 5.0, Temper.KILLS: rng.choice([0.0, 1.0])},
            letters=rng.choice([1, 3, 8]),
            blows_every_s=rng.choice([4.0, 15.0]) if rate else 0.0,
            deploys_every_s=rng.choice([0.0, 15.0]) if rate else 0.0,
            patience_s=rng.choice([None, 2.0]),
            orders_every_s=rng.choice([0.0, 4.0]),
        ),
    )
    store, table = world._plans
    world._plans = (Outage("dlq.", store), table) if rate else (store, table)
    return world


def _either(rng: random.Random, **more: Any) -> GroupPlan:
    """An ORDERLY or a CONCURRENT group."""
    plan = _orderly(rng, **more)
    if rng.random() < 0.6:
        return plan
    batch = None if plan.batch == "group" else plan.batch
    return replace(plan, order=DeliveryOrder.CONCURRENT, policy=DeadLetterPolicy.CONTINUE, batch=batch)


def heals(seed: int | str, *, rate: float = 0.01) -> Consuming:
    """Outages that heal: of the store, the table, the dead-letter queue, a queue's cell, the group's record, heartbeats."""
    rng = rng_of(seed)
    return _make(
        seed,
        rate,
        Plot(
            groups={"billing": _either(rng, waiting=rng.choice([2, 1_000]))},
            queues=rng.choice([1, 2, 4]),
            machines=rng.randint(1, 3),
            message_groups=rng.choice([3, 12]),
            tempers={**MIXED, Temper.POISON: 3.0, Temper.RAISES: 6.0, Temper.KILLS: 0.0},
            letters=rng.choice([None, 2]),
            blows_every_s=rng.choice([0.0, 15.0]) if rate else 0.0,
            deploys_every_s=rng.choice([0.0, 20.0]) if rate else 0.0,
            patience_s=rng.choice([None, 2.0]),
            orders_every_s=rng.choice([0.0, 6.0]),
            outages_every_s=rng.choice([2.0, 8.0]) if rate else 0.0,
        ),
    )


def alters(seed: int | str, *, rate: float = 0.01) -> Consuming:
    """Operators who alter attempts, retries, policy and filter of a group all the time, and order what is parked on meanwhile."""
    rng = rng_of(seed)
    return _make(
        seed,
        rate,
        Plot(
            groups={"billing": _either(rng)},
            queues=rng.choice([1, 3]),
            machines=rng.randint(1, 3),
            message_groups=rng.choice([3, 12]),
            tempers={**MIXED, Temper.POISON: 4.0, Temper.RAISES: 8.0, Temper.LATER: 3.0, Temper.KILLS: 0.0},
            blows_every_s=rng.choice([0.0, 10.0]) if rate else 0.0,
            deploys_every_s=rng.choice([0.0, 20.0]) if rate else 0.0,
            patience_s=rng.choice([None, 2.0]),
            orders_every_s=rng.choice([1.0, 3.0]),
            alters=True,
            tags=(None, "a", "b"),
        ),
    )


def mixed(seed: int | str, *, rate: float = 0.01) -> Consuming:
    """Members that differ: in leases, room, threads, batches; and some that state what contradicts their group."""
    rng = rng_of(seed)
    return _make(
        seed,
        rate,
        Plot(
            groups={"billing": _either(rng, mixed=True)},
            queues=rng.choice([2, 4]),
            machines=rng.randint(2, 4),
            message_groups=rng.choice([3, 12]),
            blows_every_s=rng.choice([4.0, 15.0]) if rate else 0.0,
            deploys_every_s=rng.choice([5.0, 20.0]) if rate else 0.0,
            patience_s=rng.choice([None, 2.0]),
            orders_every_s=rng.choice([0.0, 4.0]),
            alters=rng.random() < 0.5,
            tags=(None, "a", "b"),
        ),
    )


def calm(seed: int | str, *, rate: float = 0.0) -> Consuming:
    """Good messages and patient machines: the run that a protocol without some guard may survive."""
    return _make(seed, rate, Plot(tempers={Temper.GOOD: 20.0, Temper.RAISES: 1.0}, machines=2, deploys_every_s=25.0))


def lives(seed: int | str, *, rate: float = 0.01) -> Consuming:
    """Topics and the group are deleted and made again under push and simple consumers, while dead letters cannot be written."""
    rng = rng_of(seed)
    order = rng.choice(list(DeliveryOrder))
    plan = GroupPlan(order=order, max_attempts=2, retry_s=log_uniform(rng, 0.2, 3.0), threads=rng.choice([1, 4]))
    return _make(
        seed,
        rate,
        Plot(
            groups={"billing": plan},
            queues=3,
            keyless=True,
            machines=2,
            blows_every_s=rng.choice([0.0, 6.0]) if rate else 0.0,
            pause_s=(1.0, 30.0),
            orders_every_s=rng.choice([3.0, 8.0]) if rate else 0.0,
            faults_end_s=60.0,
        ),
        Lives,
    )


def restores(seed: int | str, *, rate: float = 0.01) -> Consuming:
    """Everybody is stopped, the coordination table is put back to how it was up to half a minute before, and all begin again."""
    rng = rng_of(seed)
    return _make(
        seed,
        rate,
        Plot(
            groups={"billing": _either(rng)},
            queues=rng.choice([1, 2, 4]),
            machines=rng.randint(1, 3),
            message_groups=rng.choice([3, 12]),
            tempers={**MIXED, Temper.POISON: 4.0, Temper.REJECTED: 4.0, Temper.KILLS: 0.2},
            blows_every_s=rng.choice([0.0, 15.0]) if rate else 0.0,
            deploys_every_s=rng.choice([0.0, 30.0]) if rate else 0.0,
            patience_s=rng.choice([None, 2.0]),
            orders_every_s=rng.choice([0.0, 6.0]),
            restores_every_s=rng.choice([3.0, 12.0]) if rate else 0.0,
            faults_end_s=90.0,
        ),
    )


def rewinds(seed: int | str, *, rate: float = 0.01) -> Consuming:
    """Everybody is stopped, and the bucket is put back to how it was up to 20 s before; the cells stay. Who begins first then is drawn."""
    rng = rng_of(seed)
    order = rng.choice(list(DeliveryOrder))
    plan = GroupPlan(order=order, max_attempts=2, retry_s=log_uniform(rng, 0.2, 3.0), threads=rng.choice([1, 4]))
    return _make(
        seed,
        rate,
        Plot(
            groups={"billing": plan},
            queues=rng.choice([1, 3]),
            machines=rng.randint(1, 3),
            message_groups=rng.choice([3, 12]),
            blows_every_s=rng.choice([0.0, 15.0]) if rate else 0.0,
            restores_every_s=rng.choice([5.0, 15.0]) if rate else 0.0,
            faults_end_s=90.0,
        ),
        Rewinds,
    )


def failovers(seed: int | str, *, rate: float = 0.01) -> Consuming:
    """The table loses its last commits, of up to 20 s, while all go on: handlers, and perhaps a receiver beside them."""
    rng = rng_of(seed)
    order = rng.choice([DeliveryOrder.ORDERLY, DeliveryOrder.ORDERLY, DeliveryOrder.CONCURRENT])
    plan = GroupPlan(
        order=order,
        max_attempts=2,
        retry_s=log_uniform(rng, 0.2, 3.0),
        threads=rng.choice([1, 3, 8]),
        waiting=rng.choice([1, 1_000]),
    )
    return _make(
        seed,
        rate,
        Plot(
            groups={"billing": plan},
            queues=rng.choice([1, 2, 4]),
            machines=rng.randint(1, 3),
            message_groups=rng.choice([3, 12]),
            blows_every_s=rng.choice([0.0, 15.0]) if rate else 0.0,
            deploys_every_s=rng.choice([0.0, 20.0]) if rate else 0.0,
            restores_every_s=rng.choice([5.0, 15.0, 40.0]) if rate else 0.0,
            receives=rng.random() < 0.5,
            faults_end_s=90.0,
        ),
        Failovers,
    )


def small_work(seed: int | str, *, store: FaultPlan | None = None, table: FaultPlan | None = None) -> Consuming:
    """For single faults: a retry, a rejection, a poison, a kill, a reset and a deploy, of a few messages."""
    tempers = {Temper.GOOD: 4.0, Temper.RAISES: 1.0, Temper.REJECTED: 1.0, Temper.KILLS_ONCE: 1.0}
    plot = Plot(
        groups={"billing": GroupPlan(max_attempts=2, retry_s=0.5)},
        queues=2,
        machines=2,
        messages=10,
        message_groups=3,
        send_for_s=4.0,
        tempers=tempers,
        deploys_every_s=6.0,
        orders_every_s=5.0,
        pause_s=(7.0, 9.0),
        faults_end_s=15.0,
        offset_ms=0,
        drift=0.0,
    )
    return _for_single_faults(seed, plot, store, table)


def small_growth(seed: int | str, *, store: FaultPlan | None = None, table: FaultPlan | None = None) -> Consuming:
    """For single faults: a topic that grows twice under a sender and two machines, with messages that fail once."""
    plot = Plot(
        groups={"billing": GroupPlan(max_attempts=2, retry_s=0.5)},
        queues=1,
        grows=(2, 2),
        machines=2,
        messages=8,
        message_groups=3,
        send_for_s=3.0,
        tempers={Temper.GOOD: 3.0, Temper.RAISES: 2.0},
        pause_s=(7.0, 9.0),
        faults_end_s=15.0,
        offset_ms=0,
        drift=0.0,
    )
    return _for_single_faults(seed, plot, store, table, Growing)


def _for_single_faults(
    seed: int | str, plot: Plot, store: FaultPlan | None, table: FaultPlan | None, kind: type[Consuming] = Consuming
) -> Consuming:
    network = replace(TABLE_NETWORK, very_slow=0.0, pause_s=plot.pause_s, late_s=(0.5, 10.0))
    store_network = replace(STORE_NETWORK, very_slow=0.0, pause_s=plot.pause_s, late_s=(0.5, 10.0))
    return kind(seed, plot, store_plan=store, table_plan=table, table_network=network, store_network=store_network)


def grows(seed: int | str, *, rate: float = 0.02) -> Consuming:
    """A topic that gets more queues twice, or three times, under an ORDERLY group with messages that fail, die and are parked."""
    rng = rng_of(seed)
    return _make(
        seed,
        rate,
        Plot(
            groups={"billing": _orderly(rng)},
            queues=rng.choice([1, 2]),
            grows=rng.choice([(2, 2), (2, 2), (3, 2), (2, 2, 2)]),
            machines=rng.randint(2, 4),
            messages=90,
            message_groups=rng.choice([4, 12]),
            tempers={**MIXED, Temper.POISON: 3.0, Temper.RAISES: 4.0, Temper.SLOW: 3.0, Temper.KILLS: 0.1},
            blows_every_s=rng.choice([4.0, 15.0]) if rate else 0.0,
            deploys_every_s=rng.choice([0.0, 15.0]) if rate else 0.0,
            patience_s=rng.choice([None, 2.0]),
            orders_every_s=rng.choice([0.0, 4.0, 8.0]),
        ),
        Growing,
    )


SCENARIOS: Mapping[str, Callable[..., Consuming]] = {
    "orderly": orderly,
    "concurrent": concurrent,
    "crowded": crowded,
    "neighbours": neighbours,
    "deploys": deploys,
    "resets": resets,
    "pauses": pauses,
    "narrow": narrow,
    "sluggish": sluggish,
    "overtaken": overtaken,
    "lives": lives,
    "restores": restores,
    "rewinds": rewinds,
    "failovers": failovers,
    "outage": outage,
    "heals": heals,
    "alters": alters,
    "mixed": mixed,
    "grows": grows,
    "calm": calm,
}


def build(scenario: str, seed: int | str, *, rate: float | None = None) -> Consuming:
    return SCENARIOS[scenario](seed) if rate is None else SCENARIOS[scenario](seed, rate=rate)
