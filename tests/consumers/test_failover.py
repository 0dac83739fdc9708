"""The table loses its last commits under members that go on: what they did since is found out, and done again."""

from __future__ import annotations

from penstock.coordinator.cells.keys import QUEUES, WORKERS
from penstock.coordinator.groups.record import GroupSettings
from tests.consumers.receiving import Scene, bodies, push

LEASE_S = 5.0


def test_a_group_whose_beginning_was_lost_begins_again() -> None:
    """A member of long ago does so: nobody starts anew."""
    scene, heard_bodies = Scene(), list[str]()

    async def script() -> None:
        operator, member = scene.member("operator"), scene.member()
        await operator.run(operator.coordination.groups.create("audit", GroupSettings()))
        before = dict(scene.table.memory._cells)
        consumer, heard = await push(member)
        await operator.send("a1")
        await scene.let_pass(1.0)
        assert bodies([message for _, message in heard]) == ["a1"]
        scene.table.memory._cells = before
        await operator.send("a2")
        await scene.let_pass(10 * LEASE_S)
        heard_bodies.extend(bodies([message for _, message in heard]))
        assert await scene.is_settled(2)
        await member.run(consumer.close())

    scene.play(script)
    assert heard_bodies[-1] == "a2"
    assert set(heard_bodies) == {"a1", "a2"}


def test_an_owner_that_has_nothing_to_do_finds_out_that_its_cell_went_back() -> None:
    """Its heartbeat did not."""
    scene = Scene()

    async def script() -> None:
        operator, member = scene.member("operator"), scene.member()
        consumer, heard = await push(member)
        await operator.send("a1")
        await scene.let_pass(LEASE_S)
        assert await scene.is_settled(1)
        before = dict(scene.table.memory._cells)
        await operator.send("a2")
        await scene.let_pass(1.0)
        assert await scene.is_settled(2)
        heartbeats = {key: cell for key, cell in scene.table.memory._cells.items() if key.startswith(WORKERS)}
        scene.table.memory._cells = before | heartbeats
        await scene.let_pass(2 * LEASE_S)
        assert await scene.is_settled(2)
        assert bodies([message for _, message in heard]) == ["a1", "a2", "a2"]
        await member.run(consumer.close())

    scene.play(script)


def test_a_queue_whose_release_was_lost_is_its_former_owner_s_again() -> None:
    """The cell names it, so nobody else may take the queue."""
    scene = Scene(queues=2)

    async def script() -> None:
        operator, first, second = scene.member("operator"), scene.member("first"), scene.member("second")
        one, heard_by_one = await push(first)
        await scene.let_pass(LEASE_S)
        before = {key: cell for key, cell in scene.table.memory._cells.items() if key.startswith(QUEUES)}
        two, heard_by_two = await push(second)
        while len({cell.owner for cell in (await scene.cells()).values()}) < 2:
            await scene.let_pass(0.05)
        scene.table.memory._cells |= before
        await scene.let_pass(5 * LEASE_S)
        for queue in range(2):
            await operator.send(f"a{queue}", queue=queue)
        await scene.let_pass(LEASE_S)
        assert sorted(bodies([message for _, message in heard_by_one + heard_by_two])) == ["a0", "a1"]
        for member, consumer in ((first, one), (second, two)):
            await member.run(consumer.close())

    scene.play(script)
