"""The same seed gives the same run: in this process, and in others that hash strings differently."""

from __future__ import annotations

import asyncio

import pytest

from tests.simulation.faults import RandomFaults
from tests.simulation.interpreters import printed
from tests.simulation.kernel import Kernel
from tests.simulation.toy import play
from tests.thorough import thoroughly

pytestmark = pytest.mark.simulation


def order_of_a_set() -> str:
    """Protocol code may go through the set that `asyncio.wait` returns: its order, too, must follow from the seed."""

    async def main() -> str:
        async def number(value: int) -> int:
            return value

        done, _ = await asyncio.wait([asyncio.ensure_future(number(value)) for value in range(50)])
        return str([task.result() for task in done])

    return Kernel(1).run(main())


def digests(seeds: range) -> list[str]:
    return [order_of_a_set(), *(play(seed, RandomFaults.swarm(Kernel(seed).rng, rate=0.2)).kernel.digest() for seed in seeds)]


SEEDS = thoroughly(20, 6)


def test_same_seed_same_trace_other_seed_other_trace() -> None:
    first = digests(range(SEEDS))
    assert digests(range(SEEDS)) == first
    assert len(set(first)) == SEEDS + 1


def test_the_trace_is_the_same_in_another_interpreter() -> None:
    code = f"from tests.simulation.test_determinism import digests; print(*digests(range({SEEDS})), sep='\\n')"
    elsewhere = [printed(code, hash_seed=hash_seed).split("\n")[:-1] for hash_seed in (1, 2)]
    assert elsewhere == [digests(range(SEEDS))] * 2


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("world", "scenario", "seed"),
    [
        ("log", "jobs", 1),
        ("leases", "skirmish", 1),
        ("consumers", "neighbours", 35),
        ("receiving", "receives", 1),
        ("repeating", "repeats", 1),
        ("letters", "plain", 1),
        ("gateways", "calm", 1),
        ("timers", "recalls", 1),
        ("transactions", "orders", 0),
    ],
)
def test_a_world_is_the_same_run_in_another_interpreter(world: str, scenario: str, seed: int) -> None:
    code = f"from tests.simulation.sweeping import campaign_of; print(campaign_of({world!r}).play({scenario!r}, {seed}).digest)"
    assert len({printed(code, hash_seed=hash_seed) for hash_seed in (0, 1)}) == 1
