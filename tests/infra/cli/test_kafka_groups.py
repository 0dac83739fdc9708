"""Groups of Kafka's clients on the command line: what is true of them is shown, and nothing else."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from penstock import aio
from tests.coordinator.classic.stage import GROUP, begin, commit, join, with_messages
from tests.coordinator.classic.test_members import assignment, member
from tests.infra.cli.conftest import Penstock


@pytest.fixture
def shop(lake: Path) -> Path:
    """A topic of two queues with five messages each, of which a group has committed three and five."""

    async def fill() -> None:
        async with aio.connect(lake) as opened:
            await with_messages(opened, 10)
            record = await begin(opened)
            await commit(opened, record, {0: 3, 1: 5})
            await join(opened, record, member("app-1", assignment(orders=[0, 1]), principal="shop"))
            await opened.create_group("shipping", delivery_order="CONCURRENT")

    asyncio.run(fill())
    return lake


@pytest.mark.usefixtures("shop")
def test_describe_shows_members_and_committed_offsets_and_no_settings(penstock: Penstock) -> None:
    told = penstock("group", "describe", GROUP).out
    for said in ("kafka, consumer", "Stable", "app-1", "10.0.0.1", "shop", "orders 0, 1"):
        assert said in told
    for other in ("attempts", "order ", "parked", "in flight", "dead letters"):
        assert other not in told
    (found,) = penstock("group", "describe", GROUP, "--json").rows
    assert (found["protocol"], found["settings"], found["lag"]) == ("kafka", None, 2)
    assert found["kafka"]["members"] == [
        {
            "member_id": "app-1",
            "instance_id": None,
            "client_id": "app",
            "host": "10.0.0.1",
            "principal": "shop",
            "queues": {"orders": [0, 1]},
        }
    ]
    assert penstock("group", "describe", "shipping", "--json").rows[0]["kafka"] is None


@pytest.mark.usefixtures("shop")
def test_the_list_says_which_protocol_and_no_settings_of_kafkas(penstock: Penstock) -> None:
    kafka, native = sorted(penstock("group", "list", "--json").rows, key=lambda row: str(row["protocol"]))
    assert (kafka["group"], kafka["protocol"], kafka["delivery_order"], kafka["max_attempts"]) == (GROUP, "kafka", None, None)
    assert (native["group"], native["protocol"], native["delivery_order"]) == ("shipping", "penstock", "CONCURRENT")
    assert "kafka" in penstock("group", "list").out


@pytest.mark.usefixtures("shop")
def test_lag_and_reset_work_as_on_any_group(penstock: Penstock) -> None:
    lags = {row["group"]: row["lag"] for row in penstock("group", "lag", "--json").rows}
    assert lags == {GROUP: 2}
    assert penstock("group", "reset", GROUP, "orders", "--to", "earliest", "--yes", "--json").rows[0]["offsets"] == {"0": 0, "1": 0}
    assert penstock("group", "describe", GROUP, "--json").rows[0]["lag"] == 10
