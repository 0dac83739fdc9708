"""Plays about consumer groups."""

from __future__ import annotations

import asyncio
import struct
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from penstock.gateway.kafka.wire.apis import ApiKey
from penstock.gateway.kafka.wire.errors import ErrorCode
from tests.waiting import until

from .scene import Play, Scene, Wire, word, words

_PASSING = {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
SESSION_MS = 30_000


def subscription(*topics: str) -> list[dict[str, Any]]:
    """The protocol of a consumer of topics, as its client encodes it."""
    names = b"".join(struct.pack(">h", len(one)) + one for one in (name.encode() for name in topics))
    return [{"name": "range", "metadata": struct.pack(">hi", 0, len(topics)) + names + struct.pack(">i", -1)}]


class Member:
    """A client that joins the play's group, on a connection of its own."""

    def __init__(self, scene: Scene, wire: Wire, group: str, instance: str | None = None) -> None:
        self.scene, self.wire, self.group, self.instance = scene, wire, group, instance
        self.id, self.generation, self.leads, self.assignment = "", -1, False, b""
        self.members: list[str] = []

    @classmethod
    async def of(cls, scene: Scene, group: str, instance: str | None = None) -> Member:
        return cls(scene, await scene.connect(), group, instance)

    async def join_once(self, version: int | None = None, **more: Any) -> int:
        """One JoinGroup."""
        asked = {
            "group_id": self.group,
            "session_timeout_ms": SESSION_MS,
            "rebalance_timeout_ms": 30_000,
            "member_id": self.id,
            "group_instance_id": self.instance,
            "protocol_type": "consumer",
            "protocols": subscription("topics"),
            "reason": None,
        }
        answer = await self.wire.ask(ApiKey.JOIN_GROUP, version, **{**asked, **more})
        self.id, self.generation = answer.member_id, answer.generation_id
        self.leads, self.members = answer.leader == answer.member_id, [one.member_id for one in answer.members]
        return int(answer.error_code)

    async def join(self, **more: Any) -> int:
        """JoinGroup, with an id if one is asked for."""
        code = await self.join_once(**more)
        return await self.join_once(**more) if code == ErrorCode.MEMBER_ID_REQUIRED else code

    async def sync(self) -> int:
        """SyncGroup; who leads assigns to each member its own id."""
        told = [{"member_id": one, "assignment": one.encode()} for one in self.members] if self.leads else []
        answer = await self.wire.ask(
            ApiKey.SYNC_GROUP,
            **self.place,
            protocol_type="consumer",
            protocol_name="range",
            assignments=told,
        )
        self.assignment = answer.assignment
        return int(answer.error_code)

    @property
    def place(self) -> dict[str, Any]:
        return {"group_id": self.group, "generation_id": self.generation, "member_id": self.id, "group_instance_id": self.instance}

    async def enter(self, **more: Any) -> int:
        return await self.join(**more) or await self.sync()

    async def beat(self) -> int:
        return int((await self.wire.ask(ApiKey.HEARTBEAT, **self.place)).error_code)

    async def leave(self) -> int:
        answer = await self.wire.ask(
            ApiKey.LEAVE_GROUP,
            group_id=self.group,
            members=[{"member_id": self.id, "group_instance_id": self.instance, "reason": None}],
        )
        return int(answer.error_code or answer.members[0].error_code)

    async def commit(self, topic: str, offset: int, **more: Any) -> int:
        return await committed(
            self.scene, self.group, topic, offset, generation=self.generation, member=self.id, instance=self.instance, **more
        )

    async def beats(self, code: int) -> None:
        """Wait until a heartbeat is answered so."""
        await until(self.beat, lambda found: found == code, f"a heartbeat is answered by {word(code)}")


async def committed(
    scene: Scene,
    group: str,
    topic: str,
    offset: int,
    *,
    generation: int = -1,
    member: str = "",
    instance: str | None = None,
    partition: int = 0,
    metadata: str | None = None,
) -> int:
    """The code of a commit."""
    part = {"partition_index": partition, "committed_offset": offset, "committed_leader_epoch": -1, "committed_metadata": metadata}
    answer = await scene.ask(
        ApiKey.OFFSET_COMMIT,
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member,
        group_instance_id=instance,
        topics=[{"name": topic, "partitions": [part]}],
    )
    return int(answer.topics[0].partitions[0].error_code)


async def offsets(scene: Scene, group: str, topics: list[dict[str, Any]] | None) -> Any:
    answer = await scene.ask(
        ApiKey.OFFSET_FETCH,
        groups=[{"group_id": group, "member_id": None, "member_epoch": -1, "topics": topics}],
        require_stable=False,
    )
    return answer.groups[0]


async def position(scene: Scene, group: str, topic: str, partition: int = 0) -> int:
    found = await offsets(scene, group, [{"name": topic, "partition_indexes": [partition]}])
    return int(found.topics[0].partitions[0].committed_offset)


async def a_group(scene: Scene, name: str = "g") -> str:
    """The name of a group whose coordinator is ready."""
    group = scene.named(name)

    async def code() -> int:
        found = await scene.ask(ApiKey.FIND_COORDINATOR, key_type=0, coordinator_keys=[group])
        return int(found.coordinators[0].error_code or (await offsets(scene, group, None)).error_code)

    await until(code, lambda found: found not in _PASSING, f"{group} has a coordinator")
    return group


async def state(scene: Scene, group: str) -> Any:
    return (await scene.ask(ApiKey.DESCRIBE_GROUPS, groups=[group], include_authorized_operations=False)).groups[0]


# --- Joining ----------------------------------------------------------------------------------------------------------------------


async def joins(scene: Scene) -> str:
    member = await Member.of(scene, await a_group(scene))
    first = await member.join_once()
    given = bool(member.id)
    second = await member.join_once()
    return (
        f"{word(first)}, {'with an id' if given else 'without one'}; {word(second)}, generation {member.generation}, "
        f"{'leads' if member.leads else 'follows'}; sync {word(await member.sync())}"
    )


async def old_join(scene: Scene) -> str:
    member = await Member.of(scene, await a_group(scene))
    code = await member.join_once(3)
    return f"{word(code)}, {'with an id' if member.id else 'without one'}"


async def wrong_joins(scene: Scene) -> str:
    group = await a_group(scene)
    there = await Member.of(scene, group)
    await there.enter()
    codes = {}
    cases: dict[str, dict[str, Any]] = {
        "an unknown id": {"member_id": "nobody"},
        "no group id": {"group_id": ""},
        "session of 1 s": {"session_timeout_ms": 1_000},
        "session of 1 h": {"session_timeout_ms": 3_600_000},
        "another protocol": {"protocols": [{"name": "other", "metadata": b""}]},
        "another type": {"protocol_type": "connect"},
        "no protocol": {"protocols": []},
    }
    for name, more in cases.items():
        codes[name] = await (await Member.of(scene, group)).join_once(**more)
    return words(codes)


async def rebalance(scene: Scene) -> str:
    group = await a_group(scene)
    first, second = await Member.of(scene, group), await Member.of(scene, group)
    await first.enter()
    entering = asyncio.ensure_future(second.enter())
    await first.beats(ErrorCode.REBALANCE_IN_PROGRESS)
    again = await first.enter()
    codes = {"first": again, "second": await entering}
    text = f"the first is told by {word(ErrorCode.REBALANCE_IN_PROGRESS)}; {words(codes)}, generation {first.generation}"
    left = await second.leave()
    await first.beats(ErrorCode.REBALANCE_IN_PROGRESS)
    await first.enter()
    return f"{text}; the second leaves: {word(left)}, then generation {first.generation} of {len(first.members)}"


async def during_rebalance(scene: Scene) -> str:
    group, topic = await a_group(scene), await scene.topic()
    first, second = await Member.of(scene, group), await Member.of(scene, group)
    await first.enter()
    entering = asyncio.ensure_future(second.enter())
    await first.beats(ErrorCode.REBALANCE_IN_PROGRESS)
    codes = {
        "heartbeat": await first.beat(),
        "commit": await first.commit(topic, 1),
        "commit of a group id alone": await committed(scene, group, topic, 1),
        "sync": await first.sync(),
    }
    described = await state(scene, group)
    await first.enter()
    await entering
    return f"{words(codes)}; {described.group_state}"


async def wrong_beats(scene: Scene) -> str:
    group = await a_group(scene)
    unknown = await Member.of(scene, scene.named("other"))
    unknown.id, unknown.generation = "nobody", 1
    member = await Member.of(scene, group)
    await member.enter()
    codes = {"group": await unknown.beat()}
    generation, name = member.generation, member.id
    member.generation = generation + 1
    codes["generation"] = await member.beat()
    member.generation, member.id = generation, "nobody"
    codes["member"] = await member.beat()
    codes["member that leaves"] = await member.leave()
    member.id = name
    member.generation = generation - 1
    codes["generation in SyncGroup"] = await member.sync()
    return words(codes)


async def session(scene: Scene) -> str:
    group = await a_group(scene)
    member = await Member.of(scene, group)
    await member.enter(session_timeout_ms=6_000)

    async def found() -> str:
        return str((await state(scene, group)).group_state)

    await until(found, lambda seen: seen == "Empty", "the member is out")
    return f"the group is Empty; a heartbeat then: {word(await member.beat())}"


async def static(scene: Scene) -> str:
    group = await a_group(scene)
    first, second = await Member.of(scene, group, "i"), await Member.of(scene, group, "i")
    await first.enter()
    joined = await second.join()
    same = second.generation == first.generation
    synced = await second.sync()
    kept = second.assignment == first.assignment
    return (
        f"its second life: {word(joined)}, {'no' if same else 'a'} rebalance, {word(synced)}, {'the same' if kept else 'another'} assignment; "
        f"its first: {word(await first.beat())}"
    )


async def static_leaves(scene: Scene) -> str:
    group = await a_group(scene)
    member = await Member.of(scene, group, "i")
    await member.enter()
    member.id = ""
    codes = {"by its instance": await member.leave()}
    member.instance = "other"
    codes["an unknown instance"] = await member.leave()
    return f"{words(codes)}; {(await state(scene, group)).group_state}"


# --- Offsets ----------------------------------------------------------------------------------------------------------------------


async def wrong_commits(scene: Scene) -> str:
    group, topic = await a_group(scene), await scene.topic()
    member = await Member.of(scene, group)
    await member.enter()
    generation, name = member.generation, member.id
    codes = {"as it should be": await member.commit(topic, 1)}
    member.generation = generation + 1
    codes["a wrong generation"] = await member.commit(topic, 2)
    member.generation, member.id = generation, "nobody"
    codes["an unknown member"] = await member.commit(topic, 2)
    member.id = name
    codes["from outside, as it has members"] = await committed(scene, group, topic, 2)
    codes["an unknown topic"] = await member.commit(scene.named("other"), 1)
    codes["an unknown partition"] = await member.commit(topic, 1, partition=7)
    codes["metadata of 5,000 letters"] = await member.commit(topic, 2, metadata="x" * 5_000)
    return f"{words(codes)}; position {await position(scene, group, topic)}"


async def below_zero(scene: Scene) -> str:
    group, topic = await a_group(scene), await scene.topic()
    return f"{word(await committed(scene, group, topic, -5))}; position {await position(scene, group, topic)}"


async def outside(scene: Scene) -> str:
    group, topic = await a_group(scene), await scene.topic()
    codes = {
        "generation -1": await committed(scene, group, topic, 5),
        "generation 3": await committed(scene, scene.named("new"), topic, 5, generation=3, member="m"),
    }
    beyond = word(await committed(scene, group, topic, 1_000))
    found = (await state(scene, group)).group_state
    return f"{words(codes)}; beyond the end: {beyond}; {found}, position {await position(scene, group, topic)}"


async def metadata(scene: Scene) -> str:
    group, topic = await a_group(scene), await scene.topic()
    await committed(scene, group, topic, 5, metadata="ä note")
    part = (await offsets(scene, group, [{"name": topic, "partition_indexes": [0]}])).topics[0].partitions[0]
    return "as committed" if (part.committed_offset, part.metadata) == (5, "ä note") else f"{part}"


async def unknown_offsets(scene: Scene) -> str:
    group, topic = await a_group(scene), await scene.topic()
    names = {topic: [0, 9], scene.named("other"): [0]}
    some = await offsets(scene, group, [{"name": name, "partition_indexes": some} for name, some in names.items()])
    every = await offsets(scene, group, None)
    parts = {f"offset {one.committed_offset}, {word(one.error_code)}" for found in some.topics for one in found.partitions}
    said = f"{word(some.error_code)}: {' and '.join(sorted(parts))} of each partition"
    return f"{said}; all of it: {word(every.error_code)}, {len(every.topics)} topics"


async def offsets_deleted(scene: Scene) -> str:
    group, topic = await a_group(scene), await scene.topic(partitions=2)

    async def delete(where: str) -> Any:
        return await scene.ask(
            ApiKey.OFFSET_DELETE, group_id=where, topics=[{"name": topic, "partitions": [{"partition_index": 0}]}]
        )

    unknown = await delete(scene.named("other"))
    await committed(scene, group, topic, 5)
    done = await delete(group)
    codes = {"an unknown group": unknown.error_code, "an empty group": done.error_code or done.topics[0].partitions[0].error_code}
    return f"{words(codes)}; position then {await position(scene, group, topic)}"


async def subscribed_deleted(scene: Scene) -> str:
    group, topic = await a_group(scene), await scene.topic()
    member = await Member.of(scene, group)
    await member.enter(protocols=subscription(topic))
    await member.commit(topic, 1)
    answer = await scene.ask(ApiKey.OFFSET_DELETE, group_id=group, topics=[{"name": topic, "partitions": [{"partition_index": 0}]}])
    return word(answer.error_code or answer.topics[0].partitions[0].error_code)


async def topic_gone(scene: Scene) -> str:
    group, topic = await a_group(scene), await scene.topic()
    await committed(scene, group, topic, 5)
    await scene.made_anew(topic)

    async def found() -> int:
        return await position(scene, group, topic)

    return f"position {await until(found, lambda seen: seen == -1, 'the position is gone')}"


# --- Administration ---------------------------------------------------------------------------------------------------------------


async def described(scene: Scene) -> str:
    group = await a_group(scene)
    unknown = [
        await scene.ask(ApiKey.DESCRIBE_GROUPS, version, groups=[group], include_authorized_operations=False) for version in (5, 6)
    ]
    member = await Member.of(scene, group)
    await member.enter()
    found = await state(scene, group)
    (one,) = found.members
    is_told = one.member_assignment == member.assignment and one.client_id == "test"
    told = f"{found.group_state}, {found.protocol_type}, {found.protocol_data}, {'with' if is_told else 'without'} client and assignment"
    old, new = (one.groups[0] for one in unknown)
    said = f"unknown: {word(old.error_code)} {old.group_state} (version 5), {word(new.error_code)} {new.group_state} (6)"
    return f"{said}; a member: {told}"


async def listed(scene: Scene) -> str:
    full, empty, topic = await a_group(scene, "full"), await a_group(scene, "empty"), await scene.topic()
    await (await Member.of(scene, full)).enter()
    await committed(scene, empty, topic, 1)

    async def told(**filters: Any) -> str:
        answer = await scene.ask(ApiKey.LIST_GROUPS, **{"states_filter": [], "types_filter": [], **filters})
        found = {one.group_id: f"{one.group_state} {one.group_type}" for one in answer.groups}
        return ", ".join(f"{name} {found[group]}" for name, group in (("one", full), ("the other", empty)) if group in found)

    stable, other = await told(states_filter=["Stable"]), await told(types_filter=["consumer"])
    return f"{await told()}; Stable ones: {stable}; of type consumer: {other or 'none'}"


async def deleted(scene: Scene) -> str:
    group, topic = await a_group(scene), await scene.topic()
    member = await Member.of(scene, group)
    await member.enter()

    async def delete(name: str) -> int:
        return int((await scene.ask(ApiKey.DELETE_GROUPS, groups_names=[name])).results[0].error_code)

    codes = {"with a member": await delete(group), "unknown": await delete(scene.named("other"))}
    await member.commit(topic, 3)
    await member.leave()
    codes["empty"] = await delete(group)
    codes["again"] = await delete(group)
    return f"{words(codes)}; position then {await position(scene, group, topic)}"


async def altered(scene: Scene) -> str:
    group, topic = await a_group(scene), await scene.topic()

    def alter(offset: int) -> str:
        admin = AdminClient({"bootstrap.servers": scene.address, "log_level": 0})
        asked = [ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, offset)])]
        try:
            (found,) = admin.alter_consumer_group_offsets(asked, request_timeout=20)[group].result().topic_partitions
        except KafkaException as error:
            return str(error.args[0].name())
        return "OK" if found.error is None else str(found.error.name())

    new = await asyncio.to_thread(alter, 4)
    before = await position(scene, group, topic)
    member = await Member.of(scene, group)
    await member.enter()
    active = await asyncio.to_thread(alter, 2)
    return f"a group that is not there: {new}, position {before}; with a member: {active}, position {await position(scene, group, topic)}"


