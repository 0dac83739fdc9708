"""The worlds with transactions that the campaigns sweep: each a function of its seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from tests.simulation.faults import Fault, RandomFaults
from tests.simulation.kernel import Kernel
from tests.simulation.network import Network
from tests.simulation.plans import HOUR_S, Choosing, rng_of
from tests.simulation.table import CELLS_ON_S3_MS, DYNAMODB_MS, SQLITE_MS
from tests.simulation.transactions.plot import Plot
from tests.simulation.transactions.world import STORE_NETWORK, Transacting


def _plan(seed: int | str, of: str, rate: float) -> RandomFaults | None:
    return RandomFaults.swarm(Kernel(f"{seed}/{of}").rng, rate=rate) if rate else None


def _make(seed: int | str, rate: float, plot: Plot, *, late_s: tuple[float, float] = (0.5, 120.0)) -> Transacting:
    """A world on one of the three tables, with faults of the table and of the store."""
    latency_ms = rng_of(f"{seed}/table").choice([DYNAMODB_MS, CELLS_ON_S3_MS, SQLITE_MS])
    table = Network(latency_ms=latency_ms, very_slow=0.001, time_out_s=2.0, slow_s=(0.2, 4.0), late_s=late_s, pause_s=plot.pause_s)
    return Transacting(
        seed,
        plot if rate else replace(plot, blows_every_s=0.0),
        table_plan=_plan(seed, "table", rate),
        store_plan=_plan(seed, "store", rate),
        table_network=table,
        store_network=replace(STORE_NETWORK, late_s=late_s, pause_s=plot.pause_s),
    )


def orders(seed: int | str, *, rate: float = 0.03) -> Transacting:
    """Applications that pay orders and crash, checkers that do not always know, and finishers."""
    rng = rng_of(seed)
    plot = Plot(
        senders=rng.randint(1, 3),
        transactions=rng.randint(4, 8),
        at_once=rng.choice([1, 3]),
        unsure=rng.choice([0.0, 0.3]),
        blows_every_s=rng.choice([5.0, 20.0]),
        pause_s=(0.1, rng.choice([20.0, 600.0])),
        finish_every_s=(0.5, rng.choice([5.0, 100.0])),
    )
    return _make(seed, rate, plot)


def rivals(seed: int | str, *, rate: float = 0.03) -> Transacting:
    """Everybody decides at once: the sender, check-backs after seconds, operators; and everybody finishes."""
    rng = rng_of(seed)
    plot = Plot(
        senders=2,
        transactions=8,
        at_once=3,
        first_check_s=8.0,
        think_s=(0.5, 30.0),
        unsure=0.2,
        finishers=3,
        finish_every_s=(0.2, 3.0),
        operator_every_s=rng.choice([3.0, 10.0]),
        blows_every_s=rng.choice([10.0, 40.0]),
        pause_s=(0.1, 60.0),
    )
    return _make(seed, rate, plot)


def ages(seed: int | str, *, rate: float = 0.02) -> Transacting:
    """Hours and days: transactions that nobody decides, pauses beyond every time limit, clocks that step by hours, and collectors."""
    rng = rng_of(seed)
    plot = Plot(
        senders=2,
        transactions=8,
        at_once=2,
        think_s=(0.1, 2 * HOUR_S),
        forgets=0.3,
        first_check_s=rng.choice([60.0, HOUR_S]),
        unsure=rng.choice([0.3, 0.97]),
        check_every_s=(60.0, HOUR_S),
        finish_every_s=(10.0, 4 * HOUR_S),
        collectors=2,
        collect_every_s=(HOUR_S, 10 * HOUR_S),
        blows_every_s=3 * HOUR_S,
        pause_s=(1.0, 80 * HOUR_S),
        wild_step=0.5,
        drift=0.01,
        faults_end_s=100 * HOUR_S,
        quiet_s=60 * HOUR_S,
    )
    return _make(seed, rate, plot, late_s=(1.0, 2 * HOUR_S))


def lives(seed: int | str, *, rate: float = 0.02) -> Transacting:
    """Topics that are deleted and made again under their transactions."""
    rng = rng_of(seed)
    plot = Plot(
        senders=2,
        transactions=8,
        at_once=2,
        first_check_s=20.0,
        think_s=(0.1, 20.0),
        finish_every_s=(0.5, 30.0),
        deletes_every_s=rng.choice([15.0, 60.0]),
        blows_every_s=30.0,
        pause_s=(0.1, 100.0),
    )
    return _make(seed, rate, plot)


def pricings(seed: int | str, *, rate: float = 0.02) -> Transacting:
    """What is consumed, processed and produced, exactly once, by machines whose deliveries expire under their transactions."""
    rng = rng_of(seed)
    plot = Plot(
        senders=0,
        consumers=rng.randint(1, 3),
        messages=rng.choice([12, 30]),
        think_s=(0.1, rng.choice([5.0, 40.0])),
        invisible_s=(10.0, 30.0),
        finish_every_s=(0.5, rng.choice([10.0, 60.0])),
        forgets=0.2,
        backs_out=0.1,
        operator_every_s=rng.choice([0.0, 10.0]),
        blows_every_s=rng.choice([10.0, 30.0]),
        pause_s=(0.1, 60.0),
        step_ms_max=3_000,
        faults_end_s=120.0,
    )
    return _make(seed, rate, plot, late_s=(0.5, 30.0))


def answers(seed: int | str, *, rate: float = 0.15) -> Transacting:
    """A table that loses requests and answers all the time, and a store that does not."""
    plot = Plot(senders=2, transactions=6, at_once=2, think_s=(0.1, 10.0), first_check_s=10.0, finish_every_s=(1.0, 30.0))
    world = _make(seed, rate, plot)
    world.befall(store=None, table=_plan(seed, "table", rate))
    return world


def overtaken(seed: int | str, *, rate: float = 0.1) -> Transacting:
    """A table where writes get no answer and are carried out when their writers have read back and decided: rows of transactions, lists of
    members, and cells of queues that settle with them.
    """
    rng = rng_of(seed)
    consumers = rng.randint(0, 2)
    plot = Plot(
        senders=rng.randint(1, 2),
        consumers=consumers,
        transactions=6,
        at_once=2,
        messages=12 if consumers else 0,
        invisible_s=(10.0, 30.0),
        think_s=(0.1, 20.0),
        first_check_s=8.0,
        unsure=0.2,
        finishers=2,
        finish_every_s=(0.5, 20.0),
        operator_every_s=rng.choice([0.0, 10.0]),
    )
    world = _make(seed, 0.0, plot, late_s=(0.5, 30.0))
    world.befall(store=None, table=Choosing({Fault.OVERTAKEN: rate}, Kernel(f"{seed}/table").rng, "") if rate else None)
    return world


def expiring(seed: int | str, *, rate: float = 0.01) -> Transacting:
    """Credentials that expire for all of the store or the table, and are renewed after moments."""
    rng = rng_of(seed)
    consumers = rng.randint(0, 1)
    plot = Plot(
        senders=rng.randint(1, 2),
        consumers=consumers,
        messages=12 if consumers else 0,
        invisible_s=(10.0, 30.0),
        think_s=(0.1, 20.0),
        first_check_s=20.0,
        unsure=0.2,
        finish_every_s=(0.5, 20.0),
        operator_every_s=rng.choice([0.0, 20.0]),
    )
    world = _make(seed, rate, plot)
    if rate:
        world.expire(every_s=30.0, for_s=(0.5, 60.0))
    return world


def steps(seed: int | str, *, rate: float = 0.02) -> Transacting:
    """Finishers on machines whose clocks are wrong by hours."""
    plot = Plot(
        senders=2,
        transactions=5,
        think_s=(0.5, 10.0),
        finishers=3,
        finisher_offset_ms=10 * 3_600_000,
        finish_every_s=(0.5, 5.0),
        blows_every_s=20.0,
        wild_step=0.5,
        pause_s=(0.1, 30.0),
    )
    return _make(seed, rate, plot)


SCENARIOS: Mapping[str, Callable[..., Transacting]] = {
    "orders": orders,
    "rivals": rivals,
    "ages": ages,
    "lives": lives,
    "pricings": pricings,
    "steps": steps,
    "answers": answers,
    "overtaken": overtaken,
    "expiring": expiring,
}
