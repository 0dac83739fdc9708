"""Makes the format ``penstock`` known to a session that cannot find it by itself."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession) -> None:
    """Make ``format("penstock")`` known to ``spark``, and hand Penstock to its executors if it came with the job as a wheel.

    `penstock.spark.session` does it. Other sessions need it for an editable install, files of a job (``spark-submit --py-files``) and wheels. Doing
    it again does no harm.
    """
    from pyspark.errors import AnalysisException

    from .datasource import PenstockDataSource

    ship(spark)
    try:
        spark.dataSource.register(PenstockDataSource)
    except AnalysisException as error:
        # Spark 4.0 and 4.1 refuse a source that their own search has found. It is this one: they find it by `pyspark_penstock`.
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise


def ship(spark: SparkSession) -> None:
    wheel = wheel_of(Path(__file__))
    if wheel is not None:
        spark.sparkContext.addPyFile(str(_as_zip(wheel)))


@cache
def _as_zip(wheel: Path) -> Path:
    """A copy under a name that Spark takes; a second file of the name would be an error."""
    folder = tempfile.mkdtemp(prefix="penstock-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)  # executors fetch it when their first task comes
    return Path(shutil.copyfile(wheel, Path(folder) / f"{wheel.stem}.zip"))


def wheel_of(module: Path) -> Path | None:
    return next((path for path in module.parents if path.suffix == ".whl" and path.is_file()), None)
