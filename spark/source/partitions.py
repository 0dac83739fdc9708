"""Ranges of offsets as Spark's partitions."""

from __future__ import annotations

import os

from pyspark.sql.datasource import InputPartition

from ...consumers.ranges.admission import Ranges, RowSizes, packed
from ...consumers.ranges.task import ReadTask
from .options import SparkSourceOptions


class Partition(InputPartition):
    """One task of a read."""

    def __init__(self, task: ReadTask) -> None:
        super().__init__(task)

    @property
    def task(self) -> ReadTask:
        task = self.value
        assert isinstance(task, ReadTask)
        return task


def partitions(options: SparkSourceOptions, life: int, ranges: Ranges, sizes: RowSizes) -> list[Partition]:
    """No more tasks than queues with rows, cores of this machine, or ``numTasks``."""
    tasks_max = options.tasks_max or os.cpu_count() or 1
    return [
        Partition(
            ReadTask(
                place=options.place,
                topic=options.topic,
                life=life,
                ranges=of_task,
                columns=options.columns,
                planned=options.planned,
                keep=options.keep,
                fail_on_data_loss=options.fail_on_data_loss,
                skip_damaged=options.skip_damaged,
            )
        )
        for of_task in packed(ranges, tasks_max=tasks_max, sizes=sizes)
    ]
