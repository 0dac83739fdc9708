"""Processes that are killed, stopped and started again, and who does it, also to their connections."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections import Counter
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import ClassVar, Final, NamedTuple

from tests.gateway.proxy import Proxy
from tests.servers import die_with_parent

_TAIL_CHARACTERS: Final = 4_000


class Deed(StrEnum):
    """What is done to one process."""

    KILL = "kill"
    STOP = "stop"
    """SIGSTOP, and SIGCONT later."""
    RESTART = "restart"
    """SIGTERM, and another one in its place."""


class Victim:
    """A process, again and again at the same place."""

    kind: ClassVar[str]

    def __init__(self, name: str, log: Path, environment: Mapping[str, str] | None = None) -> None:
        """``environment``: variables beside those of this process."""
        self.name = name
        self._log = log
        self._environment = {**os.environ, **(environment or {})}
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Return when it serves."""
        raise NotImplementedError

    async def _spawned(self, *command: str) -> asyncio.subprocess.Process:
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *die_with_parent(), *command, stdout=asyncio.subprocess.PIPE, stderr=log, env=self._environment
            )
        return self._process

    def signal(self, number: int) -> None:
        """Raises `RuntimeError` where it ended by itself."""
        assert self._process is not None
        if (code := self._process.returncode) is not None:
            raise RuntimeError(f"the {self.kind} {self.name} ended by itself with {code}: {self.said()}")
        self._process.send_signal(number)

    def said(self) -> str:
        """The end of its log."""
        return self._log.read_text()[-_TAIL_CHARACTERS:]

    async def ended(self) -> int:
        """Its exit code, once it has one."""
        assert self._process is not None
        return await self._process.wait()

    async def close(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self.signal(signal.SIGCONT)
            self._process.kill()
            await self.ended()


class Trouble(NamedTuple):
    """A deed, and those of whom one meets it."""

    deed: Deed
    victims: Sequence[Victim]

    @property
    def name(self) -> str:
        return f"{self.deed} {self.victims[0].kind}"


class Nemesis:
    """Does to processes and connections what the seed says, until told to end."""

    def __init__(
        self,
        troubles: Sequence[Trouble],
        proxies: Sequence[Proxy],
        *,
        seed: int,
        every_s: float,
        deed_every_s: float,
        stop_s: tuple[float, float],
    ) -> None:
        """``troubles`` come in turns, mixed; ``every_s``: the mean time from one fault of a connection to the next, ``deed_every_s``
        from one deed to the next.
        """
        self._troubles = list(troubles)
        self._proxies = proxies
        self._chance = random.Random(seed)
        self._every_s = every_s
        self._deed_every_s = deed_every_s
        self._stop_s = stop_s
        self._ending = asyncio.Event()
        self.done: Counter[str] = Counter()
        self.deeds = 0
        """How much was done to processes so far."""

    def end(self) -> None:
        self._ending.set()

    @property
    def has_ended(self) -> bool:
        return self._ending.is_set()

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
            fault = self._chance.choice(self._proxies).strike()
            if fault is not None:
                self.done[str(fault)] += 1

    async def _deeds(self) -> None:
        deck: list[Trouble] = []
        while await self._waited(self._deed_every_s * self._chance.uniform(0.7, 1.3)):
            deck = deck or self._chance.sample(self._troubles, len(self._troubles))
            trouble = deck.pop()
            await self._do(trouble.deed, self._chance.choice(trouble.victims))
            self.done[trouble.name] += 1
            self.deeds += 1

    async def _do(self, deed: Deed, one: Victim) -> None:
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
