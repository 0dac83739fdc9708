"""`penstock run` in one process: what a program is told before any work, and what is called around it."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock import Message, connect
from tests.infra.cli.conftest import Penstock
from tests.lakes import send_all

PROGRAM = """
import penstock

app = penstock.App(LAKE)
heard = []


@app.listener("orders", group="billing")
def bill(message):
    heard.append(("bill", message.json()))
    return penstock.ConsumeResult.SUCCESS


@app.listener("orders", group="audit")
async def audit(message):
    heard.append(("audit", message.json()))
    return penstock.ConsumeResult.SUCCESS


def setup():
    heard.append("setup")


async def teardown():
    heard.append("teardown")


def broken():
    raise OSError("the database does not answer")
"""
IDLE = ("--until-idle", "0s")
_NUMBERS = itertools.count(1)
Write = Callable[[str], str]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Write a module that no other test has, and give its name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path[:])
    written = []

    def module(text: str) -> str:
        written.append(f"shop_of_test_{next(_NUMBERS)}")
        (tmp_path / f"{written[-1]}.py").write_text(text)
        return written[-1]

    yield module
    for name in written:
        sys.modules.pop(name, None)


@pytest.fixture
def sent(lake: Path) -> Path:
    with connect(lake) as opened:
        opened.create_topic("orders", message_type="FIFO", queues=2)
        send_all(opened, [Message.json(n, message_group="g") for n in range(3)])
    return lake


def of(text: str, lake: object = None) -> str:
    return text.replace("LAKE", repr(lake))


def test_all_listeners_work_between_setup_and_teardown(penstock: Penstock, sent: Path, write: Write) -> None:
    name = write(of(PROGRAM))
    penstock("run", f"{name}:app", "--setup", f"{name}:setup", "--teardown", f"{name}:teardown", *IDLE)
    heard = sys.modules[name].heard
    assert (heard[0], heard[-1]) == ("setup", "teardown")
    for listener in ("bill", "audit"):
        assert [n for one in heard if one[0] == listener for n in one[1:]] == [0, 1, 2]


def test_a_dry_run_shows_the_listeners_and_consumes_nothing(penstock: Penstock, sent: Path, write: Write) -> None:
    name = write(of(PROGRAM))
    rows = penstock("run", f"{name}:app", "--dry-run", "--json").rows
    assert rows == [
        {"listener": "bill", "topics": ["orders"], "group": "billing", "rows": None},
        {"listener": "audit", "topics": ["orders"], "group": "audit", "rows": None},
    ]
    assert penstock("run", f"{name}:app", "--dry-run").out.splitlines()[2].split() == ["bill", "orders", "billing", "-"]
    with connect(sent, read_only=True) as opened:
        assert opened.groups() == {}


def test_the_app_s_lake_is_the_environment_s_if_it_names_none_and_the_call_s_before_both(
    penstock: Penstock, sent: Path, write: Write, tmp_path: Path
) -> None:
    name = write(of(PROGRAM, str(tmp_path / "absent")))
    assert "no such topic" in penstock("run", f"{name}:app", "--dry-run", code=2).err
    assert penstock("--lake", sent, "run", f"{name}:app", "--dry-run").out


def test_without_any_lake_it_is_asked_for(penstock: Penstock, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PENSTOCK_LAKE")
    assert "Name it in the app, give --lake URL" in penstock("run", f"{write(of(PROGRAM))}:app", code=2).err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("app = 7", "is no penstock.App"),
        ("import penstock\napp = penstock.App()", "the app has no listener"),
        ("import nothing_of_this_name", "No module named 'nothing_of_this_name' ("),
        ("app =", "SyntaxError: invalid syntax ("),
        ("1 / 0", ".py, line 1)"),
        ("import penstock\npenstock.App().listener('orders', group='g', max_attemps=3)", ".py, line 2"),
        ("import penstock\npenstock.App().listener('orders', group='g', max_attemps=3)", "max_attempts is one"),
        (PROGRAM.replace('"audit"', '"billing"'), "two listeners of one group on one topic"),
        (PROGRAM.replace('"orders"', '"absent"'), "there is no such topic"),
    ],
)
def test_a_wrong_program_is_told_and_nothing_consumed(penstock: Penstock, sent: Path, write: Write, text: str, said: str) -> None:
    assert said in " ".join(penstock("run", f"{write(of(text))}:app", *IDLE, code=2).err.split())
    with connect(sent, read_only=True) as opened:
        assert opened.groups() == {}


@pytest.mark.parametrize(("target", "said"), [("shop", "write module:app"), ("shop_of_no_test:app", "There is no module")])
def test_a_wrong_name_is_told(penstock: Penstock, sent: Path, target: str, said: str) -> None:
    assert said in " ".join(penstock("run", target, code=2).err.split())


def test_a_setup_that_fails_is_worth_another_try_and_nothing_is_torn_down(penstock: Penstock, sent: Path, write: Write) -> None:
    name = write(of(PROGRAM))
    told = penstock("run", f"{name}:app", "--setup", f"{name}:broken", "--teardown", f"{name}:teardown", *IDLE, code=3)
    assert "OSError: the database does not answer" in told.err
    assert sys.modules[name].heard == []
