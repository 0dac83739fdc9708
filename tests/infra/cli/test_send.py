"""`penstock send`: one message, checked and sent."""

from __future__ import annotations

import pytest

from tests.infra.cli.conftest import Penstock


def test_one_message_with_its_labels(penstock: Penstock) -> None:
    penstock("topic", "create", "orders", "--type", "FIFO", "--queues", "1")
    words = ("send", "orders", "hello", "--message-group", "ann", "--tag", "paid", "--key", "k", "--property", "a=b=c")
    assert penstock(*words, "--dry-run").out == "Topic orders would take the message.\n"
    (row,) = penstock(*words, "--json").rows
    assert (row["topic"], row["queue"], row["offset"]) == ("orders", 0, 0)
    assert "queue 0, offset 1" in penstock("send", "orders", "-", "--message-group", "ann", stdin="of a pipe").out
    first, second = penstock("read", "orders", "--json").rows
    assert (first["body"], first["tag"], first["keys"], first["properties"]) == ("hello", "paid", ["k"], {"a": "b=c"})
    assert (second["body"], first["message_id"]) == ("of a pipe", row["message_id"])


def test_a_row_of_a_schema(penstock: Penstock) -> None:
    penstock("topic", "create", "typed", "--queues", "1", "--schema", "id bigint not null")
    penstock("send", "typed", '{"id": 7}')
    assert "bigint" in penstock("send", "typed", '{"id": "x"}', code=2).err
    (row,) = penstock("read", "typed", "--json").rows
    assert row["value"] == {"id": 7}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("orders", "x"), "FIFO"),
        (("orders", "x", "--message-group", "a", "--property", "n"), "write NAME=VALUE"),
        (("none", "x"), "no such topic"),
        (("penstock-audit", "x"), "which alone writes it"),
    ],
)
def test_what_is_refused(penstock: Penstock, words: tuple[str, ...], said: str) -> None:
    penstock("topic", "create", "orders", "--type", "FIFO", "--queues", "1")
    assert said in penstock("send", *words, code=2).err
    assert penstock("read", "orders", "--json").rows == []
