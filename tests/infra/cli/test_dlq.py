from __future__ import annotations

import asyncio
import csv
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from penstock import Message, connect
from penstock.consumers.dead_letters.writer import DeadLetter, DeadLetterWriter
from penstock.log import LogLake, open_store
from tests.infra.cli.conftest import Penstock


async def bury(path: Path, topic: str, group: str, reasons: list[str]) -> None:
    """All messages of a topic's queue 0, as if they had failed for these reasons."""
    async with LogLake(open_store(str(path))) as lake:
        reader = await lake.reader(topic)
        messages = [message async for message in reader.messages(queue=0)]
        await DeadLetterWriter(lake, group, topic, 0).write(
            [DeadLetter(n, message, 17, reasons[n % len(reasons)]) for n, message in enumerate(messages)]
        )


@pytest.fixture
def buried(penstock: Penstock, lake: Path) -> Penstock:
    """Six dead letters of orders, and two of refunds, of the group billing."""
    with connect(lake) as opened:
        opened.create_topic("orders", message_type="FIFO", queues=1)
        opened.create_topic("refunds", queues=1)
        with opened.producer("orders") as producer:
            for n in range(6):
                tag = ("paid", "made")[n % 2]
                producer.send(Message(b"order %d" % n, f"u{n % 3}", tag, [f"k{n}"], {"n": str(n)}))
        with opened.producer("refunds") as producer:
            for n in range(2):
                producer.send(Message(b"refund %d" % n))
    asyncio.run(bury(lake, "orders", "billing", ["ValueError: no such order", "timed out\x1b[31m"]))
    asyncio.run(bury(lake, "refunds", "billing", ["skipped"]))
    return penstock


def sent_back(penstock: Penstock, topic: str) -> list[str]:
    return [row["body"] for row in penstock("read", topic, "--json").rows if "REDRIVE_OFFSET" in row["properties"]]


def test_list(buried: Penstock) -> None:
    (row,) = buried("dlq", "list", "--json").rows
    assert (row["group"], row["topic"], row["messages"], row["retention_s"]) == ("billing", "%DLQ%billing", 8, 259_200.0)
    heading, _, line = buried("dlq", "list").out.splitlines()
    assert heading.split() == ["group", "dead", "letters", "last", "kept"]
    assert (line.split()[:2], line.split()[-1]) == (["billing", "8"], "3d")


def test_a_lake_without_dead_letters(penstock: Penstock) -> None:
    penstock("topic", "create", "orders")
    assert penstock("dlq", "list").err == "No group has dead letters.\n"
    assert penstock("dlq", "list", "--json").out == ""
    for command in ("read", "redrive"):
        outcome = penstock("dlq", command, "biling", code=2)
        assert "the consumer group has no dead-letter queue" in outcome.err
        assert "`penstock dlq list` names those that are there" in outcome.err
        assert json.loads(penstock("dlq", command, "biling", "--json", code=2).err)["error"] == "topic_not_found"
        assert "bad consumer group name" in penstock("dlq", command, "a\nb", code=2).err


def test_people_see_where_a_dead_letter_comes_from_and_why(buried: Penstock) -> None:
    heading, *lines = buried("dlq", "read", "billing").out.splitlines()
    assert heading.split() == ["offset", "time", "from", "group", "retries", "reason", "body"]
    assert len(lines) == 8
    assert lines[0].split()[2:] == ["orders/0/0", "u0", "16", "ValueError:", "no", "such", "order", "order", "0"]
    assert "timed out·[31m" in lines[1]
    assert lines[7].split()[2:] == ["refunds/0/1", "-", "16", "skipped", "refund", "1"]


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ([], [*(f"order {n}" for n in range(6)), "refund 0", "refund 1"]),
        (["--topic", "refunds"], ["refund 0", "refund 1"]),
        (["--topic", "refunds", "--limit", "1"], ["refund 0"]),
        (["--message-group", "u1"], ["order 1", "order 4"]),
        (["--message-group", "u1", "--topic", "refunds"], []),
        (["--key", "k3"], ["order 3"]),
        (["--tag", "made"], ["order 1", "order 3", "order 5"]),
        (["--tag", "made || paid", "--limit", "2"], ["order 0", "order 1"]),
        (["--limit", "7"], [*(f"order {n}" for n in range(6)), "refund 0"]),
        (["--reason", "NO SUCH"], ["order 0", "order 2", "order 4"]),
        (["--reason", "skipped", "--topic", "orders"], []),
    ],
)
def test_the_same_conditions_choose_what_is_read_and_what_goes_back(buried: Penstock, args: list[str], expected: list[str]) -> None:
    assert [row["body"] for row in buried("dlq", "read", "billing", "--json", *args).rows] == expected
    (report,) = buried("dlq", "redrive", "billing", "--json", *args).rows
    assert (report["group"], report["sent"], report["duplicates"]) == ("billing", len(expected), 0)
    assert sent_back(buried, "orders") + sent_back(buried, "refunds") == expected
    told = buried("dlq", "read", "billing", "--json").rows
    assert {row["body"] for row in told if row["redrive"] == "sent"} == set(expected)
    assert {row["redrive"] for row in told if row["body"] not in expected} <= {"no"}
    heading = buried("dlq", "read", "billing").out.splitlines()[0].split()
    assert ("redrive" in heading) == bool(expected), "the column is there where a letter went back"


