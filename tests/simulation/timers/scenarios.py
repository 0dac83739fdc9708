"""The worlds with timed messages that the campaigns sweep: each a function of its seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta

from tests.simulation.faults import Fault, RandomFaults
from tests.simulation.kernel import Kernel
from tests.simulation.plans import DAY_S, HOUR_S, Choosing, rng_of
from tests.simulation.table import CELLS_ON_S3_MS, DYNAMODB_MS, SQLITE_MS, TABLE_NETWORK
from tests.simulation.timers.plot import SMALL, Plot
from tests.simulation.timers.world import STORE_NETWORK, Timing


def _plan(seed: int | str, of: str, rate: float) -> RandomFaults | None:
    return RandomFaults.swarm(Kernel(f"{seed}/{of}").rng, rate=rate) if rate else None


def _make(seed: int | str, rate: float, plot: Plot) -> Timing:
    """A world whose cells lie in the store, as ours do, or in one of the tables, with faults of both."""
    rng = rng_of(f"{seed}/table")
    latency_ms = rng.choice([DYNAMODB_MS, CELLS_ON_S3_MS, SQLITE_MS])
    return Timing(
        seed,
        replace(plot, cells_on_store=bool(plot.maintained_every_s) or rng.random() < 0.7),  # maintenance asks the store's
        table_plan=_plan(seed, "table", rate),
        store_plan=_plan(seed, "store", rate),
        table_network=replace(TABLE_NETWORK, latency_ms=latency_ms, late_s=(0.5, 30.0), pause_s=plot.pause_s),
        store_network=replace(STORE_NETWORK, pause_s=plot.pause_s),
    )


def rivals(seed: int | str, *, rate: float = 0.02) -> Timing:
    """One to three players at once, and all that befalls processes and requests."""
    rng = rng_of(seed)
    plot = Plot(
        queues=rng.choice([1, 2, 4]),
        players=rng.randint(1, 3),
        options=replace(SMALL, claim_rows=rng.choice([1, 3, 50]), flush_rows=rng.choice([2, 4, 20])),
        blows_every_s=rng.choice([2.0, 6.0, 20.0]) if rate else 0.0,
        deploys_every_s=rng.choice([0.0, 10.0]) if rate else 0.0,
        recalls_every_s=rng.choice([0.0, 0.7, 3.0]),
    )
    return _make(seed, rate, plot)


def recalls(seed: int | str, *, rate: float = 0.02) -> Timing:
    """Recalls all the time, most of what is due about now."""
    rng = rng_of(seed)
    plot = Plot(
        messages=60,
        players=rng.randint(1, 2),
        ahead_s=(0.2, 20.0),
        recalls_every_s=0.25,
        lists_every_s=4.0,
        options=replace(SMALL, claim_rows=rng.choice([2, 8]), recalled_rows=rng.choice([1, 3])),
        blows_every_s=rng.choice([0.0, 5.0]) if rate else 0.0,
        weights={"slot": 5.0, "any": 5.0},
    )
    return _make(seed, rate, plot)


def clocks(seed: int | str, *, rate: float = 0.01) -> Timing:
    """Clocks that are wrong by minutes, and step by minutes and hours, back and forth; stores that answer slowly."""
    rng = rng_of(seed)
    plot = Plot(
        players=rng.randint(2, 3),
        blows_every_s=1.0 if rate else 0.0,
        wild_step=0.6,
        offset_ms=290_000,
        drift=0.0003,
        pause_s=(0.1, 20.0),
        recalls_every_s=4.0,
    )
    return _make(seed, rate, plot)


def runs(seed: int | str, *, rate: float = 0.02) -> Timing:
    """Much that waits long: gathered in runs, which are merged, dropped and read while time passes."""
    rng = rng_of(seed)
    plot = Plot(
        messages=90,
        send_for_s=30.0,
        ahead_s=(1.0, 200.0),
        players=rng.randint(1, 3),
        options=replace(
            SMALL,
            claim_rows=rng.choice([2, 6]),
            flush_rows=rng.choice([2, 3, 6]),
            merge_runs=rng.choice([2, 3]),
            group_bytes=rng.choice([300, 700, 2_000]),
            ahead=timedelta(seconds=rng.choice([0.5, 5.0])),
        ),
        blows_every_s=rng.choice([0.0, 4.0]) if rate else 0.0,
        deploys_every_s=rng.choice([0.0, 10.0]),
        recalls_every_s=2.0,
        lists_every_s=5.0,
        weights={"slot": 3.0, "any": 7.0, "past": 1.0},
    )
    return _make(seed, rate, plot)


def lives(seed: int | str, *, rate: float = 0.015) -> Timing:
    """The topic is deleted and made anew, while all goes on."""
    rng = rng_of(seed)
    plot = Plot(
        messages=70,
        players=rng.randint(1, 3),
        deletes=rng.randint(1, 4),
        deletes_every_s=rng.choice([5.0, 15.0]),
        ahead_s=(0.1, 20.0),
        blows_every_s=rng.choice([0.0, 5.0]) if rate else 0.0,
        recalls_every_s=2.0,
    )
    return _make(seed, rate, plot)


_SLOW = replace(SMALL, tick=timedelta(minutes=2), probe=timedelta(minutes=10), settle=timedelta(hours=1), ahead=timedelta(hours=1))


def weeks(seed: int | str, *, rate: float = 0.02) -> Timing:
    """Weeks pass: retention of the timer log, orphans and their collection, and processes that sleep for days on the way."""
    rng = rng_of(seed)
    plot = Plot(
        messages=60,
        send_for_s=8 * DAY_S,
        ahead_s=(60.0, 15 * DAY_S),
        slots_s=6 * HOUR_S,
        players=rng.randint(1, 2),
        options=replace(_SLOW, flush_age=timedelta(hours=rng.choice([6, 48])), flush_rows=rng.choice([4, 1_000])),
        recalls_every_s=12 * HOUR_S,
        lists_every_s=DAY_S,
        maintained_every_s=8 * HOUR_S,
        blows_every_s=rng.choice([0.0, DAY_S]) if rate else 0.0,
        deploys_every_s=rng.choice([0.0, 2 * DAY_S]),
        pause_s=(10.0, 4 * DAY_S),
        drift=0.0,
        faults_end_s=14 * DAY_S,
        quiet_s=10 * DAY_S,
    )
    return _make(seed, rate, plot)


def strays(seed: int | str, *, rate: float = 0.5) -> Timing:
    """Runs are written by processes that sleep for days right then, while others look for what is left: nobody's runs, it seems."""
    rng = rng_of(seed)
    plot = Plot(
        messages=40,
        send_for_s=4 * DAY_S,
        ahead_s=(DAY_S, 15 * DAY_S),
        slots_s=6 * HOUR_S,
        players=rng.randint(1, 2),
        options=replace(_SLOW, flush_age=timedelta(hours=12), flush_rows=6),
        recalls_every_s=0.0,
        lists_every_s=0.0,
        maintained_every_s=8 * HOUR_S,
        drift=0.0,
        faults_end_s=16 * DAY_S,
        quiet_s=10 * DAY_S,
    )
    stops = (Fault.PAUSE_BEFORE, Fault.PAUSE_AFTER, Fault.SUSPEND_AFTER)
    plan = Choosing(dict.fromkeys(stops, rate / len(stops)), Kernel(seed).rng, "timers/orders") if rate else None
    network = replace(STORE_NETWORK, pause_s=(2.1 * DAY_S, 4 * DAY_S), very_slow=0.0)
    return Timing(seed, replace(plot, cells_on_store=True), store_plan=plan, store_network=network)


