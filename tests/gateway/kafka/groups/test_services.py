"""The handlers of groups, by requests and answers as clients encode them."""

from __future__ import annotations

import random
from typing import Any

import pytest

from penstock.coordinator.access.grants import Grant, Verb
from penstock.gateway.access.rights import CallerRights
from penstock.gateway.kafka.groups.answers import group_refusal
from penstock.gateway.kafka.groups.membership.group import GroupLimits
from penstock.gateway.kafka.wire.apis import APIS, ApiKey
from penstock.gateway.kafka.wire.errors import ErrorCode
from penstock.log import errors
from tests.gateway.kafka.groups.stage import Gateway, Member, ask, commit, fetch, gateway, open_lake, together
from tests.gateway.kafka.wire.group_requests import GROUP_REQUESTS


async def test_members_share_a_group() -> None:
    async with gateway() as one:
        a, b = Member(one), Member(one)
        await together(a, b)
        assert a.assignment == a.id.encode()
        assert b.assignment == b.id.encode()
        assert [await a.beat(), await b.beat()] == [0, 0]
        assert await b.leave() == 0
        assert await a.beat() == ErrorCode.REBALANCE_IN_PROGRESS
        assert await a.enter() == 0
        assert a.members == [a.id]
        assert a.id.startswith("app-")


@pytest.mark.parametrize("kind", [errors.StoreUnavailable, errors.ClosedError, errors.PermissionDenied, errors.NewerFormatError])
def test_members_try_again_where_an_operator_can_mend_it(kind: type[errors.PenstockError]) -> None:
    assert group_refusal(kind("?")).code is ErrorCode.COORDINATOR_NOT_AVAILABLE


@pytest.mark.parametrize("version", range(10))
async def test_a_member_joins_by_any_version(version: int) -> None:
    async with gateway() as one:
        asked = {
            "group_id": "billing",
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 10_000,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b"x"}],
        }
        answer = await one.ask(ApiKey.JOIN_GROUP, version, **asked, member_id="")
        if version >= 4:
            assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
            answer = await one.ask(ApiKey.JOIN_GROUP, version, **asked, member_id=answer.member_id)
        assert (answer.error_code, answer.generation_id, answer.leader) == (0, 1, answer.member_id)
        sync = await one.ask(
            ApiKey.SYNC_GROUP,
            min(version, 5),
            group_id="billing",
            generation_id=1,
            member_id=answer.member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[{"member_id": answer.member_id, "assignment": b"all"}],
        )
        assert (sync.error_code, sync.assignment) == (0, b"all")
        for key, rest in ((ApiKey.HEARTBEAT, {"generation_id": 1, "member_id": answer.member_id}), (ApiKey.LEAVE_GROUP, {})):
            at = min(version, APIS[key].highest)
            if key is ApiKey.LEAVE_GROUP:
                rest = {"members": [{"member_id": answer.member_id}]} if at >= 3 else {"member_id": answer.member_id}
            told = await one.ask(key, at, group_id="billing", **rest)
            assert told.error_code == 0


async def test_the_coordinator_is_one_of_the_gateways() -> None:
    async with open_lake() as lake:
        gateways = [Gateway(lake, name, "g0", "g1", "g2") for name in ("g0", "g1", "g2")]
        for name in ("a", "b", "c", "d"):
            found = [(await one.ask(ApiKey.FIND_COORDINATOR, coordinator_keys=[name])).coordinators[0] for one in gateways]
            assert len({one.node_id for one in found}) == 1
            assert {one.host for one in found} <= {"g0", "g1", "g2"}
            answers = [
                (await one.ask(ApiKey.HEARTBEAT, group_id=name, member_id="x", generation_id=1)).error_code for one in gateways
            ]
            assert sorted(answers) == [ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR, ErrorCode.UNKNOWN_MEMBER_ID]


