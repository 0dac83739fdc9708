"""`penstock sync --config`: a file's settings and options of tables; each that is wrong is named, with its line, before anything is done."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.cdc.choice.masks import sha256
from tests.cdc.sync.streams import TOPIC, event, rows, send
from tests.infra.cli.conftest import Penstock

GOOD = """
into = "INTO"
engine = "deltalake"
tables = ["sales.*", "crm.people"]   # all of the shop's
max_bytes = "64MiB"

[rename]
"sales.*" = "{schema}_{table}"

[table."sales.*"]
columns = { amount = "decimal(12,2)" }

[table."crm.people"]
masks = { email = "sha256", "tax*" = "last4" }
without_columns = ["note"]
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "sync.toml"


@pytest.mark.processes
def test_a_file_says_what_to_sync_and_options_go_before_it(penstock: Penstock, lake: Path, tmp_path: Path, file: Path) -> None:
    ann = {"id": 1, "email": "ann@x", "tax_id": "0123456789", "note": "x"}
    send(
        str(lake),
        [
            event("c", "orders", {"id": 1}, {"id": 1, "amount": "1.5"}, schema="sales"),
            event("c", "people", {"id": 1}, ann, schema="crm"),
            event("c", "other", {"id": 1}, {"id": 1}, schema="hr"),
        ],
    )
    file.write_text(GOOD.replace("INTO", str(tmp_path / "a")))
    assert penstock("sync", TOPIC, "--config", file, "--once").out == "3 events in 1 batches.\n"
    assert {path.name for path in (tmp_path / "a").iterdir()} == {"sales_orders", "people"}
    assert rows(tmp_path / "a" / "people") == [{"id": 1, "email": sha256("ann@x"), "tax_id": "****6789"}]
    more = ["--into", tmp_path / "b", "--name", "other", "--table", "hr.*", "--rename", "hr.*=staff"]
    said = penstock("sync", TOPIC, "--config", file, "--once", *more)
    assert {path.name for path in (tmp_path / "b").iterdir()} == {"staff"}
    assert [line.partition(" is named")[0] for line in said.err.splitlines() if "is it misspelt?" in line] == [
        "crm.people",
        "sales.*",
    ]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("into = ", "the file is no TOML"),
        ('into = "x"\nintto = "y"', "line 2: intto| did you mean into?"),
        ('into = "x"\n\ntabels = ["a"]', "line 3: tabels| did you mean tables?"),
        ('tables = "a"', "bad tables|line 1: tables|a list of names or patterns"),
        ("max_events = 1.5", "bad max_events|a whole number"),
        ("widen = 1", "bad widen|line 1: widen|true or false"),
        ("max_events = 0", "bad max_events|a whole number of 1 or more"),
        ('max_bytes = "much"', "bad max_bytes|'much' is no size"),
        ('interval = "soon"', "bad interval|'soon' is no duration"),
        ('engine = "flink"', "bad engine|'spark' or 'deltalake'"),
        ('history = "yes"', "bad history|true, false or a list of tables"),
        ("rename = 1", "bad rename|names of targets by table"),
        ('[rename]\nsales.orders = "x"', "bad rename|a name with a dot, or a pattern, stands in quotes"),
        ('[rename]\n"a" = "{shema}"', "line 2: rename.a|this is no name of a target|{shema}"),
        ("table = 1", 'sections such as [table."sales.orders"]'),
        ("[table]\norders = 1", 'line 2: table.orders|sections such as [table."orders"]'),
        ("[table.orders]\nkey = ['id']\nmask = {a = 'null'}", "line 3: table.orders.mask|did you mean masks?"),
        ("[table.sales.orders]\nkey = ['id']", 'there is no such option of a table|in quotes: [table."sales.orders"]'),
        ("[table.orders]\nkey = 'id'", "bad key|line 2: table.orders.key|a list of columns"),
        ("[table.orders]\nkey = ['id']\n[table.lines]\nkey = []", "bad key|line 4: table.lines.key"),
        ("[table.orders]\ncolumns = {amount = 'decmal'}", "line 2: table.orders.columns|'decmal'"),
        ("[table.orders]\nmasks = {email = 'sha265'}", "there is no such mask|line 2: table.orders.masks|did you mean sha256?"),
        ("[table.orders]\nkey = ['id']\nmasks = {'i*' = 'null'}", "line 1: table.orders|column id is of the key"),
        ("[table.orders]\nhistory = 'yes'", "bad history|true or false"),
    ],
)
def test_what_is_wrong_is_named(penstock: Penstock, file: Path, content: str, told: str) -> None:
    file.write_text(content)
    said = " ".join(penstock("sync", TOPIC, "--config", file, code=2).err.split())
    assert str(file) in said
    for part in told.split("|"):
        assert part.strip() in said


def test_a_file_that_is_not_there_and_a_wrong_rename(penstock: Penstock, tmp_path: Path) -> None:
    assert "does not exist" in penstock("sync", TOPIC, "--config", tmp_path / "none.toml", code=2).err
    assert "--rename is TABLE=NAME, not 'orders'." in penstock("sync", TOPIC, "--into", "x", "--rename", "orders", code=2).err


