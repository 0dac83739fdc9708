"""Commands on names that Kafka's clients have: a topic with dots, and a group that a shell must quote."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from penstock.infra.terminal import completion
from tests.infra.cli.conftest import Penstock
from tests.infra.cli.test_dlq import bury
from tests.runner import cli_runner

TOPIC, GROUP = "inventory.public.customers", "connect-cluster/αβ group#1"
ROW = '{"id":1}'
LETTERS = "%DLQ%connect-cluster!2f!ce!b1!ce!b2!20group!231"


@pytest.fixture
def filled(penstock: Penstock, lake: Path) -> Penstock:
    penstock("topic", "create", TOPIC, "--queues", "1")
    penstock("produce", TOPIC, stdin=f"{ROW}\n")
    penstock("group", "create", GROUP)
    penstock("group", "reset", GROUP, TOPIC, "--to", "earliest", "--yes")
    asyncio.run(bury(lake, TOPIC, GROUP, ["failed"]))
    return penstock


def test_commands_take_and_tell_them(filled: Penstock) -> None:
    assert [row["topic"] for row in filled("topic", "list", "--json").rows] == [LETTERS, TOPIC]
    assert [row["group"] for row in filled("group", "list", "--json").rows] == [GROUP]
    assert {row["group"] for row in filled("group", "lag", "--json").rows} == {GROUP}
    (described,) = filled("group", "describe", GROUP, "--json").rows
    assert (described["group"], {one["topic"] for one in described["queues"]}) == (GROUP, {TOPIC})
    assert [(row["group"], row["topic"]) for row in filled("dlq", "list", "--json").rows] == [(GROUP, LETTERS)]
    (letter,) = filled("dlq", "read", GROUP, "--json").rows
    assert letter["origin"]["topic"] == TOPIC
    assert [row["body"] for row in filled("read", LETTERS, "--json").rows] == [ROW]
    (report,) = filled("dlq", "redrive", GROUP, "--json").rows
    assert (report["group"], report["sent"]) == (GROUP, 1)
    assert GROUP in filled("group", "list").out
    assert filled("verify", "--json").rows
    filled("maintain", "--once")
    filled("group", "delete", GROUP, "--yes")
    for name in (TOPIC, LETTERS):
        filled("topic", "delete", name, "--yes")
    assert filled("topic", "list", "--json").rows == filled("group", "list", "--json").rows == []


@pytest.mark.parametrize(
    ("shell", "begun", "offered"),
    [
        ("bash", "", f"plain,'{GROUP}'"),
        ("bash", "'connect-cluster/α", f"plain,'{GROUP}'"),
        ("fish", "conn", f"plain,{GROUP}\tORDERLY"),
    ],
)
def test_the_shell_completes_a_group_as_one_word(
    filled: Penstock, lake: Path, monkeypatch: pytest.MonkeyPatch, shell: str, begun: str, offered: str
) -> None:
    from penstock.infra.cli import main

    monkeypatch.setattr(completion, "PATIENCE_S", 60.0)
    line = f"penstock group describe {begun}"
    env = {"PENSTOCK_LAKE": str(lake), "_PENSTOCK_COMPLETE": f"{shell}_complete", "COMP_WORDS": line}
    env["COMP_CWORD"] = begun if shell == "fish" else "3"
    assert cli_runner().invoke(main, [], env=env, prog_name="penstock").stdout.splitlines() == [offered]