def idle(seed: int | str, *, rate: float = 0.02) -> Timing:
    """Everybody is gone for more than a month, in the midst of it, as names are forgotten after 30 days without use."""
    rng = rng_of(seed)
    plot = Plot(
        messages=20,
        send_for_s=15.0,
        ahead_s=(0.1, 20.0),
        players=1,
        options=replace(SMALL, claim_rows=rng.choice([1, 3]), settle=timedelta(minutes=1)),
        recalls_every_s=0.0,
        lists_every_s=0.0,
        faults_end_s=rng.uniform(2.0, 20.0),
        idle_s=rng.choice([31, 60]) * DAY_S,
        quiet_s=2 * DAY_S,
        drift=0.0,
    )
    return _make(seed, rate, plot)


def overtaken(seed: int | str, *, rate: float = 0.1) -> Timing:
    """Writes of the cell get no answer, and are carried out when their writers have read back and decided."""
    rng = rng_of(seed)
    plot = Plot(
        queues=rng.choice([1, 2]),
        messages=60,
        players=rng.randint(1, 3),
        options=replace(SMALL, claim_rows=rng.choice([2, 8]), flush_rows=rng.choice([3, 20]), recalled_rows=rng.choice([1, 3])),
        recalls_every_s=rng.choice([0.5, 2.0]),
        lists_every_s=5.0,
        deploys_every_s=rng.choice([0.0, 10.0]) if rate else 0.0,
    )
    world = _make(seed, 0.0, plot)
    plans = [
        Choosing({Fault.OVERTAKEN: rate}, Kernel(f"{seed}/{of}").rng, "timers/") if rate else None for of in ("store", "table")
    ]
    world.befall(store=plans[0], table=plans[1])
    return world


def expiring(seed: int | str, *, rate: float = 0.01) -> Timing:
    """Credentials that expire for all of the store, and are renewed after moments, or after so long that everybody has given up."""
    rng = rng_of(seed)
    long = rng.random() < 0.3
    plot = Plot(
        players=rng.randint(1, 2),
        lists_every_s=5.0,
        deploys_every_s=20.0 if rate else 0.0,
        faults_end_s=1_500.0 if long else 120.0,
        send_for_s=100.0,
    )
    world = _make(seed, rate, plot)
    if rate:
        world.expire(every_s=8.0, for_s=(200.0, 900.0) if long else (0.5, 40.0))
    return world


def calm(seed: int | str, *, rate: float = 0.0) -> Timing:
    """Nothing goes wrong, and all is let go in time."""
    plot = Plot(players=1, deploys_every_s=20.0, recalls_every_s=3.0, offset_ms=0, drift=0.0, faults_end_s=1.0, late_s=1.5)
    return _make(seed, rate, plot)


SCENARIOS: Mapping[str, Callable[..., Timing]] = {
    "rivals": rivals,
    "recalls": recalls,
    "clocks": clocks,
    "runs": runs,
    "lives": lives,
    "weeks": weeks,
    "strays": strays,
    "idle": idle,
    "overtaken": overtaken,
    "expiring": expiring,
    "calm": calm,
}
