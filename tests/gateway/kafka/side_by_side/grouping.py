"""Plays about the members of consumer groups."""

from __future__ import annotations

import asyncio
import struct
from typing import Any

from penstock.gateway.kafka.wire.apis import ApiKey
from penstock.gateway.kafka.wire.errors import ErrorCode
from tests.waiting import until

from .scene import Play, Scene, Wire, word, words

PASSING = {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
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

    await until(code, lambda found: found not in PASSING, f"{group} has a coordinator")
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
)
