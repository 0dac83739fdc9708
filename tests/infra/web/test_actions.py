"""Actions: what they show first, that they do it once, and what the audit topic then says."""

from __future__ import annotations

import asyncio
import html
import json
from dataclasses import replace
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlencode

import pytest

from penstock import aio, connect
from penstock.infra.web.actions.action import ActionPreview, ActionResult
from penstock.infra.web.actions.action_runner import BROKEN_OFF, ActionRunner, Actor
from penstock.infra.web.actions.registry import ACTIONS
from penstock.infra.web.views.page import PageContext
from penstock.log.paths import AUDIT_TOPIC
from tests.infra.web.conftest import Open
from tests.infra.web.shop import HOSTILE, still_parked

ONE = f"/actions/release?{urlencode({'group': 'billing', 'topic': 'orders', 'queue': 0, 'message_group': HOSTILE})}"
ALL = "/actions/skip?group=billing"
RESET = "/actions/reset?group=billing&topic=orders&to=latest"


def audited(folder: Path) -> list[dict[str, Any]]:
    """The lines of the audit topic."""

    async def run() -> list[dict[str, Any]]:
        async with aio.connect(folder, read_only=True) as lake:
            reader = await lake.reader(AUDIT_TOPIC)
            return [json.loads(message.body or b"") async for message in reader.messages()]

    return asyncio.run(run())


def test_one_parked_message_group_is_released(console: Open, stuck: Path) -> None:
    browser = console()
    page = html.unescape(browser.page(ONE))
    assert "1 message group of billing will be tried again" in page
    assert HOSTILE in page
    assert "penstock group release billing --topic orders --queue 0 --message-group" in page
    assert "1 message group released" in browser.submit(ONE)
    assert still_parked(stuck) == ["cid"]
    assert [one["message_group"] for one in browser.api("/groups/billing")["parked"]["value"]["rows"]] == ["cid"]


def test_who_did_what_when_and_how_it_ended_is_in_the_lake(console: Open, stuck: Path) -> None:
    console().submit(ONE)
    began, ended = audited(stuck)
    assert (began["state"], ended["state"], began["id"]) == ("began", "done", ended["id"])
    assert (began["who"], began["role"], began["address"], began["action"]) == ("local", "operator", "127.0.0.1", "release")
    assert began["arguments"] == {"group": "billing", "topic": "orders", "queue": "0", "message_group": HOSTILE}
    assert ended["outcome"].startswith("1 message group released")
    assert began["at"] <= ended["at"]


