"""`penstock read` of topics with a schema: fields as columns, and only the columns asked for."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from penstock import Message, connect
from tests.infra.cli.conftest import Penstock


@pytest.fixture
def rows(penstock: Penstock, lake: Path) -> Penstock:
    with connect(lake) as opened:
        opened.create_topic("orders", schema="id int, amount decimal(9,2), tags array<string>, raw binary", queues=1)
        with opened.producer("orders") as producer:
            producer.send_row({"id": 1, "amount": Decimal("1.5"), "tags": ["a\x1bb"], "raw": b"\xffx"})
            producer.send_row({"id": 2})
    return penstock


def test_fields_are_columns_of_the_table(rows: Penstock) -> None:
    heading, first, second = rows("read", "orders").out.splitlines()
    assert heading.split() == ["queue", "offset", "store_timestamp", "id", "amount", "tags", "raw"]
    assert first.split()[3:] == ["1", "1.50", '["a\\u001bb"]', "\N{REPLACEMENT CHARACTER}x"]
    assert second.split()[3:] == ["2", "-", "-", "-"]


def test_only_the_columns_asked_for(rows: Penstock) -> None:
    assert rows("read", "orders", "--columns", "offset, value.amount").out.split() == ["offset", "amount", "0", "1.50", "1", "-"]
    assert rows("read", "orders", "--columns", "value.id", "--where", "value.amount > 1", "--json").rows == [{"value": {"id": 1}}]
    assert rows("read", "orders", "--columns", "offset", "--json").rows == [{"offset": 0}, {"offset": 1}]


def test_parts_of_messages_may_be_asked_for_as_well(rows: Penstock, lake: Path) -> None:
    with connect(lake) as opened:
        opened.create_topic("plain", queues=1)
        with opened.producer("plain") as producer:
            producer.send(Message("né".encode(), key=b"\xff", headers=[("h", b"1"), ("h", None)]))
            producer.send(Message(b"\xff"))
    assert rows("read", "orders", "--columns", "body,offset").out.split() == ["body", "offset", "-", "0", "-", "1"]
    assert rows("read", "plain", "--columns", "offset,body").out.split()[:4] == ["offset", "body", "0", "né"]
    headers = [{"key": "h", "value_base64": "MQ=="}, {"key": "h", "value_base64": None}]
    assert rows("read", "plain", "--columns", "body,key,headers", "--json").rows == [
        {"body": "né", "body_base64": False, "key_base64": "/w==", "headers": headers},
        {"body": "/w==", "body_base64": True, "key_base64": None, "headers": []},
    ]
    (whole, _), (time, _) = (
        rows("read", "plain", "--json").rows,
        rows("read", "plain", "--columns", "store_timestamp", "--json").rows,
    )
    assert time == {"store_timestamp": whole["store_timestamp"]}


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--columns", "value.nobody"], "there are no columns value.nobody"),
        (["--columns", ","], "--columns names no column"),
        (["--columns", "offset", "--csv"], "--columns is for what is shown"),
        (["--columns", "offset", "-o", "x.csv"], "--columns is for what is shown"),
        (["--columns", "offset", "--key", "k"], "--columns reads the topic"),
    ],
)
def test_what_does_not_go_together_is_refused(rows: Penstock, args: list[str], said: str) -> None:
    assert said in rows("read", "orders", *args, code=2).err
