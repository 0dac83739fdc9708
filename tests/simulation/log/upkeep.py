"""The worlds of days and weeks: uploads, data files, retention and damage, and those who look after them. Each is a function of its seed."""

from __future__ import annotations

from datetime import timedelta

from penstock.log.produce.accumulator import ProducerOptions
from tests.simulation.faults import Fault
from tests.simulation.kernel import Kernel
from tests.simulation.log.actors import Copier, Follower, Maintainer, Replayer, Sender, Source, vanishing
from tests.simulation.log.sabotage import Repairer, Saboteur
from tests.simulation.log.world import World
from tests.simulation.network import Network
from tests.simulation.plans import DAY_S, HOUR_S, Choosing, Sparing, only_stops, rng_of, swarm
from tests.simulation.simulated import Nemesis, log_uniform


def jobs(seed: int | str, *, rate: float = 0.05) -> World:
    """Large batches by processes that sleep for days on the way, and a collector that gives their uploads up."""
    rng = rng_of(seed)
    world = World(
        seed,
        plan=only_stops(seed, rate),
        network=Network(pause_s=(DAY_S, 6 * DAY_S), very_slow=0.0),
        faults_end_s=12 * DAY_S,
    )
    for number in range(2):
        options = ProducerOptions(linger=timedelta(milliseconds=5), delivery_timeout=timedelta(days=rng.choice([1, 9])))
        think_s = (0.5, 6 * HOUR_S)
        world.process(
            f"p{number}",
            Sender(
                f"s{number}", bursts=12, burst=(1, 1), think_s=think_s, large=0.7, large_bytes=(60_000, 90_000), options=options
            ),
        )
    world.process("quick", Sender("q", bursts=60, burst=(1, 2), think_s=(60.0, 6 * HOUR_S)))
    world.process("m", Maintainer("m", every_s=(60.0, 6 * HOUR_S)))
    world.process("reader", Follower("reader", idle_s=(1.0, 60.0)))
    return world


def files(seed: int | str, *, rate: float = 0.02) -> World:
    """Publishers, compactors and slow collectors of the table, over weeks."""
    rng = rng_of(seed)
    world = World(
        seed,
        plan=swarm(seed, rate),
        network=Network(pause_s=(HOUR_S, 4 * DAY_S), page_keys=rng.choice([3, 1000])),
        faults_end_s=20 * DAY_S,
        nemesis=Nemesis(every_s=DAY_S if rate else 0.0),
    )
    world.process("p", Sender("s", bursts=50, burst=(1, 3), think_s=(60.0, 2 * DAY_S)))
    for number in range(2):
        world.process(f"m{number}", Maintainer(f"m{number}", every_s=(60.0, DAY_S), restart=0.002))
    world.process("replayer", Replayer("replayer", every_s=(HOUR_S, 2 * DAY_S)))
    return world


def expiry(seed: int | str, *, rate: float = 0.04) -> World:
    """A topic that keeps its messages for some hours only, with rival maintainers, and readers who come late."""
    rng = rng_of(seed)
    world = World(
        seed,
        plan=swarm(seed, rate),
        network=Network(pause_s=(1.0, 12 * HOUR_S), page_keys=rng.choice([3, 1000])),
        faults_end_s=rng.uniform(1.0, 4.0) * DAY_S,
        retention=timedelta(hours=rng.uniform(1.0, 30.0)),
        nemesis=Nemesis(every_s=6 * HOUR_S if rate else 0.0, pause_s=(1.0, 12 * HOUR_S), wild_step=0.5),
    )
    longest_s = HOUR_S
    for number in range(2):
        bursts, pause_s = rng.randint(20, 40), log_uniform(rng, HOUR_S, DAY_S)
        world.process(f"p{number}", Sender(f"s{number}", bursts=bursts, burst=(1, 3), think_s=(0.05, pause_s)))
        longest_s = max(longest_s, pause_s)
    # A minute for each hour between messages: those who look every few seconds for days in which nothing comes would be most of the run.
    every_s = (0.5, max(log_uniform(rng, 60.0, HOUR_S), longest_s / 60))
    for number in range(rng.randint(2, 3)):
        world.process(f"m{number}", Maintainer(f"m{number}", every_s=every_s))
    world.process("reader", Follower("reader", idle_s=(0.1, 60.0)))
    world.process("replayer", Replayer("replayer", every_s=(60.0, 6 * HOUR_S)))
    return world


