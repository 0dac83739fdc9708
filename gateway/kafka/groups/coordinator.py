"""The groups that this gateway coordinates. Any gateway may die: the next one goes on from the groups' cells."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol

from ....coordinator import Coordination
from ....coordinator.groups.record import GroupProtocol, GroupRecord, check_protocol
from ....log.errors import PenstockError
from ....log.runtime.runtime import Clock
from ...peers.entries import RENEW_S
from ...peers.rendezvous import Peer, by_rendezvous
from ..wire.errors import ErrorCode, KafkaRefusal
from .coordinated_group import CoordinatedGroup
from .member_bytes import MemberBytes
from .membership.group import GroupLimits, GroupState
from .stops import Stops

log = logging.getLogger("penstock.gateway")

TURN_S: Final = 5.0
"""Records are looked at again after this time: operators' resets and deletions are carried out then."""
IDLE_S: Final = 600.0
"""A group without members that nobody asks for is forgotten then."""
HOLD_S: Final = RENEW_S
"""A group that another gateway took is left to it for so long, until the lists of gateways agree."""


class LivePeers(Protocol):
    """The gateways that live."""

    @property
    def own_name(self) -> str: ...

    async def live(self, *, tls: bool) -> Sequence[Peer]:
        """The gateways for clients with TLS, or without; this one included."""
        ...


class _Held(NamedTuple):
    until_s: float
    by: str


