"""Making the format ``penstock`` known to a session that cannot find it by itself."""

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

    `penstock.spark.session` does it. A session made in another way needs it where Spark's own search does not find the source. The search
    sees packages installed in a folder, but neither an editable install nor files that a job brings along (``spark-submit --py-files``). It
    puts ZIP files on its workers' path, but not wheels. Doing it again does no harm.
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
    """Hand Penstock to the executors of ``spark`` if it came with the job as a wheel."""
    wheel = wheel_of(Path(__file__))
    if wheel is not None:
        spark.sparkContext.addPyFile(str(_as_zip(wheel)))


@cache
def _as_zip(wheel: Path) -> Path:
    """A copy under a name that Spark takes. There is only one, as a second file of the name would be an error."""
    folder = tempfile.mkdtemp(prefix="penstock-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)  # executors fetch it when their first task comes
    return Path(shutil.copyfile(wheel, Path(folder) / f"{wheel.stem}.zip"))


def wheel_of(module: Path) -> Path | None:
    """The wheel that a module was imported from; None when it was not."""
    return next((path for path in module.parents if path.suffix == ".whl" and path.is_file()), None)
