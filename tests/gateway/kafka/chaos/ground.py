"""The processes of a run beside the gateways: the store, producers, and members of a group."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from tests.gateway.chaos.nemesis import Victim
from tests.gateway.kafka.chaos import member, producer
from tests.gateway.kafka.chaos.member import ConsumingJob
from tests.gateway.kafka.chaos.producer import SendingJob
from tests.servers import BUCKET, S3Server, free_port, versitygw_command
from tests.waiting import wait_until


class Store(Victim):
    """A real S3 server over a folder, again and again at the same port."""

    kind = "store"

    def __init__(self, folder: Path) -> None:
        super().__init__("store", folder / "store.log")
        self._folder = folder
        self._port = free_port()
        (folder / "data" / BUCKET).mkdir(parents=True)
        self.server = S3Server(f"http://127.0.0.1:{self._port}")

    async def start(self) -> None:
        """Return when it can be connected to."""
        await self._spawned(*versitygw_command(self._folder, self._port))
        await asyncio.to_thread(wait_until, self._answers, "the store can be connected to")

    def _answers(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self._port), timeout=1):
            return True
        return False


class Sender(Victim):
    """A producer, for as long as it has to send."""

    kind = "producer"

    def __init__(self, job: SendingJob, folder: Path) -> None:
        super().__init__(job.name, folder / f"{job.name}.log")
        self._job = job

    async def start(self) -> None:
        await self._spawned(sys.executable, "-m", producer.__name__, json.dumps(asdict(self._job)))

    async def sent(self) -> None:
        """Return once all is acknowledged. Raises `RuntimeError` where a record was refused for good."""
        if code := await self.ended():
            raise RuntimeError(f"the producer {self.name} ended with {code}: {self.said()}")


class GroupMember(Victim):
    """A member of the group, again and again with the same journal."""

    kind = "member"

    def __init__(self, name: str, job: ConsumingJob, folder: Path) -> None:
        super().__init__(name, folder / f"{name}.log")
        self._job = job

    async def start(self) -> None:
        await self._spawned(sys.executable, "-m", member.__name__, json.dumps(asdict(self._job)))
