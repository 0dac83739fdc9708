"""Groups of Kafka's clients in the console: what is true of them is shown, and nothing else."""

from __future__ import annotations

import asyncio
from pathlib import Path

from penstock import aio
from penstock.log.paths import group_folder
from tests.coordinator.classic.stage import GROUP, begin, commit, join
from tests.coordinator.classic.test_members import assignment, member
from tests.infra.web.conftest import Open

PAGE = f"/groups/{group_folder(GROUP)}"


async def work(folder: Path) -> None:
    """A member of the group commits on both queues of the topic."""
    async with aio.connect(folder, maintenance=False) as lake:
        record = await begin(lake)
        await commit(lake, record, {0: 3, 1: 1})
        await join(lake, record, member("app-1", assignment(orders=[0, 1]), principal="shop"))


def test_members_and_committed_offsets_are_shown_and_no_settings(console: Open, folder: Path) -> None:
    asyncio.run(work(folder))
    browser = console()
    page = browser.page(PAGE)
    for said in ("kafka, consumer", "Stable", "app-1", "10.0.0.1", "orders 0, 1"):
        assert said in page
    for other in ("Parked message groups", "Waiting for another try", "deliveries", "in flight"):
        assert other not in page
    found = browser.api(PAGE)["standing"]["value"]
    assert (found["protocol"], found["settings"], found["lag"], found["kafka"]["state"]) == ("kafka", None, 1, "Stable")
    assert "Parked message groups" in browser.page("/groups/billing")


def test_it_is_in_the_lists_and_a_message_stands_behind_its_offset(console: Open, folder: Path) -> None:
    asyncio.run(work(folder))
    browser = console()
    assert "team/billing" in browser.page("/groups")
    (message,) = [
        one for one in browser.api("/topics/orders/messages")["found"]["value"]["rows"] if (one["queue"], one["offset"]) == (0, 3)
    ]
    places = browser.api(f"/trace/{message['message_id']}")["life"]["value"]["places"]
    fates = {one["group"]: one["fate"] for one in places[0]["groups"]}
    assert fates[GROUP] == "uncommitted"
