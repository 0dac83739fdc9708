"""The demo's Spark job as a process of its own: ``python -m penstock.infra.demo.job``, told by its parent what to apply.

Of its own, because Spark takes over the signals of the process it runs in, and what it has to say at length.
"""

from __future__ import annotations

import sys
from tempfile import TemporaryDirectory

from ...log.errors import PenstockError
from ...spark import S3, session
from .apply import apply_events
from .child import Parent
from .reports import Applied, Failed
from .tables import Target

# So short a job is over before the second compiler would pay off: this halves its time.
_QUICK_START = {"spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}


def main() -> int:
    """Apply, and tell the parent."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    parent = Parent()
    task = parent.task()
    parent.nothing_more_to_hear()
    try:
        with TemporaryDirectory(prefix="penstock-demo-") as scratch:
            # Spark makes a warehouse for tables without a path, which would lie in the user's folder.
            conf = {**_QUICK_START, "spark.sql.warehouse.dir": scratch}
            spark = session("penstock-demo", s3=S3(**task["s3"]) if task["s3"] else None, conf=conf)
            apply_events(
                spark,
                topic_table=task["topic_table"],
                target_folder=task["target_folder"],
                targets=[Target(**target) for target in task["targets"]],
            )
            spark.stop()
    except (PySparkException, Py4JError, PenstockError) as error:
        parent.tell(Failed(str(error).strip().partition("\n")[0][:500]))
        return 1
    parent.tell(Applied())
    return 0


if __name__ == "__main__":
    sys.exit(main())
