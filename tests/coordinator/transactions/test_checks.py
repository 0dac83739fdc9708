"""Check-backs: when a checker is asked, by whom, how often, and what its answers do."""

from __future__ import annotations

import asyncio
import itertools
import logging
from datetime import timedelta

import pytest

from penstock.coordinator.transactions.checking import checker as asking
from penstock.coordinator.transactions.checking.check_back_role import CHECKS_MAX, LOOK_S, CheckBackRole
from penstock.coordinator.transactions.checking.checker import CheckedTransaction, size_bytes
from penstock.coordinator.transactions.errors import TransactionExpired, TransactionNotFound, TransactionRolledBack
from penstock.coordinator.transactions.members.state import Decider, Decision
from penstock.log.paths import TopicPaths
from tests.coordinator.transactions.stage import COMMIT, GROUP, ROLLBACK, UNKNOWN, Member, Stage
from tests.playing import played_on


def playing(member: Member, play: CheckBackRole) -> tuple[asyncio.Event, asyncio.Future[None]]:
    stop = member.process.call(asyncio.Event)
    return stop, member.process.spawn(play.play(GROUP, stop))


async def end(member: Member, stop: asyncio.Event, task: asyncio.Future[None]) -> None:
    member.process.call(stop.set)
    await task


@pytest.mark.parametrize("first_s", [60, 7])
@played_on(Stage)
async def test_a_crashed_senders_transaction_is_checked_by_another_member_and_becomes_visible(stage: Stage, first_s: int) -> None:
    sender, other = stage.member("sender"), stage.member("other")
    transaction = await sender.sent(b"a", b"b", topics=("paid", "booked"), first_check=timedelta(seconds=first_s))
    sent_s = stage.now_s
    sender.process.crash()
    checks, checker = other.check_backs([COMMIT])
    stop, task = playing(other, checks)
    await stage.let_pass(first_s - 0.5)
    assert checker.asked == []
    await stage.let_pass(LOOK_S + 2)
    ((asked_s, given),) = checker.asked
    assert first_s - 0.5 <= asked_s - sent_s <= first_s + LOOK_S + 1
    assert (given.id, given.producer_group, given.checks) == (transaction.id, GROUP, 1)
    assert [(one.topic, one.body, one.offset) for one in given.messages] == [
        ("paid", b"a", -1),
        ("paid", b"b", -1),
        ("booked", b"a", -1),
        ("booked", b"b", -1),
    ]
    assert (await stage.bodies("paid"), await stage.bodies("booked")) == ([b"a", b"b"], [b"a", b"b"])
    await stage.let_pass(300)
    assert len(checker.asked) == 1
    await end(other, stop, task)


def test_unknown_is_asked_again_each_minute_and_rolled_back_after_the_fifteenth(caplog: pytest.LogCaptureFixture) -> None:
    stage = Stage()

    async def script() -> None:
        sender, other = stage.member("sender"), stage.member("other")
        transaction = await sender.sent(b"a")
        checks, checker = other.check_backs([UNKNOWN, RuntimeError("the database is down"), None, UNKNOWN])
        stop, task = playing(other, checks)
        await stage.let_pass(60 * CHECKS_MAX + 58)
        assert [given.checks for _, given in checker.asked] == list(range(1, CHECKS_MAX + 1))
        times = [at for at, _ in checker.asked]
        assert all(60 <= after - before <= 60 + LOOK_S + 1 for before, after in itertools.pairwise(times))
        await stage.let_pass(60 + LOOK_S * CHECKS_MAX)
        assert len(checker.asked) == CHECKS_MAX
        with pytest.raises(TransactionExpired, match="as often as it was asked"):
            await sender.run(transaction.commit())
        await sender.run(transaction.rollback())
        assert await stage.bodies() == []
        await end(other, stop, task)

    stage.play(script)
    assert "is rolled back: its checker was asked 15 times and did not know" in caplog.text
    assert "the database is down" in caplog.text


@played_on(Stage)
async def test_a_live_senders_transaction_is_checked_too_and_rolled_back_for_it(stage: Stage) -> None:
    sender = stage.member("sender")
    transaction = await sender.sent(b"a")
    checks, checker = sender.check_backs([ROLLBACK])
    stop, task = playing(sender, checks)
    await stage.let_pass(70)
    assert len(checker.asked) == 1
    with pytest.raises(TransactionRolledBack, match="by a check-back"):
        await sender.run(transaction.commit())
    assert await stage.bodies() == []
    await end(sender, stop, task)


def test_one_that_was_decided_meanwhile_is_left_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    """The checker ponders while the sender commits, or rolls back; what it says then does nothing."""
    caplog.set_level(logging.WARNING)
    stage = Stage()

    async def script() -> None:
        sender, other = stage.member("sender"), stage.member("other")
        committed, rolled_back = await sender.sent(b"a"), await sender.sent(b"b")
        checks, _ = other.check_backs([None])

        class Slow:
            async def __call__(self, given: object) -> object:
                await asyncio.sleep(10)
                return ROLLBACK if given.id == committed.id else COMMIT  # type: ignore[attr-defined]

        checks._asked._checker = Slow()
        stop, task = playing(other, checks)
        await stage.let_pass(67)
        assert len(checks._running) == 2
        await sender.run(committed.commit())
        await sender.run(rolled_back.rollback())
        await stage.let_pass(30)
        assert not checks._running
        assert await stage.bodies() == [b"a"]
        await end(other, stop, task)

    stage.play(script)
    assert caplog.text == ""