def uploads(seed: int | str, *, rate: float = 0.1) -> World:
    """Batches too large for an entry, whose senders stop for hours between the upload and the entry that links it."""
    world = World(
        seed, plan=only_stops(seed, rate, spared="m"), network=Network(pause_s=(HOUR_S, 5 * HOUR_S)), faults_end_s=2 * DAY_S
    )
    options = ProducerOptions(linger=timedelta(milliseconds=5), delivery_timeout=timedelta(days=2))
    for number in range(3):
        sender = Sender(
            f"s{number}",
            bursts=40,
            burst=(1, 1),
            think_s=(10.0, HOUR_S),
            large=0.7,
            large_bytes=(20_000, 40_000),
            reopen=0.0,
            options=options,
        )
        world.process(f"p{number}", sender)
    world.process("m", Maintainer("m", every_s=(60.0, 900.0), steps=("publish", "trim", "collect")))
    world.process("reader", Follower("reader", idle_s=(1.0, 60.0)))
    return world


def strays(seed: int | str, *, rate: float = 0.5) -> World:
    """Links of uploads are handed over by processes that stop for days right then, as does who would bring them, and little else happens:
    the uploads are given up while any entry could still bring the links."""
    stops = (Fault.PAUSE_BEFORE, Fault.PAUSE_AFTER, Fault.SUSPEND_AFTER)
    world = World(
        seed,
        plan=Choosing(dict.fromkeys(stops, rate / len(stops)), Kernel(seed).rng, "staged/handed") if rate else None,
        network=Network(pause_s=(2.1 * DAY_S, 4 * DAY_S), very_slow=0.0),
        faults_end_s=20 * DAY_S,
    )
    options = ProducerOptions(linger=timedelta(milliseconds=5), delivery_timeout=timedelta(days=9))
    for number in range(4):
        sender = Sender(
            f"s{number}",
            bursts=12,
            burst=(1, 1),
            think_s=(0.02, 2 * DAY_S),
            large=0.8,
            large_bytes=(60_000, 70_000),
            reopen=0.0,
            options=options,
        )
        world.process(f"p{number}", sender)
    world.process("m", Maintainer("m", every_s=(600.0, 6 * HOUR_S), steps=("collect",)))
    world.process("reader", Follower("reader", idle_s=(1.0, 60.0)))
    return world


def damage(seed: int | str, *, rate: float = 0.03) -> World:
    """Entries that are damaged in mid-log, and repaired, while appends and reads go on."""
    rng = rng_of(seed)
    world = World(
        seed,
        plan=Sparing(dict.fromkeys(Fault, rate / len(Fault)), Kernel(seed).rng, "repairer") if rate else None,
        network=Network(pause_s=(0.05, 600.0), late_s=(1.0, 600.0)),
        faults_end_s=HOUR_S,
    )
    for number in range(rng.randint(1, 3)):
        sender = Sender(f"s{number}", bursts=40, burst=(1, 3), think_s=(0.05, 60.0), large=0.1, large_bytes=(20_000, 40_000))
        world.process(f"p{number}", *vanishing([sender]))
    cut_off = rng.choice([0.0, 0.5])
    if not cut_off:  # what a lost entry knew of names, nobody knows any more
        source = Source("copy", 40)
        world.sources.append(source)
        world.process("c", Copier("c", source, think_s=(0.05, 60.0)))
    if rate:
        saboteur = Saboteur("saboteur", times=rng.randint(1, 3), cut_off=cut_off, every_s=(5.0, 600.0))
        world.process("saboteur", saboteur)
        world.process("repairer", Repairer("repairer", saboteur, every_s=(0.5, 60.0)))
    world.process("m", *vanishing([Maintainer("m", every_s=(5.0, 900.0))]))
    world.process("reader", Follower("reader"))
    world.process("replayer", Replayer("replayer", every_s=(5.0, 600.0)))
    return world