def test_json_says_the_origin(buried: Penstock) -> None:
    row: dict[str, Any] = buried("dlq", "read", "billing", "--json", "--limit", "1").rows[0]
    assert row["origin"] == {
        "topic": "orders",
        "queue": 0,
        "offset": 0,
        "reconsume_times": 16,
        "reason": "ValueError: no such order",
    }
    assert (row["topic"], row["message_group"], row["keys"], row["body"]) == ("%DLQ%billing", "u0", ["k0"], "order 0")
    by_id = buried("dlq", "read", "billing", "--json", "--id", row["message_id"]).rows
    assert by_id == [row]
    (report,) = buried("dlq", "redrive", "billing", "--json", "--id", row["message_id"]).rows
    assert (report["sent"], report["skipped"]) == (1, 7)
    again = buried("read", "orders", "--json", "--id", row["message_id"]).rows
    assert [one["offset"] for one in again] == [0, 6]


def test_one_first_and_then_the_rest(buried: Penstock) -> None:
    assert buried("dlq", "redrive", "billing", "--key", "k3").out == "1 dead letters of billing sent back; 7 skipped.\n"
    assert buried("dlq", "redrive", "billing").out == "7 dead letters of billing sent back; 1 had been before.\n"
    assert sent_back(buried, "orders") == [f"order {n}" for n in (3, 0, 1, 2, 4, 5)]


def test_letters_go_back_by_their_offsets(buried: Penstock) -> None:
    assert (
        buried("dlq", "redrive", "billing", "--offset", "1", "--offset", "7").out
        == "2 dead letters of billing sent back; 6 skipped.\n"
    )
    assert (sent_back(buried, "orders"), sent_back(buried, "refunds")) == (["order 1"], ["refund 1"])


def test_a_redrive_that_is_repeated_says_what_had_gone_back(buried: Penstock) -> None:
    assert buried("dlq", "redrive", "billing", "--limit", "3").out == "3 dead letters of billing sent back.\n"
    assert buried("dlq", "redrive", "billing").out == "5 dead letters of billing sent back; 3 had been before.\n"
    assert buried("dlq", "redrive", "billing").out == "0 dead letters of billing sent back; 8 had been before.\n"


def test_what_cannot_go_back_is_named(buried: Penstock) -> None:
    buried("topic", "delete", "refunds", "--yes")
    outcome = buried("dlq", "redrive", "billing")
    assert outcome.out == "6 dead letters of billing sent back; 2 skipped.\n"
    assert outcome.err == "2 skipped: there is no topic refunds.\n"
    (report,) = buried("dlq", "redrive", "billing", "--json").rows
    assert (report["skipped"], report["refused"], report["last"]) == (2, {"there is no topic refunds": 2}, 7)


def test_export(buried: Penstock, tmp_path: Path) -> None:
    outcome = buried("dlq", "read", "billing", "--topic", "orders", "-o", tmp_path / "dead.parquet")
    assert outcome.err == f"6 dead letters of billing to {tmp_path / 'dead.parquet'}.\n"
    assert pq.read_table(tmp_path / "dead.parquet")["body"].to_pylist() == [b"order %d" % n for n in range(6)]
    lines = buried("dlq", "read", "billing", "-o", "-").out.splitlines()
    assert len(lines) == 8


