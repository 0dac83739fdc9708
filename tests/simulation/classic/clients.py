"""A Kafka client in a group: it joins, assigns if it leads, commits what it did, and goes on from what was committed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from penstock.gateway.kafka.wire.apis import ApiKey
from penstock.gateway.kafka.wire.errors import ErrorCode
from tests.simulation.classic.front import Unreachable

if TYPE_CHECKING:
    from tests.simulation.classic.world import ClassicGroups

GROUP: Final = "audit"
TOPIC: Final = "orders"
SESSION_S: Final = 12.0
REBALANCE_S: Final = 20.0
_CALL_S: Final = 8.0


class Rejoin(Exception):
    """The member has to join again."""


class KafkaMember:
    """One member, until it is told to leave."""

    def __init__(self, world: ClassicGroups, name: str, *, instance: str | None = None) -> None:
        self.world = world
        self.name = name
        self.instance = instance
        self.rng = world.kernel.rng(f"member/{name}")
        self.coordinator = ""
        self.id = ""
        self.generation = -1
        self.queues: tuple[int, ...] = ()
        self.positions: dict[int, int] = {}
        self.is_stable = False
        self._beside: asyncio.Future[None] | None = None
        """A commit that nobody waits for."""

    async def live(self, until_s: float, *, leaves: bool) -> None:
        """Until then; it leaves, or is just gone."""
        try:
            async with asyncio.timeout(max(0.0, until_s - self.world.now_s)):
                while True:
                    try:
                        await self._join()
                        await self._begin()
                        await self._work()
                    except Rejoin:
                        self.is_stable = False
                        self._commit_at_last()
                        await self.world.pass_s(self.rng.uniform(0.05, 0.3))
        except TimeoutError:
            pass
        self.is_stable = False
        if leaves and self.id:
            self.world.counts["left"] += 1
            try:
                await self._once(
                    ApiKey.LEAVE_GROUP, group_id=GROUP, members=[{"member_id": self.id, "group_instance_id": self.instance}]
                )
            except Unreachable:
                return

    # --- Calls ------------------------------------------------------------------------------------------------------------------

    async def _once(self, key: ApiKey, timeout_s: float = _CALL_S, **fields: object) -> Any:
        if not self.coordinator:
            await self._find()
        try:
            return await self.world.gateways[self.coordinator].ask(key, timeout_s, self.name, **fields)
        except Unreachable:
            self.coordinator = ""
            raise

    async def _find(self) -> None:
        asked = self.rng.choice(sorted(self.world.gateways))
        answer = (
            await self.world.gateways[asked].ask(ApiKey.FIND_COORDINATOR, _CALL_S, self.name, coordinator_keys=[GROUP])
        ).coordinators[0]
        if answer.error_code:
            raise Unreachable
        self.coordinator = answer.host

    async def _ask(
        self, key: ApiKey, timeout_s: float = _CALL_S, on_doubt: Callable[[], None] = lambda: None, **fields: object
    ) -> Any:
        """The answer of a coordinator, asked again while there is none, which ``on_doubt`` is told."""
        while True:
            try:
                answer = await self._once(key, timeout_s, **fields)
            except Unreachable:
                on_doubt()
                await self.world.pass_s(self.rng.uniform(0.1, 1.0))
                continue
            code = _code(answer)
            self.world.counts[f"{key.name}: {ErrorCode(code).name}"] += 1
            if code not in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE):
                return answer
            self.coordinator = ""
            await self.world.pass_s(self.rng.uniform(0.1, 1.0))

    def _checked(self, code: int) -> None:
        if code == ErrorCode.NONE:
            return
        if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            self.id = ""
        raise Rejoin

    # --- Joining ----------------------------------------------------------------------------------------------------------------

    async def _join(self) -> None:
        answer = await self._ask(
            ApiKey.JOIN_GROUP,
            REBALANCE_S + SESSION_S,
            group_id=GROUP,
            session_timeout_ms=int(1_000 * SESSION_S),
            rebalance_timeout_ms=int(1_000 * REBALANCE_S),
            member_id=self.id,
            group_instance_id=self.instance,
            protocol_type="consumer",
            protocols=[{"name": "range", "metadata": b"topics"}],
        )
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.id = answer.member_id
            raise Rejoin
        self._checked(answer.error_code)
        self.id, self.generation = answer.member_id, answer.generation_id
        told = [] if answer.skip_assignment else self._assigned([one.member_id for one in answer.members])
        sync = await self._ask(
            ApiKey.SYNC_GROUP,
            REBALANCE_S + SESSION_S,
            group_id=GROUP,
            generation_id=self.generation,
            member_id=self.id,
            group_instance_id=self.instance,
            protocol_type="consumer",
            protocol_name="range",
            assignments=told,
        )
        self._checked(sync.error_code)
        if not sync.assignment:
            self.queues, self.positions = (), {}
            return
        found = json.loads(sync.assignment)
        self.queues = tuple(found["queues"])
        self.world.judge.assigned(self.generation, found["nonce"], self.instance or self.id, self.queues)

    def _assigned(self, members: list[str]) -> list[dict[str, object]]:
        queues: dict[str, list[int]] = {one: [] for one in members}
        for queue in range(self.world.queues):
            if members:
                queues[members[queue % len(members)]].append(queue)
        nonce = self.rng.getrandbits(60)
        return [
            {"member_id": one, "assignment": json.dumps({"nonce": nonce, "queues": its}).encode()} for one, its in queues.items()
        ]

    # --- Work -------------------------------------------------------------------------------------------------------------------

    async def _begin(self) -> None:
        required = self.world.judge.required(self.queues)
        topics = [{"name": TOPIC, "partition_indexes": list(self.queues)}]
        answer = await self._ask(ApiKey.OFFSET_FETCH, groups=[{"group_id": GROUP, "topics": topics}])
        self._checked(answer.groups[0].error_code)
        found = {one.partition_index: one.committed_offset for one in answer.groups[0].topics[0].partitions}
        self.world.judge.fetched(self.name, self.generation, required, found)
        self.positions = {queue: max(0, offset) for queue, offset in found.items()}
        self.is_stable = True

    async def _work(self) -> None:
        beat_s = self.world.now_s + 3.0
        while True:
            await self.world.pass_s(self.rng.uniform(0.2, 1.5))
            if self.positions and self.rng.random() < 0.7:
                await self._commit(self.rng.choice(sorted(self.positions)))
            if self.rng.random() < 0.3:
                self._commit_some()
            if self.world.now_s >= beat_s:
                beat_s = self.world.now_s + 3.0
                answer = await self._ask(
                    ApiKey.HEARTBEAT,
                    group_id=GROUP,
                    generation_id=self.generation,
                    member_id=self.id,
                    group_instance_id=self.instance,
                )
                self._checked(answer.error_code)

    async def _commit(self, queue: int) -> None:
        if self._beside is not None:
            await self._beside
        offset = self.positions[queue] + self.rng.randrange(1, 5)
        doubted = partial(self.world.judge.doubted, self.generation, queue, offset)
        answer = await self._ask(ApiKey.OFFSET_COMMIT, on_doubt=doubted, **self._position(queue, offset))
        self._checked(_code(answer))
        self.positions[queue] = offset
        self.world.judge.committed(self.generation, queue, offset, self.world.now_s)

    def _commit_some(self) -> None:
        """Commit beside all else, though the member joins anew meanwhile. It is not tried again."""
        if not self.positions or (self._beside is not None and not self._beside.done()):
            return
        queue = self.rng.choice(sorted(self.positions))
        self.positions[queue] = offset = self.positions[queue] + self.rng.randrange(1, 5)
        self._beside = asyncio.ensure_future(self._committed(self.generation, queue, offset, self._position(queue, offset)))

    async def _committed(self, generation: int, queue: int, offset: int, asked: dict[str, Any]) -> None:
        try:
            answer = await self._once(ApiKey.OFFSET_COMMIT, **asked)
        except Unreachable:
            self.world.judge.doubted(generation, queue, offset)
            return
        if _code(answer) == ErrorCode.NONE:
            self.world.counts["committed beside"] += 1
            self.world.judge.committed(generation, queue, offset, self.world.now_s)

    def _commit_at_last(self) -> None:
        """Commit as others take over, without waiting for it."""
        if self.id:
            self._commit_some()
        self.positions = {}

    def _position(self, queue: int, offset: int) -> dict[str, Any]:
        partitions = [{"partition_index": queue, "committed_offset": offset, "committed_metadata": self.name}]
        return {
            "group_id": GROUP,
            "generation_id_or_member_epoch": self.generation,
            "member_id": self.id,
            "group_instance_id": self.instance,
            "topics": [{"name": TOPIC, "partitions": partitions}],
        }


def _code(answer: Any) -> int:
    for name in ("topics", "groups"):
        if (found := getattr(answer, name, None)) and not getattr(answer, "error_code", 0):
            return _code(found[0])
    if partitions := getattr(answer, "partitions", None):
        return int(partitions[0].error_code)
    return int(getattr(answer, "error_code", 0) or 0)