@played_on(Stage)
async def test_two_players_at_once_ask_once(stage: Stage) -> None:
    sender = stage.member("sender")
    transactions = [await sender.sent(b"%d" % number) for number in range(5)]
    sender.process.crash()
    both = [stage.member(f"player {number}") for number in range(2)]
    playing_now = []
    checkers = []
    for member in both:
        checks, checker = member.check_backs([COMMIT])
        playing_now.append((member, *playing(member, checks)))
        checkers.append(checker)
    await stage.let_pass(90)
    asked = [given.id for checker in checkers for _, given in checker.asked]
    assert sorted(asked) == sorted(one.id for one in transactions if one.id)
    assert sorted(await stage.bodies()) == [b"0", b"1", b"2", b"3", b"4"]
    for member, stop, task in playing_now:
        await end(member, stop, task)


@played_on(Stage)
async def test_checks_that_hang_keep_nobody_waiting_for_longer_than_they_may(stage: Stage) -> None:
    sender, other = stage.member("sender"), stage.member("other")
    for number in range(40):
        await sender.sent(b"%d" % number)
    sender.process.crash()
    checks, _ = other.check_backs([None])

    class Hanging:
        def __init__(self) -> None:
            self.asked: list[str] = []

        async def __call__(self, given: object) -> object:
            self.asked.append(given.id)  # type: ignore[attr-defined]
            if len(self.asked) <= 20:
                await asyncio.sleep(100_000)
            return COMMIT

    checks._asked._checker = hanging = Hanging()
    stop, task = playing(other, checks)
    await stage.let_pass(60 + 3 * 20)
    assert len(await stage.bodies()) >= 20 - 4
    await stage.let_pass(120)
    assert len(await stage.bodies()) == 40
    assert len(hanging.asked) == 60
    await end(other, stop, task)


def test_messages_that_are_with_a_checker_are_bounded_by_their_size(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Three small ones fit, and the large one alone; none is counted as asked before it is."""
    monkeypatch.setattr(asking, "HELD_BYTES_MAX", 2_000)
    stage = Stage()
    held: list[list[int]] = [[]]

    async def script() -> None:
        sender, other = stage.member("sender"), stage.member("other")
        for number in range(7):
            await sender.sent(b"%d" % number * (20_000 if number == 3 else 1))
        sender.process.crash()
        checks, checker = other.check_backs([COMMIT])

        class Slow:
            async def __call__(self, given: CheckedTransaction) -> object:
                held.append([*held[-1], size_bytes(given.messages)])
                await asyncio.sleep(3)
                held.append([*held[-1]])
                held[-1].remove(size_bytes(given.messages))
                return await checker(given)

        checks._asked._checker = Slow()
        stop, task = playing(other, checks)
        await stage.let_pass(60 + 5 * 3 + 2 * LOOK_S)
        assert [given.checks for _, given in checker.asked] == [1] * 7
        assert sorted(len(body) for body in await stage.bodies()) == [1] * 6 + [20_000]
        assert (checks._asked._held_bytes, held[-1]) == (0, [])
        await end(other, stop, task)

    stage.play(script)
    assert {len(sizes) for sizes in held if max(sizes, default=0) > 2_000} == {1}
    assert max(sum(sizes) for sizes in held if max(sizes, default=0) <= 2_000) == 3 * 513
    assert "is asked no more for now" in caplog.text


@played_on(Stage)
async def test_room_is_given_back_when_somebody_was_quicker_than_the_question(stage: Stage) -> None:
    sender, other = stage.member("sender"), stage.member("other")
    transaction = await sender.sent(b"a")
    assert transaction.id is not None
    _, row = await other.run(other.transactions.find(transaction.id))
    checks, checker = other.check_backs([UNKNOWN])
    for _ in range(2):  # the second time it reads the messages, and finds that it was asked
        await other.run(checks._check_safely(GROUP, row))
        await stage.let_pass(1)
    assert (len(checker.asked), checks._asked._held_bytes) == (1, 0)


def test_messages_that_are_not_all_there_are_not_asked_about_and_given_up_in_time(caplog: pytest.LogCaptureFixture) -> None:
    stage = Stage()

    async def script() -> None:
        sender, other = stage.member("sender"), stage.member("other")
        transaction = await sender.sent(b"a")
        assert transaction.id is not None
        listed = await stage.store.memory.list(TopicPaths.of("paid").jobs)
        (key,) = [info.key for info in listed if info.key.endswith(".parquet")]
        await stage.store.memory.delete(key)
        sender.process.crash()
        checks, checker = other.check_backs([COMMIT])
        stop, task = playing(other, checks)
        await stage.let_pass(60 * (CHECKS_MAX + 1) + LOOK_S * CHECKS_MAX + 30)
        assert checker.asked == []
        try:
            _, row = await other.run(other.transactions.find(transaction.id))
            assert (row.decision, row.by) == (Decision.ROLLED_BACK, Decider.CHECKS)
        except TransactionNotFound:
            pytest.fail("it is kept for a day")
        await end(other, stop, task)

    stage.play(script)
    assert "cannot be checked yet" in caplog.text
