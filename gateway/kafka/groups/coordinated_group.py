"""One group at its coordinator, from taking it over to losing it.

One event comes after the other: where one is to be durable, the next waits for that. Whatever goes wrong with a write, the group is given up, and
taken over again from its cell.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar

from ....coordinator.cells.cells import CellChanged, Cells
from ....coordinator.cells.document import Document
from ....coordinator.cells.keys import classic_key, positions_key
from ....coordinator.classic.members import MEMBERS_CELL, ClassicGroup
from ....coordinator.classic.positions import CommittedPosition, CommittedPositions, caught_up, decode_positions
from ....coordinator.groups.record import GroupRecord, Position
from ....log.errors import LimitExceeded, PenstockError
from ....log.runtime.runtime import Clock
from ..wire.errors import ErrorCode, KafkaRefusal
from .member_bytes import MemberBytes, bytes_of
from .membership.calls import Sync, commit, heartbeat, kicked, leave, sync
from .membership.group import Answer, Group, GroupLimits, GroupState, GroupStep, JoinAnswer, MemberClaim, SyncAnswer
from .membership.joining import Join, join
from .membership.rebalancing import expired, heard_again, next_due_s
from .membership.stored_group import stored_group, taken_over
from .stops import Stops
from .topic_positions import CoordinationLost, TopicPositions

T = TypeVar("T")

GRACE_S: Final = 10.0
"""The time that members have, beside their sessions, to find a new coordinator, or to be heard by one that was stopped."""
_SLEEP_S_MAX: Final = 3_600.0
_ANOTHER: Final = "another gateway"


class CoordinatedGroup:
    """A group that this gateway coordinates. All methods raise `KafkaRefusal`; after `is_lost` all say `NOT_COORDINATOR`."""

    def __init__(
        self,
        name: str,
        record: GroupRecord,
        *,
        cells: Cells,
        clock: Clock,
        stops: Stops,
        coordinator: str,
        limits: GroupLimits,
        held: MemberBytes,
    ) -> None:
        self.name = name
        self.record = record
        self.group = Group()
        self.is_lost = False
        self.winner = ""
        """The gateway that took it, if it is known."""
        self.used_s = clock.monotonic_s()
        """When somebody last asked for it."""
        self._cells = cells
        self._clock = clock
        self._stops = stops
        self._stops_known = stops.count()
        self._coordinator = coordinator
        self._limits = limits
        self._held = held
        self._cell = Document(cells, clock, classic_key(name), MEMBERS_CELL, absent=ClassicGroup())
        self._lock = asyncio.Lock()
        self._numbers = itertools.count(1)
        self._calls: dict[int, asyncio.Future[Answer]] = {}
        self._positions: dict[str, TopicPositions] = {}
        self._opening = asyncio.Lock()
        self._resets = 0
        self._moved = asyncio.Event()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._epoch = 0

    # --- Its life ---------------------------------------------------------------------------------------------------------------

    async def take(self) -> None:
        """Take it over. Its members go on, unless an operator has reset it meanwhile. Raises `KafkaRefusal`, and what the table raises."""
        found = await self._cell.read()
        now_s = self._clock.monotonic_s()
        group = taken_over(found, life=self.record.lives, now_s=now_s, grace_s=GRACE_S)
        ordered = await self._unheeded()
        if ordered:
            group, _ = kicked(group)
        self._epoch = found.epoch + 1
        try:
            await self._cell.write(self._stored(group))
        except CellChanged:
            self._lose(self._cell.value.coordinator)
            raise self._lost() from None
        self.group = group
        self._held.note(self, group.members.values())
        for topic in ordered:
            await self.positions(topic)
        self._start(self._keep_time())

    async def _unheeded(self) -> list[str]:
        """The topics with resets that no coordinator has carried out."""
        reset = {topic: one for topic, one in self.record.positions.items() if _is_reset(None, one)}
        found: list[str] = []
        for topic, position in reset.items():
            stored = await self._cells.read(key := positions_key(self.name, topic))
            known = CommittedPositions() if stored is None else decode_positions(stored.data, where=key)
            if caught_up(known, position) is not known:
                found.append(topic)
        return found

    def forget(self) -> None:
        """End it here. Nothing is written: whoever asks next takes it over."""
        self._lose("")

    def _lose(self, winner: str) -> None:
        if self.is_lost:
            return
        self.is_lost, self.winner = True, winner
        self._held.forget(self)
        for future in self._calls.values():
            if not future.done():
                future.set_exception(self._lost())
                future.exception()  # perhaps its client is gone
        self._hurry()
        self._moved.set()

    def _hurry(self) -> None:
        """Let no commit wait for others: members wait for them before they join or leave."""
        for one in self._positions.values():
            one.hurry()

    def _lost(self) -> KafkaRefusal:
        return KafkaRefusal(ErrorCode.NOT_COORDINATOR, f"this gateway does not coordinate group {self.name}, or no longer")

    async def _keep_time(self) -> None:
        while not self.is_lost:
            self._moved.clear()
            wait_s = next_due_s(self.group) - self._clock.monotonic_s()
            if wait_s > 0:
                with suppress(TimeoutError):
                    async with asyncio.timeout(min(wait_s, _SLEEP_S_MAX)):
                        await self._moved.wait()
            else:
                with suppress(KafkaRefusal, PenstockError):  # it is lost then
                    await self._apply(self._in_time)

    def _in_time(self, group: Group, now_s: float) -> GroupStep:
        stops = self._stops.count()
        if stops == self._stops_known:
            return expired(group, now_s, self._limits)
        self._stops_known = stops
        return GroupStep(heard_again(group, now_s, GRACE_S))

    # --- Members ----------------------------------------------------------------------------------------------------------------

    async def join(self, asked: Callable[[int], Join]) -> JoinAnswer:
        """``asked``: the request with the number of its call."""

        def joined(call: int, group: Group, now_s: float) -> GroupStep:
            wanted = asked(call)
            known = group.members.get(wanted.member_id)
            self._held.check(wanted.owner, bytes_of(wanted.protocols) - (0 if known is None else bytes_of(known.protocols)))
            return join(group, wanted, now_s, self._limits)

        answer = await self._answer(joined)
        assert isinstance(answer, JoinAnswer)
        return answer

    async def sync(self, asked: Callable[[int], Sync]) -> SyncAnswer:
        """``asked``: the request with the number of its call."""

        def synced(call: int, group: Group, now_s: float) -> GroupStep:
            wanted = asked(call)
            known = group.members.get(wanted.claim.member_id)
            if known is not None:
                given = sum(map(len, wanted.assignments.values()))
                self._held.check(known.owner, given - sum(len(one.assignment) for one in group.members.values()))
            return sync(group, wanted, now_s, self._limits)

        answer = await self._answer(synced)
        assert isinstance(answer, SyncAnswer)
        return answer

    async def heartbeat(self, claim: MemberClaim, generation: int) -> ErrorCode:
        async with self._lock:
            self._check()
            self.group, code = heartbeat(self.group, claim, generation, self._clock.monotonic_s())
            return code

    async def leave(self, leavers: Sequence[MemberClaim]) -> tuple[ErrorCode, ...]:
        codes: list[ErrorCode] = []

        def left(group: Group, now_s: float) -> GroupStep:
            step, codes[:] = leave(group, leavers, now_s, self._limits)
            return step

        await self._shielded(self._apply(left))
        return tuple(codes)

    async def _answer(self, event: Callable[[int, Group, float], GroupStep]) -> Answer:
        call = next(self._numbers)
        future = self._calls[call] = asyncio.get_running_loop().create_future()
        try:
            await self._shielded(self._apply(lambda group, now_s: event(call, group, now_s)))
            return await future
        finally:
            del self._calls[call]

    async def _apply(self, event: Callable[[Group, float], GroupStep]) -> None:
        async with self._lock:
            self._check()
            step = event(self.group, self._clock.monotonic_s())
            if step.is_durable:
                await self._store(step.group)
            self.group = step.group
            if self.group.state is not GroupState.STABLE:
                self._hurry()
            if not self.is_lost:  # as it may be since it was stored
                self._held.note(self, step.group.members.values())
            for answer in step.answers:
                future = self._calls.get(answer.call)
                if future is not None and not future.done():
                    future.set_result(answer)
            self._moved.set()

    async def _store(self, group: Group) -> None:
        try:
            await self._cell.write(self._stored(group))
        except LimitExceeded as error:
            raise KafkaRefusal(ErrorCode.GROUP_MAX_SIZE_REACHED, str(error)) from None
        except CellChanged:
            self._lose(self._cell.value.coordinator)
            raise self._lost() from None
        except PenstockError:
            self._lose("")
            raise

    def _stored(self, group: Group) -> ClassicGroup:
        return stored_group(group, epoch=self._epoch, coordinator=self._coordinator, life=self.record.lives)

    def _check(self) -> None:
        if self.is_lost:
            raise self._lost()

    async def _shielded(self, work: Coroutine[Any, Any, T]) -> T:
        """What is begun is ended, though its client goes."""
        return await asyncio.shield(self._start(work))

    def _start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # --- Positions --------------------------------------------------------------------------------------------------------------

    async def may_commit(self, claim: MemberClaim, generation: int) -> tuple[int, int]:
        """Returns what `commit` asks for. It is void when the group's next generation begins, or an operator resets it."""
        async with self._lock:
            self._check()
            self.group, code = commit(self.group, claim, generation, self._clock.monotonic_s())
            if code is not ErrorCode.NONE:
                raise KafkaRefusal(code, f"the member may not commit for group {self.name}")
            return self.group.generation, self._resets

    async def commit(self, positions: TopicPositions, queues: Mapping[int, CommittedPosition], allowed: tuple[int, int]) -> None:
        """Return when they are durable. ``allowed``: the answer of `may_commit`."""
        self._check()
        if allowed != (self.group.generation, self._resets):
            raise KafkaRefusal(ErrorCode.ILLEGAL_GENERATION, f"group {self.name} has gone on meanwhile")
        shares = self.group.state is GroupState.STABLE and len(self.group.members) > 1
        await self._guarded(positions.commit(queues, hurries=not shares))

    async def delete_positions(self, positions: TopicPositions, queues: Iterable[int]) -> None:
        self._check()
        await self._guarded(positions.delete(set(queues)))

    async def positions(self, topic: str, *, life: int | None = None) -> TopicPositions | None:
        """The positions on a topic; None: there are none. ``life``: that of the present topic, if it is known."""
        async with self._opening:
            self._check()
            known = self.record.positions.get(topic)
            if known is None or (life is not None and known.life != life):
                return None
            found = self._positions.get(topic)
            if found is None or found.position.since != known.since:
                found = TopicPositions(
                    self._cells,
                    self._clock,
                    group=self.name,
                    topic=topic,
                    position=known,
                    epoch=self._epoch,
                    gather_s=self._limits.gather_commits_s,
                )
                await self._guarded(found.open())
                self._positions[topic] = found
            return found

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await self._shielded(work)
        except CoordinationLost:
            self._lose(_ANOTHER)
            raise self._lost() from None

    async def obey(self, record: GroupRecord) -> None:
        """Take note of a new record. Before a reset is carried out all members are sent away, as they know other positions."""
        before = self.record
        if record.generations <= before.generations:
            return
        self.record = record
        ordered = [topic for topic, one in record.positions.items() if _is_reset(before.positions.get(topic), one)]
        for topic, found in self._positions.items():
            if topic in record.positions and topic not in ordered:
                found.extend(record.positions[topic])
        if not ordered:
            return
        if self.group.state is not GroupState.EMPTY:
            await self._shielded(self._apply(lambda group, _: GroupStep(*kicked(group), is_durable=True)))
        self._resets += 1
        async with self._opening:
            for topic in ordered:
                if topic in self._positions:
                    await self._guarded(self._positions[topic].obey(record.positions[topic]))


def _is_reset(before: Position | None, now: Position) -> bool:
    """Whether some queues go on from another place."""
    if before is None or before.since != now.since:
        return any(generation > now.since for generation in now.generations)
    more = (now.since,) * (len(now.generations) - len(before.generations))
    return any(new > old for new, old in zip(now.generations, (*before.generations, *more), strict=True))
