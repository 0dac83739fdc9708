"""Balance: from what every member decides for itself, all come to an even share, and nothing moves that need not."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence

from hypothesis import given
from hypothesis import strategies as st

from penstock.coordinator.rebalance.balance import BalancePlan, Queue, inherits, plan, shares, sharing

TOPICS = ("orders", "refunds", "audit")
QUEUES = st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 9), min_size=1)
CHANCE = st.randoms(use_true_random=False)

Owners = dict[Queue, str]


def everything(queues: Mapping[str, int]) -> list[Queue]:
    return [(topic, queue) for topic, count in queues.items() for queue in range(count)]


def calm(
    topics: Mapping[str, Sequence[str] | set[str]], queues: Mapping[str, int], owners: Owners, chance: random.Random
) -> Owners:
    """Who owns what once nobody wants anything any more; members decide one after the other, in any order."""
    owners = dict(owners)
    for _ in range(4 * len(owners) + 4):
        settled = True
        for member in chance.sample(list(topics), len(topics)):
            own = {topic: count for topic, count in queues.items() if topic in topics[member]}
            for members, shared in sharing(topics, own):
                wish = plan(member, members, {queue: owners[queue] for queue in shared})
                settled &= wish == BalancePlan()
                owners |= dict.fromkeys(wish.drain, "") | dict.fromkeys(wish.take, member)
        if settled:
            return owners
    raise AssertionError(f"no end: {owners}")


@given(QUEUES, st.lists(st.sets(st.sampled_from(TOPICS), min_size=1), min_size=1, max_size=7), CHANCE)
def test_every_queue_that_somebody_consumes_comes_to_be_owned_and_each_topic_evenly(
    queues: dict[str, int], consumed: list[set[str]], chance: random.Random
) -> None:
    topics = {f"m{number}": names for number, names in enumerate(consumed)}
    began = {queue: chance.choice(["", *(m for m in topics if queue[0] in topics[m])]) for queue in everything(queues)}
    owners = calm(topics, queues, began, chance)
    for queue, owner in owners.items():
        assert bool(owner) == any(queue[0] in names for names in topics.values())
        assert not owner or queue[0] in topics[owner]
    for members, shared in sharing(topics, queues):
        count = Counter(owners[queue] for queue in shared)
        assert not members or max(count[member] for member in members) - min(count[member] for member in members) <= 1


@given(QUEUES, st.integers(1, 12), CHANCE)
def test_members_that_consume_the_same_own_as_many_but_one_whatever_they_began_with(
    queues: dict[str, int], count: int, chance: random.Random
) -> None:
    topics = {f"m{number}": tuple(queues) for number in range(count)}
    owners = calm(topics, queues, {queue: chance.choice(["", *topics]) for queue in everything(queues)}, chance)
    owned = [list(owners.values()).count(member) for member in topics]
    assert max(owned) - min(owned) <= 1
    assert min(owned) >= 1 or len(owners) < count


@given(QUEUES, st.integers(1, 8), CHANCE)
def test_who_joins_takes_what_it_is_short_of_and_nothing_else_moves(
    queues: dict[str, int], count: int, chance: random.Random
) -> None:
    topics = {f"m{number}": tuple(queues) for number in range(count)}
    before = calm(topics, queues, dict.fromkeys(everything(queues), ""), chance)
    after = calm({**topics, "new": tuple(queues)}, queues, before, chance)
    moved = {queue for queue in before if after[queue] != before[queue]}
    assert {after[queue] for queue in moved} <= {"new"}
    assert len(moved) == len(before) // (count + 1), "the least with which nobody has two more than another"


@given(QUEUES, st.integers(2, 8), CHANCE)
def test_what_somebody_leaves_is_all_that_moves(queues: dict[str, int], count: int, chance: random.Random) -> None:
    topics = {f"m{number}": tuple(queues) for number in range(count)}
    before = calm(topics, queues, dict.fromkeys(everything(queues), ""), chance)
    gone = chance.choice(list(topics))
    left = {member: names for member, names in topics.items() if member != gone}
    after = calm(left, queues, {queue: "" if owner == gone else owner for queue, owner in before.items()}, chance)
    assert {queue for queue in before if after[queue] != before[queue]} == {queue for queue in before if before[queue] == gone}


@given(QUEUES, st.lists(st.sets(st.sampled_from(TOPICS), min_size=1), min_size=2, max_size=7), CHANCE)
def test_who_takes_more_when_another_one_ends_knows_it_before(
    queues: dict[str, int], consumed: list[set[str]], chance: random.Random
) -> None:
    topics = {f"m{number}": tuple(sorted(names & queues.keys())) for number, names in enumerate(consumed)}
    owners = calm(topics, queues, dict.fromkeys(everything(queues), ""), chance)
    for me, names in topics.items():
        own = {topic: queues[topic] for topic in queues if topic in names}
        mine = {queue for queue, owner in owners.items() if owner == me}
        without = [{member: consumed for member, consumed in topics.items() if member != gone} for gone in topics if gone != me]
        assert inherits(me, topics, own, mine) == any(
            plan(me, members, {queue: me if queue in mine else "" for queue in shared}).take
            for left in without
            for members, shared in sharing(left, own)
        )


def test_of_many_members_few_inherit() -> None:
    queues = {"orders": 256}
    topics = {f"m{number}": ("orders",) for number in range(100)}
    owners = calm(topics, queues, dict.fromkeys(everything(queues), ""), random.Random(7))
    mine = {member: {queue for queue, owner in owners.items() if owner == member} for member in topics}
    assert sum(inherits(member, topics, queues, mine[member]) for member in topics) <= 4


def test_topics_with_the_same_members_are_shared_as_one() -> None:
    """Five topics of one queue each, two members: not all five to whoever is quicker."""
    queues = {f"t{number}": 1 for number in range(5)}
    topics = {"a": tuple(queues), "b": tuple(queues)}
    [(members, shared)] = sharing(topics, queues)
    assert members == ("a", "b")
    assert shares(members, len(shared)) == {"a": 3, "b": 2}
    assert len(plan("a", members, dict.fromkeys(shared, "")).take) == 3
