"""Dead letters: by reason, origin and age, beside the message that each was, sent back, and taken away as a file."""

from __future__ import annotations

import asyncio
import html
import json
from pathlib import Path

import pytest

from penstock import aio, connect
from penstock.consumers.dead_letters.writer import DeadLetter, DeadLetterWriter, dead_letter_properties
from penstock.infra.web.views.letter import original_message
from penstock.log import Message
from tests.infra.web.conftest import Open
from tests.infra.web.shop import HOSTILE
from tests.infra.web.test_actions import audited
from tests.lakes import TIMEOUT_S

NO_ORDER, HOSTILE_REASON = "ValueError: no such order", "<b>timed out</b> \u202e\x1b[31m"


@pytest.fixture
def buried(folder: Path) -> Path:
    """The four messages of orders in queue 0 as dead letters of billing."""

    async def run() -> None:
        async with aio.connect(folder) as lake:
            messages = [one async for one in (await lake.reader("orders")).messages(queue=0)]
            reasons = (NO_ORDER, HOSTILE_REASON)
            writer = DeadLetterWriter(lake, "billing", "orders", 0)
            await writer.write([DeadLetter(n, one, 17, reasons[n % 2]) for n, one in enumerate(messages)])
            await writer.close()

    asyncio.run(run())
    return folder


def test_groups_with_dead_letters_are_listed(console: Open, buried: Path) -> None:
    browser = console()
    (row,) = browser.api("/dead-letters")["rows"]
    newest = row["newest"]["value"]
    assert (row["group"], newest["kept"], newest["by_origin"]) == ("billing", 4, [{"name": "orders", "letters": 4}])
    assert {one["name"]: one["letters"] for one in newest["by_reason"]}[NO_ORDER] == 2
    assert "/dead-letters/billing" in browser.page("/dead-letters")


def test_letters_and_lives_tell_what_happened_and_why(console: Open, buried: Path) -> None:
    browser = console()
    letter = browser.api("/dead-letters/billing/letter?offset=0")["letter"]["value"]
    life = browser.api(f"/trace/{letter['row']['message_id']}?topic=orders")["life"]["value"]
    assert {one["what"].partition(":")[0]: one["why"] for one in life["events"]} == {
        "sent": None,
        "stored": None,
        "given up by billing": NO_ORDER,
    }
    page = html.unescape(browser.page(f"/trace/{letter['row']['message_id']}?topic=orders"))
    assert f"<br>{NO_ORDER}</li>" in page
    assert "delivered 17 times" in page


def test_a_group_that_is_not_there_has_no_page_of_letters(console: Open) -> None:
    browser = console()
    assert "there is no such consumer group" in browser.page("/dead-letters/none", status=404)
    assert "No dead letter of billing is kept" in browser.page("/dead-letters/billing")


def test_json_of_a_letter_is_laid_out(console: Open, folder: Path) -> None:
    with connect(folder) as blocking, blocking.producer("mails") as producer:
        producer.send(Message(b'{"to":"ann"}')).result(timeout=TIMEOUT_S)

    async def run() -> None:
        async with aio.connect(folder) as lake:
            message = [one async for one in (await lake.reader("mails")).messages(queue=0)][-1]
            writer = DeadLetterWriter(lake, "billing", "mails", 0)
            await writer.write([DeadLetter(0, message, 17, NO_ORDER)])
            await writer.close()

    asyncio.run(run())
    assert '{\n  "to": "ann"\n}' in html.unescape(console().page("/dead-letters/billing/letter?offset=0"))


def test_a_groups_letters_are_told_by_reason_origin_and_age(console: Open, buried: Path) -> None:
    browser = console()
    found = browser.api("/dead-letters/billing")["found"]["value"]
    assert (found["kept"], found["matching"], found["older"], found["end"]) == (4, 4, None, 4)
    assert found["by_age"] == [{"name": "the last hour", "letters": 4}]
    assert [one["offset"] for one in found["rows"]] == [3, 2, 1, 0]
    assert found["rows"][0]["message_group"] == HOSTILE
    assert [found["rows"][3]["origin"][name] for name in ("topic", "reconsume_times")] == ["orders", 16]
    assert found["rows"][3]["redrive"] == "no"
    page = browser.page("/dead-letters/billing")
    assert "<b>timed out" not in page
    assert "&lt;b&gt;timed out" in page


@pytest.mark.parametrize(
    ("query", "offsets"),
    [
        ("reason=NO+SUCH", [2, 0]),
        ("message_group=ann", [2, 0]),
        ("topic=refunds", []),
        ("before=2", [1, 0]),
        ("reason=no+such&before=2", [0]),
        ("before=99", [3, 2, 1, 0]),
    ],
)
def test_letters_are_chosen_by_what_they_say(console: Open, buried: Path, query: str, offsets: list[int]) -> None:
    rows = console().api(f"/dead-letters/billing?{query}")["found"]["value"]["rows"]
    assert [one["offset"] for one in rows] == offsets


def test_a_group_without_letters_says_so(console: Open) -> None:
    assert "No dead letter of billing is kept" in console().page("/dead-letters/billing")


def test_a_letter_is_shown_beside_its_message(console: Open, buried: Path) -> None:
    browser = console()
    found = browser.api("/dead-letters/billing/letter?offset=1")
    assert (found["original"]["value"]["state"], found["letter"]["value"]["row"]["message_group"]) == ("same", HOSTILE)
    assert "still stored as this letter has it" in browser.page("/dead-letters/billing/letter?offset=1")
    assert "there is no dead letter at this offset" in browser.page("/dead-letters/billing/letter?offset=7")


