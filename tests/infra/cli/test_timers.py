from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta

import pytest

from penstock.coordinator.timers import waiting_count
from penstock.infra.operating import timers
from penstock.infra.operating.bodies import BodyExcerpt, body_of
from penstock.infra.terminal.values import parse_instant
from tests.infra.cli.conftest import Penstock

SOON = timedelta(hours=1)


@pytest.fixture
def delaying(penstock: Penstock) -> Penstock:
    penstock("topic", "create", "orders", "--type", "delay", "--queues", "2", "--max-delay", "10d")
    return penstock


def send(penstock: Penstock, *ids: int, by: tuple[str, ...] = ("--delay", "1h")) -> None:
    lines = "".join(f'{{"id": {n}, "user": "u{n % 2}"}}\n' for n in ids)
    penstock("produce", "orders", "--group", "user", *by, stdin=lines)


def test_what_waits_is_listed_and_called_back(delaying: Penstock) -> None:
    assert delaying("timer", "list", "orders").err == "Nothing waits.\n"
    send(delaying, 1, 2, 3)
    send(delaying, 4, by=("--level", "5"))
    rows = delaying("timer", "list", "orders", "--json").rows
    assert [json.loads(row["body"]["text"])["id"] for row in rows] == [4, 1, 2, 3]
    assert [row["message_group"] for row in rows] == ["u0", "u1", "u0", "u1"]
    due = [datetime.fromisoformat(row["due"]) - datetime.fromisoformat(row["sent"]) for row in rows]
    assert due[0] == pytest.approx(timedelta(minutes=1), abs=timedelta(seconds=1))
    assert due[1] == pytest.approx(SOON, abs=timedelta(seconds=1))
    listed = delaying("timer", "list", "orders", "--until", "+30m")
    assert (len(listed.out.splitlines()), listed.err) == (3, "")
    listed = delaying("timer", "list", "orders", "--limit", "2")
    assert (len(listed.out.splitlines()), listed.err) == (4, "More wait than these 2; --limit shows more.\n")
    said = delaying("timer", "recall", rows[1]["recall_handle"], rows[2]["recall_handle"]).out
    assert said.splitlines()[0].startswith(f"Recalled {rows[1]['message_id']} of orders, due 2")
    (recalled,) = delaying("timer", "recall", "--topic", "orders", "--id", rows[3]["message_id"], "--json").rows
    assert recalled == {**rows[3], "recalled": True}
    assert [row["message_id"] for row in delaying("timer", "list", "orders", "--json").rows] == [rows[0]["message_id"]]
    refused = delaying("timer", "recall", rows[0]["recall_handle"], rows[1]["recall_handle"], code=2)
    assert "it was recalled before" in refused.err
    assert "1 before it were recalled, 0 behind it not tried" in refused.err
    assert delaying("timer", "list", "orders").err == "Nothing waits.\n"


