"""The working side of `penstock sync`, mostly Spark, with its task and the stop as lines on standard input.

It is a process of its own, as Spark takes over signals. Its standard output has reports, one JSON object a line; Spark's output goes to standard
error. It ends with its parent.
"""

from __future__ import annotations

import base64
import json
import os
import pickle
import sys
import threading
from dataclasses import asdict
from typing import Any

from ....cdc.scratch import scratch_folder
from ....cdc.sync.run import SyncRun
from ....change_data import sync
from ....spark.session import S3, session
from ...terminal.parent_input import ParentInput
from .sync_error import as_ours
from .sync_options import options_from


def main() -> int:
    reports = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    lock = threading.Lock()

    def tell(kind: str, **what: Any) -> None:  # noqa: ANN401 - JSON
        with lock:
            try:
                reports.write(json.dumps({"report": kind, **what}) + "\n")
                reports.flush()
            except BrokenPipeError:
                os._exit(1)  # the parent is gone

    heard = ParentInput()
    task = json.loads(heard.next())
    words = _Words(heard)
    try:
        with scratch_folder("penstock-sync-") as scratch:
            options = options_from(task["options"])
            s3 = S3(**task["s3"]) if task["s3"] is not None else None
            spark = None
            if task["engine"] == "spark":
                # Spark makes a warehouse for tables without a path, which would lie in the user's folder.
                conf = {"spark.sql.warehouse.dir": scratch}
                # A sync that runs for days needs the second compiler.
                spark = session("penstock-sync", s3=s3, conf=conf, quick_start=options.interval is None, source=False)
            elif s3 is not None:
                environment = {"AWS_ENDPOINT_URL_S3": s3.endpoint, "AWS_REGION": s3.region}
                os.environ |= {name: value for name, value in environment.items() if value}
            run = sync(
                task["lake"],
                task["topic"],
                options,
                spark=spark,
                coordination=task["coordination"],
                listener=lambda batch: tell("batch", **asdict(batch)),
            )
            words.follow(run)
            tell("running")
            run.await_termination()
            status = run.status
            stopped = {table: [asdict(stop) for stop in stops] for table, stops in status.stopped.items()}
            cut = status.cut
            if spark is not None:
                spark.stop()
        # Told last: the parent ends this process then.
        tell(
            "end",
            cuts=options.cuts,
            cut=None if cut is None else cut.number,
            places={} if cut is None else cut.places,
            batches=status.batches,
            events=status.events,
            rejected=status.rejected,
            nulled=status.nulled,
            stopped=stopped,
            unmatched=status.unmatched,
        )
    except Exception as error:  # noqa: BLE001 - the parent tells the user
        tell("error", error=base64.b64encode(pickle.dumps(as_ours(error, task["options"]["into"]))).decode())
        return 1
    return 0


class _Words:
    """The parent's words: ``stop``, or nothing more when it is gone."""

    def __init__(self, heard: ParentInput) -> None:
        self._heard = heard
        self._stopping = threading.Event()
        self._run: SyncRun | None = None
        threading.Thread(target=self._listen, daemon=True).start()

    def follow(self, run: SyncRun) -> None:
        self._run = run
        if self._stopping.is_set():
            run.stop()

    def _listen(self) -> None:
        while self._heard.next():
            self._stopping.set()
            if self._run is not None:
                self._run.stop()


if __name__ == "__main__":
    sys.exit(main())
