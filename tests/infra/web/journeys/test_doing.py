"""What operators do with forms in a real browser: messages sent by hand, settings, letters that are mended, rights, and the trail of it all."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

import penstock
from penstock.coordinator.cells.keys import GATEWAYS
from penstock.gateway.peers.clients import AlikeClients, alike
from penstock.gateway.peers.entries import GatewayEntry, encode_gateways
from penstock.log.runtime.portal import Portal
from tests.infra.web.journeys.chromium import PHONE, Window
from tests.infra.web.journeys.conftest import Open

pytestmark = [pytest.mark.slow, pytest.mark.chromium]

HOSTILE = "<img src=x onerror=alert(1)></textarea><script>alert(2)</script>"
PREVIEW = "Show what it would do"


def bodies(lake: Path, topic: str) -> list[bytes | None]:
    with penstock.connect(lake, read_only=True) as opened:
        return [one.body for one in opened.reader(topic).messages()]


def fill(page: Page, **texts: str) -> None:
    """Type into fields, by their names."""
    for name, text in texts.items():
        page.locator(f"[name={name}]").fill(text)


def test_a_message_is_sent_by_hand_once_by_a_double_click(window: Open, lake: Path) -> None:
    before = len(bodies(lake, "clicks"))
    seen = window(lake)
    page = seen.page
    seen.go("/topics/clicks")
    page.get_by_role("link", name="Send a message").click()
    fill(page, body="line one\nline two", keys="k1\nk2", properties="no property")
    page.get_by_role("button", name=PREVIEW).click()
    expect(page.get_by_role("alert")).to_contain_text("a line is no property")
    seen.faults.clear()  # a browser tells of the status 400 in its console
    expect(page.get_by_label("Keys")).to_have_value("k1\nk2")
    fill(page, body=f"\n{HOSTILE}\nend", properties="n=1")
    seen.shot("send-form")
    page.get_by_role("button", name=PREVIEW).click()
    expect(page.locator(".summary")).to_contain_text("is sent to clicks")
    page.get_by_role("button", name="Change it").click()
    expect(page.get_by_label("Body")).to_have_value(f"\n{HOSTILE}\nend")
    page.get_by_role("button", name=PREVIEW).click()
    assert page.locator("main img, main script").count() == 0
    seen.shot("send-preview")
    page.get_by_role("button", name="Send a message").dblclick()
    expect(
        page.get_by_role("status").or_(page.get_by_role("alert")).first
    ).to_be_visible()  # sent, or changed since the first click
    seen.faults.clear()  # of the second click, if it came through
    seen.go("/audit")
    row = page.get_by_role("row").filter(has_text="clicks").first
    expect(row).to_contain_text("Sent ")
    expect(row).to_contain_text("SHA-256")
    seen.shot("audit")
    assert bodies(lake, "clicks")[before:] == [f"\n{HOSTILE}\nend".encode()]


@pytest.mark.thorough
def test_a_message_is_sent_from_a_phone_without_a_script(window: Open, lake: Path) -> None:
    seen = window(lake, of_browser={"java_script_enabled": False, "viewport": PHONE})
    page = seen.page
    seen.go("/topics/clicks")
    page.get_by_role("link", name="Send a message").click()
    fill(page, body="a\nb")
    page.get_by_role("button", name=PREVIEW).click()
    page.get_by_role("button", name="Send a message").click()
    expect(page.get_by_role("status").first).to_contain_text("Sent ")
    assert bodies(lake, "clicks")[-1] == b"a\nb"


@pytest.mark.thorough
def test_topics_and_groups_are_made_and_altered(window: Open, lake: Path) -> None:
    seen = window(lake)
    page = seen.page
    seen.go("/topics")
    page.get_by_role("link", name="Create a topic").click()
    fill(page, topic="refunds")
    page.get_by_label("Type", exact=True).select_option("FIFO")
    fill(page, queues="4", retention="2d")
    page.get_by_role("button", name=PREVIEW).click()
    expect(page.locator(".summary")).to_contain_text("Topic refunds is made: FIFO, 4 queues")
    page.get_by_role("button", name="Create a topic").click()
    expect(page.get_by_role("status").first).to_contain_text("Topic refunds is made")
    seen.go("/topics/refunds")
    page.get_by_role("link", name="Alter").click()
    fill(page, retention="1h")
    page.get_by_role("button", name=PREVIEW).click()
    expect(page.locator(".summary")).to_contain_text("dropped for good")
    seen.shot("alter-preview")
    page.get_by_label("Type refunds to confirm").fill("refunds")
    page.get_by_role("button", name="Alter the topic").click()
    expect(page.get_by_role("status").first).to_contain_text("Topic refunds is changed")
    seen.go("/groups")
    page.get_by_role("link", name="Create a consumer group").click()
    fill(page, group="refunders")
    fill(page, max_attempts="3")
    page.get_by_role("button", name=PREVIEW).click()
    page.get_by_role("button", name="Create a consumer group").click()
    expect(page.get_by_role("status").first).to_contain_text("Consumer group refunders is made, ORDERLY")
    seen.go("/groups/warehouse")
    page.get_by_role("link", name="Alter").click()
    fill(page, max_attempts="9")
    page.get_by_role("button", name=PREVIEW).click()
    page.get_by_role("button", name="Alter the consumer group").click()
    expect(page.get_by_role("status").first).to_contain_text("is changed: max_attempts")
    with penstock.connect(lake, read_only=True) as opened:
        assert opened.topics()["refunds"].settings.retention.total_seconds() == 3600  # type: ignore[union-attr]
        assert (opened.groups()["refunders"].max_attempts, opened.groups()["warehouse"].max_attempts) == (3, 9)


@pytest.mark.thorough
def test_a_letter_is_mended_and_another_goes_to_its_group_alone(window: Open, lake: Path) -> None:
    seen = window(lake)
    page = seen.page
    seen.go("/dead-letters/mailer")
    page.get_by_role("checkbox").nth(0).check()
    page.get_by_label("to mailer alone").check()
    page.get_by_role("button", name="Send the chosen back").click()
    expect(page.locator(".summary")).to_contain_text("Group mailer alone gets them")
    seen.shot("one-group-preview")
    with seen.leaving():
        page.get_by_role("button", name="Send dead letters back").click()
    seen.go("/dead-letters/mailer/letter?offset=0")
    page.get_by_role("link", name="Edit and send back").click()
    fill(page, body='{"to": "ann@example.com"}', tag="")
    seen.shot("edit-form")
    page.get_by_role("button", name=PREVIEW).click()
    expect(page.get_by_role("cell", name="ann@example.com")).to_be_visible()
    page.get_by_role("button", name="Edit the dead letter and send it back").click()
    expect(page.get_by_role("status").first).to_contain_text("from the dead letter at offset 0")
    page.get_by_role("link", name="Back to").click()
    expect(page.locator("main")).to_contain_text("sent")
    with penstock.connect(lake, read_only=True) as opened:
        back = [one for one in opened.reader("mails").messages() if "REDRIVE_OFFSET" in one.properties]
    mended = next(one for one in back if "REDRIVE_EDITED_BY" in one.properties)
    assert (mended.body, mended.tag, mended.properties["REDRIVE_EDITED_BY"]) == (b'{"to": "ann@example.com"}', None, "local")
    assert [one.properties.get("REDRIVE_GROUP") for one in back if one is not mended] == ["mailer"]


@pytest.mark.thorough
def test_rights_are_granted_and_revoked(window: Open, lake: Path) -> None:
    seen = window(lake)
    page = seen.page
    seen.go("/access")
    row = page.get_by_role("row").filter(has=page.get_by_role("rowheader", name="role:clerks"))
    row.get_by_role("link", name="Grant").click()
    fill(page, receive="mails*\nstock")
    page.get_by_role("button", name=PREVIEW).click()
    expect(page.locator(".summary")).to_contain_text("2 rights come")
    seen.shot("grant-preview")
    page.get_by_label("Type role:clerks to confirm").fill("role:clerks")
    page.get_by_role("button", name="Grant rights").click()
    expect(page.get_by_role("status").first).to_contain_text("receive topic mails*")
    page.get_by_role("link", name="Back to").click()
    expect(row).to_contain_text("mails*")
    row.get_by_role("link", name="Revoke").click()
    fill(page, send="orders")
    page.get_by_role("button", name=PREVIEW).click()
    page.get_by_label("Type role:clerks to confirm").fill("role:clerks")
    page.get_by_role("button", name="Revoke rights").click()
    page.get_by_role("link", name="Back to").click()
    expect(row).not_to_contain_text("orders")
    seen.shot("rights")


@pytest.mark.thorough
def test_gateways_and_their_clients_are_listed(window: Open, lake: Path) -> None:
    clients = alike(
        [AlikeClients(kind="PUSH_CONSUMER", language=HOSTILE, version="5.0.7", group="warehouse", topics=("orders",))] * 3
    )

    async def tell() -> None:
        async with penstock.aio.connect(lake) as opened:
            data = encode_gateways({"a": GatewayEntry("10.0.0.1", 8081, 7, clients=4, alike=clients)})
            await opened.coordination.cells.write(GATEWAYS, data, on=None, deadline_s=9e18)

    portal = Portal()  # the browser has the event loop of this thread
    portal.run(tell)
    portal.stop()
    seen: Window = window(lake)
    seen.go("/gateways")
    row = seen.page.get_by_role("row").filter(has=seen.page.get_by_role("rowheader", name="PUSH CONSUMER"))
    expect(row).to_contain_text("warehouse")
    expect(row).to_contain_text("<img src=x")
    expect(seen.page.locator("main")).to_contain_text("There is no room for 1 more")
    seen.shot("gateways")
