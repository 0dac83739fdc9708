from __future__ import annotations

from pathlib import Path

import pytest

from penstock import Message, connect
from tests.infra.cli.conftest import Penstock


def test_a_topics_life(penstock: Penstock) -> None:
    assert (
        "FIFO, 4 queues, kept 7d"
        in penstock("topic", "create", "orders", "--type", "fifo", "--queues", "4", "--retention", "7d").out
    )
    penstock("topic", "create", "orders", "--type", "FIFO", "--queues", "4", "--retention", "168h")  # the same again is fine
    penstock("topic", "create", "events", "--retention", "forever", "--retention-bytes", "1.5GiB", "--max-body-bytes", "1KiB")
    listed = {row["topic"]: row for row in penstock("topic", "list", "--json").rows}
    assert listed["orders"]["retention_s"] == 7 * 86_400
    assert listed["events"]["retention_s"] is None
    assert listed["events"]["retention_bytes"] == 3 * 2**29
    assert listed["events"]["limits"]["max_body_bytes"] == 1024
    assert penstock("topic", "list").out.splitlines()[2].split() == [
        "events",
        "NORMAL",
        "16",
        "for",
        "ever,",
        "1.5",
        "GiB",
        "a",
        "queue",
    ]
    penstock("topic", "delete", "orders", "--yes")
    assert [row["topic"] for row in penstock("topic", "list", "--json").rows] == ["events"]


def test_describe_shows_offsets_and_the_hottest_groups(penstock: Penstock) -> None:
    penstock("topic", "create", "orders", "--type", "FIFO", "--queues", "2")
    lines = "".join(f'{{"user": "{"busy" if n % 4 else "idle"}"}}\n' for n in range(8))
    penstock("produce", "orders", "--group", "user", "--name", "importer", "--sequence", "line", stdin=lines)
    (found,) = penstock("topic", "describe", "orders", "--json").rows
    assert found["messages"] == 8
    assert [(one["message_group"], one["messages"]) for one in found["hottest_groups"]] == [("busy", 6), ("idle", 2)]
    assert found["named_producers"] == {"importer": 8}
    assert sum(queue["next"] for queue in found["queues"]) == 8
    shown = penstock("topic", "describe", "orders").out
    assert "busy" in shown
    assert "75.0 %" in shown
    assert "\x1b" not in shown


def test_many_queues_are_not_listed_unless_asked(penstock: Penstock) -> None:
    penstock("topic", "create", "wide", "--queues", "100")
    assert "--all-queues" in penstock("topic", "describe", "wide").out
    assert len(penstock("topic", "describe", "wide", "--all-queues").out.splitlines()) > 100


def test_keeping_less_asks_first(penstock: Penstock) -> None:
    penstock("topic", "create", "orders", "--retention", "3d")
    assert "retention: 3d -> 1d" in penstock("topic", "alter", "orders", "--retention", "1d", "--dry-run").out
    refused = penstock("topic", "alter", "orders", "--retention", "1d", stdin="n\n", code=1)
    assert "dropped for good" in refused.err
    assert penstock("topic", "list", "--json").rows[0]["retention_s"] == 3 * 86_400
    penstock("topic", "alter", "orders", "--retention", "1d", stdin="y\n")
    penstock("topic", "alter", "orders", "--retention-bytes", "1MiB", "--yes")
    penstock(
        "topic", "alter", "orders", "--retention", "forever", "--retention-bytes", "0", "--max-message-group-bytes", "32"
    )  # more: no question
    (now,) = penstock("topic", "list", "--json").rows
    assert (now["retention_s"], now["retention_bytes"], now["limits"]["max_message_group_bytes"]) == (None, None, 32)


def test_a_routing_is_chosen_at_creation_and_shown(penstock: Penstock) -> None:
    penstock("topic", "create", "orders", "--type", "MIXED", "--routing", "murmur2", "--queues", "3")
    (listed,) = penstock("topic", "list", "--json").rows
    assert (listed["message_type"], listed["routing"]) == ("MIXED", "murmur2")
    assert ["routing", "murmur2"] in [line.split() for line in penstock("topic", "describe", "orders").out.splitlines()]
    assert "routing is fixed at creation" in penstock("topic", "alter", "orders", "--routing", "crc32", code=2).err
    assert "exists with other settings" in penstock("topic", "create", "orders", "--type", "MIXED", "--queues", "3", code=2).err


