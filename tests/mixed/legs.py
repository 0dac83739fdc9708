"""The parts of a run, each with its own judge: they share one lake, and their processes are of two versions."""

from __future__ import annotations

import asyncio
import json
import random
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Final

import penstock
from tests.cdc.sync.judging import Check, Told
from tests.cdc.sync.streams import TOPIC as CHANGES
from tests.gateway.chaos.nemesis import Deed
from tests.gateway.kafka.chaos import play as kafka
from tests.interpreters import interpreter
from tests.mixed.keeping import Kept, troubled
from tests.mixed.versions import Version
from tests.processes.consuming import chaos as consuming
from tests.processes.consuming.nemesis import DECK, SHORT, Ground, Plan
from tests.processes.syncing import producer as source
from tests.processes.syncing.producer import changes

_FOR_EVER: Final = 10**9
_AT_LAST: Final = 50
"""Change events that are sent when nobody is killed any more."""
_EVERY_S: Final = (1.0, 4.0)
"""From one deed at processes of a leg to the next."""


@dataclass(frozen=True, kw_only=True)
class MixedPlan:
    """How large a run is."""

    messages: int = 20_000
    """That the library's producers send."""
    records: int = 20_000
    """That Kafka's clients send."""
    seconds: float = 60.0
    is_short: bool = False

    def of_workers(self, *, in_sqlite: bool) -> Plan:
        lease_s = 3.0 if in_sqlite else 8.0  # both versions share the machine with a store and gateways
        deck = {"kill": 3, "stop": 1, "restart": 2, "kill producer": 2, "roll": 1}
        if self.is_short:
            return replace(SHORT, messages=self.messages, deck=deck, lease_s=lease_s)
        whole = {**DECK, **deck, "roll": 2}
        return Plan(
            workers=6,
            producers=3,
            messages=self.messages,
            groups=300,
            seconds=self.seconds,
            deck=whole,
            killers=False,
            lease_s=lease_s,
        )

    def of_kafka(self, *, in_sqlite: bool) -> kafka.Plan:
        # Who is stopped in the middle of a commit holds up all who ask the same SQLite file: the other legs would not know why.
        deeds = (Deed.KILL, Deed.RESTART) if in_sqlite else tuple(Deed)
        return kafka.Plan(
            messages=self.records,
            per_second=self.records / (10.0 if self.is_short else max(self.seconds, 20.0)),
            topics=("payments", "parcels"),
            gateways=2,
            producers=2,
            members=2,
            drain_s=240.0,
            deeds=4 if self.is_short else 12,
            deed_every_s=2.0 if self.is_short else 4.0,
            stop_s=(1.0, 4.0),
            at_processes=deeds,
        )


@dataclass
class Leg:
    """What one part of a run came to."""

    name: str
    problems: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    """For people."""
    done: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class Scene:
    """Where the parts of one run take place."""

    ground: Ground
    folder: Path
    versions: Sequence[Version]
    plan: MixedPlan
    seed: int

    def penstock(self, number: int, start: int, *words: str) -> list[str]:
        """A command of the version whose turn it is."""
        return self.versions[(number + start) % len(self.versions)].penstock("--lake", self.ground.url, *words)

    def own(self, name: str) -> Path:
        folder = self.folder / name
        folder.mkdir()
        return folder

    def chance(self, name: str) -> random.Random:
        return random.Random(f"{self.seed} {name}")


def workers(scene: Scene) -> Leg:
    """Producers and workers of the library, and operators."""
    leg = Leg("producers and workers")
    outcome = consuming.run(
        scene.ground, scene.own("workers"), scene.plan.of_workers(in_sqlite=scene.ground.in_sqlite), seed=scene.seed
    )
    consuming.report(outcome, leg.lines.append)
    leg.problems += outcome.found.problems
    leg.done += outcome.done
    return leg


def gateways(scene: Scene) -> Leg:
    """Kafka's clients at gateways."""
    leg = Leg("Kafka's gateways")
    plan = scene.plan.of_kafka(in_sqlite=scene.ground.in_sqlite)
    outcome = asyncio.run(kafka.run_on(scene.ground, plan, scene.own("gateways"), scene.seed, leg.lines.append))
    kafka.report(outcome, leg.lines.append)
    leg.problems += outcome.problems
    leg.done += outcome.done
    return leg


def upkeep(scene: Scene, over: threading.Event) -> Leg:
    """Two processes that maintain all topics, until the others are ``over``."""
    leg, folder = Leg("maintenance"), scene.own("upkeep")

    def kept(number: int) -> Kept:
        def command(start: int) -> list[str]:
            return scene.penstock(number, start, "maintain", "--json", "--publish-interval", "500ms")

        return Kept(f"maintain-{number}", command, folder, scene.ground.environment)

    both = [kept(0), kept(1)]
    try:
        leg.done += troubled(both, scene.chance(leg.name), over, _EVERY_S)
    finally:
        for one in both:
            one.destroy()
    return leg


def syncs(scene: Scene, over: threading.Event) -> Leg:
    """A sync of change events without Spark, and their producer, until the others are ``over``; then the targets must equal the events."""
    leg, folder, url = Leg("sync"), scene.own("sync"), scene.ground.url
    with penstock.connect(url, options=scene.ground.options, maintenance=False) as lake:
        lake.create_topic(CHANGES, queues=2, message_type="FIFO")
    told = Told(url)
    check = Check(folder / "targets", told.messages, rejects=True)

    def sending(events: int, pause_s: float) -> Kept:
        def command(start: int) -> list[str]:
            python = interpreter(scene.ground.interpreters, 0, start)
            return [*python, "-m", source.__name__, url, str(events), str(pause_s)]

        return Kept("source", command, folder, scene.ground.environment)

    def syncing(number: int, *how: str) -> Kept:
        options = [
            "--into",
            str(check.into),
            "--name",
            "s",
            "--engine",
            "deltalake",
            "--policy",
            "reject",
            "--compact-every",
            "5",
            *how,
        ]
        return Kept(
            "sync", lambda start: scene.penstock(number, start, "sync", CHANGES, *options), folder, scene.ground.environment
        )

    both = [sending(_FOR_EVER, 0.2), syncing(1, "--interval", "200ms", "--max-events", "50")]
    try:
        leg.done += troubled(both, scene.chance(leg.name), over, _EVERY_S)
    finally:
        for one in both:
            one.destroy()
    events = len(told.read_on()) + _AT_LAST
    sending(events, 0.0).run()
    sent = Counter(json.dumps(one) for one in islice(changes(), events))
    if Counter(one.body.decode() for one in told.read_on()) != sent:
        leg.problems.append("the change events are not there, each once")
    for number in range(len(scene.versions)):
        syncing(number, "--once").run()
    try:
        leg.lines.append(f"  {events:,} change events, {check(complete=True):,} rows of targets compared")
    except AssertionError as error:
        leg.problems.append(f"a target differs: {error}")
    return leg


def verified(scene: Scene) -> Leg:
    """Each version finds nothing wrong in what lies in the lake at the end, and maintains it once more."""
    leg, folder = Leg("verification"), scene.own("verified")
    for number, version in enumerate(scene.versions):
        for words in (("maintain", "--once", "--json"), ("verify", "--json")):
            command = scene.penstock(number, 0, *words)
            one = Kept(f"{words[0]}-{version.name}", lambda _, command=command: command, folder, scene.ground.environment)  # type: ignore[misc]
            try:
                one.run()
            except RuntimeError as error:
                leg.problems.append(str(error))
    return leg
