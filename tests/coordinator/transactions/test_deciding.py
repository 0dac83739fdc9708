"""What those who finish a transaction of another are told before they decide it, and what is left of one whose topic is gone."""

from __future__ import annotations

from datetime import timedelta

import pytest

from penstock.coordinator.cells.keys import TRANSACTIONS
from penstock.coordinator.transactions.errors import HalfMessagesMissing, TransactionExpired, TransactionRolledBack
from penstock.coordinator.transactions.members.state import AGE_MAX_MS, Decider, Decision
from penstock.log import Message
from penstock.log.paths import TopicPaths
from tests.coordinator.transactions.stage import COMMIT, Stage
from tests.playing import played_on


async def emptied(stage: Stage, topic: str) -> None:
    """As by an operator who removes what is left of a topic."""
    for info in await stage.store.memory.list(TopicPaths.of(topic).root):
        await stage.store.memory.delete(info.key)


@played_on(Stage)
async def test_one_that_also_sent_to_a_topic_that_is_gone_is_asked_about_with_what_is_left(stage: Stage) -> None:
    sender, other = stage.member("sender"), stage.member("other")
    transaction = await sender.sent(b"a", topics=("paid", "booked"))
    assert transaction.id is not None
    sender.process.crash()
    await other.run(other.lake.delete_topic("booked"))
    checks, checker = other.check_backs([COMMIT])
    assert [one.topic for one in await other.run(other.transactions.messages(transaction.id))] == ["paid", "booked"]
    await emptied(stage, "booked")
    await stage.let_pass(61)
    await other.run(checks.look("pay"))
    await other.run(checks.settle())
    ((_, given),) = checker.asked
    assert [(one.topic, one.body) for one in given.messages] == [("paid", b"a")]
    assert await stage.bodies() == [b"a"]
    _, row = await other.run(other.transactions.find(transaction.id))
    assert [(one.topic, one.linked and one.linked.gone) for one in row.destinations] == [("paid", False), ("booked", True)]


@pytest.mark.parametrize("again", [False, True], ids=["deleted", "made again"])
@played_on(Stage)
async def test_what_was_sent_to_a_former_life_of_a_topic_is_not_missed(stage: Stage, again: bool) -> None:
    sender, other = stage.member("sender"), stage.member("other")
    transaction = await sender.sent(b"a")
    assert transaction.id is not None
    (key,) = [info.key for info in await stage.store.memory.list(TopicPaths.of("paid").jobs)]
    await stage.store.memory.delete(key)
    with pytest.raises(HalfMessagesMissing):
        await other.run(other.transactions.messages(transaction.id))
    settings = (await other.run(other.lake.topic("paid"))).settings
    await other.run(other.lake.delete_topic("paid"))
    if again:
        await other.run(other.lake.create_topic("paid", settings))
    assert await other.run(other.transactions.messages(transaction.id)) == []
    await other.run(other.transactions.decide(transaction.id, Decision.COMMITTED, Decider.CHECKER))


@played_on(Stage)
async def test_what_will_be_refused_is_told_before_and_nothing_is_written(stage: Stage) -> None:
    sender, other = stage.member("sender"), stage.member("other")
    check, find = other.transactions.check, other.transactions.find
    ids = [(await sender.sent(b"%d" % number)).id or "" for number in range(4)]
    whole, torn, left, old = ids
    (key,) = [info.key for info in await stage.store.memory.list(TopicPaths.of("paid").jobs) if torn in info.key]
    await stage.store.memory.delete(key)
    before = [await other.run(find(one)) for one in ids]
    for decision in (Decision.COMMITTED, Decision.ROLLED_BACK):
        assert (await other.run(check(whole, decision, Decider.OPERATOR))).is_open
    with pytest.raises(HalfMessagesMissing):
        await other.run(check(torn, Decision.COMMITTED, Decider.OPERATOR))
    assert (await other.run(check(torn, Decision.ROLLED_BACK, Decider.OPERATOR))).is_open
    assert before == [await other.run(find(one)) for one in ids]
    await other.run(other.transactions.decide(left, Decision.ROLLED_BACK, Decider.OPERATOR))
    assert not (await other.run(check(left, Decision.ROLLED_BACK, Decider.OPERATOR))).is_open
    with pytest.raises(TransactionRolledBack, match="by an operator"):
        await other.run(check(left, Decision.COMMITTED, Decider.OPERATOR))
    await stage.let_pass(timedelta(milliseconds=AGE_MAX_MS).total_seconds())
    with pytest.raises(TransactionExpired):
        await other.run(check(old, Decision.COMMITTED, Decider.OPERATOR))
    assert (await other.run(find(old)))[1].is_open


@played_on(Stage)
async def test_what_was_sent_since_it_was_looked_at_is_not_committed_unseen(stage: Stage) -> None:
    """Another looks what is on the store, and decides. In between the sender begins one part more, which is not uploaded yet."""
    sender, other = stage.member("sender"), stage.member("other")
    transaction = await sender.sent(b"a")
    assert transaction.id is not None
    deciding = stage.table.hold(process="other", verb="put", key=lambda key: key.startswith(TRANSACTIONS))
    decided = other.process.spawn(other.transactions.decide(transaction.id, Decision.COMMITTED, Decider.OPERATOR))
    await deciding.reached()
    uploading = stage.store.hold(process="sender", verb="put", key=lambda key: "/staged/jobs/" in key)
    sending = sender.process.spawn(transaction.send("paid", Message(b"b")))
    await uploading.reached()
    await stage.let_pass(1)
    deciding.release()
    with pytest.raises(HalfMessagesMissing, match="is sending"):
        await decided
    assert (await other.run(other.transactions.find(transaction.id)))[1].is_open
    uploading.release()
    await sending
    await other.run(other.transactions.decide(transaction.id, Decision.COMMITTED, Decider.OPERATOR))
    await other.run(other.transactions.finish(transaction.id))
    assert await stage.bodies() == [b"a", b"b"]
