"""OffsetCommit, OffsetFetch and OffsetDelete."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from ....coordinator.access.grants import Verb
from ....coordinator.classic.assignments import subscribed_topics
from ....coordinator.classic.positions import CommittedPosition
from ....log.errors import PenstockError, TopicDeleted, TopicNotFound
from ....log.limits import NUMBER_MAX
from ....log.runtime.runtime import Clock
from ....log.topic.topics import Topic
from ..server.calls import KafkaCall
from ..wire.errors import ErrorCode, KafkaRefusal, refusal_of
from ..wire.messages import Fields, Request
from ..wire.names import topic_of
from .answers import group_refusal
from .coordinated_group import CoordinatedGroup
from .coordinator import GroupCoordinator
from .membership.group import GroupState, MemberClaim
from .topic_positions import TopicPositions

METADATA_BYTES_MAX: Final = 4_096
_CONSUMER: Final = "consumer"
_NO_OFFSET: Final = -1
_TELLS_UNKNOWN_GROUP_FROM: Final = 9
_FETCHES_SEVERAL_FROM: Final = 8

Codes = dict[tuple[str, int], ErrorCode]


@dataclass(slots=True)
class _TopicCommit:
    """What is to be committed on one topic."""

    topic: Topic
    queues: dict[int, CommittedPosition] = field(default_factory=dict)


class OffsetsOfGroups:
    """Keeps the positions of groups."""

    def __init__(self, coordinator: GroupCoordinator, topic: Callable[[str], Awaitable[Topic]], clock: Clock) -> None:
        """``topic``: opens a topic, and makes none."""
        self._coordinator = coordinator
        self._topic = topic
        self._clock = clock

    # --- Commits ----------------------------------------------------------------------------------------------------------------

    async def offset_commit(self, request: Request, call: KafkaCall) -> Fields:
        codes: Codes = {}
        try:
            call.rights.check(Verb.JOIN, request.group_id)
            wanted = await self._checked(request, call, codes)
            group, allowed = await self._allowed(request, call)
            await asyncio.gather(*(self._commit(group, name, one, allowed, codes) for name, one in wanted.items()))
        except (KafkaRefusal, PenstockError) as error:
            code = group_refusal(error).code
            codes = {(topic.name, one.partition_index): code for topic in request.topics for one in topic.partitions}
        call.code = next((code for code in codes.values() if code), ErrorCode.NONE)
        return {"throttle_time_ms": 0, "topics": _told(request.topics, codes)}

    async def _checked(self, request: Request, call: KafkaCall, codes: Codes) -> dict[str, _TopicCommit]:
        """What can be committed; the codes of all else are noted."""
        wanted: dict[str, _TopicCommit] = {}
        for asked in request.topics:
            try:
                call.rights.check(Verb.RECEIVE, topic_of(asked.name))
                topic = await self._topic(asked.name)
            except (KafkaRefusal, PenstockError) as error:
                code = _topic_code(error)
                codes.update({(asked.name, one.partition_index): code for one in asked.partitions})
                continue
            commit = wanted.setdefault(asked.name, _TopicCommit(topic))
            for one in asked.partitions:
                code = codes[asked.name, one.partition_index] = _position_code(one, topic)
                if code is ErrorCode.NONE:
                    commit.queues[one.partition_index] = CommittedPosition(
                        one.committed_offset,
                        max(one.committed_leader_epoch, -1),
                        max(0, self._clock.wall_ms()),
                        one.committed_metadata or "",
                    )
        return {name: commit for name, commit in wanted.items() if commit.queues}

    async def _allowed(self, request: Request, call: KafkaCall) -> tuple[CoordinatedGroup, tuple[int, int]]:
        generation, member_id = request.generation_id_or_member_epoch, request.member_id
        group = await self._coordinator.group(request.group_id, tls=call.session.is_tls, creates=generation < 0 and not member_id)
        if group is None:
            tells = call.version >= _TELLS_UNKNOWN_GROUP_FROM
            code = ErrorCode.GROUP_ID_NOT_FOUND if tells else ErrorCode.ILLEGAL_GENERATION
            raise KafkaRefusal(code, f"there is no group {request.group_id}")
        claim = MemberClaim(member_id, request.group_instance_id, call.principal)
        return group, await group.may_commit(claim, generation)

    async def _commit(
        self, group: CoordinatedGroup, name: str, commit: _TopicCommit, allowed: tuple[int, int], codes: Codes
    ) -> None:
        try:
            positions = await self._begun(group, name, commit.topic)
            await group.commit(positions, commit.queues, allowed)
        except (KafkaRefusal, PenstockError) as error:
            code = group_refusal(error).code if not isinstance(error, TopicDeleted) else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            codes.update({(name, queue): code for queue in commit.queues})

    async def _begun(self, group: CoordinatedGroup, name: str, topic: Topic) -> TopicPositions:
        found = await group.positions(name, life=topic.life)
        if found is None or len(found.position.offsets) < topic.settings.queues:
            await self._coordinator.begin(group, name, life=topic.life, queues=topic.settings.queues)
            found = await group.positions(name, life=topic.life)
        if found is None:
            raise KafkaRefusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{name} was deleted and made again")
        return found

    # --- Fetches ----------------------------------------------------------------------------------------------------------------

    async def offset_fetch(self, request: Request, call: KafkaCall) -> Fields:
        if call.version >= _FETCHES_SEVERAL_FROM:
            asked = {one.group_id: one.topics for one in request.groups}
            groups = [await self._fetched(name, topics, call) for name, topics in asked.items()]
            return {"throttle_time_ms": 0, "groups": groups}
        try:
            topics = await self._of_group(request.group_id, request.topics, call)
        except PenstockError as error:
            raise group_refusal(error) from None
        return {"throttle_time_ms": 0, "error_code": ErrorCode.NONE, "topics": topics}

    async def _fetched(self, name: str, topics: Sequence[Request] | None, call: KafkaCall) -> Fields:
        try:
            return {"group_id": name, "topics": await self._of_group(name, topics, call), "error_code": ErrorCode.NONE}
        except (KafkaRefusal, PenstockError) as error:
            call.code = group_refusal(error).code
            return {"group_id": name, "topics": [], "error_code": call.code}

    async def _of_group(self, name: str, topics: Sequence[Request] | None, call: KafkaCall) -> list[Fields]:
        """Raises as `GroupCoordinator.group`."""
        call.rights.check(Verb.JOIN, name)
        group = await self._coordinator.group(name, tls=call.session.is_tls)
        if topics is not None:
            return [await self._some_of(group, one.name, one.partition_indexes, call) for one in topics]
        if group is None:
            return []
        allowed = [one for one in sorted(group.record.positions) if call.rights.has(Verb.RECEIVE, one)]
        found = [await self._all_of(group, one) for one in allowed]
        return [one for one in found if one["partitions"]]

    async def _all_of(self, group: CoordinatedGroup, name: str) -> Fields:
        positions = await self._present(group, name)
        queues = {} if positions is None else positions.queues
        return {"name": name, "partitions": [_present_position(queue, one) for queue, one in sorted(queues.items())]}

    async def _some_of(self, group: CoordinatedGroup | None, name: str, queues: Iterable[int], call: KafkaCall) -> Fields:
        if not call.rights.has(Verb.RECEIVE, name):
            call.code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            return {"name": name, "partitions": [{**_absent(queue), "error_code": call.code} for queue in queues]}
        positions = None if group is None else await self._present(group, name)
        known = {} if positions is None else positions.queues
        return {
            "name": name,
            "partitions": [_present_position(queue, known[queue]) if queue in known else _absent(queue) for queue in queues],
        }

    async def _present(self, group: CoordinatedGroup, name: str) -> TopicPositions | None:
        if name not in group.record.positions:
            return None
        try:
            found = await group.positions(name, life=(await self._topic(name)).life)
        except (TopicNotFound, TopicDeleted):
            return None
        if found is not None:
            await found.settled()
        return found

    # --- Deletion ---------------------------------------------------------------------------------------------------------------

    async def offset_delete(self, request: Request, call: KafkaCall) -> Fields:
        call.rights.check(Verb.JOIN, request.group_id)
        codes: Codes = {}
        try:
            group = await self._coordinator.group(request.group_id, tls=call.session.is_tls)
            if group is None:
                raise KafkaRefusal(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no group {request.group_id}")
            state = group.group
            if state.state is not GroupState.EMPTY and state.protocol_type != _CONSUMER:
                raise KafkaRefusal(ErrorCode.NON_EMPTY_GROUP, f"group {request.group_id} has members")
            told = {one.metadata(protocol.name) for one in state.members.values() for protocol in one.protocols}
            subscribed = {topic for one in told for topic in subscribed_topics(one)}
            for asked in request.topics:
                is_allowed = call.rights.has(Verb.RECEIVE, asked.name)
                code = (
                    await self._deleted(group, asked, asked.name in subscribed)
                    if is_allowed
                    else ErrorCode.TOPIC_AUTHORIZATION_FAILED
                )
                call.code = code or call.code
                codes.update({(asked.name, one.partition_index): code for one in asked.partitions})
        except PenstockError as error:
            raise group_refusal(error) from None
        return {"error_code": ErrorCode.NONE, "throttle_time_ms": 0, "topics": _told(request.topics, codes)}

    async def _deleted(self, group: CoordinatedGroup, asked: Request, is_subscribed: bool) -> ErrorCode:
        if is_subscribed:
            return ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        positions = await group.positions(asked.name)
        if positions is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        await group.delete_positions(positions, (one.partition_index for one in asked.partitions))
        return ErrorCode.NONE


def _told(topics: Iterable[Request], codes: Codes) -> list[Fields]:
    return [
        {
            "name": topic.name,
            "partitions": [
                {"partition_index": one.partition_index, "error_code": codes.get((topic.name, one.partition_index), ErrorCode.NONE)}
                for one in topic.partitions
            ],
        }
        for topic in topics
    ]


def _topic_code(error: Exception) -> ErrorCode:
    code = refusal_of(error).code
    if code in (ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION  # no topic can have such a name
    return code if code is ErrorCode.TOPIC_AUTHORIZATION_FAILED else group_refusal(error).code


def _position_code(asked: Request, topic: Topic) -> ErrorCode:
    if not 0 <= asked.partition_index < topic.settings.queues:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if len((asked.committed_metadata or "").encode()) > METADATA_BYTES_MAX:
        return ErrorCode.OFFSET_METADATA_TOO_LARGE
    # As in Kafka it may be beyond the end: a gateway need not know what another one appended a moment ago.
    return ErrorCode.NONE if 0 <= asked.committed_offset <= NUMBER_MAX else ErrorCode.OFFSET_OUT_OF_RANGE


def _present_position(queue: int, found: CommittedPosition) -> Fields:
    return {
        "partition_index": queue,
        "committed_offset": found.offset,
        "committed_leader_epoch": found.leader_epoch,
        "metadata": found.metadata,
        "error_code": ErrorCode.NONE,
    }


def _absent(queue: int) -> Fields:
    return {
        "partition_index": queue,
        "committed_offset": _NO_OFFSET,
        "committed_leader_epoch": -1,
        "metadata": "",
        "error_code": ErrorCode.NONE,
    }