@pytest.mark.parametrize("version", range(7))
async def test_the_coordinator_is_told_by_any_version(version: int) -> None:
    async with gateway() as one:
        if version >= 4:
            answer = (await one.ask(ApiKey.FIND_COORDINATOR, version, coordinator_keys=["billing"])).coordinators[0]
            refused = (await one.ask(ApiKey.FIND_COORDINATOR, version, key_type=1, coordinator_keys=["x"])).coordinators[0]
        else:
            answer = await one.ask(ApiKey.FIND_COORDINATOR, version, key="billing")
            refused = await one.ask(ApiKey.FIND_COORDINATOR, version, key="x", **({"key_type": 1} if version else {}))
        assert (answer.error_code, answer.host, answer.port) == (0, "g0", 9092)
        assert refused.error_code == (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED if version else 0)
        assert not version or "no transactions" in refused.error_message


async def test_a_gateway_that_others_do_not_count_coordinates_nothing() -> None:
    async with gateway() as one:
        member = Member(one)
        await member.enter()
        one.counted = False
        assert await member.beat() == ErrorCode.COORDINATOR_NOT_AVAILABLE
        one.counted = True
        assert await member.beat() == 0, "its cell has the member"


async def test_what_is_committed_is_fetched() -> None:
    async with gateway() as one:
        member = Member(one)
        await member.enter()
        assert await member.commit("orders", {0: 5, 3: 7}, metadata="naïve 📦") == {0: 0, 3: 0}
        asked = [{"group_id": "billing", "topics": None}]
        found = (await one.ask(ApiKey.OFFSET_FETCH, groups=asked)).groups[0]
        assert [
            (one.partition_index, one.committed_offset, one.committed_leader_epoch, one.metadata)
            for one in found.topics[0].partitions
        ] == [
            (0, 5, 1, "naïve 📦"),
            (3, 7, 1, "naïve 📦"),
        ]
        assert await fetch(one, "billing", "orders", 0, 1) == {0: 5, 1: -1}
        assert await fetch(one, "billing", "never-made", 0) == {0: -1}
        assert await fetch(one, "nobody", "orders", 0) == {0: -1}


@pytest.mark.parametrize("version", range(1, 10))
async def test_positions_are_fetched_by_any_version(version: int) -> None:
    async with gateway() as one:
        await commit(one, "billing", "orders", {1: 5}, version=max(2, version))
        topics = [{"name": "orders", "partition_indexes": [1]}]
        if version >= 8:
            answer = (await one.ask(ApiKey.OFFSET_FETCH, version, groups=[{"group_id": "billing", "topics": topics}])).groups[0]
        else:
            answer = await one.ask(ApiKey.OFFSET_FETCH, version, group_id="billing", topics=topics)
        assert answer.topics[0].partitions[0].committed_offset == 5
        one.counted = False
        if version >= 8:
            answer = (await one.ask(ApiKey.OFFSET_FETCH, version, groups=[{"group_id": "billing", "topics": topics}])).groups[0]
        else:
            answer = await one.ask(ApiKey.OFFSET_FETCH, version, group_id="billing", topics=topics)
        code = answer.topics[0].partitions[0].error_code if version == 1 else answer.error_code
        assert code == ErrorCode.COORDINATOR_NOT_AVAILABLE


