"""What operators do in the console, from the first look to the outcome in the lake, in a real browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import expect

import penstock
from penstock import ConsumeResult, Message, MessageView
from penstock.infra.web.server.options import ConsoleRole
from penstock.infra.web.server.passwords import SALT_BYTES, line_of
from tests.infra.web.journeys.chromium import PHONE, Window
from tests.infra.web.journeys.conftest import Open
from tests.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.chromium]


class Worker:
    """A worker that is mended: it takes everything, and notes what it took."""

    def __init__(self) -> None:
        self.bodies: list[tuple[str | None, bytes]] = []

    def listen(self, message: MessageView) -> ConsumeResult:
        """Take a message."""
        self.bodies.append((message.message_group, message.body))
        return ConsumeResult.SUCCESS

    def took(self, group: str) -> int:
        """The number of messages of a message group that it took."""
        return sum(one == group for one, _ in self.bodies)


@contextmanager
def at_work(folder: Path, topic: str, group: str) -> Iterator[Worker]:
    """The mended worker in a group."""
    worker = Worker()
    with penstock.connect(folder) as lake, lake.push_consumer(topic, group=group, listener=worker.listen):
        yield worker


def letters(lake: penstock.Lake, group: str) -> list[str | None]:
    """The message groups of the dead letters of a consumer group."""
    try:
        return [one.message_group for one in lake.reader(f"%DLQ%{group}").messages()]
    except penstock.TopicNotFound:  # none yet
        return []


def test_from_a_poison_message_to_released(window: Open, lake: Path) -> None:
    seen = window(lake)
    page = seen.page
    seen.go("/")
    parked = page.get_by_role("listitem").filter(has_text="message groups are parked")
    expect(parked).to_contain_text("3 message groups are parked until you release or skip")
    parked.get_by_role("link", name="warehouse").click()
    basket = page.get_by_role("row").filter(has=page.get_by_role("rowheader", name="basket-31"))
    expect(basket).to_have_count(1)
    seen.shot("parked")
    basket.get_by_role("link", name="Release").click()
    expect(page.locator(".summary")).to_contain_text("1 message group of warehouse will be tried again")
    expect(page.get_by_role("cell", name="basket-31")).to_be_visible()
    seen.shot("release-preview")
    with at_work(lake, "orders", "warehouse") as worker:
        page.get_by_role("button", name="Release parked message groups").click()
        expect(page.get_by_role("status").first).to_contain_text("1 message group released")
        wait_until(lambda: worker.took("basket-31") == 2, "both messages of basket-31 are handled")
    assert next(body for group, body in worker.bodies if group == "basket-31").startswith(b'{"state": "created"')
    with seen.leaving():
        page.get_by_role("link", name="Back to").click()
    expect(page.get_by_role("rowheader", name="basket-77")).to_be_visible()
    expect(page.get_by_role("rowheader", name="basket-31")).to_have_count(0)
    seen.go("/topics/penstock-audit")
    expect(page.locator("main")).to_contain_text("NORMAL")


@pytest.mark.thorough
def test_a_message_is_given_up_only_by_its_groups_name(window: Open, lake: Path) -> None:
    seen = window(lake)
    page = seen.page
    seen.go("/groups/warehouse")
    basket = page.get_by_role("row").filter(has=page.get_by_role("rowheader", name="basket-99"))
    basket.get_by_role("link", name="Skip").click()
    expect(page.locator(".summary")).to_contain_text("becomes a dead letter")
    seen.shot("skip-preview")
    confirm = page.get_by_role("button", name="Skip parked messages")
    confirm.click()  # the browser asks for the name
    expect(page.locator(".summary")).to_contain_text("becomes a dead letter")
    page.get_by_label("Type warehouse to confirm").fill("Warehouse")
    confirm.click()
    expect(page.get_by_role("alert")).to_contain_text("was not typed")
    seen.faults.clear()  # a browser tells of the status 400 in its console
    page.get_by_label("Type warehouse to confirm").fill("warehouse")
    with at_work(lake, "orders", "warehouse"):
        confirm.click()
        expect(page.get_by_role("status").first).to_contain_text("1 message group skipped")
        with penstock.connect(lake, read_only=True) as again:
            wait_until(lambda: letters(again, "warehouse") == ["basket-99"], "the dead letter is written")


@pytest.mark.thorough
def test_a_reset_shows_first_what_would_run_again(window: Open, lake: Path) -> None:
    seen = window(lake)
    page = seen.page
    seen.go("/groups/shop-window")
    expect(page.locator("[data-live='lag']")).to_have_text("0")
    page.get_by_role("textbox", name="To").fill("earliest")
    page.get_by_role("button", name="Show what would run again").click()
    with penstock.connect(lake, read_only=True) as again:
        stored = sum(end - start for start, end in again.reader("stock").offsets().values())
    expect(page.locator(".summary")).to_contain_text(f"{stored} messages again, 0 left out")
    expect(page.get_by_text("The first messages that run again").first).to_be_visible()
    seen.shot("reset-preview")
    shared = page.url
    page.get_by_label("Type shop-window to confirm").fill("shop-window")
    page.get_by_role("button", name="Reset offsets").click()
    expect(page.get_by_role("status").first).to_contain_text("goes on from earliest on stock")
    page.get_by_role("link", name="Back to").click()
    expect(page.locator("[data-live='lag']")).to_have_text(str(stored))
    page.goto(shared)  # the link of a preview shows what it would do now
    expect(page.locator(".summary")).to_contain_text("0 messages again, 0 left out")


@pytest.mark.thorough
def test_a_viewer_looks_and_cannot_act(window: Open, lake: Path, tmp_path: Path) -> None:
    file = tmp_path / "passwords"
    lines = [
        line_of(name, role, f"{name}-keeps-a-secret", bytes(SALT_BYTES))
        for name, role in (("eve", ConsoleRole.VIEWER), ("ann", ConsoleRole.OPERATOR))
    ]
    file.write_text("\n".join(lines) + "\n")
    file.chmod(0o600)
    seen = window(lake, password_file=file)
    page = seen.page

    def log_in(name: str) -> None:
        page.get_by_label("Name").fill(name)
        page.get_by_label("Password").fill(f"{name}-keeps-a-secret")
        with seen.leaving():
            page.get_by_role("button", name="Log in").click()

    page.goto("/l/lake/groups/warehouse")
    seen.shot("log-in")
    log_in("eve")
    expect(page.get_by_role("heading", level=1)).to_have_text("Consumer group warehouse")  # where the link led
    expect(page.get_by_role("rowheader", name="basket-31")).to_be_visible()
    expect(page.get_by_role("link", name=re.compile("(Release|Skip).*…"))).to_have_count(0)
    expect(page.get_by_role("heading", name="Reset offsets")).to_have_count(0)
    seen.go("/actions/release?group=warehouse", status=403)
    expect(page.get_by_text("only operators may do that")).to_be_visible()
    expect(page.get_by_role("button", name="Release parked message groups")).to_have_count(0)
    with seen.leaving():
        page.get_by_role("button", name="Log out").click()
    log_in("ann")
    seen.go("/actions/release?group=warehouse")
    expect(page.get_by_role("button", name="Release parked message groups")).to_be_visible()


@pytest.mark.thorough
def test_read_only_has_nothing_to_act_by(window: Open, lake: Path) -> None:
    seen = window(lake, read_only=True)
    seen.go("/actions/skip?group=warehouse")
    expect(seen.page.get_by_text("This console was started with --read-only.")).to_be_visible()
    expect(seen.page.get_by_role("button", name="Skip parked messages")).to_have_count(0)


def test_chosen_dead_letters_are_sent_back_and_run(window: Open, lake: Path) -> None:
    seen = window(lake)
    page = seen.page
    seen.go("/")
    page.get_by_role("link", name="Dead letters", exact=True).click()
    with seen.leaving():
        page.get_by_role("rowheader", name="mailer").get_by_role("link").click()
    choices = page.get_by_role("checkbox")
    before = choices.count()
    assert before >= 3
    seen.shot("dead-letters")
    choices.nth(0).check()
    choices.nth(2).check()
    page.get_by_role("button", name="Send the chosen back").click()
    expect(page.locator("main")).to_contain_text("550 no such host")
    seen.shot("redrive-preview")
    with at_work(lake, "mails", "mailer") as worker:
        page.get_by_role("button", name="Send dead letters back").click()
        expect(page.get_by_role("status").first).to_contain_text("2")
        wait_until(lambda: len(worker.bodies) == 2, "both mails are sent")
    assert all(b"no-such-host" in body for _, body in worker.bodies)
    page.get_by_role("link", name="Back to").click()
    expect(page.get_by_role("checkbox")).to_have_count(before - 2)  # what was sent back is not offered again


def payments(folder: Path) -> list[bytes]:
    """The payments that readers see."""
    with penstock.connect(folder, read_only=True) as lake:
        return [one.body for one in lake.reader("payments").messages()]


@pytest.mark.thorough
def test_a_transaction_is_decided_with_what_it_would_send_in_view(window: Open, lake: Path) -> None:
    seen = window(lake)
    page = seen.page
    before = payments(lake)
    seen.go("/transactions")
    page.get_by_role("link", name="Commit").click()
    expect(page.locator("main")).to_contain_text("What it would send")
    seen.shot("commit-preview")
    page.get_by_label("Type cashiers to confirm").fill("cashiers")
    page.get_by_role("button", name="Commit the transaction").click()
    expect(page.get_by_role("status").first).to_contain_text("Committed")
    assert sorted(one for one in payments(lake) if one not in before) == [
        b'{"order":"order-1042","amount":349}',
        b'{"order":"order-1042","refund":19}',
    ]
    page.get_by_role("link", name="Back to").click()
    expect(page.locator("main")).to_contain_text("No transaction is open.")


@pytest.mark.thorough
def test_values_change_in_their_places(window: Open, lake: Path) -> None:
    seen = window(lake)
    page = seen.page
    seen.go("/topics/clicks")
    messages = page.locator("[data-live='messages']")
    before, place = messages.inner_text(), messages.bounding_box()
    shell = page.get_by_role("heading", name="The same in a shell").bounding_box()
    with penstock.connect(lake) as writing, writing.producer("clicks") as producer:
        producer.send(Message(b"{}")).result()
    expect(messages).not_to_have_text(before)
    assert int(messages.inner_text().replace(",", "")) == int(before.replace(",", "")) + 1
    assert place is not None
    after = messages.bounding_box()
    assert after is not None
    assert (after["x"], after["y"]) == (place["x"], place["y"])
    assert page.get_by_role("heading", name="The same in a shell").bounding_box() == shell
    expect(page.locator("#live-status")).to_have_text("live")


@pytest.mark.thorough
def test_a_reminder_is_recalled_before_it_is_due(window: Open, lake: Path) -> None:
    seen = window(lake)
    page = seen.page
    seen.go("/timers")
    page.get_by_role("link", name="reminders").click()
    first = page.get_by_role("table", name="The messages that are due first").get_by_role("row").nth(1)
    reminder = first.locator("code").inner_text()
    first.get_by_role("link", name="Recall").click()
    expect(page.locator(".summary")).to_contain_text(f"Message {reminder}")
    expect(page.locator(".summary")).to_contain_text("will never be delivered to reminders")
    page.get_by_label("Type reminders to confirm").fill("reminders")
    seen.shot("recall-preview")
    page.get_by_role("button", name="Recall the delayed message").click()
    expect(page.get_by_role("status").first).to_contain_text(f"Recalled {reminder} of reminders")
    with penstock.connect(lake, maintenance=False) as opened:
        left = [one.message_id for one in opened.waiting("reminders")]
        assert (reminder in left, len(left)) == (False, 3)


@pytest.mark.thorough
def test_charts_move_in_their_places(window: Open, lake: Path) -> None:
    seen = window(lake)
    seen.go("/")
    lag, line = (seen.page.locator(f"[data-live='{one}:lag']") for one in ("last", "lines"))
    before, place = int(lag.inner_text()), line.bounding_box()
    with penstock.connect(lake, maintenance=False) as opened, opened.producer("clicks") as producer:
        producer.send(Message(b"{}"))
    expect(lag).to_have_text(str(before + 1))  # a chart has a point every five seconds
    expect(line.locator("polyline")).to_have_count(1)
    assert line.bounding_box() == place


@pytest.mark.thorough
def test_a_topic_is_checked_and_damage_is_found(window: Open, lake: Path) -> None:
    (entry, *_) = sorted((lake / "topics" / "mails" / "log").rglob("*.*"))
    entry.write_bytes(b"not what was written")
    seen = window(lake)
    page = seen.page
    seen.go("/upkeep")
    expect(page.get_by_role("row").filter(has_text="delivers delayed messages")).to_have_count(1)
    page.get_by_label("Topics whose names hold").fill("orders")
    with seen.leaving():
        page.get_by_role("button", name="Filter").click()
    page.get_by_role("link", name="Check …").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Check of orders")
    page.get_by_role("button", name="Check it now").click()
    expect(page.locator("[data-live='state']")).to_have_text("all is well")
    seen.go("/topics/mails/check")
    page.get_by_role("button", name="Check it now").click()
    expect(page.locator("[data-live='state']")).to_have_text(re.compile("DAMAGED|ended before its end"))
    page.reload()
    expect(page.locator("main")).to_contain_text(entry.name)
    seen.shot("check-damaged")


@pytest.mark.thorough
def test_times_are_in_the_viewers_zone_with_utc_beside(look: Open) -> None:
    seen = look(timezone_id="Asia/Kathmandu")
    seen.go("/topics/orders")
    created = seen.page.locator("time[datetime]").first
    stated = created.get_attribute("datetime")
    expect(created).to_have_text(re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ"))
    there = seen.page.evaluate("at => new Date(at).toLocaleTimeString('en-GB', {timeZone: 'Asia/Kathmandu'})", stated)
    expect(created.locator("xpath=following-sibling::span[@class='zone']")).to_contain_text(there)


def tab_to(seen: Window, name: str) -> None:
    """Press the tab key until something of this name has the focus."""
    for _ in range(120):
        seen.page.keyboard.press("Tab")
        text = seen.page.evaluate("(document.activeElement.labels?.[0] || document.activeElement).innerText?.trim() || ''")
        if text.startswith(name):
            ring = seen.page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
            assert ring == "solid", f"the focus on {name} cannot be seen"
            return
    raise AssertionError(f"the keyboard does not reach {name}")


@pytest.mark.thorough
def test_a_group_is_released_by_keyboard_alone(window: Open, lake: Path) -> None:
    seen = window(lake)
    page = seen.page
    seen.go("/")
    tab_to(seen, "Skip to the content")
    page.keyboard.press("Enter")
    expect(page.locator("#main")).to_be_focused()
    tab_to(seen, "warehouse")
    with seen.leaving():
        page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Consumer group warehouse")
    tab_to(seen, "Skip all")
    with seen.leaving():
        page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Skip parked messages")
    tab_to(seen, "Type warehouse to confirm")
    page.keyboard.type("warehouse")
    page.keyboard.press("Enter")
    expect(page.get_by_role("status").first).to_contain_text("3 message groups skipped")


@pytest.mark.thorough
def test_the_way_to_a_release_on_a_phone(window: Open, lake: Path) -> None:
    seen = window(lake, of_browser={"viewport": PHONE, "has_touch": True, "is_mobile": True})
    page = seen.page
    seen.go("/")
    page.get_by_role("listitem").filter(has_text="are parked").get_by_role("link", name="warehouse").tap()
    page.get_by_role("link", name="Release all").tap()
    with seen.leaving():
        page.get_by_role("button", name="Release parked message groups").tap()
    expect(page.get_by_role("status").first).to_contain_text("3 message groups released")
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


@pytest.mark.thorough
def test_pages_work_without_their_script(window: Open, lake: Path) -> None:
    seen = window(lake, of_browser={"java_script_enabled": False})
    page = seen.page
    seen.go("/groups/warehouse")
    page.get_by_role("link", name="Release all").click()
    page.get_by_role("button", name="Release parked message groups").click()
    expect(page.get_by_role("status").first).to_contain_text("3 message groups released")


HOSTILE = "<img src=x onerror=alert(1)><script>alert(2)</script>\"'>&amp;"


@pytest.mark.thorough
def test_an_order_is_found_by_its_key(window: Open, lake: Path) -> None:
    seen = window(lake)
    page = seen.page
    seen.go("/topics/orders/messages")
    page.get_by_label("key", exact=True).fill("order-1050")
    with seen.leaving():
        page.get_by_role("button", name="Show", exact=True).click()
    rows = page.get_by_role("row").filter(has=page.get_by_role("link", name="order-1050"))
    expect(rows).to_have_count(2)  # created, and paid
    rows.first.locator("summary").click()
    expect(rows.first.locator("pre.body")).to_contain_text('"order": "order-1050"')
    seen.shot("found-by-key")
    rows.first.locator("a[href*='/trace/']").click()
    expect(page.locator("main")).to_contain_text("order-1050")
    expect(page.locator("main")).to_contain_text("warehouse")
    seen.shot("trace")


@pytest.mark.thorough
def test_new_messages_come_by_themselves_until_they_are_paused(window: Open, lake: Path) -> None:
    seen = window(lake)
    page = seen.page
    seen.go("/topics/orders/messages")
    rows = page.locator("[data-rows] tbody tr")
    expect(rows).to_have_count(50)
    seen.shot("messages")
    shown = rows.first.locator("time").inner_text()
    page.get_by_role("button", name="Times: local").click()
    expect(rows.first.locator("time")).not_to_have_text(shown)
    expect(rows.first.locator("time")).to_have_text(re.compile("Z$"))
    page.get_by_role("button", name="Follow").click()
    with penstock.connect(lake) as made, made.producer("orders") as producer:
        sent = [producer.send(Message(b'{"followed": %d}' % n, message_group=HOSTILE)) for n in range(3)]
        for one in sent:
            one.result()
        expect(rows).to_have_count(53)
        expect(rows.first).to_contain_text("followed")
        expect(page.locator("[data-newer]")).to_contain_text("0 newer")
        page.get_by_role("button", name="Pause").click()
        producer.send(Message(b'{"followed": 4}', message_group=HOSTILE)).result()
        expect(page.locator("[data-newer]")).to_contain_text("1 newer")
        expect(rows).to_have_count(53)
    rows.first.locator("summary").click()
    expect(rows.first.locator("pre.body")).to_be_visible()
    widths = "[document.querySelector('details[open]').offsetWidth, document.querySelector('[data-rows] table').offsetWidth]"
    opened, whole = page.evaluate(widths)
    assert opened > 0.95 * whole
    seen.shot("message-open")
    page.set_viewport_size(PHONE)  # type: ignore[arg-type] # a dict of its keys
    expect(rows.nth(1).locator("time")).to_be_visible()
    expect(rows.nth(1).locator("summary")).to_be_visible()
    seen.shot("messages-phone")


HOSTILE_BODIES = (
    b"<script>alert(1)</script><img src=x onerror=alert(2)>",
    b'{"link": "javascript:alert(3)", "html": "</pre><iframe src=//evil.example>"}',
    "\u202egnp.exe \x1b[31mred\x1b[0m a\u200bb".encode(),
    bytes(range(256)) * 40,
    b"{" * 10_000,
    b"x" * (4 * 1024 * 1024 - 1024),
)


def test_hostile_bodies_are_shown_harmlessly(window: Open, lake: Path) -> None:
    with penstock.connect(lake) as made:
        made.create_topic("hostile", message_type="FIFO", queues=1)
        with made.producer("hostile") as producer:
            sent = [producer.send(Message(body, message_group=HOSTILE, keys=[f"key-{n}"])) for n, body in enumerate(HOSTILE_BODIES)]
            ids = [one.result().message_id for one in sent]
    seen = window(lake)
    page = seen.page
    seen.go("/topics/hostile/messages")
    for summary in page.locator("summary").all():
        summary.click()
    text = seen.text
    assert "<script>alert(1)</script>" in text
    assert "[U+202E]gnp.exe" in text
    assert "\u241b[31mred" in text
    assert "a[U+200B]b" in text
    assert HOSTILE[:50] in text
    assert page.locator("main img, main script, main iframe, main a[href^='javascript']").count() == 0
    seen.shot("hostile-bodies")
    for one in ids:
        seen.go(f"/trace/{one}?topic=hostile")
        assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
        assert len(page.content()) < 1_000_000  # of 4 MiB only the beginning
        assert page.locator("main img, main script, main iframe").count() == 0


@pytest.mark.thorough
def test_a_hostile_name_stays_text(window: Open, lake: Path) -> None:
    with penstock.connect(lake) as made:
        made.create_topic("hostile", message_type="FIFO", queues=1)
        with made.producer("hostile") as producer:
            producer.send(Message(b"x", message_group=HOSTILE))
    seen = window(lake)
    seen.go("/topics/hostile")
    assert HOSTILE in seen.text
    assert seen.page.locator("main img, main script").count() == 0
    seen.shot("hostile-name")
