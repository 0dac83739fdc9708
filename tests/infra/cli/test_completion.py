"""TAB: topics, groups and message ids of the lake, and silence where they cannot be looked up."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock import connect
from penstock.infra.cli import main
from penstock.infra.terminal import completion
from penstock.infra.terminal.completion import rejoin_words
from tests.infra.cli.conftest import Penstock
from tests.infra.cli.test_start import CALL, HEAVY, loaded_by
from tests.runner import cli_runner
from tests.tree import ROOT

Tab = Callable[..., list[str]]
PATIENCE_S = 60.0


@pytest.fixture
def tab(lake: Path, monkeypatch: pytest.MonkeyPatch) -> Tab:
    """Press TAB behind the words, which bash has split; ``cursor`` is the number of the word at the cursor."""
    monkeypatch.setattr(completion, "PATIENCE_S", PATIENCE_S)

    def press(*words: str, cursor: int | None = None, **environment: str) -> list[str]:
        line = ["penstock", *(word.format(lake=lake) for word in words)]
        env = {
            "PENSTOCK_LAKE": None,
            "PENSTOCK_COORDINATION": None,
            "_PENSTOCK_COMPLETE": "bash_complete",
            "COMP_WORDS": " ".join(line),
            "COMP_CWORD": str(len(line) - 1 if cursor is None else cursor),
            **environment,
        }
        result = cli_runner().invoke(main, [], env=env, prog_name="penstock")
        assert result.exit_code == 0
        assert not result.stderr
        return [item.removeprefix("plain,") for item in result.stdout.splitlines() if item]

    return press


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake with topics, one deleted, and groups, one deleted."""
    path = tmp_path_factory.mktemp("template") / "lake"
    with connect(path, maintenance=False) as made:
        for name in ("orders", "offers", "gone"):
            made.create_topic(name, queues=2)
        made.create_topic("later", message_type="DELAY")
        made.delete_topic("gone")
        for name in ("billing", "audit", "former"):
            made.create_group(name)
        made.delete_group("former")
    return path


@pytest.fixture
def filled(template: Path, lake: Path) -> Path:
    shutil.copytree(template, lake)
    return lake


def test_topics_are_completed_from_the_lake_before_and_behind_the_command(filled: Path, tab: Tab) -> None:
    assert tab("--lake", "{lake}", "topic", "describe", "") == ["later", "offers", "orders"]
    assert tab("topic", "describe", "--lake", "{lake}", "of") == ["offers"]
    assert tab("topic", "describe", "o", "--lake", "{lake}", cursor=3) == ["offers", "orders"]
    assert tab("topic", "describe", "", "--lake", "{lake}", cursor=3) == ["later", "offers", "orders"]
    assert tab("read", "--lake", "=", "{lake}", "of") == ["offers"]
    assert tab("group", "reset", "billing", "of", PENSTOCK_LAKE=str(filled)) == ["offers"]
    assert tab("trace", "x", "--topic", "or", PENSTOCK_LAKE=str(filled)) == ["orders"]


def test_a_lake_that_is_named_on_the_line_comes_before_the_environments(filled: Path, tab: Tab, tmp_path: Path) -> None:
    elsewhere = str(tmp_path / "elsewhere")
    assert tab("read", "", PENSTOCK_LAKE=elsewhere) == []
    assert tab("group", "describe", "", PENSTOCK_LAKE=elsewhere) == []
    assert tab("--lake", "{lake}", "read", "la", PENSTOCK_LAKE=elsewhere) == ["later"]
    assert not Path(elsewhere).exists()


def test_topics_of_our_own_are_offered_to_who_begins_to_write_one(filled: Path, tab: Tab) -> None:
    assert tab("--lake", "{lake}", "read", "%") == ["%TIMER%later"]


def test_the_name_of_something_new_is_not_completed(filled: Path, tab: Tab) -> None:
    assert tab("--lake", "{lake}", "topic", "create", "o") == []
    assert tab("--lake", "{lake}", "group", "create", "b") == []


def test_groups_are_completed(filled: Path, tab: Tab) -> None:
    assert tab("--lake", "{lake}", "group", "describe", "") == ["audit", "billing"]
    assert tab("consume", "orders", "--lake", "{lake}", "--group", "b") == ["billing"]
    assert tab("dlq", "redrive", "--lake", "{lake}", "a") == ["audit"]


