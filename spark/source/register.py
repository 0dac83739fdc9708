"""Making the format ``penstock`` known to a session that cannot find it by itself."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession) -> None:
    """Make ``format("penstock")`` known to ``spark``, and hand Penstock to its executors if it came with the job as a wheel.

    Needed in jobs that bring Penstock along (``spark-submit --py-files``): Spark looks for sources only among what is installed, and puts
    ZIP files on its workers' path, but not wheels. Where Penstock is installed this does nothing that Spark would not do by itself.
    """
    from .datasource import PenstockDataSource

    wheel = wheel_of(Path(__file__))
    if wheel is not None:
        folder = tempfile.mkdtemp(prefix="penstock-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)  # executors fetch it when their first task comes
        spark.sparkContext.addPyFile(str(shutil.copyfile(wheel, Path(folder) / f"{wheel.stem}.zip")))
    spark.dataSource.register(PenstockDataSource)


def wheel_of(module: Path) -> Path | None:
    """The wheel that a module was imported from; None when it was not."""
    return next((path for path in module.parents if path.suffix == ".whl" and path.is_file()), None)
