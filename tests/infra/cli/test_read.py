from __future__ import annotations

import base64
import csv
import gzip
import io
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click
import pyarrow.parquet as pq
import pytest
from rich.cells import cell_len

from penstock import Message, connect
from penstock.infra.terminal.output import fit_width, printable
from penstock.infra.terminal.values import DurationParam, PositionParam, SizeParam, parse_duration
from penstock.log import MESSAGE_SCHEMA, queue_of
from tests.infra.cli.conftest import Penstock


@pytest.fixture
def orders(penstock: Penstock, lake: Path) -> Penstock:
    """Twelve messages of groups u0 to u2 in two queues."""
    with connect(lake) as opened:
        opened.create_topic("orders", message_type="FIFO", queues=2)
        with opened.producer("orders") as producer:
            for n in range(12):
                tag = ("paid", "made", None)[n % 3]
                message = Message(b"body %d" % n, message_group=f"u{n % 3}", tag=tag, keys=[f"k{n}"], properties={"n": str(n)})
                producer.send(message, queue=n % 2)
    return penstock


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ([], list(range(12))),
        (["--queue", "1"], [1, 3, 5, 7, 9, 11]),
        (["--group", "u1"], [1, 4, 7, 10]),
        (["--group", "u1", "--queue", "0"], [4, 10]),
        (["--group", "u1", "--queue", "0", "--start", "3"], [10]),
        (["--group", "u1", "--start", "latest"], []),
        (["--key", "k5"], [5]),
        (["--key", "k5", "--tag", "paid"], []),
        (["--tag", "paid || made"], [0, 1, 3, 4, 6, 7, 9, 10]),
        (["--where", "n > 8 AND TAGS IS NOT NULL"], [9, 10]),
        (["--where", "n > 8", "--key", "k11"], [11]),
        (["--where", "n < 8", "--key", "k11"], []),
        (["--where", "n >= 6", "--tag", "paid", "--queue", "0"], [6]),
        (["--queue", "1", "--start", "2", "--end", "4"], [5, 7]),
        (["--queue", "1", "--start", "latest"], []),
        (["--start", "-10m"], list(range(12))),
        (["--end", "-10m"], []),
        (["--key", "k5", "--end", "-10m"], []),
        (["--queue", "0", "--limit", "2"], [0, 2]),
        (["--limit", "0"], []),
    ],
)
def test_conditions(orders: Penstock, args: list[str], expected: list[int]) -> None:
    found = [int(row["body"].split()[1]) for row in orders("read", "orders", "--json", *args).rows]
    assert sorted(found) == expected


def test_fields_of_json_bodies_are_conditions(orders: Penstock, lake: Path) -> None:
    with connect(lake) as opened, opened.producer("orders") as producer:
        for n in range(3):
            body = json.dumps({"customer": {"id": n}}).encode()
            producer.send(Message(body, message_group="ann", properties={"n": str(n)}))
    lines = orders("read", "orders", "--where", "body.customer.id = 2", "--json").rows
    assert [json.loads(one["body"]) for one in lines] == [{"customer": {"id": 2}}]
    assert (
        "a subscription is not filtered"
        in orders("group", "create", "billing", "--filter", "orders=SQL92: body.customer.id = 2", code=2).err
    )


def test_a_message_is_found_by_its_id(orders: Penstock) -> None:
    wanted = orders("read", "orders", "--json", "--key", "k7").rows
    assert orders("read", "orders", "--json", "--id", wanted[0]["message_id"]).rows == wanted


def test_people_see_one_line_a_message(orders: Penstock) -> None:
    heading, first, *rest = orders("read", "orders", "--queue", "0").out.splitlines()
    assert heading.split() == ["queue", "offset", "time", "group", "tag", "keys", "body"]
    assert len(rest) == 5
    assert [first.split()[n] for n in (0, 1, 3, 4, 5)] == ["0", "0", "u0", "paid", "k0"]
    assert first.endswith("body 0")
    assert orders("read", "orders", "--start", "latest").err == "No messages.\n"


