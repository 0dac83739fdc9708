"""Maintenance as the console tells it, and the check of a topic as a job."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from penstock import connect
from penstock.coordinator import coordination
from penstock.infra.web.lakes.jobs import KEPT, BackgroundJobs
from penstock.infra.web.views import check
from penstock.log.errors import BackPressureError
from penstock.log.paths import TopicPaths
from penstock.log.runtime.runtime import Runtime
from tests.infra.web.conftest import Browser, Open
from tests.runner import cli_runner
from tests.waiting import wait_until


def maintain(folder: Path) -> None:
    from penstock.infra.cli import main

    assert cli_runner().invoke(main, ["maintain", "--once", "--lake", str(folder)]).exit_code == 0


def checked(browser: Browser, topic: str = "orders") -> dict[str, Any]:
    """The outcome of a check that is begun now."""
    browser.submit(f"/topics/{topic}/check", status=303)
    wait_until(lambda: browser.api(f"/topics/{topic}/check")["checked"]["state"] != "runs", "the check")
    found: dict[str, Any] = browser.api(f"/topics/{topic}/check")["checked"]
    return found


def test_topics_tell_what_is_not_published_and_when_the_table_was_written(console: Open, folder: Path) -> None:
    browser = console()
    rows = {row["topic"]: row["kept"]["value"] for row in browser.api("/upkeep")["topics"]}
    assert (rows["orders"]["unpublished"], rows["orders"]["stands_still"]) == (5, False)
    maintain(folder)
    rows = {row["topic"]: row["kept"]["value"] for row in console().api("/upkeep?filter=ord")["topics"]}
    assert rows.keys() == {"orders"}
    assert (rows["orders"]["unpublished"], rows["orders"]["table_files"]) == (0, 2)
    assert rows["orders"]["last_commit"] is not None


@pytest.mark.thorough
def test_who_plays_the_roles_is_told(console: Open, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordination, "LEASE_S", 1.5)
    browser = console()
    roles = {one["role"]: one for one in browser.api("/upkeep")["roles"]["value"]}
    assert {name: one["live"] for name, one in roles.items()} == {"maintenance": 0, "timers": 0, "transactions": 0}
    # Nothing is delayed or sent in transactions here, so nobody has to offer these roles.
    assert [name for name, one in roles.items() if one["is_missing"]] == ["maintenance"]
    with connect(folder) as lake:
        lake.topics()

        def live() -> bool:
            found = {one["role"]: one["live"] for one in browser.api("/upkeep")["roles"]["value"]}
            return found["maintenance"] == 1

        with lake.producer("orders"):
            wait_until(live, "the role's player seen to live")
        (row,) = browser.api("/upkeep?filter=orders")["topics"]
        assert row["kept"]["value"]["player_state"] in ("lives", "silent", None)


def test_a_check_is_a_job_whose_outcome_everybody_sees(console: Open, folder: Path) -> None:
    maintain(folder)
    browser = console()
    before = browser.api("/topics/orders/check")
    assert (before["checked"], before["bounds"]["value"]["is_small"]) == (None, True)
    found = checked(browser)
    assert (found["state"], found["findings_total"]) == ("all is well", 0)
    assert found["report"]["table_rows"] == 5
    assert "all is well" in browser.page("/topics/orders/check")
    browser.page("/topics/none/check", status=404)
    browser.page("/topics/orders/check?run=now", status=400)


def test_damage_is_found_and_named(console: Open, folder: Path) -> None:
    entry = sorted((folder / TopicPaths.of("orders").log).iterdir())[1]
    entry.write_bytes(b"\xff" + entry.read_bytes()[1:])
    found = checked(console())
    assert found["state"] == "DAMAGED"
    assert found["report"]["findings"][0]["kind"] in ("damaged", "foreign")
    assert found["report"]["findings"][0]["object"].endswith(entry.name)


def test_a_large_topic_is_left_to_the_command_line(console: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "OBJECTS_MAX", 1)
    browser = console()
    assert not browser.api("/topics/orders/check")["bounds"]["value"]["is_small"]
    token = browser.client.get("/api/session").json()["form_token"]
    answer = browser.client.post("/l/lake/topics/orders/check", data={"form_token": token})
    assert "too large" in answer.text
    assert "too large" in browser.page("/topics/orders/check")


async def test_one_job_runs_at_a_time_and_the_oldest_outcomes_go() -> None:
    jobs, may_end = BackgroundJobs(Runtime().clock), asyncio.Event()

    async def wait() -> str:
        await may_end.wait()
        return "done"

    async def fail() -> str:
        raise ValueError("no")

    job = jobs.start("a", wait)
    assert jobs.start("a", wait) is job
    with pytest.raises(BackPressureError):
        jobs.start("b", wait)
    may_end.set()
    assert await job.task == "done"
    for number in range(KEPT):
        await asyncio.wait([jobs.start(f"more-{number}", fail).task])
    assert jobs.get("a") is None
    may_end.clear()
    last = jobs.start("b", wait)
    await jobs.close()
    assert last.task.cancelled()
