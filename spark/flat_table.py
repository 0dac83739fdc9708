"""A topic's Delta table with the fields of its rows as columns beside those of messages."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from ..coordinator.lakes import LakeLike, LakePlace, lakes
from ..log.message.message import MESSAGE_SCHEMA, VALUE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def table(spark: SparkSession, lake: LakeLike, topic: str) -> DataFrame:
    """The published rows of a topic, by its Delta table, with one column for each field of its schema.

    The columns of messages come first, without ``body``. A tombstone is a row whose fields are all NULL. The table of a topic without a schema is
    given as it is.

    ``lake`` is a URL, a folder or a `penstock.Lake`; the session needs Delta (`session`). Raises `TopicNotFound`.
    """
    place = LakePlace.of(lake, read_only=True)
    opened = lakes.open(place)
    found = opened.run(lambda: opened.lake.topic(topic))
    frame = spark.read.format("delta").load(f"{_folder(place.url)}/{found.paths.table(found.record.table)}")
    if VALUE not in frame.columns:
        return frame
    return frame.select(*(name for name in MESSAGE_SCHEMA.names if name != "body"), f"{VALUE}.*")


def _folder(url: str) -> str:
    """A lake in Hadoop's form. Hadoop takes percent signs in a path as they are."""
    parts = urlsplit(url)
    path = unquote(parts.path).rstrip("/")
    return path if parts.scheme == "file" else f"{parts.scheme}://{parts.netloc}{path}"
