"""``python -m tests.benchmarks``: the figures of the log and of its consumers, as a table and JSON.

python -m tests.benchmarks [--only latency,sending] [--repeats 5] [--json FILE] [--small]
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tests.benchmarks import (
    console,
    cuts,
    filters,
    idle,
    large_targets,
    latency,
    lookups,
    many_tables,
    memory,
    publishing,
    reading,
    sending,
    spark_freshness,
    spark_source,
    spark_sync,
    spark_write,
    timers,
    transactions,
    typed,
    typed_rows,
    volume,
)
from tests.benchmarks.consumers import cells, handlers, idling, isolation, killed, receiving, retries, tables, takeovers, throughput
from tests.benchmarks.figures import Figure, Options, as_json, table
from tests.benchmarks.gateway import kafka, kafka_records, rates

BENCHMARKS: dict[str, Callable[[Options], Iterator[Figure]]] = {
    "latency": latency.measure,
    "sending": sending.measure,
    "typed-rows": typed_rows.measure,
    "reading": reading.measure,
    "publishing": publishing.measure,
    "volume": volume.measure,
    "memory": memory.measure,
    "idle": idle.measure,
    "transactions": transactions.measure,
    "lookups": lookups.measure,
    "filters": filters.measure,
    "timers": timers.measure,
    "push": throughput.measure,
    "simple": receiving.measure,
    "handlers": handlers.measure,
    "takeovers": takeovers.measure,
    "killed": killed.measure,
    "isolation": isolation.measure,
    "retries": retries.measure,
    "idling": idling.measure,
    "cells": cells.measure,
    "tables": tables.measure,
    "gateway": rates.measure,
    "kafka-records": kafka_records.measure,
    "kafka-gateway": kafka.measure,
    "console": console.measure,
    "spark-source": spark_source.measure,
    "spark-typed": typed.measure,
    "spark-write": spark_write.measure,
    "spark-sync": spark_sync.measure,
    "spark-freshness": spark_freshness.measure,
    "cuts": cuts.measure,
    "many-tables": many_tables.measure,
    "spark-large-targets": large_targets.measure,
}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description="Measure what the design promises.")
    parser.add_argument("--only", default=",".join(BENCHMARKS), help="comma-separated: " + ", ".join(BENCHMARKS))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path, help="write the figures to this file too")
    parser.add_argument("--small", action="store_true", help="only see that everything runs")
    given = parser.parse_args(arguments)
    names = given.only.split(",")
    if unknown := sorted(set(names) - set(BENCHMARKS)):
        parser.error(f"unknown: {', '.join(unknown)}")
    options = Options(repeats=1 if given.small else given.repeats, small=given.small)
    logging.getLogger("penstock").addHandler(logging.NullHandler())  # handlers that fail are part of what is measured
    figures: list[Figure] = []
    for name in names:
        for figure in BENCHMARKS[name](options):
            figures.append(figure)
            print(f"{name}: {figure.name} {figure.median:.4g} {figure.unit} {figure.verdict}", file=sys.stderr, flush=True)
    print(table(figures))
    if given.json:
        given.json.write_text(as_json(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