def test_of_a_long_body_no_more_is_decoded_than_is_shown(delaying: Penstock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    words = '{"a": "' + "é" * 100_000 + '"}'  # a cut after an even number of bytes is within a character
    delaying("produce", "orders", "--delay", "1h", stdin=f"{words}\n")
    decoded: list[int | None] = []

    def noted(content: bytes | None, *, most: int | None) -> BodyExcerpt:
        decoded.append(most)
        return body_of(content, most=most)

    monkeypatch.setattr(timers, "body_of", noted)
    assert words[:60] in delaying("timer", "list", "orders").out
    assert [row["body"]["text"] for row in delaying("timer", "list", "orders", "--json").rows] == [words]
    assert decoded == [240, None]


def test_a_topic_s_description_says_how_much_waits_and_what_is_next(delaying: Penstock, monkeypatch: pytest.MonkeyPatch) -> None:
    def waiting() -> dict[str, object]:
        (row,) = delaying("topic", "describe", "orders", "--json").rows
        found: dict[str, object] = row["waiting"]
        return found

    assert waiting() == {"messages": 0, "exact": True, "next_due": None}
    send(delaying, 1, 2, 3)
    send(delaying, 4, by=("--level", "5"))
    rows = delaying("timer", "list", "orders", "--json").rows
    due = rows[0]["due"]
    assert waiting() == {"messages": 4, "exact": True, "next_due": due}
    delaying("timer", "recall", rows[3]["recall_handle"])
    send(delaying, 5, by=("--delay", "0s"))
    delaying("maintain", "orders", "--once")  # one goes
    assert waiting() == {"messages": 3, "exact": True, "next_due": due}
    told = delaying("topic", "describe", "orders").out
    assert f"3; the next is due {due[:19]}" in told
    assert "penstock timer list orders shows what waits" in told
    monkeypatch.setattr(waiting_count, "READ_ROWS_MAX", 2)  # too many to be looked through
    assert waiting() == {"messages": 3, "exact": False, "next_due": None}
    assert "at most 3\n" in re.sub(" +\n", "\n", delaying("topic", "describe", "orders").out)
    assert delaying("topic", "describe", "%TIMER%orders", "--json").rows[0]["waiting"] is None


def test_topics_for_which_messages_wait_are_listed(delaying: Penstock) -> None:
    assert delaying("timer", "list").err == "Nothing waits.\n"
    send(delaying, 1, 2)
    (row,) = delaying("timer", "list", "--json").rows
    first = delaying("timer", "list", "orders", "--limit", "1", "--json").rows[0]
    assert row == {"topic": "orders", "waiting": {"messages": 2, "exact": True, "next_due": first["due"]}}
    assert delaying("timer", "list").out.splitlines()[-1].split()[:2] == ["orders", "2"]
    assert "--until belongs to a topic." in delaying("timer", "list", "--until", "+1h", code=2).err


def test_a_time_for_all_or_each_records_own(delaying: Penstock) -> None:
    at = (datetime.now(UTC) + timedelta(days=2)).replace(microsecond=0)
    lines = f'{{"id": 1, "at": "{at.isoformat()}"}}\n{{"id": 2, "at": "soon"}}\n{{"id": 3, "at": null}}\n'
    said = delaying("produce", "orders", "--deliver-at", "at", "--on-error", "skip", stdin=lines)
    assert "the delivery time, at, is no time" in said.err
    assert "takes DELAY messages, and this is a NORMAL message" in said.err
    send(delaying, 4, by=("--deliver-at", at.isoformat()))
    send(delaying, 5, by=("--deliver-at", "+3d"))
    rows = delaying("timer", "list", "orders", "--json").rows
    assert [json.loads(row["body"]["text"])["id"] for row in rows] == [1, 4, 5]
    assert [row["due"] for row in rows[:2]] == [at.isoformat()] * 2


def test_a_file_of_parquet_is_delayed_row_by_row(delaying: Penstock, tmp_path_factory: pytest.TempPathFactory) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = tmp_path_factory.mktemp("files") / "day.parquet"
    at = datetime.now(UTC) + SOON
    pq.write_table(pa.table({"text": ["a", "b"], "at": pa.array([at, at + SOON], pa.timestamp("us", "UTC"))}), file)
    delaying("produce", "orders", file, "--body", "text", "--deliver-at", "at")
    rows = delaying("timer", "list", "orders", "--json").rows
    assert [(row["body"]["text"], row["due"]) for row in rows] == [("a", at.isoformat()), ("b", (at + SOON).isoformat())]


def test_the_timer_log_is_read_as_any_topic_and_shows_when_messages_are_due(delaying: Penstock) -> None:
    send(delaying, 1)
    heading, line = delaying("read", "%TIMER%orders").out.splitlines()
    assert heading.split() == ["queue", "offset", "time", "due", "group", "tag", "keys", "body"]
    (row,) = delaying("read", "%TIMER%orders", "--json").rows
    assert line.split()[3][:19] == row["delivery_timestamp"][:19]
    assert [row["topic"] for row in delaying("topic", "list", "--json").rows] == ["%TIMER%orders", "orders"]
    assert "penstock timer list orders shows what waits" in delaying("topic", "describe", "orders").out
    assert "timer log, which comes, is written and goes" in delaying("topic", "delete", "%TIMER%orders", "--yes", code=2).err
    delaying("topic", "delete", "orders", "--yes")
    assert delaying("topic", "list", "--json").out == ""


def test_maintenance_of_a_topic_that_is_named_is_that_of_its_timer_log_too(delaying: Penstock) -> None:
    send(delaying, 1, by=("--delay", "0s"))
    told = delaying("maintain", "orders", "--once", "--json").rows
    assert {"orders", "%TIMER%orders"} == {row["topic"] for row in told}
    assert not [row for row in told if "error" in row]
    (row,) = delaying("read", "orders", "--json").rows
    assert row["delivery_timestamp"] <= row["store_timestamp"]
    assert delaying("timer", "list", "orders").err == "Nothing waits.\n"
    assert "1 in the table" in delaying("verify", "%TIMER%orders").out


def test_the_limit_of_delay_is_the_topics(delaying: Penstock) -> None:
    refused = delaying("produce", "orders", "--delay", "20d", stdin='{"id": 1}\n', code=2)
    assert "too far ahead" in refused.err
    assert "ask for an earlier time, or raise the topic's limit" in refused.err
    assert "max_delay 10d -> " in delaying("topic", "alter", "orders", "--max-delay", "20d12h").out
    (row,) = delaying("topic", "describe", "orders", "--json").rows
    assert row["settings"]["limits"]["max_delay_s"] == 20.5 * 86_400
    send(delaying, 1, by=("--delay", "20d"))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("timer", "list", "plain"), "nothing waits for this topic, as its messages are not delayed"),
        (("timer", "list", "nowhere"), "there is no such topic"),
        (("timer", "list", "orders", "--until", "tomorrow"), "'tomorrow' is no time; write 2026-01-31T12:00 or +10m."),
        (("timer", "recall"), "Give recall handles, or --topic and --id."),
        (("timer", "recall", "x", "--topic", "orders", "--id", "y"), "Give recall handles, or --topic and --id."),
        (("timer", "recall", "--topic", "orders", "--id", "y"), "no message of this id waits"),
        (("timer", "recall", "x"), "this is no recall handle"),
        (("produce", "orders", "--delay", "1h", "--level", "3"), "Give one of --delay, --level and --deliver-at"),
        (("produce", "orders", "--level", "19"), "19 is not in the range 1<=x<=18"),
        (("produce", "plain", "--delay", "1h"), "leave --delay, --level and --deliver-at out, or create a topic of type DELAY"),
    ],
)
def test_what_is_refused(delaying: Penstock, words: tuple[str, ...], said: str) -> None:
    delaying("topic", "create", "plain")
    assert said in delaying(*words, stdin='{"id": 1}\n', code=2).err


def test_times_on_the_command_line() -> None:
    assert parse_instant("2026-01-31T12:00:00Z") == datetime(2026, 1, 31, 12, tzinfo=UTC)
    local = parse_instant("2026-01-31T12:00")
    assert local is not None
    assert local.tzinfo is not None
    ahead = parse_instant("+10m")
    assert ahead is not None
    assert ahead - datetime.now(UTC) == pytest.approx(timedelta(minutes=10), abs=timedelta(minutes=1))
    assert [parse_instant(text) for text in ("at", "+", "+x", "", "10m", "+999999999999d")] == [None] * 6
