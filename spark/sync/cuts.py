"""`penstock.spark.at_cut`: the tables of a cut as DataFrames."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from ...cdc.cuts.at_cut import folder_of
from ...cdc.cuts.cut_history import Which, kept_cuts
from ...cdc.cuts.versions import CurrentVersion, CutTables
from ...cdc.delta.commit_history import TableCommit
from .tables import commits_of, id_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_VERSION = "versionAsOf"


class SparkTableReader:
    """Tables read by Spark."""

    def __init__(self, session: SparkSession, into: str) -> None:
        self._session, self._into = session, into.partition("?")[0].rstrip("/")

    def path(self, name: str) -> str:
        return f"{self._into}/{name}"

    def newest(self, name: str) -> CurrentVersion | None:
        from delta.tables import DeltaTable

        if not DeltaTable.isDeltaTable(self._session, self.path(name)):
            return None
        table = DeltaTable.forPath(self._session, self.path(name))
        (row,) = table.history(1).select("version").collect()
        return CurrentVersion(int(row.version), id_of(table))

    def frame(self, name: str, version: int) -> DataFrame:
        return self._session.read.format("delta").option(_VERSION, version).load(self.path(name))

    def files(self, name: str, version: int) -> Collection[str] | None:
        from pyspark.errors import AnalysisException

        try:
            return {file.rpartition("/")[2] for file in self.frame(name, version).inputFiles()}
        except AnalysisException:  # the table is there, and its log has this version no more
            return None

    def commits(self, name: str) -> Iterable[TableCommit]:
        from delta.tables import DeltaTable

        return commits_of(DeltaTable.forPath(self._session, self.path(name)).history())


class FramesAtCut(CutTables[SparkTableReader, "DataFrame"]):
    """The tables of a cut, by folder."""

    def __getitem__(self, table: str) -> DataFrame:
        """A table at its version. Raises `TableNotInCut` or `CutTooOld`."""
        return self._tables.frame(table, self.version(table))


def at_cut(
    spark: SparkSession, into: str | os.PathLike[str], *, cut: Which = "latest", sync: str | None = None, views: bool = False
) -> FramesAtCut:
    """All tables that a sync writes into a folder, as of one cut: they equal the source at one place of its log, between two
    transactions.

    - ``into``: the sync's folder.
    - ``cut``: ``"latest"``, a number, or a time: the newest cut without later commits of the source.
    - ``sync``: the sync's name, where several have recorded cuts there.
    - ``views``: make a temporary view of each table, named as its folder.

    Returns DataFrames by table. Raises `NoCut`, and `CutTooOld` for a cut that is no longer kept. A table raises
    `TableNotInCut` if it came later or stood still, and `CutTooOld` if its version has been removed.
    """
    place = folder_of(into)
    kept = kept_cuts(place, sync=sync, latest_only=cut == "latest")
    found = FramesAtCut(kept, kept.find(cut), SparkTableReader(spark, place))
    for table in found if views else ():
        found[table].createOrReplaceTempView(table)
    return found
