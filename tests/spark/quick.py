"""Settings for Spark in tests, whose data is small: it is to spend its time on what is tested, not on making code for it fast."""

from __future__ import annotations

JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Without the second compiler, which no test runs long enough to need, tests take half the time."""
QUERIES = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""Plans stay as they are, but are run as they stand: to write Java for each, and compile it, takes a good fourth of the processor's time. The demo,
the README's and submitted jobs run as users' sessions do.
"""
DRIVER = {"spark.driver.defaultJavaOptions": JVM, **QUERIES}
