"""`penstock tx`, and what `penstock maintain` does about transactions."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from pathlib import Path

import pytest

import penstock as library
from penstock import Message, TransactionResolution
from penstock.coordinator.transactions.errors import CommittedNotVisible
from tests.infra.cli.conftest import Penstock


@pytest.fixture
def paying(penstock: Penstock) -> Penstock:
    for topic in ("paid", "booked"):
        penstock("topic", "create", topic, "--type", "transaction", "--queues", "2")
    return penstock


def abandoned(lake: Path, *topics: str, body: bytes = b"order 1", group: str = "pay") -> str:
    """A transaction whose sender left without a decision."""
    with library.connect(lake, maintenance=False) as opened:
        transaction = opened.transaction(producer_group=group, checker=lambda _: TransactionResolution.UNKNOWN)
        for topic in topics or ("paid",):
            transaction.send(topic, Message(body, tag="card", keys=("1",)), Message(b"\xff"))
        assert transaction.id is not None
        return transaction.id


def seen(penstock: Penstock, topic: str = "paid") -> list[str]:
    return sorted(row["body"] for row in penstock("read", topic, "--json").rows)


def test_what_is_open_is_listed_described_and_committed(paying: Penstock, lake: Path) -> None:
    assert paying("tx", "list").err == "No transaction is open.\n"
    first, second = abandoned(lake, "paid", "booked"), abandoned(lake, group="ship")
    rows = paying("tx", "list", "--json").rows
    assert [(row["transaction"], row["producer_group"], row["state"]) for row in rows] == [
        (first, "pay", "open"),
        (second, "ship", "open"),
    ]
    assert (rows[0]["messages"], rows[0]["checks"], rows[0]["decided_by"], rows[0]["settles"]) == (4, 0, None, None)
    assert rows[0]["topics"] == [
        {"topic": "paid", "messages": 2, "entry": None, "gone": False},
        {"topic": "booked", "messages": 2, "entry": None, "gone": False},
    ]
    assert [row["transaction"] for row in paying("tx", "list", "ship", "--json").rows] == [second]
    assert "paid, booked" in paying("tx", "list").out
    (told,) = paying("tx", "describe", first, "--messages", "--json").rows
    first_sent = next(one for one in told["half_messages"] if one["body"]["kind"] == "text")
    assert [first_sent[name] for name in ("topic", "tag", "keys")] == ["paid", "card", ["1"]]
    assert sorted((one["body"]["kind"], one["body"]["text"]) for one in told["half_messages"]) == [
        *[("bytes", "ff")] * 2,
        *[("text", "order 1")] * 2,
    ]
    described = paying("tx", "describe", first, "--messages").out
    assert re.search(r"^state +open$", described, re.MULTILINE)
    assert "order 1" in described
    assert paying("tx", "commit", first, "--dry-run").out == "Would commit 4 messages of producer group pay to paid, booked.\n"
    assert seen(paying) == []
    refused = paying("tx", "commit", first, stdin="n\n", code=1)
    assert "Commit 4 messages of producer group pay to paid, booked. Go on?" in refused.err
    sentence = r"Committed 4 messages of producer group pay to paid \(entry \d+\), booked \(entry \d+\)\.\n"
    assert re.fullmatch(sentence, paying("tx", "commit", first, "--yes").out)
    assert (len(seen(paying)), len(seen(paying, "booked"))) == (2, 2)
    (again,) = paying("tx", "commit", first, "--yes", "--json").rows  # nothing more happens
    assert (again["state"], again["decided_by"], again["messages"]) == ("committed", "operator", 4)
    assert again["topics"][0]["entry"] is not None
    assert len(seen(paying)) == 2
    assert "transaction is committed" in paying("tx", "rollback", first, "--yes", code=2).err
    assert [row["transaction"] for row in paying("tx", "list", "--all", "--json").rows] == [first, second]


def test_a_topic_s_description_says_what_is_not_visible_yet(paying: Penstock, lake: Path) -> None:
    def transactions(topic: str) -> dict[str, object]:
        (row,) = paying("topic", "describe", topic, "--json").rows
        found: dict[str, object] = row["transactions"]
        return found

    nothing = {"open": 0, "messages": 0, "oldest": None, "not_finished": 0}
    assert transactions("paid") == nothing
    first, _ = abandoned(lake), abandoned(lake, "paid", "booked", group="ship")
    begun = [row["begun"] for row in paying("tx", "list", "--json").rows]
    assert transactions("paid") == {"open": 2, "messages": 4, "oldest": begun[0], "not_finished": 0}
    assert transactions("booked") == {"open": 1, "messages": 2, "oldest": begun[1], "not_finished": 0}
    assert "2 with 4 messages, the oldest begun 2" in paying("topic", "describe", "paid").out
    paying("tx", "commit", first, "--yes")
    assert transactions("paid") == {"open": 1, "messages": 2, "oldest": begun[1], "not_finished": 0}


def test_a_commit_says_which_topics_are_gone(paying: Penstock, lake: Path) -> None:
    transaction, lost = abandoned(lake, "paid", "booked"), abandoned(lake, "booked")
    paying("topic", "delete", "booked", "--yes")
    paying("topic", "create", "booked", "--type", "transaction", "--queues", "2")  # another life of it
    gone = "Deleted, and 2 messages with it: booked."
    told = paying("tx", "commit", transaction, "--dry-run", code=1)
    assert (told.out, told.err) == ("Would commit 2 messages of producer group pay to paid.\n", f"{gone}\n")
    (planned,) = paying("tx", "commit", transaction, "--dry-run", "--json", code=1).rows
    assert [(one["topic"], one["gone"]) for one in planned["topics"]] == [("paid", False), ("booked", True)]
    assert f"to paid. {gone} Go on?" in paying("tx", "commit", transaction, stdin="n\n", code=1).err
    assert re.search(r"booked +2 +- +gone", paying("tx", "describe", transaction).out)
    for _ in range(2):  # what was committed stays so, and is told the same
        told = paying("tx", "commit", transaction, "--yes", code=1)
        assert re.fullmatch(r"Committed 2 messages of producer group pay to paid \(entry \d+\)\.\n", told.out)
        assert told.err == f"{gone}\n"
    (done,) = paying("tx", "commit", transaction, "--yes", "--json", code=1).rows
    assert [(one["topic"], one["entry"] is None, one["gone"]) for one in done["topics"]] == [
        ("paid", False, False),
        ("booked", True, True),
    ]
    told = paying("tx", "commit", lost, "--yes", code=1)
    assert (told.out, told.err) == ("Committed 0 messages of producer group pay to no topic.\n", f"{gone}\n")
    assert len(seen(paying)) == 2
    assert seen(paying, "booked") == []


def test_a_rollback_asks_for_no_topic(paying: Penstock, lake: Path) -> None:
    transaction = abandoned(lake, "booked")
    paying("topic", "delete", "booked", "--yes")
    assert paying("tx", "rollback", transaction, "--yes").out == "Rolled back 2 messages of producer group pay to booked.\n"


def test_what_is_rolled_back_is_seen_by_nobody(paying: Penstock, lake: Path) -> None:
    transaction = abandoned(lake)
    assert paying("tx", "rollback", transaction, "--dry-run").out.startswith("Would roll back 2 messages")
    (told,) = paying("tx", "rollback", transaction, "--yes", "--json").rows
    assert (told["state"], told["decided_by"]) == ("rolled_back", "operator")
    assert "rolled back" in paying("tx", "commit", transaction, "--yes", code=2).err
    assert "is rolled back" in paying("tx", "rollback", transaction, "--dry-run").out
    assert "was rolled back" in paying("tx", "commit", transaction, "--dry-run", code=2).err
    assert seen(paying) == []
    assert not list((lake / "topics" / "paid" / "staged").rglob("*.parquet"))


def test_a_dry_run_refuses_what_the_command_would(paying: Penstock, lake: Path) -> None:
    transaction = abandoned(lake)
    for staged in (lake / "topics" / "paid" / "staged").rglob("*.parquet"):
        staged.unlink()
    for options in (("--dry-run",), ("--yes",)):
        assert "are not on the store" in paying("tx", "commit", transaction, *options, code=3).err
    assert paying("tx", "rollback", transaction, "--dry-run").out.startswith("Would roll back 2 messages")
    assert "open" in paying("tx", "list").out


def test_what_is_not_there_is_told(paying: Penstock) -> None:
    assert "not a transaction's id" in paying("tx", "describe", "nonsense", code=2).err
    assert "no transaction of this id is known" in paying("tx", "commit", "0" * 32, "--yes", code=2).err
    assert re.search(
        "(?s)no transaction of this producer group is known.*object: +nobody", paying("tx", "list", "nobody", code=2).err
    )
    assert json.loads(paying("tx", "list", "nobody", "--json", code=2).err)["error"] == "invalid_argument"
    assert "bad producer group name" in paying("tx", "list", "no such", code=2).err


def test_one_that_settles_messages_is_only_rolled_back(paying: Penstock, lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paying("topic", "create", "orders", "--queues", "1")
    paying("produce", "orders", stdin='{"n": 1}\n')
    with library.connect(lake, maintenance=False) as opened, opened.simple_consumer("orders", group="pricing") as consumer:
        (message,) = consumer.receive(invisible_duration=timedelta(hours=1))
        transaction = opened.transaction(consumer=consumer)
        transaction.send("paid", Message(b"x"))
        transaction.ack(message)

        async def dying(*_: object) -> None:
            raise CommittedNotVisible("the process dies before it settles the message")

        monkeypatch.setattr(consumer.on_loop(), "settle_by", dying)
        with pytest.raises(CommittedNotVisible):
            transaction.commit()
        known = transaction.id
    assert known is not None
    (row,) = paying("tx", "list", "--json").rows
    assert (row["producer_group"], row["settles"]) == (
        "pricing",
        {"group": "pricing", "topic": "orders", "queue": 0, "offsets": [0]},
    )
    assert "1 messages of orders, queue 0, for group pricing" in paying("tx", "describe", known).out
    assert "committing" in paying("tx", "list").out
    for options in (("--dry-run",), ("--yes",)):
        assert "the write that settles them decides it" in paying("tx", "commit", known, *options, code=2).err
    assert paying("tx", "rollback", known, "--dry-run").out.startswith("Would roll back 1 messages")
    paying("tx", "rollback", known, "--yes")
    assert seen(paying) == []
    with library.connect(lake, maintenance=False) as opened, opened.simple_consumer("orders", group="pricing") as consumer:
        assert [one.offset for one in consumer.receive()] == [0]


def test_maintaining_once_finishes_what_was_decided(paying: Penstock, lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with library.connect(lake, maintenance=False) as opened:
        transaction = opened.transaction(producer_group="pay", checker=lambda _: TransactionResolution.UNKNOWN)
        transaction.send("paid", Message(b"x"))

        async def dying(*_: object) -> None:
            raise CommittedNotVisible("the process dies before it links the messages")

        monkeypatch.setattr(transaction._core, "_link", dying)
        with pytest.raises(CommittedNotVisible):
            transaction.commit()
    assert "committed, not finished" in paying("tx", "list").out
    assert seen(paying) == []
    steps = [row for row in paying("maintain", "--once", "--json").rows if row["step"] == "transactions"]
    assert [(row["topic"], row["rows"]) for row in steps] == [("pay", 1)]
    assert seen(paying) == ["x"]
    assert paying("tx", "list").err == "No transaction is open.\n"
