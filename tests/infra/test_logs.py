"""Logs of long-running commands, for people and for programs."""

from __future__ import annotations

import io
import json
import logging
from datetime import UTC, datetime, timedelta
from typing import Any

import click
import pytest

import penstock
from penstock.infra.logs import LOGGER, LogFormat, logging_to
from penstock.infra.terminal.log_options import log_options
from tests.lakes import send_all
from tests.runner import cli_runner
from tests.waiting import wait_until

log = logging.getLogger("penstock.consumers.test")


def logged(*, format: LogFormat = "json", level: int = logging.INFO) -> list[str]:
    """The lines of a few records."""
    stream = io.StringIO()
    with logging_to(stream, format=format, level=level):
        log.debug("a detail")
        log.warning(
            "attempt %d failed", 3, extra={"fields": {"group": "billing", "queue": 2, "next": datetime(2026, 1, 31, tzinfo=UTC)}}
        )
        try:
            raise ValueError("no such customer\nreally")
        except ValueError:
            log.exception("gave up", extra={"fields": {"message": "m-1"}})
    return stream.getvalue().splitlines()


def test_json_is_one_object_a_line_with_its_facts() -> None:
    documents: list[dict[str, Any]] = [json.loads(line) for line in logged()]
    failed, gave_up = documents
    assert datetime.fromisoformat(failed.pop("time")).tzinfo is not None
    assert failed == {
        "level": "warning",
        "logger": "penstock.consumers.test",
        "message": "attempt 3 failed",
        "group": "billing",
        "queue": 2,
        "next": "2026-01-31 00:00:00+00:00",
    }
    assert gave_up["error"] == "ValueError: no such customer\nreally"
    assert "Traceback" in gave_up["traceback"]


def test_a_fact_hides_nothing() -> None:
    gave_up = json.loads(logged()[1])
    assert gave_up["message"] == "gave up"
    assert gave_up["fields.message"] == "m-1"


def test_text_says_the_same() -> None:
    failed, gave_up, *trace = logged(format="text")
    assert failed.endswith("Z WARNING penstock.consumers.test: attempt 3 failed")
    assert gave_up.endswith("ERROR penstock.consumers.test: gave up")
    assert trace[0].startswith("  Traceback")


HOSTILE = "a\x1b[2J\x9b1mb\n2026-01-31T12:00:00.000Z ERROR penstock: forged\r\u202ec\u2028d\u2066e\x7f\ud800"


def test_what_others_say_is_one_line_that_steers_nothing_and_looks_like_no_record() -> None:
    said = ""
    for form in ("text", "json"):
        stream = io.StringIO()
        with logging_to(stream, format=form):
            try:
                raise ValueError(HOSTILE)
            except ValueError:
                log.exception("gave up: %s", HOSTILE, extra={"fields": {"reason": HOSTILE}})
        said = stream.getvalue()
        assert all(char == "\n" or char.isprintable() for char in said), ascii(said)
        assert sum(not line.startswith(" ") for line in said.splitlines()) == 1
    assert json.loads(said)["reason"] == HOSTILE, "of the same value"


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def test_what_a_listener_raises_is_logged_escaped_also_for_logs_of_an_application_s_own(caplog: pytest.LogCaptureFixture) -> None:
    raising = [ValueError(HOSTILE), Mute()]
    with penstock.connect("memory://", maintenance=False) as lake:
        lake.create_topic("orders", queues=1)
        send_all(lake, [penstock.Message(b"a"), penstock.Message(b"b")])

        def listen(message: penstock.MessageView) -> penstock.ConsumeResult:
            if message.delivery_attempt == 1:
                raise raising[message.offset]
            return penstock.ConsumeResult.SUCCESS

        retry = penstock.RetryPolicy(interval=timedelta(0))
        with lake.push_consumer("orders", group="g", listener=listen, threads=1, retry=retry):
            wait_until(lambda: lake.describe_group("g").queues[0].committed_offset == 2, "both succeed")
    said = [record.getMessage() for record in caplog.records if "failed at attempt" in record.getMessage()]
    assert [ValueError.__name__ in said[0], "Mute, which cannot be shown" in said[1]] == [True, True]
    assert all(one.isprintable() for one in said)


def test_the_level_decides_what_is_written() -> None:
    assert json.loads(logged(level=logging.DEBUG)[0])["message"] == "a detail"
    assert [json.loads(line)["message"] for line in logged(level=logging.ERROR)] == ["gave up"]


def test_afterwards_logging_is_as_it_was(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger(LOGGER)
    before = logger.level, logger.propagate, list(logger.handlers)
    stream = io.StringIO()
    with logging_to(stream):
        log.warning("inside")
    log.warning("outside")
    assert (logger.level, logger.propagate, list(logger.handlers)) == before
    assert "inside" in stream.getvalue()
    assert "outside" not in stream.getvalue()
    assert caplog.messages == ["outside"]  # inside it went nowhere else


@click.command()
@click.option("--twice", is_flag=True)
@log_options
def command(twice: bool) -> None:
    log.info("begun", extra={"fields": {"twice": twice}})
    log.debug("seen")


def test_commands_log_to_stderr_as_they_are_told() -> None:
    plain = cli_runner().invoke(command, [])
    assert plain.stdout == ""
    assert plain.stderr.rstrip().endswith("INFO penstock.consumers.test: begun")
    detailed = cli_runner().invoke(command, ["--twice", "--log-format", "json", "--log-level", "debug"])
    assert [json.loads(line)["message"] for line in detailed.stderr.splitlines()] == ["begun", "seen"]
    assert json.loads(detailed.stderr.splitlines()[0])["twice"] is True
    refused = cli_runner().invoke(command, ["--log-format", "xml"])
    assert refused.exit_code == 2


def test_a_failed_attempt_is_told_with_all_its_facts() -> None:
    stream = io.StringIO()
    with penstock.connect("memory://") as lake:
        lake.create_topic("orders", message_type="FIFO", queues=1)
        send_all(lake, [penstock.Message(b"paid", message_group="user-7")])
        with logging_to(stream, format="json"), lake.push_consumer("orders", group="billing", listener=_raising):
            wait_until(stream.getvalue, "a line of the log")
    told = json.loads(stream.getvalue().splitlines()[0])
    assert (told["level"], told["logger"]) == ("warning", "penstock.consumers")
    facts = {name: told[name] for name in ("group", "topic", "queue", "offset", "message_group", "attempt", "reason")}
    assert facts == {
        "group": "billing",
        "topic": "orders",
        "queue": 0,
        "offset": 0,
        "message_group": "user-7",
        "attempt": 1,
        "reason": "ValueError: no such customer",
    }
    assert told["next_ms"] > 0


def _raising(_: object) -> penstock.ConsumeResult:
    raise ValueError("no such customer")
