"""Freshness from stored facts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
from deltalake import CommitProperties, write_deltalake
from hypothesis import given
from hypothesis import strategies as st

from penstock.cdc.delta.freshness import SyncCommit, commits_of, freshness, stored_ms, visible_ms
from penstock.cdc.events.sources import TableId
from penstock.cdc.target import Target, TargetOwner, TargetProgress, encode_metadata
from tests.cdc.columns import target_column


def events(*places: tuple[int, int]) -> pa.Table:
    return pa.table(
        {"queue": pa.array([queue for queue, _ in places], pa.int32()), "offset": pa.array([o for _, o in places], pa.int64())}
    )


def test_an_event_is_visible_with_the_first_commit_beyond_it() -> None:
    commits = [SyncCommit(2_000, {0: 2, 1: 1}), SyncCommit(1_000, {0: 1}), SyncCommit(3_000, {0: 2, 1: 5})]
    found = visible_ms(events((0, 0), (0, 1), (0, 2), (1, 0), (1, 4), (7, 0)), commits)
    assert found.tolist() == [1_000, 2_000, -1, 2_000, 3_000, -1]


def test_a_replay_takes_nothing_back() -> None:
    commits = [SyncCommit(1_000, {0: 5}), SyncCommit(2_000, {0: 3}), SyncCommit(3_000, {0: 6})]
    assert visible_ms(events((0, 4), (0, 5)), commits).tolist() == [1_000, 3_000]


def test_percentiles_are_of_what_is_visible() -> None:
    found = freshness(np.array([0, 0, 0, 500]), np.array([100, 300, -1, 400]))
    assert (found.events, found.waiting, found.p50_ms, found.max_ms) == (3, 1, 100.0, 300.0)
    assert freshness(np.array([], np.int64), np.array([], np.int64)).events == 0


def test_what_was_visible_at_once_is_not_waiting() -> None:
    found = freshness(np.array([0]), np.array([0]))
    assert (found.events, found.waiting) == (1, 0)


def test_commits_are_those_of_syncs(tmp_path: Path) -> None:
    url = str(tmp_path / "t")
    assert commits_of(url) == []
    write_deltalake(url, pa.table({"id": pa.array([], pa.int64())}))
    assert commits_of(url) == []
    target = Target(TableId("s", "t"), "t", (target_column("id", "bigint"),), ("id",), TargetProgress({0: 7}, commits=1))
    said = CommitProperties(custom_metadata={"userMetadata": encode_metadata(TargetOwner("changes", 1, "s"), target)})
    write_deltalake(url, pa.table({"id": [1]}), mode="append", commit_properties=said)
    (commit,) = commits_of(url)
    assert commit.offsets == {0: 7}


def test_times_of_the_topic_are_instants() -> None:
    table = pa.table({"store_timestamp": pa.array([1_234_567], pa.timestamp("us", "UTC"))})
    assert stored_ms(table).tolist() == [1_234]


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 20)), max_size=20),
    st.lists(
        st.tuples(st.integers(1, 50), st.dictionaries(st.integers(0, 2), st.integers(0, 22))), max_size=8, unique_by=lambda c: c[0]
    ),
)
def test_the_same_as_looking_at_one_after_another(places: list[tuple[int, int]], made: list[tuple[int, dict[int, int]]]) -> None:
    commits = [SyncCommit(time_ms, offsets) for time_ms, offsets in made]

    def shown(queue: int, offset: int) -> int:
        return min((commit.time_ms for commit in commits if commit.offsets.get(queue, 0) > offset), default=-1)

    assert visible_ms(events(*places), commits).tolist() == [shown(*place) for place in places]