def test_what_would_steer_a_terminal_is_not_shown(penstock: Penstock, lake: Path) -> None:
    with connect(lake) as opened:
        opened.create_topic("raw", queues=1)
        with opened.producer("raw") as producer:
            producer.send(Message(b"\x1b[31mred\n[bold]" + b"x" * 500))
            producer.send(Message(b"\xff\x00"))
    shown = penstock("read", "raw").out
    assert "\x1b" not in shown
    assert "·[31mred·[bold]xxx" in shown
    assert max(map(cell_len, shown.splitlines())) <= 150
    text, packed = penstock("read", "raw", "--json").rows
    assert not {"delivery_attempt", "epoch", "receipt_handle"} & set(text)  # nobody delivered it
    assert (text["body"][:4], text["body_base64"]) == ("\x1b[31", False)
    assert (base64.b64decode(packed["body"]), packed["body_base64"]) == (b"\xff\x00", True)


@pytest.mark.parametrize("name", ["out.parquet", "out.jsonl", "out.jsonl.gz"])
def test_exports(orders: Penstock, tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    assert "12 messages of orders" in orders("read", "orders", "-o", file).err
    if name.endswith("parquet"):
        table = pq.read_table(file)
        assert table.schema.equals(MESSAGE_SCHEMA)
        keys = [key for row in table["keys"].to_pylist() for key in row]
    else:
        text = gzip.decompress(file.read_bytes()) if name.endswith("gz") else file.read_bytes()
        keys = [key for line in text.splitlines() for key in json.loads(line)["keys"]]
    assert sorted(keys) == sorted(f"k{n}" for n in range(12))
    assert orders("read", "orders", "--json", "-o", file).rows == [{"topic": "orders", "messages": 12, "file": str(file)}]
    assert len(orders("read", "orders", "-o", "-").rows) == 12


def test_an_export_can_be_imported_again(orders: Penstock, tmp_path: Path) -> None:
    file = tmp_path / "out.parquet"
    orders("read", "orders", "-o", file)
    orders("topic", "create", "copy", "--type", "FIFO", "--queues", "2")
    orders("produce", "copy", file, "--body", "body", "--group", "message_group", "--tag", "tag", "--key", "keys")
    names = ("message_group", "tag", "keys", "body")
    assert sorted([row[name] for name in names] for row in orders("read", "copy", "--json").rows if row["tag"]) == sorted(
        [row[name] for name in names] for row in orders("read", "orders", "--json").rows if row["tag"]
    )


def test_tail_ends_at_its_limit(orders: Penstock) -> None:
    assert [row["keys"] for row in orders("tail", "orders", "--start", "-1h", "--key", "k4", "--limit", "1", "--json").rows] == [
        ["k4"]
    ]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["read", "absent"], "there is no such topic"),
        (["tail", "absent"], "there is no such topic"),
        (["read", "orders", "--queue", "9"], "the topic has no such queue"),
        (["read", "orders", "--start", "5"], "An offset needs --queue, as the topic has 2 queues"),
        (["read", "orders", "--queue", "0", "--start", "7"], "the next one to be written is 6"),
        (["read", "orders", "--start", "yesterday"], "'yesterday' is no position; write earliest"),
        (
            ["group", "reset", "g", "orders", "--to", "1732800000000", "--yes"],
            "for the time in milliseconds write 2024-11-28T13:20:00Z",
        ),
        (["read", "orders", "--start", "1000000000000000"], "'1000000000000000' is no position; write earliest"),
        (["read", "orders", "--start", "9" * 20], "is no position; write earliest"),
        (["read", "orders", "--tag", "a |"], "bad tag filter"),
        (["read", "orders", "-o", "out.xls"], "the name does not tell the format"),
        (["read", "orders", "-o", "no/such/folder/out.jsonl"], "there is no such folder"),
    ],
)
def test_wrong_calls_are_told(orders: Penstock, args: list[str], message: str) -> None:
    assert message in orders(*args, code=2).err


