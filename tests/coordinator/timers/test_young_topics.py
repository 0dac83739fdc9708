"""Topics that were made a moment ago, as players tell each other of them."""

from __future__ import annotations

from penstock.coordinator.groups.codec import decode_group, encode_group
from penstock.coordinator.groups.record import GroupRecord, GroupSettings
from penstock.coordinator.timers.young_topics import YOUNG_S, YoungTopics, with_young_topics, young_topics_of
from tests.simulation.kernel import Kernel

NOBODY = GroupRecord(settings=GroupSettings())
YOUNG_MS = int(1000 * YOUNG_S)


def test_what_is_told_is_read_until_it_is_old() -> None:
    record = with_young_topics(NOBODY.joined_by("one/1"), {"orders": 5_000, "bills": 7_000}, now_ms=10_000)
    read = decode_group(encode_group(record), where="players")
    assert read.members == ("one/1",)
    assert young_topics_of(read, now_ms=10_000) == {"orders": 5_000, "bills": 7_000}
    assert young_topics_of(read, now_ms=5_000 + YOUNG_MS) == {"bills": 7_000}


def test_what_is_known_is_not_told_again_and_another_life_is() -> None:
    record = with_young_topics(NOBODY, {"orders": 5_000}, now_ms=10_000)
    assert with_young_topics(record, {"orders": 5_000}, now_ms=11_000) is record
    assert young_topics_of(with_young_topics(record, {"orders": 9_000}, now_ms=11_000), now_ms=11_000) == {"orders": 9_000}


def test_the_record_keeps_no_old_topics_and_not_too_many_young_ones() -> None:
    record = with_young_topics(NOBODY, {"orders": 5_000}, now_ms=10_000)
    later_ms = 5_000 + YOUNG_MS
    record = with_young_topics(record, {f"topic-{n}": later_ms + n for n in range(100)}, now_ms=later_ms)
    assert sorted(record.positions) == sorted(f"topic-{n}" for n in range(36, 100))


def test_a_topic_is_heard_of_once_and_by_who_told_it_not_at_all() -> None:
    kernel = Kernel("news", shuffle=False)

    async def work() -> None:
        clock = kernel.process("one").clock
        mine, others = YoungTopics(clock), YoungTopics(clock)
        made_ms = clock.wall_ms()
        mine.notice("orders", made_ms)
        record = with_young_topics(NOBODY, {"orders": made_ms}, now_ms=made_ms)
        assert mine.receive(record) == []
        assert others.receive(record) == ["orders"]
        assert others.receive(record) == []

    kernel.run(work())
