"""Groups of Kafka's clients are described, reset, listed and deleted as all others; Penstock's own consumers are not let in."""

from __future__ import annotations

from datetime import timedelta

import pytest

from penstock import aio
from penstock.consumers.statistics import lake_samples
from penstock.consumers.trace.status import DeliveryState
from penstock.coordinator import GroupInUse
from penstock.coordinator.groups.codec import encode_group
from penstock.coordinator.groups.record import GroupMixed, GroupProtocol
from penstock.coordinator.operators.describe import KafkaGroup
from penstock.coordinator.operators.lake_view import LakeOverview, LakeView
from penstock.log import MessageView
from penstock.log.stores import MemoryStore
from tests.coordinator.classic.stage import GROUP, TOPIC, begin, commit, join, with_messages
from tests.coordinator.classic.test_members import assignment, member


async def stored_messages(lake: aio.Lake) -> list[MessageView]:
    return [one async for one in (await lake.reader(TOPIC)).messages()]


async def test_its_lag_is_what_is_behind_the_committed_offsets() -> None:
    async with aio.Lake(MemoryStore()) as lake:
        await with_messages(lake, 10)
        record = await begin(lake)
        await commit(lake, record, {0: 2})
        await join(lake, record, member("a", assignment(orders=[0])), member("b", assignment(orders=[1])))
        found = await lake.describe_group(GROUP)
        assert (found.protocol, found.members, found.lag) == (GroupProtocol.KAFKA, ("a", "b"), 3)
        (queue,) = found.queues
        assert (queue.queue, queue.owner, queue.committed_offset, queue.next_offset) == (0, "a", 2, 5)
        assert GROUP in await lake.groups()


async def test_it_is_described_by_what_is_true_of_it() -> None:
    async with aio.Lake(MemoryStore()) as lake:
        await with_messages(lake, 10)
        record = await begin(lake)
        assert (await lake.describe_group(GROUP)).kafka == KafkaGroup(
            state="Empty", protocol_type="", assignor="", generation=0, coordinator="", members=()
        )
        await join(lake, record, member("a", assignment(orders=[2, 0, 2], returns=[1]), principal="shop"), member("b"))
        found = (await lake.describe_group(GROUP)).kafka
        assert found is not None
        assert (found.state, found.protocol_type, found.generation) == ("Stable", "consumer", 3)
        first, second = found.members
        assert (first.member_id, first.client_id, first.host, first.principal) == ("a", "app", "10.0.0.1", "shop")
        assert (first.queues, second.queues) == ({"orders": (0, 2), "returns": (1,)}, {})
        assert (first.queues_text, second.queues_text) == ("orders 0, 2; returns 1", "none")


async def test_a_message_stands_before_or_behind_the_committed_offset() -> None:
    async with aio.Lake(MemoryStore()) as lake:
        await with_messages(lake, 6)
        record = await begin(lake)
        await commit(lake, record, {0: 2})
        await join(lake, record, member("a", assignment(orders=[0])))
        ids = {(one.queue, one.offset): one.message_id for one in await stored_messages(lake)}
        fates = {}
        for place, message_id in ids.items():
            (stored,) = (await lake.trace(message_id)).places
            fates[place] = [(one.fate, one.owner, one.committed_offset) for one in stored.groups]
        settled, uncommitted = (DeliveryState.SETTLED, "a", 2), (DeliveryState.UNCOMMITTED, "a", 2)
        assert [fates[0, offset] for offset in range(3)] == [[settled], [settled], [uncommitted]]
        assert fates[1, 0] == [], "nobody knows where consumers of a queue without a position begin"
        await lake.delete_topic(TOPIC)
        await with_messages(lake, 2)
        (stored,) = (await lake.trace((await stored_messages(lake))[0].message_id)).places
        assert stored.groups == (), "positions of the former topic are none"