@pytest.mark.parametrize("path", ["/l/lake", "/api/l/lake"])
def test_a_preview_that_takes_too_long_ends_and_says_what_to_do(
    console: Open, stuck: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    async def for_ever(context: PageContext, chosen: object) -> ActionPreview:
        await asyncio.Event().wait()
        raise AssertionError

    browser = console()
    slow = replace(browser.site.runner.actions["release"], preview=for_ever)
    monkeypatch.setitem(browser.site.runner.actions, "release", slow)
    monkeypatch.setattr("penstock.infra.web.actions.action_runner.PREVIEW_S", 0.05)
    answers = [browser.client.get(f"{path}{ONE}")]
    token = browser.client.get("/api/session").json()["form_token"]
    answers.append(browser.client.post(f"{path}{ONE}", data={"form_token": token, "stamp": "0"}))
    for answer in answers:
        assert answer.status_code == 503
        said = html.unescape(answer.text)
        assert "the preview did not come in time" in said
        assert "penstock group release billing --topic orders --queue 0" in said
    assert len(still_parked(stuck)) == 2
    with connect(stuck, read_only=True) as lake:
        assert AUDIT_TOPIC not in lake.topics()


def test_who_acted_is_led_to_the_log_of_actions(console: Open, stuck: Path) -> None:
    browser = console()
    page = browser.submit("/actions/release?group=billing")
    assert '<a href="/l/lake/audit">Who did what</a>' in page
    assert "2 message groups released" in browser.page("/audit")


def test_numbers_of_a_preview_stand_below_their_names(console: Open, stuck: Path) -> None:
    page = console().page("/actions/release?group=billing")
    assert '<th scope="col" class="number">queue</th>' in page
    assert '<th scope="col">message group</th>' in page


def test_skipping_asks_for_the_name_of_the_group(console: Open, stuck: Path) -> None:
    browser = console()
    assert "was not typed" in browser.submit(ALL, status=400)
    assert "was not typed" in browser.submit(ALL, status=400, typed="Billing")
    assert len(still_parked(stuck)) == 2
    assert "2 message groups skipped" in browser.submit(ALL, typed="billing")
    assert not still_parked(stuck)


def test_of_two_operators_the_second_is_shown_what_changed(console: Open, stuck: Path) -> None:
    first, second = console(), console()
    seen = second.form(ALL)
    first.submit(ONE)
    answer = second.client.post(f"/l/lake{ALL}", data={**seen, "typed": "billing"})
    assert answer.status_code == 409
    assert "has changed since it was shown" in answer.text
    assert "1 message group of billing" in answer.text
    assert still_parked(stuck) == ["cid"]


def test_an_action_is_not_done_twice(console: Open, stuck: Path) -> None:
    browser = console()
    seen = browser.form(ONE)
    assert browser.client.post(f"/l/lake{ONE}", data=seen).status_code == 200
    assert browser.client.post(f"/l/lake{ONE}", data=seen).status_code == 409
    assert len(audited(stuck)) == 2


def test_a_reset_shows_what_is_left_out_and_what_runs_again(console: Open, folder: Path) -> None:
    browser = console()
    shown = browser.api(RESET)
    assert shown["counts"] == [{"name": "messages again", "value": 0}, {"name": "messages left out", "value": 5}]
    queues, left_out = shown["samples"]
    assert queues["rows"] == [[0, 0, 4, 0, 4], [1, 0, 1, 0, 1]]
    assert [row[3] for row in left_out["rows"]] == ["ann", HOSTILE, "ann", HOSTILE, "cid"]
    browser.submit(RESET, typed="billing")
    back = RESET.replace("latest", "earliest")
    shown = browser.api(back)
    assert shown["counts"][0] == {"name": "messages again", "value": 5}
    assert shown["samples"][1]["title"] == "The first messages that run again"
    browser.submit(back, typed="billing")
    assert browser.api("/groups/billing")["standing"]["value"]["lag"] == 5


def test_programs_act_by_the_same_two_steps(console: Open, stuck: Path) -> None:
    browser = console()
    token = browser.client.get("/api/session").json()["form_token"]
    stamp = browser.api(ALL)["stamp"]
    confirmed = {"stamp": stamp, "typed": "billing"}
    assert browser.client.post(f"/api/l/lake{ALL}", json=confirmed).status_code == 403
    answer = browser.client.post(f"/api/l/lake{ALL}", json=confirmed, headers={"x-form-token": token})
    assert (answer.status_code, answer.json()["counts"]) == (200, [{"name": "message groups", "value": 2}])
    answer = browser.client.post(f"/api/l/lake{ALL}", json=confirmed, headers={"x-form-token": token})
    assert (answer.status_code, answer.json()["error"]) == (409, "changed_since_preview")


def test_large_or_strange_forms_are_refused(console: Open) -> None:
    browser = console()
    path = f"/api/l/lake{ALL}"
    assert browser.client.post(path, content=b"x" * 100_000, headers={"content-type": "application/json"}).status_code == 400
    assert browser.client.post(path, content=b"[1]", headers={"content-type": "application/json"}).status_code == 400
    assert browser.client.post(path, content=b"stamp=1", headers={"content-type": "text/plain"}).status_code == 400
    assert (
        browser.client.post(path, content=b"\xff", headers={"content-type": "application/x-www-form-urlencoded"}).status_code == 400
    )


def test_a_stamp_is_good_for_one_action_with_its_arguments(console: Open, stuck: Path) -> None:
    """A program could otherwise confirm by what it was shown of something else."""
    browser = console()
    assert len({browser.api(path)["stamp"] for path in (ALL, ALL.replace("skip", "release"), f"{ALL}&topic=orders")}) == 3
    elsewhere = browser.form(f"{RESET}&queue=0")
    answer = browser.client.post(f"/l/lake{RESET}", data={**elsewhere, "typed": "billing"})
    assert answer.status_code == 409
    assert "meant" not in browser.api(ALL)


@pytest.mark.parametrize("order", ["skip", "release"])
def test_what_is_parked_after_the_preview_stays_parked(console: Open, stuck: Path, order: str) -> None:
    """An action touches what was confirmed, however much comes in between the last look and the doing."""
    context = PageContext(console().site.lakes["lake"])
    shown = asyncio.run(_previewed(context, order))
    assert shown is not None
    assert still_parked(stuck) == ["cid"]


async def _previewed(context: PageContext, order: str) -> ActionResult:
    action = ACTIONS[order]
    arguments = action.parse_arguments({"group": "billing"})
    preview = await action.preview(context, arguments)
    meant = frozenset(place for place in cast("frozenset[tuple[str, int, int]]", preview.meant) if place[1] == 0)
    try:
        return await action.do(context, arguments, replace(preview, meant=meant))
    finally:
        await context.source.close()


def test_who_has_a_name_that_is_no_text_is_audited_too(console: Open, stuck: Path) -> None:
    """A program of the Model Context Protocol names itself, by any JSON string."""

    async def run(context: PageContext) -> None:
        action, runner = ACTIONS["release"], ActionRunner(read_only=False)
        arguments = action.parse_arguments({"group": "billing"})
        stamp = (await runner.preview(action, context, arguments)).stamp
        actor = Actor(name="mcp: \ud800\n", role="operator", address="")
        try:
            await runner.run(action, context, arguments, actor, stamp=stamp, typed=None)
        finally:
            await context.source.close()

    asyncio.run(run(PageContext(console().site.lakes["lake"])))
    assert [(one["state"], one["who"]) for one in audited(stuck)] == [("began", "mcp: \ud800\n"), ("done", "mcp: \ud800\n")]


def test_an_action_that_is_broken_off_says_so(console: Open, stuck: Path) -> None:
    async def stuck_for_ever(*_: object) -> ActionResult:
        await asyncio.Event().wait()
        raise AssertionError

    async def run(context: PageContext) -> None:
        action = replace(ACTIONS["release"], do=stuck_for_ever)
        arguments, runner = action.parse_arguments({"group": "billing"}), ActionRunner(read_only=False)
        stamp = (await runner.preview(action, context, arguments)).stamp
        actor = Actor(name="ann", role="operator", address="")
        try:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(1.0):
                    await runner.run(action, context, arguments, actor, stamp=stamp, typed=None)
        finally:
            await context.source.close()

    asyncio.run(run(PageContext(console().site.lakes["lake"])))
    assert [(one["state"], one["outcome"]) for one in audited(stuck)][1:] == [("failed", BROKEN_OFF)]


@pytest.mark.parametrize("content", [b"[" * 60_000, b'{"form_token": "\\ud800"}', b'{"stamp": "\\ud800"}', b"9" * 60_000])
def test_json_that_is_made_to_break_the_reader_is_refused(console: Open, content: bytes) -> None:
    answer = console().client.post(f"/api/l/lake{ALL}", content=content, headers={"content-type": "application/json"})
    assert answer.status_code in (400, 403)


def test_every_action_says_what_it_is() -> None:
    for name, action in ACTIONS.items():
        assert action.name == name
        assert action.about.endswith(".")
