"""Gateway processes over one lake, each behind a proxy, and what is done to them."""

from __future__ import annotations

import asyncio
import json
import random
import signal
import socket
import sys
from collections import Counter
from enum import StrEnum
from pathlib import Path
from typing import Final

from penstock.gateway.rocketmq.consumers import deliveries, receive_parameters
from tests.gateway.proxy import Proxy

GATEWAY: Final = "127.0.0.1"
PROXY: Final = "127.0.0.2"
"""Clients are told this address with the gateway's own port, so that they meet the proxy there. Linux has it as loopback."""
_MAIN: Final = "from penstock.infra.cli import main; main(prog_name='penstock')"
_IN_A_HURRY: Final = (
    f"import datetime, {receive_parameters.__name__} as received; received.INVISIBLE_DURATION = datetime.timedelta(seconds=20); "
    f"import {deliveries.__name__} as deliveries; deliveries.RENEW_UNSEEN_MAX_S = 10.0; "
)
"""What push consumers did not get comes again in half a minute, instead of three."""
_START_S: Final = 60.0


class Deed(StrEnum):
    """What is done to one gateway."""

    KILL = "kill"
    STOP = "stop"
    """SIGSTOP, and SIGCONT later."""
    RESTART = "restart"
    """SIGTERM, and another one in its place."""


class Served:
    """One gateway, again and again at the same port."""

    def __init__(self, lake: str, folder: Path, name: str, seed: int, *, in_a_hurry: bool = False) -> None:
        """``in_a_hurry``: with shorter durations for what may not have reached a push consumer."""
        self.name = name
        self.proxy: Proxy
        self._command = (sys.executable, "-c", f"{_IN_A_HURRY if in_a_hurry else ''}{_MAIN}")
        self._lake = lake
        self._log = folder / f"{name}.log"
        self._seed = seed
        self._process: asyncio.subprocess.Process | None = None
        self.port = _free_port()

    async def start(self) -> None:
        """Return when clients can connect."""
        options = ("--port", str(self.port), "--host", GATEWAY, "--address", PROXY, "--drain", "2s")
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                "--lake",
                self._lake,
                "--json",
                "gateway",
                "rocketmq",
                *options,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
            )
        assert self._process.stdout is not None
        async with asyncio.timeout(_START_S):
            line = await self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the gateway {self.name} did not start: {self._log.read_text()[-2000:]}")
        assert json.loads(line)["port"] == self.port

    async def open(self) -> None:
        """Start it, and its proxy before it."""
        self.proxy = Proxy(PROXY, self.port, (GATEWAY, self.port), self._seed)
        await self.proxy.start()
        await self.start()

    @property
    def endpoints(self) -> str:
        return f"{PROXY}:{self.port}"

    def signal(self, number: int) -> None:
        """Raises `RuntimeError` where it ended by itself."""
        assert self._process is not None
        if (code := self._process.returncode) is not None:
            raise RuntimeError(f"the gateway {self.name} ended by itself with {code}: {self._log.read_text()[-4000:]}")
        self._process.send_signal(number)

    async def ended(self) -> None:
        assert self._process is not None
        await self._process.wait()

    async def close(self) -> None:
        await self.proxy.close()
        if self._process is not None and self._process.returncode is None:
            self.signal(signal.SIGCONT)
            self._process.kill()
            await self.ended()


class Nemesis:
    """Does to gateways and connections what the seed says, until told to end."""

    def __init__(
        self, served: list[Served], *, seed: int, every_s: float, deed_every_s: float, stop_s: tuple[float, float]
    ) -> None:
        """``every_s``: the mean time from one fault of a connection to the next; ``deed_every_s`` from one deed to the next."""
        self._served = served
        self._chance = random.Random(seed)
        self._every_s = every_s
        self._deed_every_s = deed_every_s
        self._stop_s = stop_s
        self._ending = asyncio.Event()
        self.done: Counter[str] = Counter()

    def end(self) -> None:
        self._ending.set()

    @property
    def has_ended(self) -> bool:
        return self._ending.is_set()

    @property
    def deeds(self) -> int:
        """How much was done to gateways so far."""
        return sum(self.done[deed] for deed in Deed)

    async def run(self) -> None:
        await asyncio.gather(self._faults(), self._deeds())

    async def _waited(self, seconds: float) -> bool:
        """Whether it goes on after so long."""
        try:
            await asyncio.wait_for(self._ending.wait(), seconds)
        except TimeoutError:
            return True
        return False

    async def _faults(self) -> None:
        while await self._waited(self._chance.expovariate(1 / self._every_s)):
            fault = self._chance.choice(self._served).proxy.strike()
            if fault is not None:
                self.done[fault] += 1

    async def _deeds(self) -> None:
        deck: list[Deed] = []
        while await self._waited(self._deed_every_s * self._chance.uniform(0.7, 1.3)):
            deck = deck or self._chance.sample([*Deed, Deed.KILL], 4)
            await self._do(deck.pop(), self._chance.choice(self._served))

    async def _do(self, deed: Deed, one: Served) -> None:
        self.done[deed] += 1
        match deed:
            case Deed.KILL:
                one.signal(signal.SIGKILL)
                await one.ended()
                await self._waited(self._chance.uniform(0.1, 2.0))
                await one.start()
            case Deed.STOP:
                one.signal(signal.SIGSTOP)
                await self._waited(self._chance.uniform(*self._stop_s))
                one.signal(signal.SIGCONT)
            case Deed.RESTART:
                one.signal(signal.SIGTERM)
                await one.ended()
                await one.start()


def _free_port() -> int:
    """A port that is free at both addresses."""
    with socket.socket() as first, socket.socket() as second:
        while True:
            first.bind((GATEWAY, 0))
            port: int = first.getsockname()[1]
            try:
                second.bind((PROXY, port))
            except OSError:
                continue
            return port
