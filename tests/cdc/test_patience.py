"""A database that does not answer when a capture starts is waited for: it may just be starting again."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

import pytest
from click.testing import CliRunner

from penstock.cdc.capture.errors import SourceUnavailable
from penstock.cdc.capture.runner import first_answer
from penstock.cdc.postgres.errors import SlotInUse
from penstock.infra.cli import main
from penstock.log.errors import PermissionDenied


class Time:
    def __init__(self) -> None:
        self.now = 100.0
        self.pauses: list[float] = []

    def now_s(self) -> float:
        return self.now

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


def answering(after: int, error: Exception | None = None) -> Callable[[], str]:
    """A database that answers after so many questions."""
    left: Iterator[int] = iter(range(after - 1, -1, -1))

    def ask() -> str:
        if next(left, -1) >= 0:
            raise error or SourceUnavailable("the database does not answer")
        return "answer"

    return ask


def test_it_is_asked_again_with_longer_pauses_and_a_warning_each_time(caplog: pytest.LogCaptureFixture) -> None:
    time = Time()
    with caplog.at_level(logging.WARNING, "penstock.cdc"):
        assert first_answer(answering(7), 300, now_s=time.now_s, pause=time.pause) == "answer"
    assert time.pauses == [0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
    assert [one.getMessage().partition(":")[0] for one in caplog.records] == ["the database is waited for"] * 7


def test_patience_ends_when_it_said(caplog: pytest.LogCaptureFixture) -> None:
    time = Time()
    with pytest.raises(SourceUnavailable):
        first_answer(answering(1000), 30, now_s=time.now_s, pause=time.pause)
    assert sum(time.pauses) == pytest.approx(30)


def test_a_slot_that_somebody_still_has_is_waited_for() -> None:
    time = Time()
    assert first_answer(answering(2, SlotInUse("in use")), 300, now_s=time.now_s, pause=time.pause) == "answer"


def test_without_patience_it_is_asked_once() -> None:
    time = Time()
    with pytest.raises(SourceUnavailable):
        first_answer(answering(1), 0, now_s=time.now_s, pause=time.pause)
    assert not time.pauses


def test_what_no_time_mends_is_told_at_once() -> None:
    time = Time()
    with pytest.raises(PermissionDenied):
        first_answer(answering(1, PermissionDenied("no")), 300, now_s=time.now_s, pause=time.pause)
    assert not time.pauses


@pytest.mark.parametrize(
    ("database", "place"),
    [
        ("postgres", "postgresql://ann@127.0.0.1:1/shop"),
        ("mongodb", "mongodb://127.0.0.1:1/shop"),
    ],
)
def test_every_capture_asks_as_long_as_it_was_told_to(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch, database: str, place: str
) -> None:
    """Debezium's asks in the same way."""
    monkeypatch.setattr("penstock.cdc.mongodb.server._ANSWER_MS", 50)
    asked = Time()
    monkeypatch.setattr("penstock.infra.cli.changes.capture_topic.time", asked)
    monkeypatch.setattr(asked, "monotonic", asked.now_s, raising=False)
    monkeypatch.setattr(asked, "sleep", asked.pause, raising=False)
    at = ["--lake", str(tmp_path), "capture", database, "--topic", "changes", "--patience", "1s", place]
    result = CliRunner().invoke(main, at)
    assert result.exit_code == 3, result.output
    assert sum(asked.pauses) == pytest.approx(1)
