"""Workers: whether each lives, what it holds, and what changed hands."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from penstock import ConsumeResult, connect
from penstock.coordinator.operators.describe import QueueProgress
from penstock.coordinator.operators.lake_view import GroupOverview, LakeOverview, QueueOverview
from penstock.infra.web.views.workers import HandOverRow, hand_overs, holdings
from tests.infra.web.conftest import Open
from tests.waiting import wait_until


def test_a_process_that_consumes_is_shown_with_what_it_holds(console: Open, folder: Path) -> None:
    browser = console()
    assert "No process consumes" in browser.page("/workers")
    with connect(folder, maintenance=False) as lake:
        consumer = lake.push_consumer("orders", group="billing", listener=lambda message: ConsumeResult.SUCCESS)
        wait_until(lambda: sum(row["queues"] for row in browser.api("/workers")["rows"]) == 2, "the queues held")
        wait_until(lambda: browser.api("/workers")["lives"] == 1, "its heart seen to beat")
        (row,) = browser.api("/workers")["rows"]
        assert (row["state"], row["consumes"], row["held"][0]["topic"]) == ("lives", ["billing: orders"], "orders")
        assert row["held"][0]["takes"] >= 2
        page = browser.page("/workers?filter=BILL")
        assert row["worker"] in page
        assert browser.api("/workers?filter=shipping")["rows"] == []
        consumer.close()
    wait_until(lambda: browser.api("/workers")["rows"] == [], "the process gone")


def seen(*queues: tuple[str, int]) -> LakeOverview:
    """A look at group billing on orders: the owner and epoch of each queue."""
    standing = QueueProgress(
        topic="orders",
        queue=0,
        owner="",
        epoch=0,
        generation=0,
        committed_offset=0,
        next_offset=1,
        lag=1,
        lag_time=timedelta(),
        in_flight=0,
        waiting=0,
        blocked=0,
        parked=0,
        interrupted=0,
        dead_letters=0,
        lost_letters=0,
    )
    found = [QueueOverview(replace(standing, queue=n, owner=owner, epoch=epoch), 0) for n, (owner, epoch) in enumerate(queues)]
    group = GroupOverview(group="billing", topic="orders", consumers=1, owned=1, dead_letters=0, queues=tuple(found))
    return LakeOverview(groups=(group,), ended_s=0.0, took_s=0.0)


def test_what_was_taken_between_two_looks_is_counted() -> None:
    before, now = seen(("a/1", 3), ("a/1", 4)), seen(("a/1", 3), ("b/1", 5))
    assert hand_overs(before, now) == (HandOverRow(group="billing", topic="orders", queues=1),)
    assert hand_overs(now, now) == ()
    assert {worker: [(one.queues, one.takes) for one in held] for worker, held in holdings(now).items()} == {
        "a": [(1, 3)],
        "b": [(1, 5)],
    }