def test_headers_have_the_limits_of_properties_or_their_own(penstock: Penstock) -> None:
    def limits() -> tuple[int, int]:
        (topic,) = penstock("topic", "list", "--json").rows
        return topic["limits"]["max_headers_bytes"], topic["limits"]["max_headers"]

    penstock("topic", "create", "orders", "--max-properties", "200")
    assert limits() == (16 * 1024, 200)
    shown = penstock("topic", "alter", "orders", "--max-headers-bytes", "1MiB", "--max-headers", "10000", "--dry-run").out
    assert "max_headers_bytes 1048576, max_headers 10000" in shown
    penstock("topic", "alter", "orders", "--max-headers-bytes", "1MiB", "--max-headers", "10000")
    assert limits() == (2**20, 10_000)
    assert "at most 1,048,576" in penstock("topic", "alter", "orders", "--max-headers-bytes", "2MiB", code=2).err


def test_a_table_is_listed_for_iceberg_where_that_is_switched_on(penstock: Penstock) -> None:
    def is_listed() -> object:
        (topic,) = penstock("topic", "list", "--json").rows
        return topic["iceberg"]

    penstock("topic", "create", "orders", "--iceberg")
    assert is_listed() is True
    assert "Delta, Iceberg" in penstock("topic", "describe", "orders").out
    penstock("produce", "orders", stdin='{"a": 1}\n')
    (done,) = [row for row in penstock("maintain", "--once", "--json").rows if row["step"] == "iceberg"]
    assert done["version"] >= 1
    assert penstock("maintain", "--once").out == ""
    penstock("topic", "alter", "orders", "--no-iceberg")
    assert is_listed() is False
    assert "iceberg" not in [row["step"] for row in penstock("maintain", "--once", "--json").rows]


def test_deleting_asks_first(penstock: Penstock) -> None:
    penstock("topic", "create", "orders")
    penstock("produce", "orders", stdin='{"a": 1}\n')
    assert "1 messages" in penstock("topic", "delete", "orders", "--dry-run").out
    assert "Nothing was done." in penstock("topic", "delete", "orders", stdin="", code=1).err
    penstock("topic", "describe", "orders")
    penstock("topic", "delete", "orders", stdin="y\n")
    penstock("topic", "describe", "orders", code=2)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["create", "a b"], "bad topic name"),
        (["create", "x" * 250], "the topic name is too long"),
        (["create", "x", "--queues", "0"], "queues must be a positive whole number"),
        (["create", "x", "--retention", "3 days"], "'3 days' is no duration; write 3d"),
        (["create", "x", "--retention-bytes", "many"], "'many' is no size; write 10GiB"),
        (["create", "there", "--queues", "2"], "expected:  queues 2\n  observed:  queues 16"),
        (["describe", "absent"], "there is no such topic"),
        (["alter", "absent", "--retention", "1d"], "there is no such topic"),
        (["alter", "there"], "Change what?"),
        (["delete", "absent", "--yes"], "there is no such topic"),
    ],
)
def test_wrong_calls_are_told(penstock: Penstock, args: list[str], message: str) -> None:
    penstock("topic", "create", "there")
    assert message in penstock("topic", *args, code=2).err


def test_a_dead_letter_queue_is_made_as_the_first_dead_letter_would(penstock: Penstock) -> None:
    assert (
        penstock("topic", "create", "%DLQ%billing", "--retention", "30d").out == "Topic %DLQ%billing: NORMAL, 1 queues, kept 30d.\n"
    )
    for wrong in (("--queues", "3"), ("--type", "FIFO")):
        told = penstock("topic", "create", "%DLQ%audit", *wrong, code=2).err
        assert "a dead-letter queue takes messages of any group, in one queue" in told
        assert "message_type NORMAL and queues 1" in told
    assert [row["topic"] for row in penstock("topic", "list", "--json").rows] == ["%DLQ%billing"]