async def coordinators(scene: Scene) -> str:
    async def code(**more: Any) -> int:
        return int((await scene.ask(ApiKey.FIND_COORDINATOR, **more)).coordinators[0].error_code)

    async def ready() -> int:
        return await code(key_type=0, coordinator_keys=["g"])

    found = await until(ready, lambda seen: seen not in _PASSING, "a coordinator is there")
    return words(
        {
            "a group": found,
            "no letter": await code(key_type=0, coordinator_keys=[""]),
            "of kind 9": await code(key_type=9, coordinator_keys=["g"]),
        }
    )


PLAYS = (
    Play("joins", "JoinGroup without an id, then with it", joins),
    Play("old-join", "JoinGroup 3 without an id", old_join),
    Play("wrong-joins", "JoinGroup with", wrong_joins),
    Play("rebalance", "a second member joins, and leaves", rebalance),
    Play("during-rebalance", "while a group rebalances", during_rebalance),
    Play("wrong-beats", "a heartbeat of an unknown", wrong_beats),
    Play("session", "a member that says nothing for its session", session),
    Play("static", "a static member started twice", static),
    Play("static-leaves", "a static member leaves", static_leaves),
    Play("wrong-commits", "a member's commit", wrong_commits),
    Play("below-zero", "a commit of the offset -5", below_zero),
    Play("outside", "a commit without a member", outside),
    Play("commit-metadata", "metadata of a commit", metadata),
    Play("unknown-offsets", "OffsetFetch of an unknown group", unknown_offsets),
    Play("offsets-deleted", "OffsetDelete in", offsets_deleted),
    Play("subscribed-deleted", "OffsetDelete of a subscribed topic", subscribed_deleted),
    Play("topic-gone", "OffsetFetch of a topic that was made again", topic_gone),
    Play("described", "DescribeGroups", described),
    Play("listed", "ListGroups of a group with a member, and an empty one", listed),
    Play("groups-deleted", "DeleteGroups of a group", deleted),
    Play("offsets-altered", "offsets altered by librdkafka's admin client", altered),
    Play("coordinators", "FindCoordinator of", coordinators),
)
