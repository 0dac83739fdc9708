"""Gateway processes over one lake, each behind a proxy."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from penstock.gateway.rocketmq.consumers import deliveries, receive_parameters
from tests.gateway.chaos.nemesis import Deed, Trouble, Victim
from tests.gateway.proxy import Proxy
from tests.interpreters import OWN, Interpreters, interpreter
from tests.servers import free_port

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


class Served(Victim):
    """One gateway, again and again at the same port."""

    kind = "gateway"

    def __init__(
        self,
        lake: str,
        folder: Path,
        name: str,
        seed: int,
        *,
        protocol: str = "rocketmq",
        in_a_hurry: bool = False,
        environment: Mapping[str, str] | None = None,
        interpreters: Interpreters = OWN,
        number: int = 0,
    ) -> None:
        """``in_a_hurry``: with shorter durations for what may not have reached a push consumer; ``number``: which of several gateways it is."""
        super().__init__(name, folder / f"{name}.log", environment)
        self.proxy: Proxy
        self._main = ("-c", f"{_IN_A_HURRY if in_a_hurry else ''}{_MAIN}")
        self._interpreters, self._number, self._starts = interpreters, number, 0
        self._lake = lake
        self._protocol = protocol
        self._seed = seed
        self.port = _free_port()

    async def start(self) -> None:
        """Return when clients can connect."""
        options = ("--port", str(self.port), "--host", GATEWAY, "--address", PROXY, "--drain", "2s")
        python = interpreter(self._interpreters, self._number, self._starts)
        self._starts += 1
        process = await self._spawned(*python, *self._main, "--lake", self._lake, "--json", "gateway", self._protocol, *options)
        assert process.stdout is not None
        async with asyncio.timeout(_START_S):
            line = await process.stdout.readline()
        if not line:
            raise RuntimeError(f"the gateway {self.name} did not start: {self.said()}")
        assert json.loads(line)["port"] == self.port

    async def open(self) -> None:
        """Start it, and its proxy before it."""
        self.proxy = Proxy(PROXY, self.port, (GATEWAY, self.port), self._seed)
        await self.proxy.start()
        await self.start()

    @property
    def endpoints(self) -> str:
        return f"{PROXY}:{self.port}"

    async def close(self) -> None:
        await self.proxy.close()
        await super().close()


def gateway_troubles(served: Sequence[Served]) -> list[Trouble]:
    """Twice as many kills as of each other deed."""
    return [Trouble(deed, served) for deed in (*Deed, Deed.KILL)]


def _free_port() -> int:
    """A port that is free at both addresses."""
    while True:
        port = free_port()
        with suppress(OSError), socket.create_server((GATEWAY, port)), socket.create_server((PROXY, port)):
            return port
