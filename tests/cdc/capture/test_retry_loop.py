"""A database that does not answer is waited for: when a capture starts, and while it runs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest
from click.testing import CliRunner

from penstock.cdc.capture.errors import SourceUnavailable
from penstock.cdc.capture.retry_loop import RetryLoop, first_answer
from penstock.cdc.capture.source_capture import SourceCapture
from penstock.cdc.debezium.capture import EngineOptions
from penstock.cdc.debezium.errors import ConnectorStopped
from penstock.cdc.debezium.state import EngineState
from penstock.cdc.postgres.capture import PostgresCapture, PostgresOptions, PostgresProgress
from penstock.cdc.postgres.errors import SlotInUse
from penstock.infra.cli import main
from penstock.log.errors import PermissionDenied
from penstock.log.runtime.runtime import Clock
from tests.cdc.capture.resources import resources_of

PATIENCE_S = 60.0


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


class Times:
    """A clock that goes on only by what a test says."""

    now_s = 0.0

    def monotonic_s(self) -> float:
        return self.now_s

    def pass_by(self, time_s: float) -> None:
        self.now_s += time_s


class Failing(SourceCapture[EngineState]):
    """A capture whose connector stops by itself in each of its lives."""

    def __init__(self, life: Callable[[Failing], None], times: Times) -> None:
        self.times, self.life, self.lives = times, life, 0
        nothing = cast("Any", None)
        super().__init__(
            "mariadb",
            cast("Any", SimpleNamespace(where="db:3306", close=lambda: None)),
            EngineOptions(patience=timedelta(seconds=PATIENCE_S)),
            replace(resources_of(nothing, nothing, times), pause=times.pass_by),
        )

    def _run(self, stopped: Callable[[], bool]) -> None:
        self.lives += 1
        self.life(self)
        raise ConnectorStopped("the connector has stopped by itself", operation="capture", observed="parsing 'ALTER …'")

    def _new_state(self, server: str, opened: tuple[int, int], former: EngineState | None) -> EngineState:
        raise NotImplementedError

    def _check_beginning(self) -> None:
        raise NotImplementedError


@pytest.mark.parametrize("life_s", [0.3, 1.5, 20.0])
def test_a_connector_that_stops_in_each_life_is_told_when_patience_is_over(life_s: float) -> None:
    """Also where it says each second where it is, and is there already."""
    times = Times()

    def life(capture: Failing) -> None:
        times.pass_by(life_s)
        capture._add_progress(duplicates=3, position="binlog.000007:4")

    with pytest.raises(ConnectorStopped, match="stopped by itself") as error:
        Failing(life, times).run()
    assert "ALTER" in str(error.value)
    assert PATIENCE_S < times.now_s < 2 * PATIENCE_S + 2 * life_s


def test_a_capture_that_gets_on_or_was_well_for_long_has_patience_anew() -> None:
    times = Times()

    def life(capture: Failing) -> None:
        if capture.lives < 50:  # it gets on in each
            times.pass_by(10)
            capture._add_progress(events=1)
        elif capture.lives < 60:  # nothing happens for long
            times.pass_by(600)

    capture = Failing(life, times)
    with pytest.raises(ConnectorStopped):
        capture.run()
    assert capture.lives > 60


class Ticking:
    """A clock that goes on while it is read."""

    now_s = 0.0

    def monotonic_s(self) -> float:
        self.now_s += 0.001
        return self.now_s


def test_what_got_on_is_tried_again_even_without_patience() -> None:
    retry_loop = RetryLoop(0, cast("Clock", Ticking()), lambda seconds: None)
    attempts = iter([SourceUnavailable("gone"), SourceUnavailable("gone")])

    def attempt() -> None:
        if (error := next(attempts, None)) is not None:
            raise error

    retry_loop.run(attempt, lambda: False, failed=retry_loop.note_progress)
    assert next(attempts, None) is None


def test_the_time_of_a_lake_that_stands_still_is_not_the_database_s() -> None:
    times = Times()
    retry_loop = RetryLoop(PATIENCE_S, cast("Clock", times), times.pass_by)
    attempts = iter([SourceUnavailable("gone")])

    def attempt() -> None:
        if (error := next(attempts, None)) is not None:
            raise error

    retry_loop.run(attempt, lambda: False, failed=lambda: times.pass_by(2 * PATIENCE_S))
    assert next(attempts, None) is None


@pytest.mark.parametrize("is_stopped", [False, True])
def test_a_database_that_goes_as_a_capture_ends_is_asked_once_more_unless_it_is_told_to_stop(
    monkeypatch: pytest.MonkeyPatch, is_stopped: bool
) -> None:
    times, nothing = Times(), cast("Any", None)
    capture = PostgresCapture(
        "host=127.0.0.1",
        PostgresOptions(patience=timedelta(seconds=PATIENCE_S)),
        producer=cast("Any", SimpleNamespace(last_sequence=-1)),
        states=nothing,
        life="1",
        clock=cast("Clock", times),
        pause=times.pass_by,
    )
    whole = PostgresProgress(0, 7, 0, "0/1", 0)
    asked = answering(1)

    def progress(self: PostgresCapture) -> PostgresProgress:
        asked()
        return whole

    monkeypatch.setattr(PostgresCapture, "_run", lambda self, stopped: None)
    monkeypatch.setattr(PostgresCapture, "progress", property(progress))
    assert capture.run(stopped=lambda: is_stopped) == (PostgresProgress(0, 0, 0, None, None) if is_stopped else whole)
