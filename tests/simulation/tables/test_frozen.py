"""A machine that was frozen with its clock, as a virtual one can be, while its lake moved: it believes in its lease as it thaws."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.simulation.tables.world import LEASE_S, Tables

pytestmark = [pytest.mark.simulation, pytest.mark.timeout(120)]

FROZEN_S = 90.0


def test_a_worker_that_thaws_after_a_move_hears_at_its_next_heartbeat_that_it_is_over() -> None:
    world = Tables(1, rate=0.0, moves=False)

    async def script() -> None:
        process, operator = world.new_process("worker-0"), world.new_process("operator")
        coordination = world._coordination(process, "first")
        member = await process.run(coordination.worker.join("billing", ("orders",)))
        await world.kernel.let_pass(timedelta(seconds=LEASE_S))
        assert member.may_start()
        process.pause(FROZEN_S)
        process.clock.boot_s -= FROZEN_S * process.clock.rate
        thaws_s = world.now_s + FROZEN_S
        await operator.run(world._move(operator, "first", "second"))
        assert world.now_s < thaws_s, "the move is over before it thaws"
        await world.kernel.let_pass(timedelta(seconds=thaws_s - world.now_s + LEASE_S))
        assert member.ended.is_set()
        assert not member.may_start()

    world.kernel.run(script())
