"""`penstock topic create --schema`, and `penstock topic schema`."""

from __future__ import annotations

import json
from pathlib import Path

from tests.infra.cli.conftest import Penstock

DDL = "id bigint not null, customer string, amount decimal(12,2)"


def create(penstock: Penstock, *more: str) -> None:
    penstock("topic", "create", "orders", "--queues", "1", "--schema", DDL, *more)


def test_a_typed_topic_is_made_and_shown(penstock: Penstock) -> None:
    said = penstock(
        "topic",
        "create",
        "orders",
        "--type",
        "FIFO",
        "--queues",
        "1",
        "--schema",
        DDL,
        "--message-group",
        "customer",
        "--keys",
        "id, customer",
        "--bloom",
        "id",
    )
    assert said.out == "Topic orders: FIFO, typed, 1 queues, kept 3d.\n"
    penstock("topic", "create", "plain")
    listed = {row["topic"]: row for row in penstock("topic", "list", "--json").rows}
    assert (listed["orders"]["typed"], listed["orders"]["message_group"], listed["orders"]["keys"]) == (
        True,
        "customer",
        ["id", "customer"],
    )
    assert (listed["orders"]["bloom"], listed["plain"]["typed"]) == (["id"], False)
    assert "FIFO, typed" in penstock("topic", "list").out
    (described,) = penstock("topic", "describe", "orders", "--json").rows
    assert (described["schema"], described["schema_version"], described["settings"]["typed"]) == (DDL, 1, True)
    shown = " ".join(penstock("topic", "describe", "orders").out.split())
    assert f"schema {DDL} schema version 1 message group from customer keys from id, customer Bloom filters of id queues 1" in shown
    assert penstock("topic", "schema", "show", "orders").out == DDL + "\n"
    assert "schema" not in penstock("topic", "describe", "plain").out


def test_a_schema_comes_from_a_file(penstock: Penstock, tmp_path: Path) -> None:
    file = tmp_path / "order.json"
    file.write_text(json.dumps({"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}))
    penstock("topic", "create", "orders", "--schema", f"@{file}")
    assert penstock("topic", "schema", "show", "orders").out == "id bigint not null\n"
    missing = penstock("topic", "create", "others", "--schema", f"@{tmp_path}/none.sql", code=2)
    assert "the schema's file cannot be read" in missing.err
    wrong = penstock("topic", "create", "others", "--schema", "id whole", "--json", code=2)
    assert json.loads(wrong.err)["error"] == "invalid_argument"


def test_a_schema_evolves_and_remembers(penstock: Penstock) -> None:
    create(penstock)
    new = "id bigint, buyer string, amount decimal(20,2), note string"
    dry = penstock("topic", "schema", "evolve", "orders", "--schema", new, "--rename", "customer=buyer", "--dry-run")
    assert dry.out.splitlines() == [
        "Topic orders would get version 2 of its schema:",
        "  relaxed id: may be NULL now",
        "  renamed customer: now buyer",
        "  widened amount: decimal(12,2) to decimal(20,2)",
        "  added note: string",
    ]
    assert penstock("topic", "schema", "show", "orders").out == DDL + "\n"
    done = penstock("topic", "schema", "evolve", "orders", "--schema", new, "--rename", "customer=buyer", "--json").rows
    assert (done[0]["version"], done[0]["schema"], len(done[0]["changes"])) == (2, new, 4)
    again = penstock("topic", "schema", "evolve", "orders", "--schema", new)
    assert again.out == "Topic orders has this schema, as version 2.\n"
    (shown,) = penstock("topic", "schema", "show", "orders", "--json").rows
    assert shown["fields"][1] == {
        "id": 2,
        "path": "buyer",
        "stored_name": "customer",
        "type": "string",
        "nullable": True,
        "former_names": ["customer"],
        "comment": "",
    }
    penstock("topic", "schema", "evolve", "orders", "--schema", "id bigint, buyer string, amount decimal(20,2)", "--retire", "note")
    history = penstock("topic", "schema", "history", "orders", "--json").rows
    assert [(one["version"], one["changes"]) for one in history] == [
        (1, []),
        (2, done[0]["changes"]),
        (3, ["retired note"]),
    ]
    assert penstock("topic", "schema", "history", "orders").out.splitlines()[-1].endswith("retired note")


def test_a_check_says_what_would_change_or_refuses(penstock: Penstock, tmp_path: Path) -> None:
    create(penstock)
    file = tmp_path / "next.sql"
    file.write_text(f"{DDL}, note string")
    assert penstock("topic", "schema", "check", "orders", file).out.splitlines()[1:] == ["  added note: string"]
    (told,) = penstock("topic", "schema", "check", "orders", file, "--json").rows
    assert (told["version"], told["changes"], told["dry_run"]) == (2, ["added note: string"], True)
    file.write_text("id string not null, customer string, amount decimal(12,2)")
    refused = penstock("topic", "schema", "check", "orders", file, code=1)
    assert "the field's type cannot change in this way" in refused.err
    assert "id" in refused.err
    assert json.loads(penstock("topic", "schema", "check", "orders", file, "--json", code=1).err)["object"] == "id"
    file.write_text("id bigint not null, amount decimal(12,2)")
    assert "customer" in penstock("topic", "schema", "check", "orders", file, code=1).err
    penstock("topic", "schema", "check", "orders", file, "--retire", "customer")
    file.write_text("what is this")
    penstock("topic", "schema", "check", "orders", file, code=2)
    penstock("topic", "schema", "check", "nowhere", file, code=2)
    assert [one["version"] for one in penstock("topic", "schema", "history", "orders", "--json").rows] == [1]


def test_wrong_calls_are_told(penstock: Penstock) -> None:
    penstock("topic", "create", "plain")
    for command in (["show"], ["history"], ["evolve", "--schema", "id int"]):
        assert "the topic has no schema" in penstock("topic", "schema", command[0], "plain", *command[1:], code=2).err
    create(penstock)
    assert "renames nothing" in penstock("topic", "schema", "evolve", "orders", "--schema", DDL, "--rename", "id", code=2).err
    assert "a topic without a schema has no fields" in penstock("topic", "create", "x", "--message-group", "id", code=2).err
    other = penstock("topic", "create", "orders", "--queues", "1", "--schema", "id string", code=2)
    assert "the topic exists with another schema" in other.err
    assert "customer is missing; amount is missing; id: bigint not null there, string here" in other.err
