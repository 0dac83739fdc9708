"""Opening a producer's name where the store answers late: whatever tries there were, one opening counts, and none fences its own producer."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.log.append.in_flight import OpeningResult, Outcome
from penstock.log.errors import FencedError, NotWritten, PenstockError, TopicDeleted, UnknownOutcome
from penstock.log.format.fold import VoidReason
from penstock.log.format.header import Epoch, Opening
from penstock.log.format.state import TopicState
from penstock.log.topic.producer_name import OPENING_ATTEMPTS_MAX, open_name
from penstock.log.topic.topics import Topic
from tests.log.test_fold import batch, opened, step, topic


@dataclass
class Appender:
    """Answers with what is given, and hands every opening over: it may still get into the log."""

    log: Log
    answers: list[Outcome]
    sent: list[Opening] = field(default_factory=list)

    async def append_opening(self, opening: Opening, *, deadline_s: float) -> Outcome:
        self.sent.append(opening)
        answer = self.answers.pop(0)
        if isinstance(answer, OpeningResult):
            return self.log.take(opening)
        return answer


@dataclass
class Log:
    state: TopicState

    def take(self, opening: Opening) -> Outcome:
        folded = step(self.state, openings=[Opening(opening.producer, opening.write_id, opening.generation, 10**6)])
        self.state = folded.state
        (epoch,) = folded.epochs
        return OpeningResult(epoch, -1) if isinstance(epoch, Epoch) else UnknownOutcome(str(epoch))


def opening_of(log: Log, *answers: Outcome) -> tuple[Appender, Any]:
    ids = iter(f"id-{n}" for n in range(99))
    appender = Appender(log, list(answers))
    runtime = SimpleNamespace(new_id=lambda: next(ids), clock=SimpleNamespace(monotonic_s=lambda: 0.0))
    named = cast(Topic, SimpleNamespace(appender=appender, runtime=runtime, tail=log))
    return appender, open_name(named, "n", generation=1, timeout_s=1)


UNKNOWN = UnknownOutcome("it may still get into the log")
DONE = OpeningResult(Epoch(0, 0), -1)


def test_an_earlier_try_that_lands_late_does_not_fence_its_own_producer() -> None:
    log = Log(topic())
    appender, opening = opening_of(log, UNKNOWN, DONE)
    epoch, _ = asyncio.run(opening)
    late = step(log.state, openings=[Opening("n", appender.sent[0].write_id, 1, 10**6)])
    assert late.epochs == (VoidReason.REPEATED,)
    assert step(late.state, batches=[batch("n", named=True, epoch=epoch)]).verdicts == ({0: 0},)


def test_an_opening_of_a_dead_process_that_is_linked_late_fences_the_newer_one() -> None:
    """The limit that docs/0001 names: the fold goes by places in the log. It costs the newer instance an opening, and no row."""
    newer = opened(topic(), write_id="newer").state
    late = step(newer, openings=[Opening("n", "handed-over", 1, 10**6)])
    assert isinstance(late.epochs[0], Epoch)
    sent = batch("n", named=True, epoch=newer.named["n"].epoch)
    assert step(late.state, batches=[sent]).verdicts == (VoidReason.FENCED,)
    again = step(late.state, openings=[Opening("n", "again", 1, 10**6)])
    assert step(again.state, batches=[batch("n", named=True, epoch=again.state.named["n"].epoch)]).verdicts == ({0: 0},)


def test_a_spent_opening_is_not_tried_again() -> None:
    log = Log(topic())
    log.state = step(log.state, openings=[Opening("n", "id-0", 1, 99), Opening("m", "x", 1, 99)]).state
    appender, opening = opening_of(log, DONE)
    asyncio.run(opening)
    assert [one.write_id for one in appender.sent] == ["id-1"]


def test_a_try_that_was_not_written_says_nothing_of_those_before() -> None:
    _, opening = opening_of(Log(topic()), UNKNOWN, *[NotWritten("in time")] * (OPENING_ATTEMPTS_MAX - 1))
    with pytest.raises(UnknownOutcome, match="every try is unknown"):
        asyncio.run(opening)


@pytest.mark.parametrize("error", [NotWritten("in time"), TopicDeleted("gone"), FencedError("fenced")])
def test_a_first_try_that_failed_for_good_ends_it(error: PenstockError) -> None:
    appender, opening = opening_of(Log(topic()), error)
    with pytest.raises(type(error)):
        asyncio.run(opening)
    assert len(appender.sent) == 1
