"""Drawn streams by the engine with Spark, in each of its ways: targets end as the judge says."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock import SyncOptions, sync
from tests.cdc.streams import Stream, streams
from tests.cdc.sync.backends.test_without_spark import check_rows
from tests.cdc.sync.streams import TOPIC, send
from tests.spark.sync.engines import WAYS, Way
from tests.thorough import thoroughly

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.thorough, pytest.mark.timeout(900)]


@pytest.mark.parametrize("way", [pytest.param(way, id=name) for name, way in WAYS.items()])
@settings(max_examples=thoroughly(6, 2))
@given(told=streams(splits=True, max_steps=10), batch=st.sampled_from([7, 100]))
def test_drawn_streams_end_as_the_judge_says(spark: SparkSession, way: Way, told: Stream, batch: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        lake, into = f"{folder}/lake", Path(folder, "targets")
        send(lake, [one.body for one in told.told], groups=[one.table for one in told.told])
        run = sync(
            lake,
            TOPIC,
            SyncOptions(into=into, columns=told.declared, truncates="queue", max_events=batch, compact_every=2, **way),
            spark=spark,
        )
        assert run.await_termination()
        assert run.stopped == {}
        check_rows(lake, into, told)
