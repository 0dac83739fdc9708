"""The finisher: what dead processes left comes to its end, and what live ones are about to do is left to them."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from penstock.coordinator.transactions.errors import TransactionExpired, TransactionNotFound
from penstock.coordinator.transactions.finisher import LOOK_S
from penstock.coordinator.transactions.members.state import AGE_MAX_MS, KEPT_MS, Decider, Decision
from penstock.log.errors import StoreUnavailable
from penstock.log.paths import TopicPaths
from tests.coordinator.transactions.stage import GROUP, ROLLBACK, Member, Stage
from tests.playing import played_on
from tests.simulation.process import SimClock


class Playing:
    """A finisher at work in a process."""

    def __init__(self, member: Member) -> None:
        self.member = member
        self.stop = member.process.call(asyncio.Event)
        self.task = member.process.spawn(member.finisher().play(GROUP, self.stop))

    async def end(self) -> None:
        self.member.process.call(self.stop.set)
        await self.task


async def decided(member: Member, decision: Decision, *topics: str) -> str:
    """A transaction that was decided, and of which nothing else was done."""
    transaction = await member.sent(b"a", topics=topics or ("paid",))
    assert transaction.id is not None
    await member.run(transaction._decide(decision))
    return transaction.id


@played_on(Stage)
async def test_a_transaction_whose_sender_died_behind_the_decision_becomes_visible_in_all_topics(stage: Stage) -> None:
    sender, other = stage.member("sender"), stage.member("other")
    committed = await decided(sender, Decision.COMMITTED, "paid", "booked")
    sender.process.crash()
    playing = Playing(other)
    await stage.let_pass(LOOK_S / 2)
    assert await stage.bodies() == []  # its sender may live, and be about to
    await stage.let_pass(LOOK_S + 5)
    assert (await stage.bodies("paid"), await stage.bodies("booked")) == ([b"a"], [b"a"])
    _, row = await other.run(other.transactions.find(committed))
    assert row.is_finished
    await playing.end()
    assert other.errors == []


@played_on(Stage)
async def test_two_finishers_and_the_sender_make_it_visible_once(stage: Stage) -> None:
    sender, others = stage.member("sender"), [stage.member(f"other {number}") for number in range(2)]
    transaction = await sender.sent(b"a", b"b")
    await sender.run(transaction._decide(Decision.COMMITTED))
    await asyncio.gather(*(one.run(one.finisher().once(GROUP)) for one in others), sender.run(transaction.commit()))
    assert await stage.bodies() == [b"a", b"b"]
    receipt = await sender.run(transaction.commit())
    assert receipt.topics["paid"].messages == 2
    assert [one.errors for one in others] == [[], []]


@played_on(Stage)
async def test_what_was_rolled_back_leaves_nothing_on_the_store(stage: Stage) -> None:
    sender, other = stage.member("sender"), stage.member("other")
    await decided(sender, Decision.ROLLED_BACK)
    sender.process.crash()
    assert len(await stage.store.memory.list(TopicPaths.of("paid").jobs)) == 1
    assert await other.run(other.finisher().once(GROUP)) == 1
    assert await stage.store.memory.list(TopicPaths.of("paid").jobs) == []
    assert await other.run(other.finisher().once(GROUP)) == 0


@played_on(Stage)
async def test_one_that_nobody_decides_is_rolled_back_after_four_hours(stage: Stage) -> None:
    sender, other = stage.member("sender"), stage.member("other")
    transaction = await sender.sent(b"a", first_check=None)
    await stage.let_pass(AGE_MAX_MS / 1000 - 60)
    playing = Playing(other)
    await stage.let_pass(LOOK_S * 3)
    assert transaction.id is not None
    assert (await other.run(other.transactions.find(transaction.id)))[1].is_open
    await stage.let_pass(60)
    _, row = await other.run(other.transactions.find(transaction.id))
    assert (row.decision, row.by, row.is_finished) == (Decision.ROLLED_BACK, Decider.AGE, True)
    with pytest.raises(TransactionExpired, match="open for more than 4 hours"):
        await sender.run(transaction.commit())
    await playing.end()
    await stage.let_pass(KEPT_MS / 1000)
    await other.run(other.finisher().once(GROUP))
    assert await other.run(other.transactions.rows(GROUP)) == []


@played_on(Stage)
async def test_one_that_cannot_be_finished_keeps_no_other_waiting_and_is_tried_again(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    sender, other = stage.member("sender"), stage.member("other")
    ids = [await decided(sender, Decision.COMMITTED) for _ in range(3)]
    sender.process.crash()
    finish, troubled = other.transactions.finish, [min(ids)]

    async def troublesome(transaction: str) -> object:
        if transaction in troubled:
            raise StoreUnavailable("no answer", object=transaction)
        return await finish(transaction)

    monkeypatch.setattr(other.transactions, "finish", troublesome)
    finisher = other.finisher()
    await other.run(finisher.once(GROUP))
    assert len(await stage.bodies()) == 2
    assert [what for what, _ in other.errors] == [f"transaction {troubled[0]}"]
    troubled.clear()
    await other.run(finisher.once(GROUP))
    assert len(await stage.bodies()) == 3


@played_on(Stage)
async def test_it_ends_at_once_when_it_is_told_to(stage: Stage) -> None:
    playing = Playing(stage.member("other"))
    await stage.let_pass(20)
    began_s = stage.now_s
    await playing.end()
    assert stage.now_s - began_s < 0.1


@played_on(Stage)
async def test_groups_are_found_without_listing_anything(stage: Stage) -> None:
    sender, other = stage.member("sender"), stage.member("other")
    assert await other.run(other.finisher().groups()) == frozenset()
    await sender.sent(b"a", first_check=timedelta(seconds=60))
    await sender.sent(b"a", group="ship")
    assert await other.run(other.finisher().groups()) == {GROUP, "ship"}
    assert not any(call.verb == "keys" for call in stage.table.calls)


@played_on(Stage)
async def test_a_machine_whose_clock_is_five_hours_ahead_rolls_nothing_back(stage: Stage) -> None:
    sender = stage.member("sender")
    other = Member(stage, stage.kernel.process("other", clock=SimClock(stage.kernel.loop, offset_ms=5 * 3_600_000)))
    transaction = await sender.sent(b"a")
    await other.run(other.finisher().once(GROUP))
    checks, checker = other.check_backs([ROLLBACK])
    await other.run(checks.look(GROUP))
    await other.run(checks.settle())
    assert checker.asked == []
    await sender.run(transaction.commit())
    assert await stage.bodies() == [b"a"]


@played_on(Stage)
async def test_a_transaction_whose_member_is_not_known_is_not_either_and_the_error_says_what_may_be(stage: Stage) -> None:
    member = stage.member()
    with pytest.raises(TransactionNotFound, match=r"expected: one that is open, or.*messages of a committed one have its id"):
        await member.run(member.transactions.find("ab" * 16))