def test_groups_are_looked_up_in_the_table_that_is_named(tab: Tab, penstock: Penstock, tmp_path: Path) -> None:
    table, lake = f"sqlite://{tmp_path}/groups.db", str(tmp_path / "other")
    penstock("--lake", lake, "--coordination", table, "group", "create", "elsewhere")
    assert tab("--lake", lake, "group", "describe", "--coordination", table, "") == ["elsewhere"]
    # bash splits a URL at its colon.
    assert tab("--lake", lake, "group", "describe", "--coordination", *table.partition(":"), "") == ["elsewhere"]


def test_message_ids_are_completed_the_newest_first(penstock: Penstock, tab: Tab, lake: Path) -> None:
    penstock("topic", "create", "orders", "--queues", "1")
    penstock("topic", "create", "offers", "--queues", "1")
    for topic in ("orders", "offers"):
        penstock("produce", topic, stdin='{"n": 1}\n{"n": 2}\n')
    sent = {topic: [row["message_id"] for row in penstock("read", topic, "--json").rows] for topic in ("orders", "offers")}
    assert sorted(tab("--lake", "{lake}", "read", "orders", "--id", "")) == sorted(sent["orders"])
    assert sorted(tab("--lake", "{lake}", "trace", "")) == sorted([*sent["orders"], *sent["offers"]])
    assert tab("--lake", "{lake}", "trace", sent["offers"][0]) == [sent["offers"][0]]


@pytest.mark.parametrize(
    "words",
    [
        ("topic", "describe", ""),
        ("group", "describe", ""),
        ("trace", ""),
        ("read", "orders", "--id", ""),
        ("dlq", "read", "billing", "--id", ""),
    ],
)
@pytest.mark.parametrize("url", ["", "/nowhere/at/all", "nonsense://lake", "s3://bucket/prefix?endpoint=http://127.0.0.1:9"])
def test_a_lake_that_cannot_be_looked_into_completes_nothing_and_says_nothing(
    tab: Tab, words: tuple[str, ...], url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "none")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "none")
    if url.startswith("s3"):
        url += "&timeout_s=0.2&connect_timeout_s=0.2"
    assert tab(*words, PENSTOCK_LAKE=url) == []


def test_a_damaged_topic_is_left_out(filled: Path, tab: Tab) -> None:
    next((filled / "topics" / "orders").glob("topic.json")).write_bytes(b"nonsense")
    assert tab("--lake", "{lake}", "topic", "describe", "o") == ["offers"]


HANGS = """
import threading
from penstock.infra.cli import main
from penstock.infra.terminal import completion
from penstock.log.stores.local import LocalStore

async def list_folders(self, prefix):
    return await self._run("list", prefix, threading.Event().wait)  # a share that answers no more

LocalStore.list_folders = list_folders
completion.PATIENCE_S = 0.05
main(prog_name="penstock")
"""


def test_a_store_that_does_not_answer_is_not_waited_for(tmp_path: Path) -> None:
    words = {"COMP_WORDS": "penstock topic describe ", "COMP_CWORD": "3", "PENSTOCK_LAKE": str(tmp_path)}
    env = {**os.environ, "_PENSTOCK_COMPLETE": "bash_complete", **words}
    run = subprocess.run([sys.executable, "-c", HANGS], cwd=ROOT, check=True, capture_output=True, text=True, env=env, timeout=60)
    assert (run.stdout.strip(), run.stderr) == ("", "")


def test_completing_topics_and_groups_loads_nothing_heavy(lake: Path, penstock: Penstock) -> None:
    penstock("group", "create", "billing")
    for line in ("penstock topic describe ", "penstock group describe "):
        words = {"_PENSTOCK_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": "3"}
        assert not loaded_by(CALL, PENSTOCK_LAKE=str(lake), **words) & HEAVY


@pytest.mark.parametrize(
    ("words", "cursor", "joined"),
    [
        (("p", "read", "o"), 2, (("p", "read", "o"), 2)),
        (("p", "--lake", "s3", ":", "//b/x", "read", ""), 6, (("p", "--lake", "s3://b/x", "read", ""), 4)),
        (("p", "--lake", "=", "s3", ":", "//b", "read"), 6, (("p", "--lake=s3://b", "read"), 2)),
        (("p", "read", "o", "--lake", "s3", ":", "//b"), 2, (("p", "read", "o", "--lake", "s3://b"), 2)),
        (("p", "--lake", "s3", ":", "//b"), 4, (("p", "--lake", "s3://b"), 2)),
    ],
)
def test_words_that_bash_split_are_joined(words: tuple[str, ...], cursor: int, joined: tuple[tuple[str, ...], int]) -> None:
    found, at = rejoin_words(words, cursor)
    assert (tuple(found), at) == joined
