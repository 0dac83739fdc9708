"""Plays about the positions of consumer groups, and about their administration."""

from __future__ import annotations

import asyncio
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from penstock.gateway.kafka.wire.apis import ApiKey
from tests.waiting import until

from .grouping import PASSING, Member, a_group, committed, offsets, position, state, subscription
from .scene import Play, Scene, word, words

# --- Positions --------------------------------------------------------------------------------------------------------------------


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

    found = await until(ready, lambda seen: seen not in PASSING, "a coordinator is there")
    return words(
        {
            "a group": found,
            "no letter": await code(key_type=0, coordinator_keys=[""]),
            "of kind 9": await code(key_type=9, coordinator_keys=["g"]),
        }
    )


PLAYS = (
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