def test_a_letter_whose_topic_was_made_anew_is_not_compared_with_another_message(console: Open, buried: Path) -> None:
    with connect(buried) as lake:
        lake.delete_topic("orders")
        assert console().api("/dead-letters/billing/letter?offset=1")["original"]["value"]["state"] == "gone"
        lake.create_topic("orders", message_type="FIFO", queues=2)
        with lake.producer("orders") as producer:
            for _ in range(4):
                producer.send(Message(b"other", message_group="ann"), queue=0)
    assert console().api("/dead-letters/billing/letter?offset=1")["original"]["value"]["state"] == "another"


def test_every_difference_is_named(folder: Path) -> None:
    with connect(folder, read_only=True) as lake:
        message = next(iter(lake.reader("orders").messages(queue=0)))
    letter = message._replace(properties=dead_letter_properties(DeadLetter(0, message, 17, "why")))
    assert original_message(letter, message).state == "same"
    changed = letter._replace(body=b"x" * 300, tag="paid", properties={**letter.properties, "more": "1"})
    found = original_message(changed, message)
    assert (found.state, [one.name for one in found.differences]) == ("differs", ["body", "tag", "property more"])
    assert original_message(letter, None).state == "gone"


def test_chosen_letters_go_back_after_a_preview(console: Open, buried: Path) -> None:
    browser = console()
    path = "/actions/redrive?group=billing&offset=0&offset=1"
    shown = browser.api(path)
    assert shown["summary"].startswith("2 dead letters of billing would go back (2 to orders); 2 skipped.")
    assert [row[0] for row in shown["samples"][-1]["rows"]] == [0, 1]
    assert "penstock dlq redrive billing --offset 0 --offset 1" in html.unescape(browser.page(path))
    assert "2 dead letters of billing sent back" in browser.submit(path)
    with connect(buried, read_only=True) as lake:
        back = [one.message_group for one in lake.reader("orders").messages() if "REDRIVE_OFFSET" in one.properties]
    assert sorted(map(str, back)) == sorted(["ann", HOSTILE])
    assert [one["redrive"] for one in browser.api("/dead-letters/billing")["found"]["value"]["rows"]] == [
        "no",
        "no",
        "sent",
        "sent",
    ]
    assert audited(buried)[-1]["outcome"].startswith("2 dead letters of billing sent back")
    assert browser.api(path)["is_nothing"]


def test_all_that_match_go_back_but_none_that_died_since(console: Open, buried: Path) -> None:
    browser = console()
    shown = browser.api("/actions/redrive?group=billing&reason=no+such&until=1")
    assert shown["counts"][0] == {"name": "would go back", "value": 1}
    browser.submit("/actions/redrive?group=billing&reason=no+such&until=4")
    assert browser.api("/actions/redrive?group=billing")["counts"][:2] == [
        {"name": "would go back", "value": 2},
        {"name": "sent back before", "value": 2},
    ]


def test_letters_that_cannot_go_back_are_told_with_the_reason(console: Open, buried: Path) -> None:
    with connect(buried) as lake:
        lake.delete_topic("orders")
    shown = console().api("/actions/redrive?group=billing")
    assert (shown["is_nothing"], shown["samples"][0]["rows"]) == (True, [["there is no topic orders", 4]])


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("/actions/redrive?group=shipping", 404, "no dead-letter queue"),
        ("/actions/redrive?group=billing&offset=x", 400, "offsets of dead letters cannot be read"),
        ("/files/l/lake/dead-letters/billing/export?nothing=1", 400, "no such parameter"),
        ("/files/l/lake/dead-letters/shipping/export", 404, "no dead-letter queue"),
        ("/dead-letters/billing?before=-1", 400, "a whole number"),
    ],
)
def test_bad_questions_are_answered(console: Open, buried: Path, path: str, status: int, said: str) -> None:
    answer = console().client.get(path if path.startswith("/files") else f"/l/lake{path}")
    assert answer.status_code == status
    assert said in html.unescape(answer.text)


def test_letters_are_taken_away_as_json_lines(console: Open, buried: Path) -> None:
    answer = console().client.get("/files/l/lake/dead-letters/billing/export?reason=timed")
    assert answer.headers["content-disposition"] == 'attachment; filename="dead-letters-of-billing.jsonl"'
    rows = [json.loads(line) for line in answer.text.splitlines()]
    assert [row["origin"]["offset"] for row in rows] == [1, 3]
    assert [row["message_group"] for row in rows] == [HOSTILE, HOSTILE]


def test_a_file_ends_where_the_page_begins_to(console: Open, buried: Path) -> None:
    browser = console()
    page = html.unescape(browser.page("/dead-letters/billing?before=2&reason=no+such"))
    assert "Download all that match before offset 2" in page
    answer = browser.client.get("/files/l/lake/dead-letters/billing/export?before=2&reason=no+such")
    assert [json.loads(line)["origin"]["offset"] for line in answer.text.splitlines()] == [0]
    for before, count in ((0, 4), (1, 1), (99, 4)):
        assert len(browser.client.get(f"/files/l/lake/dead-letters/billing/export?before={before}").text.splitlines()) == count


def test_viewers_see_no_boxes(console: Open, buried: Path) -> None:
    page = console(read_only=True).page("/dead-letters/billing")
    assert 'type="checkbox"' not in page
    assert "Send back" not in page
