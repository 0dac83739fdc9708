"""The worlds that the campaigns sweep: each a function of its seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta

from penstock.log.produce.accumulator import ProducerOptions
from tests.simulation.faults import Fault, FaultPlan, RandomFaults
from tests.simulation.kernel import Kernel
from tests.simulation.log.actors import Copier, Follower, Maintainer, Recreator, Replayer, Sender, Source, Upkeep, vanishing
from tests.simulation.log.careless import Careless
from tests.simulation.log.growing import growing
from tests.simulation.log.idempotent import idempotent
from tests.simulation.log.linking import linking
from tests.simulation.log.typed import evolves
from tests.simulation.log.upkeep import damage, expiry, files, jobs, strays, uploads
from tests.simulation.log.world import World
from tests.simulation.network import Network
from tests.simulation.plans import DAY_S, HOUR_S, Sparing, only_stops, rng_of, swarm
from tests.simulation.simulated import Nemesis, log_uniform


def crowd(seed: int | str, *, rate: float = 0.04, most: int = 8) -> World:
    """Many producers side by side: lost races, hand-overs, step-ins."""
    rng = rng_of(seed)
    world = World(
        seed,
        plan=swarm(seed, rate),
        network=Network(pause_s=(0.05, 900.0), late_s=(1.0, 600.0), page_keys=rng.choice([3, 1000])),
        drift=0.05,
        offset_ms=120_000,
        faults_end_s=200.0,
        nemesis=Nemesis(every_s=rng.choice([0.0, 5.0]) if rate else 0.0, pause_s=(0.05, 900.0)),
    )
    processes = rng.randint(2, most)
    think_s = (0.003, log_uniform(rng, 0.05, 3.0))
    for number in range(processes):
        roles = [
            Sender(f"s{number}.{n}", bursts=rng.randint(4, 60 // processes + 4), think_s=think_s)
            for n in range(rng.choice([1, 1, 2]))
        ]
        world.process(f"p{number}", *roles)
    source = Source("copy", rng.randint(5, 40))
    world.sources.append(source)
    world.process("copier", Copier("copier", source, think_s=think_s))
    if rate and rng.random() < 0.5:
        world.process("careless", Careless("careless", every_s=(0.1, 3.0)))
    world.process("reader", Follower("reader"))
    return world


def hasty(seed: int | str, *, rate: float = 0.25) -> World:
    """Senders that give up within a second or two, on a store that keeps them waiting."""
    rng = rng_of(seed)
    faults = (Fault.SLOW, Fault.LOST_ANSWER, Fault.LOST_REQUEST, Fault.LATE_APPLY, Fault.UNAVAILABLE, Fault.OWN_CONFLICT)
    plan = RandomFaults(dict.fromkeys(faults, rate / len(faults)), Kernel(seed).rng) if rate else None
    network = Network(time_out_s=2.0, slow_s=(0.5, 2.0), late_s=(0.1, 20.0))
    world = World(seed, plan=plan, network=network, faults_end_s=300.0)
    for number in range(rng.randint(1, 4)):
        options = ProducerOptions(linger=timedelta(0), delivery_timeout=timedelta(seconds=rng.uniform(1.0, 6.0)))
        world.process(f"p{number}", Sender(f"s{number}", bursts=60, burst=(1, 1), think_s=(0.01, 0.3), options=options))
    world.process("reader", Follower("reader"))
    return world


def throng(seed: int | str, *, rate: float = 0.01) -> World:
    """Up to 64 processes, briefly."""
    rng = rng_of(seed)
    world = World(
        seed, plan=swarm(seed, rate), network=Network(pause_s=(0.05, 60.0)), drift=0.02, offset_ms=60_000, faults_end_s=60.0
    )
    for number in range(rng.randint(20, 64)):
        world.process(f"p{number}", Sender(f"s{number}", bursts=2, burst=(1, 2), think_s=(0.01, 0.4)))
    world.process("reader", Follower("reader"))
    return world


def names(seed: int | str, *, rate: float = 0.05) -> World:
    """Processes that fight over names, and one of them that dies and comes back."""
    rng = rng_of(seed)
    world = World(
        seed,
        plan=swarm(seed, rate),
        network=Network(pause_s=(0.05, 2 * HOUR_S), late_s=(1.0, 900.0)),
        drift=0.05,
        faults_end_s=400.0,
        nemesis=Nemesis(every_s=10.0 if rate else 0.0, pause_s=(0.1, 300.0)),
    )
    for number in range(rng.randint(1, 2)):
        source = Source(f"name{number}", rng.randint(20, 80))
        world.sources.append(source)
        for rival in range(rng.randint(2, 4)):
            world.process(f"c{number}.{rival}", Copier(f"c{number}.{rival}", source, takeover_s=(0.05, 20.0)))
    world.process("p", Sender("s", bursts=20, think_s=(0.01, 2.0)))
    if rate and rng.random() < 0.5:
        world.process("careless", Careless("careless", every_s=(0.1, 3.0)))
    world.process("reader", Follower("reader"))
    return world


def careless(seed: int | str, *, rate: float = 0.05) -> World:
    """The same beside a writer that does not look what the fold would void."""
    world = names(seed, rate=rate)
    world.process("careless", Careless("careless"))
    return world


def days(seed: int | str, *, rate: float = 0.03) -> World:
    """Slow senders over days, while the log is published, trimmed and collected, and anybody may sleep through all of it."""
    rng = rng_of(seed)
    world = World(
        seed,
        plan=swarm(seed, rate),
        network=Network(pause_s=(1.0, 3 * DAY_S), page_keys=rng.choice([3, 1000])),
        drift=0.05,
        offset_ms=120_000,
        faults_end_s=rng.uniform(0.5, 4) * DAY_S,
        nemesis=Nemesis(every_s=4 * HOUR_S if rate else 0.0, wild_step=0.3),
    )
    for number in range(rng.randint(1, 3)):
        think_s = (0.05, log_uniform(rng, 60.0, 3 * HOUR_S))
        world.process(
            f"p{number}",
            Sender(
                f"s{number}",
                bursts=rng.randint(15, 40),
                think_s=think_s,
                large=rng.choice([0.0, 0.1]),
                large_bytes=(30_000, 150_000),
                reopen=0.02,
            ),
        )
    source = Source("copy", rng.randint(30, 100))
    world.sources.append(source)
    for rival in range(rng.randint(1, 2)):
        world.process(f"c{rival}", Copier(f"c{rival}", source, think_s=(0.1, HOUR_S), takeover_s=(60.0, HOUR_S)))
    for number in range(rng.randint(1, 2)):
        world.process(f"m{number}", Maintainer(f"m{number}"))
    world.process("reader", Follower("reader", idle_s=(0.1, 60.0)))
    world.process("replayer", Replayer("replayer"))
    return world


def lives(seed: int | str, *, rate: float = 0.03) -> World:
    """A topic that is deleted and created again under those who use it."""
    rng = rng_of(seed)
    long = rng.random() < 0.5
    world = World(
        seed,
        plan=swarm(seed, rate),
        network=Network(pause_s=(1.0, 2 * DAY_S if long else 900.0)),
        drift=0.05,
        faults_end_s=2 * DAY_S if long else 600.0,
        nemesis=Nemesis(every_s=(2 * HOUR_S if long else 30.0) if rate else 0.0, pause_s=(1.0, DAY_S if long else 900.0)),
    )
    think_s = (0.05, HOUR_S) if long else (0.01, 5.0)
    source = Source("copy", rng.randint(10, 30))
    for number in range(rng.randint(1, 3)):
        world.process(f"p{number}", *vanishing([Sender(f"s{number}", bursts=rng.randint(10, 30), think_s=think_s)]))
    world.sources.append(source)
    world.process("c", *vanishing([Copier("c", source, think_s=think_s)]))
    for number in range(rng.randint(1, 2)):
        world.process(f"r{number}", Recreator(f"r{number}", times=rng.randint(1, 3), every_s=(5.0, 3 * HOUR_S if long else 60.0)))
    if long:
        world.process("m", *vanishing([Maintainer("m")]))
    world.process("reader", *vanishing([Follower("reader")]))
    return world


def calm(seed: int | str, *, rate: float = 0.0) -> World:
    """One of each, no rivals: the run that a protocol without some guard may survive."""
    rng = rng_of(seed)
    world = World(seed, plan=swarm(seed, rate), faults_end_s=DAY_S)
    source = Source("copy", 20)
    world.sources.append(source)
    world.process(
        "only",
        Sender("s", bursts=20, think_s=(0.1, 1000.0)),
        Copier("copier", source, think_s=(0.1, 1000.0)),
    )
    world.process("m", Maintainer("m", every_s=(1.0, rng.uniform(100.0, 1000.0))))
    world.process("reader", Follower("reader"))
    return world


def small_work(seed: int | str, plan: FaultPlan | None) -> World:
    """For single faults: two producers contend, a name is reopened, one reads, and all of it is published, trimmed and collected."""
    world = World(seed, plan=plan, network=Network(pause_s=(2 * HOUR_S, 3 * HOUR_S), very_slow=0.0), queues=2, faults_end_s=DAY_S)
    source = Source("copy", 6)
    world.sources.append(source)
    world.process(
        "a", Sender("a", bursts=5, burst=(1, 2), think_s=(0.01, 0.05), reopen=0.0, large=0.2, large_bytes=(60_000, 60_001))
    )
    world.process("b", Sender("b", bursts=5, burst=(1, 2), think_s=(0.01, 0.05), reopen=0.0))
    world.process(
        "c", Copier("c", source, burst=(2, 3), think_s=(0.02, 0.1)), Copier("c2", source, burst=(1, 2), think_s=(0.2, 0.4))
    )
    world.process("m", Upkeep("m", rounds=4))
    world.process("reader", Follower("reader", restart=0.0))
    return world


def trims(seed: int | str, *, rate: float = 0.06) -> World:
    """Processes that sleep for hours at any request, while the others go on and the log is trimmed behind them."""
    stops = (Fault.PAUSE_BEFORE, Fault.PAUSE_BEFORE, Fault.PAUSE_AFTER, Fault.SUSPEND_BEFORE, Fault.SUSPEND_AFTER)
    rates = {fault: rate * stops.count(fault) / len(stops) for fault in stops}
    world = World(
        seed,
        plan=Sparing(rates, Kernel(seed).rng, "m") if rate else None,
        network=Network(pause_s=(2 * HOUR_S, 10 * HOUR_S), very_slow=0.0),
        faults_end_s=2 * DAY_S,
    )
    options = ProducerOptions(linger=timedelta(milliseconds=5), delivery_timeout=timedelta(days=2))
    for number in range(2):
        sender = Sender(f"s{number}", bursts=25, burst=(1, 2), think_s=(0.05, HOUR_S), reopen=0.0, options=options)
        world.process(f"p{number}", sender)
    source = Source("copy", 50)
    world.sources.append(source)
    for rival in range(2):
        world.process(
            f"c{rival}",
            Copier(f"c{rival}", source, burst=(1, 2), think_s=(0.05, HOUR_S), takeover_s=(1.0, HOUR_S), options=options),
        )
    for number in range(2):
        world.process(
            f"quick{number}", Sender(f"q{number}", bursts=80, burst=(1, 1), think_s=(30.0, HOUR_S), reopen=0.0, options=options)
        )
    world.process("m", Maintainer("m", every_s=(200.0, 1500.0), steps=("publish", "trim", "trim", "collect")))
    world.process("reader", Follower("reader", idle_s=(10.0, 100.0)))
    return world


def rush(seed: int | str, *, rate: float = 0.04) -> World:
    """Processes that stop for a few minutes, so that what they know is still believed, on a log that is busy and kept short."""
    world = World(
        seed, plan=only_stops(seed, rate, spared="m"), network=Network(pause_s=(20.0, 280.0), very_slow=0.0), faults_end_s=1500.0
    )
    options = ProducerOptions(linger=timedelta(milliseconds=5), delivery_timeout=timedelta(days=2))
    for number in range(3):
        sender = Sender(f"s{number}", bursts=40, burst=(1, 2), think_s=(0.01, 20.0), reopen=0.0, options=options)
        world.process(f"p{number}", sender)
    world.process("m", Maintainer("m", every_s=(0.5, 20.0), steps=("publish", "trim")))
    world.process("reader", Follower("reader", idle_s=(0.1, 5.0)))
    return world


def relives(seed: int | str, *, rate: float = 0.02) -> World:
    """A crowd whose topic is deleted and created again within seconds."""
    rng = rng_of(seed)
    world = World(seed, plan=swarm(seed, rate), network=Network(pause_s=(0.05, 60.0), late_s=(1.0, 60.0)), faults_end_s=120.0)
    for number in range(rng.randint(4, 8)):
        world.process(f"p{number}", *vanishing([Sender(f"s{number}", bursts=15, burst=(1, 2), think_s=(0.003, 0.3))]))
    world.process("r", *vanishing([Recreator("r", times=5, every_s=(0.05, 2.0), gap_s=(0.001, 0.2))]))
    if rate:
        world.process("careless", Careless("careless", every_s=(0.05, 0.5)))
    world.process("reader", *vanishing([Follower("reader")]))
    return world


SCENARIOS: Mapping[str, Callable[..., World]] = {
    "crowd": crowd,
    "names": names,
    "days": days,
    "lives": lives,
    "throng": throng,
    "hasty": hasty,
    "careless": careless,
    "jobs": jobs,
    "files": files,
    "trims": trims,
    "rush": rush,
    "expiry": expiry,
    "uploads": uploads,
    "strays": strays,
    "damage": damage,
    "relives": relives,
    "linking": linking,
    "idempotent": idempotent,
    "evolves": evolves,
    "growing": growing,
    "calm": calm,
}


def build(name: str, seed: int | str, *, rate: float | None = None) -> World:
    """The world of a scenario; ``rate`` 0: without faults."""
    return SCENARIOS[name](seed) if rate is None else SCENARIOS[name](seed, rate=rate)