def test_values() -> None:
    assert parse_duration("1h30m") == timedelta(minutes=90)
    assert parse_duration("1.5d") == timedelta(hours=36)
    assert parse_duration("500ms") == timedelta(milliseconds=500)
    assert parse_duration("1m30s250ms") == timedelta(seconds=90.25)
    assert parse_duration("3") is parse_duration("-3d") is parse_duration("9999999999d") is None
    assert PositionParam().convert("2026-01-31T12:00+00:00", None, None) == datetime(2026, 1, 31, 12, tzinfo=UTC)
    naive = PositionParam().convert("2026-01-31T12:00", None, None)
    assert isinstance(naive, datetime)
    assert naive.tzinfo is not None
    assert SizeParam().convert("1.5 KiB", None, None) == 1536
    assert DurationParam().convert(timedelta(1), None, None) == timedelta(1)
    with pytest.raises(click.BadParameter, match="no size"):
        SizeParam().convert("5 fathoms", None, None)
    with pytest.raises(click.BadParameter, match="no position"):
        PositionParam().convert("-9999999d", None, None)
    assert SizeParam().convert("9" * 400, None, None) == int("9" * 400)


def test_text_fits_its_cells() -> None:
    assert fit_width("abc", 5) == "abc  "
    assert fit_width("abcdef", 4) == "abc…"
    assert cell_len(fit_width("日本語テキスト", 6)) == 6
    assert printable("a\tb") == "a·b"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--queue", "9"], "the topic has no such queue"),
        (["--queue", "0", "--start", "100"], "the queue has no such offset"),
    ],
)
@pytest.mark.parametrize("label", [["--group", "u1"], ["--key", "k1"], ["--id", "x"], []])
def test_a_lookup_refuses_what_a_plain_read_refuses(orders: Penstock, label: list[str], args: list[str], message: str) -> None:
    assert message in orders("read", "orders", *label, *args, code=2).err


def test_a_time_that_is_shown_means_the_same_when_it_is_given(orders: Penstock) -> None:
    shown = orders("read", "orders", "--queue", "0").out.splitlines()[1].split()[2]
    assert shown.endswith("Z")
    assert len(orders("read", "orders", "--json", "--queue", "0", "--start", shown).rows) == 6
    assert orders("read", "orders", "--json", "--queue", "0", "--end", shown).rows == []


def test_damage_can_be_read_around(orders: Penstock, lake: Path, tmp_path: Path) -> None:
    orders("produce", "orders", "--group", "g", stdin='{"g": "u9"}\n')
    damaged = sorted((lake / "topics" / "orders" / "log").glob("*.parquet"))[-2]
    damaged.write_bytes(b"xxxx")
    orders("repair", "orders", "--yes")
    said = orders("read", "orders", "--json", code=4).err
    assert "--damaged skip" in json.loads(said)["hint"]
    skipped = orders("read", "orders", "--json", "--damaged", "skip")
    *rows, told = skipped.rows
    assert [row["message_group"] for row in rows] == ["u9"]
    assert told["topic"] == "orders"
    assert all(one["messages"] == one["last_offset"] - one["first_offset"] + 1 > 0 for one in told["left_out"])
    assert skipped.err.count("cannot be read any more, offsets ") == len(told["left_out"])
    exported = orders("read", "orders", "--json", "--damaged", "skip", "-o", str(tmp_path / "it.jsonl"))
    assert exported.rows == [{"topic": "orders", "messages": 1, "file": str(tmp_path / "it.jsonl"), "left_out": told["left_out"]}]
    assert "Left out: " in orders("read", "orders", "--damaged", "skip").err


def test_a_failed_export_leaves_the_file_that_was_there(orders: Penstock, lake: Path, tmp_path: Path) -> None:
    file = tmp_path / "out.jsonl"
    orders("read", "orders", "-o", file)
    before = file.read_bytes()
    missing = tmp_path / "nowhere" / "out.jsonl"
    assert "there is no such folder" in orders("read", "orders", "-o", missing, code=2).err
    max((lake / "topics" / "orders" / "log").glob("*.parquet")).write_bytes(b"xxxx")
    orders("read", "orders", "-o", file, code=4)
    assert file.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lake", "out.jsonl"]


@pytest.fixture
def labelled(penstock: Penstock, lake: Path) -> Penstock:
    with connect(lake, maintenance=False) as opened:
        opened.create_topic("labelled", message_type="FIFO", queues=1)
        with opened.producer("labelled") as producer:
            producer.send(Message(b'say "hi",\nor not', "ann", "paid", ["k1", "k2"], {"n": "1"}))
            producer.send(Message(b"\xff\x00", "bob"))
    return penstock


