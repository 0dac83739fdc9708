"""What is cached is found by any of its offsets, without gaps, and the oldest goes first."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from penstock.gateway.kafka.tail.batch_cache import BatchCache, CachedBatch, TopicPartition

HERE, THERE = TopicPartition("life-1", 0), TopicPartition("life-2", 0)


def batch(base: int, count: int, size: int = 10) -> CachedBatch:
    return CachedBatch(base, base + count, bytes(size))


def bases(cache: BatchCache, offset: int, partition: TopicPartition = HERE) -> list[int]:
    return [one.base_offset for one in cache.from_offset(partition, offset)]


def test_a_batch_is_found_by_an_offset_in_its_middle_with_those_behind_it() -> None:
    cache = BatchCache()
    for one in (batch(10, 5), batch(0, 10), batch(15, 5)):
        cache.add(HERE, one)
    assert bases(cache, 12) == [10, 15]
    assert bases(cache, 20) == []
    assert bases(cache, 0, THERE) == []


def test_a_gap_ends_what_is_found_and_tells_where_it_ends() -> None:
    cache = BatchCache()
    cache.add(HERE, batch(0, 10))
    cache.add(HERE, batch(20, 10))
    assert bases(cache, 3) == [0]
    assert bases(cache, 10) == []
    assert cache.next_base(HERE, 10) == 20
    assert cache.next_base(HERE, 20) is None
    assert cache.next_base(THERE, 0) is None


def test_offsets_that_are_kept_are_not_kept_twice() -> None:
    cache = BatchCache()
    cache.add(HERE, batch(10, 10))
    for one in (batch(10, 10), batch(5, 6), batch(19, 2), batch(0, 30)):
        cache.add(HERE, one)
    assert bases(cache, 10) == [10]
    assert cache.size_bytes == 10


def test_the_oldest_goes_when_there_is_no_room() -> None:
    cache = BatchCache(bytes_max=25)
    for base in (0, 10, 20):
        cache.add(HERE, batch(base, 10))
    assert bases(cache, 0) == []
    assert bases(cache, 10) == [10, 20]
    cache.add(THERE, batch(0, 1, size=100))
    assert cache.size_bytes == 0


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 9), st.integers(1, 30)), max_size=40))
def test_whatever_is_added_what_is_found_is_dense_and_within_the_bound(added: list[tuple[int, int, int]]) -> None:
    cache = BatchCache(bytes_max=120)
    for base, count, size in added:
        cache.add(HERE, batch(base, count, size))
        assert cache.size_bytes <= 120
        for offset in range(70):
            found = list(cache.from_offset(HERE, offset))
            if found:
                assert found[0].base_offset <= offset < found[0].limit_offset
            assert all(one.limit_offset == after.base_offset for one, after in pairwise(found))
