"""Exit codes and messages, the same for all commands."""

from __future__ import annotations

import json

import pytest

from penstock import DataDamaged, InvalidArgument, StoreUnavailable, UnknownOutcome
from penstock.infra.cli.endings import ending
from penstock.infra.cli.main import COMMANDS
from penstock.infra.cli.session import Session, Signals, Stopped
from tests.infra.cli.conftest import Penstock


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UnknownOutcome("lost"), 1),
        (InvalidArgument("wrong"), 2),
        (StoreUnavailable("away"), 3),
        (DataDamaged("broken"), 4),
        (Stopped(2), 130),
        (Stopped(15), 143),
        (ZeroDivisionError("ours"), 1),
    ],
)
def test_exit_codes(error: BaseException, code: int) -> None:
    assert ending(error, Session(Signals())) == code


def test_a_bug_asks_for_a_report_and_debug_shows_where(capsys: pytest.CaptureFixture[str]) -> None:
    ending(ZeroDivisionError("division by zero"), Session(Signals()))
    said = capsys.readouterr().err
    assert "please report it" in said
    assert "ZeroDivisionError: division by zero" in said
    assert "--debug" in said
    assert "Traceback" not in said
    ending(ZeroDivisionError("division by zero"), Session(Signals(), debug=True))
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_an_error_says_operation_object_expected_observed_and_hint(capsys: pytest.CaptureFixture[str]) -> None:
    error = InvalidArgument("no", operation="read", object="orders", expected={"a": 1}, observed=2, hint="do this")
    ending(error, Session(Signals()))
    assert capsys.readouterr().err == (
        "error: no\n  operation: read\n  object:    orders\n  expected:  a 1\n  observed:  2\n  hint:      do this\n"
    )
    ending(error, Session(Signals(), as_json=True))
    told = json.loads(capsys.readouterr().err)
    assert (told["error"], told["object"], told["hint"]) == ("invalid_argument", "orders", "do this")


def test_the_same_call_may_succeed_later(penstock: Penstock) -> None:
    away = "s3://bucket/x?endpoint=http://127.0.0.1:1&anonymous=true&timeout_s=0.5&connect_timeout_s=0.5"
    assert "did not answer" in penstock("--lake", away, "topic", "list", code=3).err


def test_the_lake_may_be_named_before_or_after_the_command(penstock: Penstock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PENSTOCK_LAKE")
    assert "Which lake?" in penstock("topic", "list", code=2).err
    assert "unknown scheme" in penstock("topic", "list", "--lake", "ftp://x", code=2).err
    assert "unknown scheme" in penstock("--lake", "ftp://x", "topic", "list", code=2).err


def test_the_list_names_every_command_and_the_exit_codes(penstock: Penstock) -> None:
    shown = penstock("--help").out
    assert all(f"  {name} " in shown for name in COMMANDS)
    assert "130 ended by Ctrl-C" in " ".join(shown.split())
    assert penstock("--version").out.startswith("penstock 0.")
    assert "No such command" in penstock("nope", code=2).err


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_explains_itself(penstock: Penstock, name: str) -> None:
    assert "Usage: " in penstock(name, "--help").out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(penstock: Penstock, shell: str) -> None:
    assert "_PENSTOCK_COMPLETE" in penstock("completion", shell).out
