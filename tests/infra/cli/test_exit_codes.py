"""Exit codes and messages, the same for all commands."""

from __future__ import annotations

import json
import signal
import sys
from contextlib import suppress
from dataclasses import fields
from pathlib import Path

import pytest

from penstock import (
    AccessLost,
    AccessRefused,
    DataDamaged,
    InvalidArgument,
    PermissionDenied,
    StoreUnavailable,
    TopicLimits,
    UnknownOutcome,
)
from penstock.infra.cli.main import COMMANDS
from penstock.infra.terminal import output
from penstock.infra.terminal.exit_codes import exit_code, report_error
from penstock.infra.terminal.session import CommandSession, Interrupted, Signals
from penstock.infra.terminal.wording import LIMITS, SHELL, in_shell
from penstock.log.message.message import limit_hint
from tests.infra.cli.conftest import Penstock
from tests.tree import ROOT


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UnknownOutcome("lost"), 1),
        (InvalidArgument("wrong"), 2),
        (StoreUnavailable("away"), 3),
        (DataDamaged("broken"), 4),
        (PermissionDenied("never allowed"), 2),
        (AccessRefused("allowed before"), 3),
        (AccessLost("refused for long"), 5),
        (Interrupted(2), 130),
        (Interrupted(15), 143),
        (ZeroDivisionError("ours"), 1),
    ],
)
def test_exit_codes(error: BaseException, code: int) -> None:
    assert report_error(error, CommandSession(Signals())) == code


def test_a_bug_asks_for_a_report_and_debug_shows_where(capsys: pytest.CaptureFixture[str]) -> None:
    report_error(ZeroDivisionError("division by zero"), CommandSession(Signals()))
    said = capsys.readouterr().err
    assert "please report it" in said
    assert "ZeroDivisionError: division by zero" in said
    assert "--debug" in said
    assert "Traceback" not in said
    report_error(ZeroDivisionError("division by zero"), CommandSession(Signals(), debug=True))
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_an_error_says_operation_object_expected_observed_and_hint(capsys: pytest.CaptureFixture[str]) -> None:
    error = InvalidArgument("no", operation="read", object="orders", expected={"a": 1}, observed=2, hint="do this")
    report_error(error, CommandSession(Signals()))
    assert capsys.readouterr().err == (
        "error: no\n  operation: read\n  object:    orders\n  expected:  a 1\n  observed:  2\n  hint:      do this\n"
    )
    report_error(error, CommandSession(Signals(), as_json=True))
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
    assert f"\n  {shell} " in penstock("completion", "--help").out


def test_json_is_asked_for_before_or_behind_a_command(penstock: Penstock) -> None:
    penstock("topic", "create", "orders")
    behind = penstock("topic", "list", "--json").out
    assert json.loads(behind)["topic"] == "orders"
    assert penstock("--json", "topic", "list").out == behind


@pytest.mark.parametrize("args", [("read", "orders", "--json", "--start", "5"), ("read", "orders", "--nope", "--json")])
def test_a_wrong_call_is_told_as_it_was_asked_for(penstock: Penstock, args: tuple[str, ...]) -> None:
    penstock("topic", "create", "orders")
    told = json.loads(penstock(*args, code=2).err)
    assert told["error"] == "usage"
    assert told["message"].startswith(("An offset needs --queue, as the topic has 16 queues.", "No such option"))


def test_an_answer_of_no_is_told_as_it_was_asked_for(penstock: Penstock) -> None:
    penstock("topic", "create", "orders")
    told = penstock("topic", "delete", "orders", "--json", stdin="n\n", code=1).err
    assert json.loads(told[told.index("{") :]) == {"error": "aborted", "message": "Nothing was done."}


def test_hints_speak_the_words_of_the_command_line() -> None:
    files = [file for part in ("log", "coordinator", "consumers") for file in (ROOT / part).rglob("*.py")]
    library = "".join(file.read_text() for file in [*files, *(ROOT / "penstock").glob("*.py")])
    assert not [said for said in SHELL if said not in library]
    assert {field.name for field in fields(TopicLimits)} == set(LIMITS)
    for setting in LIMITS:
        option = f"--{setting.replace('_', '-')}"
        assert f"topic alter … {option} …`" in in_shell(limit_hint(setting))


def test_a_limit_names_the_option_that_raises_it(penstock: Penstock) -> None:
    penstock("topic", "create", "orders", "--type", "FIFO")
    line = json.dumps({"id": "x" * 73})
    assert "topic alter … --max-message-group-bytes …" in penstock("produce", "orders", "--group", "id", stdin=line, code=2).err
    assert "give --group, of a field that is not empty" in penstock("produce", "orders", stdin=line, code=2).err
    assert "of a field that is not empty" in penstock("produce", "orders", "--group", "id", stdin='{"id": null}', code=2).err


def test_delays_are_told_in_the_words_of_the_command_line(penstock: Penstock) -> None:
    penstock("topic", "create", "orders")
    penstock("topic", "create", "reminders", "--type", "DELAY")
    line = json.dumps({"at": "2026-01-31T12:00:00"})
    for args, said in (
        (("orders", "--delay", "1h"), "leave --delay, --level and --deliver-at out, or create a topic of type DELAY"),
        (("reminders",), "give --delay, --level or --deliver-at"),
        (("reminders", "--deliver-at", "at"), "must have a zone"),
        (
            ("reminders", "--delay", "50d"),
            "ask for an earlier time, or raise the topic's limit: `penstock topic alter … --max-delay …`",
        ),
    ):
        told = penstock("produce", *args, stdin=line, code=2).err
        assert said in told
        assert not [call for call in ("delivery_timestamp and", "timedelta", "tzinfo", "TopicLimits") if call in told]


def test_damage_counts_most() -> None:
    assert exit_code([]) == 0
    assert exit_code([StoreUnavailable("away"), DataDamaged("broken"), InvalidArgument("wrong")]) == 4
    assert exit_code([StoreUnavailable("away"), InvalidArgument("wrong")]) == 2
    assert exit_code([StoreUnavailable("away")]) == 3


def test_the_program_is_named_as_the_shell_finds_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "a b" / "penstock"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "argv", [str(program)])
    monkeypatch.setenv("PATH", "/bin")
    assert output.program() == f"'{program}'"
    monkeypatch.setenv("PATH", str(program.parent))
    assert output.program() == "penstock"
    monkeypatch.setattr(sys, "argv", ["pytest"])
    assert output.program() == "penstock"


def test_a_signal_that_was_passed_over_is_told_to_what_begins_later() -> None:
    """Python passes over what is raised in a callback of an import: a command that just started went on for ever."""
    signals, told = Signals(), list[int]()
    with signals.handled():
        with suppress(Interrupted):
            signal.raise_signal(signal.SIGTERM)
        with pytest.raises(Interrupted), signals.held(lambda: told.append(1)):
            assert told == [1]
