"""``--exit-code``: a script can branch on whether anything was found."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock import connect
from tests.infra.cli.conftest import Penstock

ID = "0" * 32


@pytest.fixture
def shop(penstock: Penstock, lake: Path) -> Penstock:
    with connect(lake, maintenance=False) as opened:
        opened.create_topic("orders", queues=1)
        opened.create_topic("later", message_type="DELAY", queues=1)
        opened.create_group("billing")
    return penstock


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("read", "orders", "--id", ID), "No messages."),
        (("read", "orders"), "No messages."),
        (("trace", ID), "No message of this id in 3 topics"),
        (("timer", "list", "later"), "Nothing waits."),
        (("tx", "list"), "No transaction is open."),
        (("dlq", "list"), "No group has dead letters."),
        (("group", "parked", "billing"), "Nothing is parked."),
        (("workers", "--patience", "0s"), ""),
    ],
)
def test_nothing_found_is_an_exit_code_where_it_is_asked_for(shop: Penstock, command: tuple[str, ...], said: str) -> None:
    assert said in shop(*command).err
    assert said in shop(*command, "--exit-code", code=1).err
    assert not shop(*command, "--exit-code", "--json", code=1).err
    assert "Exit with 1 when nothing is found." in " ".join(shop(*command, "--help").out.split())


def test_what_was_found_ends_well(shop: Penstock) -> None:
    shop("produce", "orders", stdin='{"n": 1}\n')
    (message,) = shop("read", "orders", "--json", "--exit-code").rows
    shop("read", "orders", "--id", message["message_id"], "--exit-code")
    shop("trace", message["message_id"], "--exit-code")
    shop("produce", "later", "--delay", "10d", stdin='{"n": 1}\n')
    shop("timer", "list", "later", "--exit-code")
    shop("topic", "list", "--exit-code")
    shop("group", "list", "--exit-code")


def test_an_empty_lake_has_no_topics_and_no_groups(penstock: Penstock, lake: Path) -> None:
    assert f"No topics in {lake}." in penstock("topic", "list", "--exit-code", code=1).err
    assert not penstock("topic", "list", "--json").err
    penstock("group", "list", "--exit-code", code=1)


def test_what_is_not_there_names_the_lake_that_was_looked_at(
    penstock: Penstock, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(lake.parent)
    for command in (("read", "nowhere"), ("group", "describe", "nobody")):
        refused = penstock(*command, "--lake", "./elsewhere", code=2).err
        assert f"  lake:      {lake.parent / 'elsewhere'}\n" in refused
        assert json.loads(penstock(*command, "--json", code=2).err)["lake"] == str(lake)


def test_a_failure_keeps_its_own_exit_code(shop: Penstock) -> None:
    assert "there is no such topic" in shop("read", "nowhere", "--exit-code", code=2).err