def test_csv_has_the_fields_of_json_and_comes_back(labelled: Penstock, tmp_path: Path) -> None:
    texts = [labelled("read", "labelled", "--csv").out, labelled("read", "labelled", "--csv", "-o", "-").out]
    for name in ("out.csv", "out.csv.gz"):
        labelled("read", "labelled", "-o", tmp_path / name)
    texts.append((tmp_path / "out.csv").read_text())
    texts.append(gzip.decompress((tmp_path / "out.csv.gz").read_bytes()).decode())
    assert len({*texts}) == 1
    first, second = csv.DictReader(io.StringIO(texts[0], newline=""))
    document, _ = labelled("read", "labelled", "--json").rows
    assert first.keys() == document.keys()
    assert (first["body"], first["body_base64"]) == ('say "hi",\nor not', "false")
    assert (json.loads(first["keys"]), json.loads(first["properties"])) == (["k1", "k2"], {"n": "1"})
    assert datetime.fromisoformat(first["store_timestamp"]) == datetime.fromisoformat(document["store_timestamp"])
    assert (base64.b64decode(second["body"]), second["body_base64"], second["tag"], second["keys"]) == (b"\xff\x00", "true", "", "")
    labelled("topic", "create", "copy", "--type", "FIFO", "--queues", "1")
    labelled("produce", "copy", tmp_path / "out.csv", "--body", "body", "--group", "message_group", "--tag", "tag")
    copied, _ = labelled("read", "copy", "--json").rows
    assert (copied["body"], copied["message_group"], copied["tag"]) == (document["body"], "ann", "paid")


def test_csv_of_nothing_is_its_heading(labelled: Penstock) -> None:
    told = labelled("read", "labelled", "--tag", "none", "--csv")
    assert told.out.startswith("topic,queue,offset,message_id,")
    assert (len(told.out.splitlines()), told.err) == (1, "No messages.\n")


def test_csv_is_one_form_of_output(labelled: Penstock, tmp_path: Path) -> None:
    assert "Either --csv or --json." in labelled("read", "labelled", "--csv", "--json", code=2).err
    assert "a file's name says what it holds" in labelled("read", "labelled", "--csv", "-o", tmp_path / "x.jsonl", code=2).err
    assert ".csv.gz" in labelled("read", "labelled", "-o", tmp_path / "x.xlsx", code=2).err


def test_what_a_message_group_has_in_its_former_queues_is_found_and_exported_too(
    penstock: Penstock, lake: Path, tmp_path: Path
) -> None:
    penstock("topic", "create", "orders", "--type", "FIFO", "--queues", "2")
    groups = [f"g{number}" for number in range(9)]
    with connect(lake) as opened, opened.producer("orders") as producer:
        reader = opened.reader("orders")
        for queues in (2, 4, 16):
            if queues > 2:
                penstock("topic", "alter", "orders", "--queues", str(queues))
            producer.send_batch([Message(b"%d" % queues, message_group=group) for group in groups])
            producer.flush()
            if queues == 4:
                penstock("maintain", "--once")  # the first two lie in the table, the last one in the log
        for group in groups:
            homes = [queue_of(group, queues) for queues in (2, 4, 16)]
            assert [(one.body, one.queue) for one in reader.lookup(message_group=group)] == [
                (b"2", homes[0]),
                (b"4", homes[1]),
                (b"16", homes[2]),
            ]
    rows = penstock("read", "orders", "--group", "g1", "--json").rows
    assert [row["body"] for row in rows] == ["2", "4", "16"]
    for name, count in (("one.jsonl", 3), ("all.jsonl", 27)):
        chosen = ("--group", "g1") if count == 3 else ()
        penstock("read", "orders", *chosen, "-o", tmp_path / name)
        exported = [json.loads(line) for line in (tmp_path / name).read_text().splitlines()]
        assert (len(exported), [row["body"] for row in exported if row["message_group"] == "g1"]) == (count, ["2", "4", "16"])