async def test_each_partition_has_its_own_code() -> None:
    async with gateway() as one:
        assert await commit(one, "billing", "orders", {0: 5, 4: 1, -1: 1, 1: -2}) == {
            0: 0,
            4: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            -1: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            1: ErrorCode.OFFSET_OUT_OF_RANGE,
        }
        assert await commit(one, "billing", "never-made", {0: 5}) == {0: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert await commit(one, "billing", "no topic!", {0: 5}) == {0: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert await commit(one, "billing", "orders", {0: 6}, metadata="x" * 4_097) == {0: ErrorCode.OFFSET_METADATA_TOO_LARGE}
        assert await fetch(one, "billing", "orders", 0) == {0: 5}


async def test_commits_are_checked() -> None:
    async with gateway() as one:
        member = Member(one)
        await member.enter()
        assert await commit(one, "billing", "orders", {0: 1}) == {0: ErrorCode.UNKNOWN_MEMBER_ID}
        assert await commit(one, "billing", "orders", {0: 1}, member=member.id, generation=9) == {0: ErrorCode.ILLEGAL_GENERATION}
        assert await commit(one, "nobody", "orders", {0: 1}, member="x", generation=1) == {0: ErrorCode.GROUP_ID_NOT_FOUND}
        answer = await commit(one, "nobody", "orders", {0: 1}, member="x", generation=1, version=8)
        assert answer == {0: ErrorCode.ILLEGAL_GENERATION}
        assert await commit(one, "", "orders", {0: 1}) == {0: ErrorCode.INVALID_GROUP_ID}


async def test_positions_are_those_of_this_life_of_a_topic() -> None:
    async with gateway() as one:
        await commit(one, "billing", "orders", {0: 5})
        settings = (await one.lake.topic("orders")).settings
        await one.lake.delete_topic("orders")
        assert await fetch(one, "billing", "orders", 0) == {0: -1}
        await one.lake.create_topic("orders", settings)
        assert await fetch(one, "billing", "orders", 0) == {0: -1}
        assert await commit(one, "billing", "orders", {1: 2}) == {1: 0}
        assert await fetch(one, "billing", "orders", 0, 1) == {0: -1, 1: 2}


async def test_groups_are_described() -> None:
    async with gateway() as one:
        member = Member(one, instance="i")
        await member.enter()
        group, missing = (await one.ask(ApiKey.DESCRIBE_GROUPS, groups=["billing", "nobody"])).groups
        assert (group.error_code, group.group_state, group.protocol_type, group.protocol_data) == (0, "Stable", "consumer", "range")
        told = group.members[0]
        assert (told.member_id, told.group_instance_id, told.client_id, told.client_host) == (member.id, "i", "app", "/10.0.0.1")
        assert (told.member_metadata, told.member_assignment) == (b"topics", member.id.encode())
        assert (missing.error_code, missing.group_state) == (ErrorCode.GROUP_ID_NOT_FOUND, "Dead")
        (earlier,) = (await one.ask(ApiKey.DESCRIBE_GROUPS, 5, groups=["nobody"])).groups
        assert (earlier.error_code, earlier.group_state) == (0, "Dead")


async def test_groups_are_listed_by_state_and_type() -> None:
    async with gateway() as one:
        await Member(one).enter()
        await commit(one, "simple", "orders", {0: 1})
        await one.lake.create_group("native")
        one.coordinator._forget("simple")

        async def listed(version: int = 5, **filters: object) -> set[tuple[str, str]]:
            return {
                (found.group_id, found.protocol_type) for found in (await one.ask(ApiKey.LIST_GROUPS, version, **filters)).groups
            }

        assert await listed() == {("billing", "consumer"), ("simple", "")}
        assert await listed(0) == {("billing", "consumer"), ("simple", "")}
        assert await listed(states_filter=["stable"]) == {("billing", "consumer")}
        assert await listed(states_filter=["Empty"], types_filter=["Classic"]) == {("simple", "")}
        assert await listed(types_filter=["share"]) == set()


async def test_groups_without_members_are_deleted() -> None:
    async with gateway() as one:
        member = Member(one)
        await member.enter()
        await member.commit("orders", {0: 5})

        async def deleted(name: str) -> int:
            return int((await one.ask(ApiKey.DELETE_GROUPS, groups_names=[name])).results[0].error_code)

        assert await deleted("billing") == ErrorCode.NON_EMPTY_GROUP
        await member.leave()
        assert await deleted("billing") == 0
        assert await deleted("billing") == ErrorCode.GROUP_ID_NOT_FOUND
        assert await member.beat() == ErrorCode.UNKNOWN_MEMBER_ID
        await Member(one).enter()
        assert await fetch(one, "billing", "orders", 0) == {0: -1}


async def test_positions_are_deleted_unless_a_member_subscribes() -> None:
    async with gateway() as one:
        await commit(one, "billing", "orders", {0: 5, 1: 6})
        subscribed = b"\0\1\0\0\0\1\0\6orders" + b"\xff\xff\xff\xff"
        member = Member(one, told=subscribed)
        await member.enter()

        async def deleted(topic: str) -> int:
            asked = [{"name": topic, "partitions": [{"partition_index": 0}]}]
            answer = await one.ask(ApiKey.OFFSET_DELETE, group_id="billing", topics=asked)
            return int(answer.error_code or answer.topics[0].partitions[0].error_code)

        assert await deleted("orders") == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        await member.leave()
        assert await deleted("orders") == 0
        assert await fetch(one, "billing", "orders", 0, 1) == {0: -1, 1: 6}
        assert await deleted("never-begun") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_a_group_of_penstock_s_own_consumers_is_refused() -> None:
    async with gateway() as one:
        await one.lake.create_group("native")
        assert await commit(one, "native", "orders", {0: 1}) == {0: ErrorCode.INVALID_GROUP_ID}
        (group,) = (await one.ask(ApiKey.DESCRIBE_GROUPS, groups=["native"])).groups
        assert group.error_code == ErrorCode.INVALID_GROUP_ID
        assert "Penstock's own consumers" in group.error_message
        assert await Member(one, group="native").join() == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


async def test_what_no_cell_holds_is_told_to_the_leader() -> None:
    async with gateway(limits=GroupLimits(initial_delay_s=0.0, metadata_bytes_max=10_000_000)) as one:
        member = Member(one)
        await member.join()
        noise = random.Random(1).randbytes(300_000)
        assert await member.sync(**{member.id: noise}) == ErrorCode.GROUP_MAX_SIZE_REACHED
        assert await member.sync(**{member.id: b"less"}) == 0


async def test_rights_are_asked_of_groups_and_topics() -> None:
    async with gateway() as one:
        await commit(one, "billing", "orders", {0: 5})
        join = frozenset({Grant(Verb.JOIN, "billing")})

        async def asked(key: ApiKey, grants: frozenset[Grant], **fields: object) -> Any:
            return await ask(one.handlers, key, None, "app", fields or GROUP_REQUESTS[key], CallerRights("alice", grants))

        for key in (ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP, ApiKey.OFFSET_DELETE):
            assert (await asked(key, frozenset())).error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
            assert (await asked(key, join)).error_code != ErrorCode.GROUP_AUTHORIZATION_FAILED
        found = await asked(ApiKey.FIND_COORDINATOR, frozenset())
        assert found.coordinators[0].error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
        found = await asked(ApiKey.DELETE_GROUPS, frozenset())
        assert found.results[0].error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
        assert (await asked(ApiKey.LIST_GROUPS, frozenset(), types_filter=[])).groups == []
        assert (await asked(ApiKey.DESCRIBE_GROUPS, frozenset())).groups[0].error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
        await commit(one, "billing", "orders", {0: 5})
        topics = [{"name": "orders", "partition_indexes": [0]}]
        for grants, code in (
            (frozenset(), 0),
            (join, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
            (join | {Grant(Verb.RECEIVE, "orders")}, 0),
        ):
            group = (await asked(ApiKey.OFFSET_FETCH, grants, groups=[{"group_id": "billing", "topics": topics}])).groups[0]
            assert group.error_code == (0 if grants else ErrorCode.GROUP_AUTHORIZATION_FAILED)
            assert [one.error_code for topic in group.topics for one in topic.partitions] == ([code] if grants else [])
            answer = await asked(
                ApiKey.OFFSET_COMMIT,
                grants,
                group_id="billing",
                generation_id_or_member_epoch=-1,
                topics=[{"name": "orders", "partitions": [{"partition_index": 0, "committed_offset": 6}]}],
            )
            assert answer.topics[0].partitions[0].error_code == (code if grants else ErrorCode.GROUP_AUTHORIZATION_FAILED)
        all_topics = (await asked(ApiKey.OFFSET_FETCH, join, groups=[{"group_id": "billing", "topics": None}])).groups[0]
        assert all_topics.topics == []
        forgotten = [{"name": "orders", "partitions": [{"partition_index": 0}]}]
        for grants, code in ((join, ErrorCode.TOPIC_AUTHORIZATION_FAILED), (join | {Grant(Verb.RECEIVE, "orders")}, 0)):
            answer = await asked(ApiKey.OFFSET_DELETE, grants, group_id="billing", topics=forgotten)
            assert answer.topics[0].partitions[0].error_code == code


async def test_who_may_join_a_group_does_not_act_for_anothers_member() -> None:
    join = Grant(Verb.JOIN, "billing")
    both = frozenset({join, Grant(Verb.RECEIVE, "orders")})
    async with gateway() as one:

        async def asked(principal: str, key: ApiKey, fields: dict[str, Any], grants: frozenset[Grant] = both) -> Any:
            named = {"group_id": "billing", **fields}
            return await ask(one.handlers, key, None, "app", named, CallerRights(principal, grants))

        protocols = [{"name": "range", "metadata": b"x"}]
        joining = {
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 10_000,
            "protocol_type": "consumer",
            "protocols": protocols,
        }
        member_id = (await asked("alice", ApiKey.JOIN_GROUP, {**joining, "member_id": ""})).member_id
        unknown = ErrorCode.UNKNOWN_MEMBER_ID
        assert (await asked("bob", ApiKey.JOIN_GROUP, {**joining, "member_id": member_id})).error_code == unknown
        assert (await asked("alice", ApiKey.JOIN_GROUP, {**joining, "member_id": member_id})).error_code == 0
        syncing = {"generation_id": 1, "member_id": member_id, "protocol_type": "consumer", "protocol_name": "range"}
        told = await asked("bob", ApiKey.SYNC_GROUP, {**syncing, "assignments": [{"member_id": member_id, "assignment": b"none"}]})
        assert told.error_code == unknown
        assigned = [{"member_id": member_id, "assignment": b"all"}]
        assert (await asked("alice", ApiKey.SYNC_GROUP, {**syncing, "assignments": assigned})).assignment == b"all"
        beating = {"generation_id": 1, "member_id": member_id}
        partitions = [{"partition_index": 0, "committed_offset": 6}]
        committing = {
            "generation_id_or_member_epoch": 1,
            "member_id": member_id,
            "topics": [{"name": "orders", "partitions": partitions}],
        }
        for principal, code in (("bob", unknown), ("alice", 0)):
            assert (await asked(principal, ApiKey.HEARTBEAT, beating)).error_code == code
            told = await asked(principal, ApiKey.OFFSET_COMMIT, committing)
            assert told.topics[0].partitions[0].error_code == code
        leaving = {"members": [{"member_id": member_id}]}
        assert (await asked("bob", ApiKey.LEAVE_GROUP, leaving)).members[0].error_code == unknown
        operator = frozenset({join, Grant(Verb.MANAGE, "*")})
        assert (await asked("operator", ApiKey.LEAVE_GROUP, leaving, operator)).members[0].error_code == 0


async def test_the_members_of_one_principal_fill_no_gateway() -> None:
    limits = GroupLimits(initial_delay_s=0.0, owner_bytes_max=20_000, all_bytes_max=50_000)
    async with gateway(limits=limits) as one:

        async def joined(principal: str, group: str, told: int, member_id: str = "") -> tuple[int, str]:
            grants = frozenset({Grant(Verb.JOIN, "g*")})
            fields = {
                "group_id": group,
                "session_timeout_ms": 10_000,
                "rebalance_timeout_ms": 10_000,
                "member_id": member_id,
                "protocol_type": "consumer",
                "protocols": [{"name": "range", "metadata": bytes(told)}],
            }
            answer = await ask(one.handlers, ApiKey.JOIN_GROUP, 3, "app", fields, CallerRights(principal, grants))
            return answer.error_code, answer.member_id

        full = ErrorCode.COORDINATOR_NOT_AVAILABLE
        code, first = await joined("shop", "g1", 1_000)
        assert code == 0
        assert [(await joined("shop", f"g{at}", 5_000))[0] for at in (2, 3)] == [0, full]
        assert (await joined("shop", "g1", 16_000, first))[0] == full, "nor by telling more"
        assert (await joined("shop", "g1", 900, first))[0] == 0
        assert (await joined("mail", "g4", 10_000))[0] == 0, "another one has its own share"
        for name in ("g1", "g2", "g4"):
            one.coordinator.groups[name].forget()
        assert (await joined("shop", "g5", 15_000))[0] == 0, "what is forgotten takes nothing"