def test_nothing_chosen(buried: Penstock) -> None:
    assert buried("dlq", "read", "billing", "--key", "none").err == "No dead letters.\n"
    assert buried("dlq", "redrive", "billing", "--key", "none").out == "0 dead letters of billing sent back; 8 skipped.\n"
    assert "bad tag filter" in buried("dlq", "redrive", "billing", "--tag", "a|b", code=2).err


def test_help(penstock: Penstock) -> None:
    assert "Dead letters of consumer groups: list, read, send back." in penstock("--help").out
    assert "those left out by an option may go back later" in " ".join(penstock("dlq", "redrive", "--help").out.split())


def test_a_dry_run_says_what_would_go_back_and_sends_nothing(buried: Penstock) -> None:
    assert buried("dlq", "redrive", "billing", "--key", "k3").out == "1 dead letters of billing sent back; 7 skipped.\n"
    for _ in range(2):
        told = buried("dlq", "redrive", "billing", "--dry-run").out
        assert told == "7 dead letters of billing would go back (5 to orders, 2 to refunds); 1 had been before.\n"
    (report,) = buried("dlq", "redrive", "billing", "--dry-run", "--json", "--limit", "3").rows
    assert (report["dry_run"], report["sent"], report["topics"]) == (True, 3, {"orders": 3})
    assert len(sent_back(buried, "orders")) == 1
    assert not sent_back(buried, "refunds")
    buried("topic", "delete", "refunds", "--yes")
    outcome = buried("dlq", "redrive", "billing", "--dry-run")
    assert outcome.out == "5 dead letters of billing would go back (5 to orders); 1 had been before; 2 skipped.\n"
    assert outcome.err == "2 skipped: there is no topic refunds.\n"


def test_a_script_can_ask_whether_anything_went_back(buried: Penstock) -> None:
    buried("dlq", "read", "billing", "--exit-code")
    buried("dlq", "read", "billing", "--key", "none", "--exit-code", code=1)
    buried("dlq", "redrive", "billing", "--exit-code")
    buried("dlq", "redrive", "billing", "--exit-code", code=1)


def test_dead_letters_are_exported_as_csv(buried: Penstock, tmp_path: Path) -> None:
    file = tmp_path / "dead.csv"
    buried("dlq", "read", "billing", "-o", file)
    with file.open(newline="") as opened:
        rows = list(csv.DictReader(opened))
    assert len(rows) == 8
    assert json.loads(rows[0]["properties"])["DLQ_ORIGIN_TOPIC"] == "orders"


def test_a_letter_is_sent_back_with_changes(buried: Penstock) -> None:
    words = ("dlq", "resend", "billing", "0", "--body", "-", "--tag", "", "--property", "a=b", "--by", "ann")
    assert "Would send" in buried(*words, "--dry-run", stdin="mended").out
    assert sent_back(buried, "orders") == []
    (told,) = buried(*words, "--json", stdin="mended").rows
    assert (told["offset"], told["topic"]) == (0, "orders")
    (row,) = [one for one in buried("read", "orders", "--json").rows if "REDRIVE_OFFSET" in one["properties"]]
    assert (row["body"], row["tag"], row["keys"], row["message_group"]) == ("mended", None, ["k0"], "u0")
    assert row["properties"] == {"a": "b", "REDRIVE_OFFSET": "0", "REDRIVE_EDITED_BY": "ann"}
    assert "it was sent back already" in buried(*words, code=2, stdin="again").err
    assert "no dead letter at this offset" in buried("dlq", "resend", "billing", "99", code=2).err
    assert "takes FIFO messages now" in buried("dlq", "resend", "billing", "2", "--message-group", "", code=2).err


def test_letters_go_back_to_their_group_alone(buried: Penstock) -> None:
    buried("dlq", "redrive", "billing", "--only-group", "--offset", "1")
    (row,) = [one for one in buried("read", "orders", "--json").rows if "REDRIVE_OFFSET" in one["properties"]]
    assert row["properties"]["REDRIVE_GROUP"] == "billing"