async def test_a_look_at_the_lake_sees_it() -> None:
    async with aio.Lake(MemoryStore()) as lake:
        await with_messages(lake, 10)
        record = await begin(lake)
        await commit(lake, record, {0: 2, 1: 5})
        await join(lake, record, member("a", assignment(orders=[0, 1])))

        async def none(_: str) -> int:
            return 0

        view = LakeView(lake, lake.coordination.cells, waiting=none, precise=timedelta(seconds=1))
        (seen,) = (await view.look()).groups
        assert (seen.group, seen.topic, seen.consumers, seen.owned) == (GROUP, TOPIC, 1, 2)
        assert [one.progress.lag for one in seen.queues] == [3, 0]
        names = {one.metric.name for one in lake_samples(LakeOverview(groups=(seen,), ended_s=0, took_s=0))}
        assert names == {
            "penstock_topic_queues",
            "penstock_group_consumers",
            "penstock_group_owned_queues",
            "rocketmq_consumer_lag_messages",
            "rocketmq_consumer_lag_latency",
        }, "nothing that such a group has not"


async def test_a_reset_counts_as_soon_as_it_is_ordered() -> None:
    async with aio.Lake(MemoryStore()) as lake:
        await with_messages(lake, 10)
        record = await begin(lake)
        await commit(lake, record, {0: 5, 1: 5})
        assert await lake.reset_offsets(GROUP, TOPIC, 1, queues=[0]) == {0: 1}
        assert [one.committed_offset for one in (await lake.describe_group(GROUP)).queues] == [1, 5]


async def test_a_group_that_has_not_begun_on_a_topic_is_reset_in_some_queues() -> None:
    async with aio.Lake(MemoryStore()) as lake:
        await with_messages(lake, 10)
        await lake.coordination.groups.ensure_kafka(GROUP)
        await lake.reset_offsets(GROUP, TOPIC, "latest", queues=[1])
        assert [(one.queue, one.committed_offset) for one in (await lake.describe_group(GROUP)).queues] == [(1, 5)]


async def test_it_is_deleted_when_it_has_no_members() -> None:
    async with aio.Lake(MemoryStore()) as lake:
        await with_messages(lake, 10)
        record = await begin(lake)
        await commit(lake, record, {0: 5})
        await join(lake, record, member("a"))
        with pytest.raises(GroupInUse):
            await lake.delete_group(GROUP)
        await lake.delete_group(GROUP, force=True)
        assert GROUP not in await lake.groups()
        await begin(lake)
        found = await lake.describe_group(GROUP)
        assert (found.members, found.queues) == ((), ())


async def test_native_consumers_and_kafka_clients_are_in_no_group_together() -> None:
    async with aio.Lake(MemoryStore()) as lake:
        await with_messages(lake)
        await begin(lake)
        with pytest.raises(GroupMixed, match=r"one of Kafka's clients.*team/billing"):
            async with lake.simple_consumer(TOPIC, group=GROUP):
                pass
        with pytest.raises(GroupMixed):
            async with lake.pull_consumer(TOPIC, group=GROUP):
                pass
        with pytest.raises(GroupMixed):
            await lake.alter_group(GROUP, max_attempts=3)
        with pytest.raises(GroupMixed):
            await lake.create_group(GROUP)
        await lake.create_group("native")
        with pytest.raises(GroupMixed, match=r"one of Penstock's own consumers.*native"):
            await lake.coordination.groups.ensure_kafka("native")


async def test_an_earlier_version_is_told_that_the_group_is_not_for_it() -> None:
    async with aio.Lake(MemoryStore()) as lake:
        await with_messages(lake)
        assert b'"format":2' in encode_group(await begin(lake))


async def test_records_are_read_by_name() -> None:
    async with aio.Lake(MemoryStore()) as lake:
        groups = lake.coordination.groups
        await groups.ensure_kafka(GROUP)
        await lake.create_group("gone")
        await lake.delete_group("gone")
        found = await groups.read_these([GROUP, "gone", "never-made"])
        assert {name: None if one is None else one.protocol for name, one in found.items()} == {
            GROUP: GroupProtocol.KAFKA,
            "gone": None,
            "never-made": None,
        }
