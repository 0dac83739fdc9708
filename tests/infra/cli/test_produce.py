from __future__ import annotations

import gzip
import io
import json
import threading
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock import FencedError, connect
from penstock.infra.cli.messages.file_import import FileImport, ImportFile, ImportSummary
from penstock.infra.cli.messages.label_columns import columns_of
from penstock.infra.formats import FileFormat, read_records
from penstock.infra.labels import MessageLabels
from penstock.infra.terminal.session import Signals
from penstock.log.errors import InvalidArgument
from tests.cdc.test_debezium import POSTGRES
from tests.infra.cli.conftest import Penstock
from tests.thorough import examples

LINES = [{"id": n, "user": f"u{n % 3}", "kind": "paid" if n % 2 else "made"} for n in range(1, 7)]
JSONL = "".join(json.dumps(line) + "\n" for line in LINES)


@pytest.fixture
def fifo(penstock: Penstock) -> Penstock:
    penstock("topic", "create", "orders", "--type", "FIFO", "--queues", "2")
    return penstock


def stored(penstock: Penstock, topic: str = "orders") -> list[dict[str, Any]]:
    """The messages, by their bodies' ids."""
    return sorted(penstock("read", topic, "--json").rows, key=lambda row: json.loads(row["body"])["id"])


@pytest.mark.parametrize("name", ["lines.jsonl", "lines.jsonl.gz", "lines.csv", "lines.csv.gz", "lines.parquet"])
def test_formats_by_name_give_the_same_messages(fifo: Penstock, tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    if "jsonl" in name:
        data = JSONL.encode()
    elif "csv" in name:
        data = ("id,user,kind\n" + "".join(f"{row['id']},{row['user']},{row['kind']}\n" for row in LINES)).encode()
    else:
        pq.write_table(pa.Table.from_pylist(LINES), file)
        data = file.read_bytes()
    file.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    said = fifo("produce", "orders", file, "--group", "user", "--tag", "kind", "--key", "{kind}-{id}", "--property", "who=user").out
    assert "6 messages to orders" in said
    assert "messages/s" in said
    found = stored(fifo)
    assert [row["message_group"] for row in found] == [row["user"] for row in LINES]
    assert [row["tag"] for row in found] == [row["kind"] for row in LINES]
    assert found[0]["keys"] == ["paid-1"]
    assert found[0]["properties"] == {"who": "u1"}
    assert {key: str(value) for key, value in json.loads(found[0]["body"]).items()} == {"id": "1", "user": "u1", "kind": "paid"}


@pytest.mark.parametrize("packed", [False, True])
def test_standard_input_may_be_packed(fifo: Penstock, packed: bool) -> None:
    data = gzip.compress(JSONL.encode()) if packed else JSONL.encode()
    (summary,) = fifo("produce", "orders", "--group", "user", "--json", stdin=data).rows
    assert (summary["sent"], summary["skipped"], summary["unknown"]) == (6, 0, 0)
    assert summary["messages_per_s"] > 0


def test_debezium_events_have_labels_of_their_own(fifo: Penstock, tmp_path: Path) -> None:
    file = tmp_path / "shop.debezium.jsonl"
    file.write_text(json.dumps({"key": {"id": 7}, "value": POSTGRES}) + "\n")
    fifo("produce", "orders", file)
    (row,) = fifo("read", "orders", "--json").rows
    assert row["message_group"] == f"{row['tag']}-7"
    assert row["keys"] == [row["message_group"]]
    assert row["properties"] == {"op": POSTGRES["op"]}


def test_an_import_goes_on_where_it_had_ended(fifo: Penstock, tmp_path: Path) -> None:
    file = tmp_path / "lines.jsonl"
    file.write_text("".join(JSONL.splitlines(keepends=True)[:4]))
    how = ("--group", "user", "--name", "nightly", "--sequence")
    fifo("produce", "orders", file, *how, "line")
    file.write_text(JSONL)
    (summary,) = fifo("produce", "orders", file, *how, "line", "--json").rows
    assert (summary["sent"], summary["duplicates"], summary["last_sequence"]) == (2, 4, 6)
    assert "6 were there already" in fifo("produce", "orders", file, *how, "id").out
    assert len(stored(fifo)) == 6


def test_bad_records_stop_or_are_counted(fifo: Penstock) -> None:
    lines = JSONL + "{\n" + '{"id": 8}\n' + '{"id": 9, "user": ""}\n' + json.dumps({"id": 10, "user": "x" * 64}) + "\n"
    stopped = fifo("produce", "orders", "--group", "user", stdin=lines, code=2)
    assert "the line is no JSON" in stopped.err
    assert "standard input, line 7" in stopped.err
    assert "6 messages" in stopped.out
    skipped = fifo("produce", "orders", "--group", "user", "--on-error", "skip", stdin=lines)
    assert "4 bad records skipped" in skipped.out
    for reason in ("no JSON", "there is no field user", "takes FIFO messages", "the message group is over the limit"):
        assert f"skipped: {reason}" in skipped.err.replace("the line is ", "").replace("the topic ", "")
    fifo("produce", "orders", "--group", "user", "--on-error", "skip", stdin="{\n", code=2)  # nothing was good


class Watched(io.BytesIO):
    """A file that notes the threads in which it is read."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.threads: set[int] = set()

    def read(self, size: int | None = -1, /) -> bytes:
        self.threads.add(threading.get_ident())
        return super().read(size)


@pytest.mark.parametrize("on_error", ["stop", "skip"])
def test_parquet_is_read_in_no_thread_of_arrows(fifo: Penstock, monkeypatch: pytest.MonkeyPatch, on_error: str) -> None:
    """It would need the interpreter beyond its end, and abort the process."""
    written = io.BytesIO()
    pq.write_table(pa.Table.from_pylist([{"id": n, "user": f"u{n}", "body": "{}"} for n in range(100)]), written)
    file = Watched(written.getvalue())
    monkeypatch.setattr("penstock.infra.cli.messages.file_import.open_file", lambda url: nullcontext(file))
    said = fifo("produce", "orders", "rows.parquet", "--body", "body", "--group", "user", "--on-error", on_error, "--json")
    assert (said.rows[0]["sent"], file.threads) == (100, {threading.get_ident()})


def test_a_sequence_that_goes_back_is_never_skipped(fifo: Penstock) -> None:
    lines = '{"id": 2, "user": "u"}\n{"id": 1, "user": "u"}\n'
    args = ("--group", "user", "--name", "n", "--sequence", "id", "--on-error", "skip")
    said = fifo("produce", "orders", *args, stdin=lines, code=2)
    assert "the sequence does not rise" in said.err
    assert "sort the input" in said.err
    assert "record 2" in said.err


def test_parquet_columns_go_as_columns(fifo: Penstock, tmp_path: Path) -> None:
    file = tmp_path / "rows.parquet"
    rows = [{"id": n, "user": f"u{n % 3}", "body": json.dumps({"id": n})} for n in range(100)]
    pq.write_table(pa.Table.from_pylist(rows), file)
    args = (
        "produce",
        "orders",
        file,
        "--body",
        "body",
        "--group",
        "user-{user}",
        "--key",
        "id",
        "--name",
        "n",
        "--sequence",
        "line",
    )
    assert fifo(*args, "--json").rows[0]["sent"] == 100
    assert fifo(*args, "--json").rows[0]["duplicates"] == 100
    found = stored(fifo)
    assert [row["keys"] for row in found] == [[str(n)] for n in range(100)]
    assert found[5]["message_group"] == "user-u2"
    bad = tmp_path / "bad.parquet"
    pq.write_table(pa.Table.from_pylist([*rows, {"id": 1, "user": "x" * 80, "body": "{}"}]), bad)
    said = fifo("produce", "orders", bad, "--body", "body", "--group", "user", code=2)
    assert "bad.parquet, row 101" in said.err


LABELS = st.builds(
    MessageLabels,
    message_group=st.sampled_from([None, "text", "number", "{text}-{number}", "g{{{text}}}"]),
    tag=st.sampled_from([None, "text", "number"]),
    keys=st.sampled_from([(), ("text",), ("{number}/{record_number}",)]),
    body=st.sampled_from(["text", "bytes"]),
    sequence=st.sampled_from([None, "number", "record_number"]),
)
ROWS = st.lists(
    st.fixed_dictionaries(
        {"text": st.sampled_from([None, "", "a", "ü"]), "number": st.none() | st.integers(0, 99), "bytes": st.binary(max_size=3)}
    ),
    min_size=1,
    max_size=4,
)
SCHEMA = pa.schema([("text", pa.string()), ("number", pa.int64()), ("bytes", pa.binary())])


@settings(max_examples=examples(200), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(labels=LABELS, rows=ROWS)
def test_columns_give_what_records_give(tmp_path: Path, labels: MessageLabels, rows: list[dict[str, Any]]) -> None:
    # The quick way must refuse, or build the same messages as the loop over records.
    plan = columns_of(SCHEMA, labels)
    assert plan is not None
    file = tmp_path / "rows.parquet"
    pq.write_table(pa.Table.from_pylist(rows, SCHEMA), file)
    batch = pa.RecordBatch.from_pylist(rows, SCHEMA).select(plan.read)
    try:
        with file.open("rb") as opened:
            records = list(read_records(opened, FileFormat.PARQUET, name="rows", labels=labels))
    except InvalidArgument:
        with pytest.raises(InvalidArgument):
            plan.table(batch, first_row=0, name="rows")
        return
    built = plan.table(batch, first_row=0, name="rows").to_pylist()
    # A body that is null is refused by the producer, and is the text "null" in the loop.
    expected = [(r.body, r.message_group, r.tag, list(r.keys), r.sequence) for r in records]
    found = [
        (
            b"null" if row["body"] is None else row["body"],
            row.get("message_group"),
            row.get("tag"),
            row.get("keys", []),
            row.get("sequence"),
        )
        for row in built
    ]
    assert found == expected


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["produce", "absent"], "there is no such topic"),
        (["produce", "orders", "no-such-file.jsonl"], "there is no such file"),
        (["produce", "orders", "data.xyz"], "the name does not tell the format"),
        (["produce", "orders", "--format", "parquet"], "this is no Parquet file"),
        (["produce", "orders", "nope://x/a.jsonl"], "not a file's URL"),
        (["produce", "orders", "--group", "{user"], "malformed format string"),
        (["produce", "orders", "--group", "nobody"], "there is no field nobody"),
        (["produce", "orders"], "the topic takes FIFO messages, and this is a NORMAL message"),
        (["produce", "orders", "--group", "user", "--sequence", "id"], "--sequence needs --name"),
        (["produce", "orders", "a.csv", "b.csv", "--name", "n", "--sequence", "line"], "--sequence line takes one file"),
        (["produce", "orders", "--property", "x"], "'x' is no property; write NAME=SPEC"),
        (["produce", "orders", "--group", "user", "--name", "n", "--sequence", "kind"], "the sequence, kind, is no integer"),
    ],
)
def test_wrong_calls_are_told(fifo: Penstock, args: list[str], message: str) -> None:
    assert message in fifo(*args, stdin=JSONL, code=2).err


def test_half_a_gzip_file_is_told(fifo: Penstock) -> None:
    assert (
        "not a whole gzip file"
        in fifo("produce", "orders", "--group", "user", stdin=gzip.compress(JSONL.encode())[:-9], code=2).err
    )


def test_what_is_no_bad_record_is_reported_too(fifo: Penstock, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(MessageLabels, "_sequence", fail)
    said = fifo("produce", "orders", "--group", "user", stdin=JSONL, code=1)
    assert "0 messages to orders" in said.out
    assert "please report it" in said.err


def test_a_fenced_import_knows_that_the_rest_was_not_written(fifo: Penstock, lake: Path) -> None:
    reports: list[ImportSummary] = []
    with connect(lake) as opened:
        importing = FileImport(
            opened.producer("orders", name="nightly"),
            {FileFormat.JSONL: MessageLabels(message_group="user")},
            skip=False,
            signals=Signals(),
        )
        with opened.producer("orders", name="nightly"):
            file = lake.parent / "lines.jsonl"
            file.write_text(JSONL)
            with pytest.raises(FencedError, match=r"opened by entry \d+.*which fences that one"):
                importing.run([ImportFile(str(file), FileFormat.JSONL)], report=reports.append)
    (summary,) = reports
    assert (summary.sent, summary.unknown, summary.not_written) == (0, 0, 6)


def test_nobody_produces_to_the_topic_that_says_who_did_what(fifo: Penstock) -> None:
    fifo("topic", "create", "penstock-audit", "--queues", "1")
    assert "which alone writes it" in fifo("produce", "penstock-audit", stdin=JSONL, code=2).err
    assert stored(fifo, "penstock-audit") == []