def test_what_is_fixed_says_why(penstock: Penstock) -> None:
    penstock("topic", "create", "orders")
    assert "A topic's type is fixed at creation" in penstock("topic", "alter", "orders", "--type", "FIFO", code=2).err


def test_a_topic_gets_more_queues_and_a_number_that_it_cannot_have_names_the_nearest(penstock: Penstock) -> None:
    penstock("topic", "create", "orders", "--queues", "4")
    assert "12 or 16, as it has 4" in penstock("topic", "alter", "orders", "--queues", "13", code=2).err
    assert "12 or 16, as it has 4" in penstock("topic", "alter", "orders", "--queues", "13", "--dry-run", code=2).err
    assert penstock("topic", "alter", "orders", "--queues", "8", "--dry-run").out == "queues: 4 -> 8\n"
    assert penstock("topic", "alter", "orders", "--queues", "8").out == "queues: 4 -> 8\n"
    assert penstock("topic", "alter", "orders", "--queues", "8").out == "Nothing to change.\n"
    assert [row["queues"] for row in penstock("topic", "list", "--json").rows] == [8]


def test_a_new_topic_tells_its_defaults_and_a_change_has_none(penstock: Penstock) -> None:
    told = " ".join(penstock("topic", "create", "--help").out.split())
    for default in ("[default: 3d]", "[default: 4.0 MiB]", "[default: 40d]", "[default: 16; 1 for a dead-letter queue"):
        assert default in told
    assert "[default:" not in penstock("topic", "alter", "--help").out


@pytest.mark.parametrize("group", ["topic", "group", "dlq", "timer", "tx", "infra"])
def test_listings_of_commands_are_whole_sentences(penstock: Penstock, group: str) -> None:
    listed = penstock(group, "--help").out.partition("Commands:")[2]
    assert "..." not in listed
    assert "…" not in listed


def test_what_was_stored_is_drawn_over_time(penstock: Penstock) -> None:
    penstock("topic", "create", "orders", "--queues", "2")
    assert "Stored," not in penstock("topic", "describe", "orders").out
    for _ in range(2):
        penstock("produce", "orders", stdin='{"n": 1}\n{"n": 2}\n{"n": 3}\n')
    told = penstock("topic", "describe", "orders").out
    assert "Stored, 6 messages" in told
    drawn = next(line for line in told.splitlines() if "at most 3 in" in line)
    assert (drawn[0], drawn[39], set(drawn[1:39])) == ("█", "█", {"·"})
    (described,) = penstock("topic", "describe", "orders", "--json").rows
    assert (described["over_time"]["counts"][0], sum(described["over_time"]["counts"])) == (3, 6)


def test_a_topic_and_the_doctor_say_which_group_more_queues_would_help(penstock: Penstock, lake: Path) -> None:
    penstock("topic", "create", "orders", "--type", "FIFO", "--queues", "2")
    penstock("group", "create", "billing", "--order", "ORDERLY")
    with connect(lake) as opened:
        opened.simple_consumer("orders", group="billing").close()
        with opened.producer("orders") as producer:
            producer.send_batch([Message(b"x", message_group="a")] * 1_200)
    told = penstock("topic", "describe", "orders")
    assert "More queues would help billing: queue" in told.out + told.err
    assert "--queues 4" in told.out + told.err
    (row,) = penstock("topic", "describe", "orders", "--json").rows
    assert row["growth"][0]["queues"] == 4
    checks = {row["name"]: row for row in penstock("doctor", "--json").rows}
    assert (checks["queues of orders"]["status"], "queues" in checks) == ("note", False)
    assert checks["queues of orders"]["observed"].startswith("more would help billing: queue")
    assert "`penstock topic alter orders --queues 4` adds them" in checks["queues of orders"]["fix"]
    penstock("topic", "alter", "orders", "--queues", "4")
    penstock("group", "reset", "billing", "orders", "--to", "latest", "--yes")
    checks = {row["name"]: row for row in penstock("doctor", "--json").rows}
    assert (checks["queues"]["status"], checks["queues"]["observed"]) == ("ok", "more would help none of 1 consumer groups")