class GroupCoordinator:
    """Takes over the groups that are this gateway's by rendezvous, and follows operators' orders about them."""

    def __init__(
        self,
        coordination: Coordination,
        clock: Clock,
        peers: LivePeers,
        *,
        is_counted: Callable[[], bool],
        limits: GroupLimits | None = None,
    ) -> None:
        """``is_counted``: whether other gateways count this one among them, as far as it knows."""
        self.limits = limits or GroupLimits()
        self._held_bytes = MemberBytes(self.limits)
        self.groups: dict[str, CoordinatedGroup] = {}
        """The groups that it has taken over."""
        self._coordination = coordination
        self._clock = clock
        self._peers = peers
        self._is_counted = is_counted
        self._taking: dict[tuple[str, bool], asyncio.Task[CoordinatedGroup | None]] = {}
        self._held: dict[str, _Held] = {}
        self._stops = Stops(clock)
        self._running: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self._running = [asyncio.ensure_future(self._turn()), asyncio.ensure_future(self._stops.watch())]

    async def close(self) -> None:
        """Forget all groups. Calls that wait are answered."""
        for one in self._running:
            one.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        for group in self.groups.values():
            group.forget()
        self.groups.clear()

    # --- Who coordinates --------------------------------------------------------------------------------------------------------

    async def coordinator(self, name: str, *, tls: bool) -> Peer:
        """The gateway that coordinates a group, for a client with TLS or without. Raises `KafkaRefusal`."""
        by_name = {peer.name: peer for peer in await self._peers.live(tls=tls)}
        others = {peer.name: peer for peer in await self._peers.live(tls=not tls)}
        # All clients of a group have to meet at one gateway.
        candidates = [by_name[one] for one in by_name.keys() & others.keys()] or [*{**others, **by_name}.values()]
        chosen = next(iter(by_rendezvous(name, candidates)), None)
        if chosen is None or chosen.name not in by_name:
            raise KafkaRefusal(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"the coordinator of group {name} has no port for this client")
        return by_name[chosen.name]

    async def is_own(self, name: str, *, tls: bool) -> bool:
        """Whether this gateway coordinates a group."""
        return (await self.coordinator(name, tls=tls)).name == self._peers.own_name

    async def group(self, name: str, *, tls: bool, creates: bool = False) -> CoordinatedGroup | None:
        """A group that this gateway coordinates; None: there is none, and none is made.

        Raises `KafkaRefusal`, `GroupMixed` for a group of Penstock's own consumers, and what the table raises.
        """
        if not self._is_counted():
            self._forget_all()
            raise KafkaRefusal(ErrorCode.COORDINATOR_NOT_AVAILABLE, "this gateway cannot tell the others that it lives")
        if not await self.is_own(name, tls=tls):
            self._forget(name)
            raise KafkaRefusal(ErrorCode.NOT_COORDINATOR, f"another gateway coordinates group {name}")
        known = self.groups.get(name)
        if known is None or known.is_lost:
            known = await self._taken(name, creates=creates)
        if known is not None:
            known.used_s = self._clock.monotonic_s()
        return known

    async def _taken(self, name: str, *, creates: bool) -> CoordinatedGroup | None:
        self._note_loss(name)
        now_s = self._clock.monotonic_s()
        self._held = {one: held for one, held in self._held.items() if held.until_s > now_s}
        if name in self._held:
            raise KafkaRefusal(
                ErrorCode.COORDINATOR_NOT_AVAILABLE, f"group {name} was taken over by {self._held[name].by}, as it seems"
            )
        if len(self.groups) >= self.limits.groups_max and not self._has_made_room():
            raise KafkaRefusal(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"this gateway coordinates {self.limits.groups_max} groups")
        taking = self._taking.get((name, creates))
        if taking is None:
            taking = self._taking[name, creates] = asyncio.ensure_future(self._take(name, creates=creates))
            taking.add_done_callback(lambda done: self._note_taken((name, creates), done))
        return await asyncio.shield(taking)

    def _note_taken(self, key: tuple[str, bool], done: asyncio.Task[CoordinatedGroup | None]) -> None:
        del self._taking[key]
        if not done.cancelled():
            done.exception()  # perhaps nobody waits any more

    async def _take(self, name: str, *, creates: bool) -> CoordinatedGroup | None:
        groups = self._coordination.groups
        record = await (groups.ensure_kafka(name) if creates else groups.read(name))
        if record is None:
            return None
        check_protocol(record, GroupProtocol.KAFKA, name)
        group = CoordinatedGroup(
            name,
            record,
            cells=self._coordination.cells,
            clock=self._clock,
            stops=self._stops,
            coordinator=self._peers.own_name,
            limits=self.limits,
            held=self._held_bytes,
        )
        try:
            await group.take()
        except BaseException:
            group.forget()
            self._hold(group)
            raise
        self._forget(name)
        self.groups[name] = group
        return group

    def _note_loss(self, name: str) -> None:
        group = self.groups.get(name)
        if group is not None and group.is_lost:
            del self.groups[name]
            self._hold(group)

    def _hold(self, group: CoordinatedGroup) -> None:
        if group.winner not in ("", self._peers.own_name):
            self._held[group.name] = _Held(self._clock.monotonic_s() + HOLD_S, group.winner)

    def _forget(self, name: str) -> None:
        if (group := self.groups.pop(name, None)) is not None:
            group.forget()

    def _has_made_room(self) -> bool:
        """Forget the group without members that was asked for first, if there is one: else who may make groups keeps others from theirs."""
        empty = [group for group in self.groups.values() if group.is_lost or group.group.state is GroupState.EMPTY]
        if empty:
            self._forget(min(empty, key=lambda group: group.used_s).name)
        return bool(empty)

    def _forget_all(self) -> None:
        for name in list(self.groups):
            self._forget(name)

    # --- Operators' orders ------------------------------------------------------------------------------------------------------

    async def begin(self, group: CoordinatedGroup, topic: str, *, life: int, queues: int) -> None:
        """Note in the group's record that it has positions on a topic of so many queues. Raises `TopicDeleted`, and what the table raises."""

        async def nowhere() -> tuple[int, ...]:
            return (0,) * queues

        record = await self._coordination.groups.begin(group.name, topic, life, nowhere, queues=queues)
        if record.lives != group.record.lives:
            self._forget(group.name)
            raise KafkaRefusal(ErrorCode.NOT_COORDINATOR, f"group {group.name} was deleted, and made again")
        await group.obey(record)

    async def delete(self, name: str, *, tls: bool) -> ErrorCode:
        """Delete a group without members. Raises as `group`."""
        group = await self.group(name, tls=tls)
        if group is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        if group.group.state is not GroupState.EMPTY:
            return ErrorCode.NON_EMPTY_GROUP
        await self._coordination.groups.delete(name, life=group.record.lives)
        self._forget(name)
        return ErrorCode.NONE

    async def _turn(self) -> None:
        while True:
            await asyncio.sleep(TURN_S)
            try:
                await self.look()
            except PenstockError as error:
                log.warning("the records of consumer groups could not be read, and are read again: %s", error)

    async def look(self) -> None:
        """Carry out what operators have ordered, and forget groups that nobody asks for. Raises what the table raises."""
        now_s = self._clock.monotonic_s()
        for name, group in list(self.groups.items()):
            if group.is_lost:
                self._note_loss(name)
            elif group.group.state is GroupState.EMPTY and not group.group.pending and now_s - group.used_s > IDLE_S:
                self._forget(name)
        found = await self._coordination.groups.read_these(list(self.groups))
        await asyncio.gather(*(self._follow(name, record) for name, record in found.items()))

    async def _follow(self, name: str, record: GroupRecord | None) -> None:
        group = self.groups.get(name)
        if group is None or group.is_lost:
            return
        if record is None or record.lives != group.record.lives:
            self._forget(name)  # its members find out when they ask
        elif record.generations > group.record.generations:
            try:
                await group.obey(record)
            except (KafkaRefusal, PenstockError) as error:
                self._forget(name)  # whoever takes it over does it
                log.warning("a reset of group %s is not carried out yet: %s", name, error)
