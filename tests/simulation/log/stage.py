"""A calm world moved by hand, for one interleaving at a time: named processes, held requests, and the sweep's judge at the end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Sequence
from datetime import timedelta
from typing import Any

from penstock.log.errors import PenstockError
from penstock.log.format.header import Action
from penstock.log.lake import LogLake
from penstock.log.message.message import Message
from penstock.log.produce.accumulator import ProducerOptions
from penstock.log.produce.producer import Producer
from penstock.log.table.maintenance import TopicMaintenance
from tests.simulation.faults import FaultPlan
from tests.simulation.log.history import Send, Session
from tests.simulation.log.world import TOPIC, World
from tests.simulation.network import Network
from tests.simulation.process import SimProcess
from tests.simulation.small import small_log
from tests.simulation.store import Gate

HOUR_S = 3600.0
PATIENT = ProducerOptions(linger=timedelta(0), delivery_timeout=timedelta(days=30))
STEADY_MS = dict.fromkeys(("put", "put_large", "get", "get_range", "list", "list_folders", "delete", "clock"), (20.0, 20.0))


class Sending:
    """An open producer of one process, and what is told of its sends."""

    def __init__(self, process: SimProcess, lake: LogLake, producer: Producer, session: Session) -> None:
        self.process, self.lake, self.producer, self.session = process, lake, producer, session

    def send(self, text: str, *, sequence: int | None = None, group: str = "g") -> Send:
        receipt = self.process.call(lambda: self.producer.send(Message(text.encode(), message_group=group), sequence=sequence))
        send = Send(text.encode(), receipt, sequence)
        self.session.sends.append(send)
        return send

    async def settle(self, send: Send) -> Any:
        """The outcome: a `SendResult` or the error."""

        async def wait() -> Any:
            try:
                return await send.receipt
            except PenstockError as error:
                return error

        return await self.process.run(wait())

    async def sent(self, text: str, *, sequence: int | None = None, group: str = "g") -> Any:
        return await self.settle(self.send(text, sequence=sequence, group=group))


class Stage:
    """One world. `play` a script on it."""

    def __init__(self, seed: int | str = 1, *, plan: FaultPlan | None = None, steady: bool = True, queues: int = 2) -> None:
        network = Network(latency_ms=STEADY_MS, very_slow=0.0) if steady else Network(very_slow=0.0)
        self.world = World(seed, plan=plan, network=network, queues=queues)
        self.paths = self.world.paths
        self.archive = self.world.archive

    def play(self, script: Callable[[], Coroutine[Any, Any, None]]) -> World:
        """Play, and fail for whatever the judge finds wrong."""
        with small_log():
            wrong = self.world.play(script)
        assert not wrong, "\n".join(wrong)
        return self.world

    async def producer(self, host: str, name: str | None = None, *, options: ProducerOptions = PATIENT) -> Sending:
        """A producer of a new process."""
        process = self.world.new_process(host)
        lake = self.world.lake(process)
        return await self.another(process, lake, name, options=options)

    async def another(
        self, process: SimProcess, lake: LogLake, name: str | None = None, *, options: ProducerOptions = PATIENT
    ) -> Sending:
        """A producer of a process that is there."""
        producer = await process.run(lake.producer(TOPIC, name=name, options=options))
        session = Session(process.name, producer.id, name is not None, producer._former.router.generation, producer.last_sequence)
        self.world.history.sessions.append(session)
        return Sending(process, lake, producer, session)

    async def fill(self, entries: int) -> None:
        """Let somebody append so many entries."""
        filler = await self.producer("filler")
        for number in range(entries):
            await filler.sent(f"{filler.process.name}/{number}", group=f"fill-{number % 3}")

    async def maintenance(self, host: str = "upkeep") -> tuple[SimProcess, TopicMaintenance]:
        process = self.world.new_process(host)
        lake = self.world.lake(process)
        topic = await process.run(lake.topic(TOPIC, writable=True))

        async def append(actions: Sequence[Action]) -> None:
            await topic.act(*actions)

        return process, TopicMaintenance(lake.store, self.paths, topic.record, process.runtime, append)

    async def trim(self) -> int:
        """Publish all and trim as far as may be, the floor's hour included; returns the floor."""
        process, upkeep = await self.maintenance()
        await process.run(upkeep.publish())
        await process.run(upkeep.trim())
        await asyncio.sleep(1.2 * HOUR_S)
        await process.run(upkeep.trim())
        return self.floor()

    def floor(self) -> int:
        held = self.archive._objects.get(self.paths.floor)
        return int(json.loads(held.data)["floor"]) if held else 0

    def entries(self) -> list[int]:
        return [number for key in self.archive._keys if (number := self.paths.entry_number(key)) is not None]

    def hold_entry(self, host: str, side: Any = "before", *, occurrence: int = 1) -> Gate:
        """Hold a process's PUT of an entry."""
        return self.world.store.hold(
            side, process=host, verb="put", key=lambda key: self.paths.entry_number(key) is not None, occurrence=occurrence
        )

    def hold(self, host: str, verb: str, part: str, side: Any = "before", *, occurrence: int = 1) -> Gate:
        """Hold a process's request for a key that contains ``part``."""
        return self.world.store.hold(side, process=host, verb=verb, key=lambda key: part in key, occurrence=occurrence)
