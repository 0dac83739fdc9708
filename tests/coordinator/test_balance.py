"""Balance among members that do not all consume the same topics."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from penstock.coordinator.balance import Plan, Queue, plan, share, sharing

TOPICS = ("orders", "refunds", "audit")


@given(
    st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 9), min_size=1),
    st.lists(st.sets(st.sampled_from(TOPICS), min_size=1), min_size=1, max_size=7),
    st.randoms(use_true_random=False),
)
def test_every_queue_that_somebody_consumes_comes_to_be_owned(
    queues: dict[str, int], consumed: list[set[str]], chance: random.Random
) -> None:
    topics = {f"m{number}": names for number, names in enumerate(consumed)}
    everything = {(topic, queue) for topic, count in queues.items() for queue in range(count)}
    owners: dict[Queue, str] = {queue: chance.choice(["", *(m for m in topics if queue[0] in topics[m])]) for queue in everything}
    settled = False
    for _ in range(4 * len(everything) + 4):
        settled = True
        for member, names in topics.items():
            own = {topic: count for topic, count in queues.items() if topic in names}
            for members, shared in sharing(topics, own):
                wish = plan(member, members, {queue: owners[queue] for queue in shared})
                settled &= wish == Plan()
                owners |= dict.fromkeys(wish.drain, "") | dict.fromkeys(wish.take, member)
    assert settled
    for queue, owner in owners.items():
        assert bool(owner) == any(queue[0] in names for names in topics.values())
        assert not owner or queue[0] in topics[owner]


def test_topics_with_the_same_members_are_shared_as_one() -> None:
    """Five topics of one queue each, two members: not all five to whoever is quicker."""
    queues = {f"t{number}": 1 for number in range(5)}
    topics = {"a": tuple(queues), "b": tuple(queues)}
    [(members, shared)] = sharing(topics, queues)
    assert members == {"a", "b"}
    assert share(len(shared), len(members)) == 3
    assert len(plan("a", members, dict.fromkeys(shared, "")).take) == 3