def test_a_dry_run_says_what_would_be_made_and_does_nothing(penstock: Penstock, lake: Path, tmp_path: Path, file: Path) -> None:
    ann = {"id": 1, "email": "ann@x", "tax_id": "0123456789", "note": "x"}
    send(
        str(lake),
        [
            event("c", "orders", {"id": 1}, {"id": 1, "amount": "1.5"}, schema="sales"),
            event("u", "orders", {"id": 1}, {"id": 1, "amount": "2.5"}, schema="sales"),
            event("c", "people", {"id": 1}, ann, schema="crm"),
            event("c", "keyless", None, {"n": 1}, schema="sales"),
            event("c", "other", {"id": 1}, {"id": 1}, schema="hr"),
        ],
        queues=1,
    )
    into = tmp_path / "targets"
    misspelt = '\n[table.orers]\nhistory = false\n[table."*.orders"]\ncolumns = { amuont = "int" }\n'
    file.write_text(GOOD.replace("INTO", str(into)) + misspelt)
    before = {path: path.stat().st_mtime_ns for path in lake.rglob("*")}
    said = penstock("sync", TOPIC, "--config", file, "--dry-run", code=1)
    assert said.out.splitlines() == [
        f"crm.people: 1 events into {into}/people: to be made",
        "  key      id",
        "  columns  id bigint, email string, tax_id string",
        "  masks    email sha256, tax_id last4",
        "  left out note",
        "sales.keyless: 1 events: STANDS STILL",
        "  reason   it stands still at queue 0, offset 3: it has no key, and no key is declared for its table",
        f"sales.orders: 2 events into {into}/sales_orders: to be made",
        "  key      id",
        "  columns  id bigint, amount decimal(12,2)",
        "4 events of 3 tables; 1 others.",
    ]
    assert [line.partition(" is named")[0] for line in said.err.splitlines()] == ["*.orders.amuont", "orers"]
    assert before == {path: path.stat().st_mtime_ns for path in lake.rglob("*")}
    assert not into.exists()
    (plan,) = penstock("sync", TOPIC, "--config", file, "--dry-run", "--table", "people", "--json").rows
    assert [(one["table"], one["what"], one["events"], one["masks"]["email"]) for one in plan["tables"]] == [
        ("crm.people", "make", 1, "sha256")
    ]
    assert plan["unmatched"] == ["*.orders", "orers", "sales.*"]
    send(str(lake), [b"{half", event("c", "orders", {"id": None}, {"id": None}, schema="sales")], queues=1)
    said = penstock("sync", TOPIC, "--config", file, "--dry-run", code=1)
    assert "the sync would end at queue 0, offset 5: this is no JSON" in said.err
    rejecting = penstock("sync", TOPIC, "--config", file, "--dry-run", "--policy", "reject").out
    assert "  unfit    events are rejected\n  rejected 1 events, or more: no value was converted\n" in rejecting
    assert "STANDS STILL" not in rejecting


@pytest.mark.thorough
@pytest.mark.processes
def test_a_file_says_that_columns_become_wider_with_their_source(
    penstock: Penstock, lake: Path, tmp_path: Path, file: Path
) -> None:
    send(str(lake), [event("c", "orders", {"id": 1}, {"id": 1})])
    for widen, code in (("true", 2), ("false", 0)):
        file.write_text(f'into = "{tmp_path / "a"}"\nengine = "deltalake"\nwiden = {widen}\n')
        said = penstock("sync", TOPIC, "--config", file, "--once", code=code).err
        assert ("widen" in said) is (widen == "true")


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--history", "orders"], "the sync without Spark keeps no history"),
        (["--widen"], "the sync without Spark cannot widen types"),
        (["--name", "a/b"], "bad name of a sync"),
        (["--rejected", "mine"], "bad name of the table of rejected events"),
        (["--into", "a#b"], "not every engine can write tables into a folder of this name"),
    ],
)
def test_a_dry_run_refuses_what_the_sync_would_refuse(penstock: Penstock, lake: Path, options: list[str], why: str) -> None:
    send(str(lake), [event("c", "orders", {"id": 1}, {"id": 1})])
    assert why in penstock("sync", TOPIC, "--into", "t", "--engine", "deltalake", "--dry-run", *options, code=2).err


@pytest.mark.processes
def test_a_dry_run_looks_at_targets_that_are_there(penstock: Penstock, lake: Path, tmp_path: Path) -> None:
    send(str(lake), [event("c", "orders", {"id": 1}, {"id": 1}), event("c", "bills", {"id": 1}, {"id": 1})])
    into = tmp_path / "targets"
    penstock("sync", TOPIC, "--into", into, "--engine", "deltalake", "--once", "--table", "orders")
    send(str(lake), [event("u", "orders", {"id": 1}, {"id": 1, "n": 1})])
    (plan,) = penstock("sync", TOPIC, "--into", into, "--engine", "deltalake", "--dry-run", "--json").rows
    assert [(one["table"], one["what"], one["columns"]) for one in plan["tables"]] == [
        ("public.bills", "make", {"id": "bigint"}),
        ("public.orders", "go on", {"id": "bigint", "n": "bigint"}),
    ]
    said = penstock("sync", TOPIC, "--into", into, "--name", "other", "--engine", "deltalake", "--dry-run", code=1).out
    assert "public.orders: 2 events: STANDS STILL" in said
    assert "the target was written by someone else" in said
