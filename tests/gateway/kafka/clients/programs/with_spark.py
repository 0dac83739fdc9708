"""Spark's own source for Kafka, driven by lines of JSON: see commands.md beside this file. Arguments: the address, the folder of its JARs."""

import sys
from pathlib import Path

from lines import seen, serve
from pyspark.sql import SparkSession


def code_of(error):
    return None


class Client:
    def __init__(self, address, jars):
        self.options = {"kafka.bootstrap.servers": address, "startingOffsets": "earliest", "includeHeaders": "true"}
        settings = {"spark.jars": ",".join(map(str, Path(jars).glob("*.jar"))), "spark.ui.enabled": "false", "spark.local.dir": "."}
        self.spark = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()

    def rows(self, frame):
        return [
            seen(row.topic, row.partition, row.offset, row.key, row.value, row.headers, round(row.timestamp.timestamp() * 1000))
            for row in frame.orderBy("partition", "offset").collect()
        ]

    def op_batch(self, command):
        return self.rows(self.spark.read.format("kafka").options(**self.options, subscribe=command["topic"]).load())

    def op_stream(self, command):
        """What a stream has read from its beginning on, which goes on where it was."""
        options = {**self.options, "subscribe": command["topic"], "maxOffsetsPerTrigger": command["step"]}
        stream = self.spark.readStream.format("kafka").options(**options).load().writeStream.format("parquet")
        running = stream.trigger(availableNow=True).start(path="rows", checkpointLocation="checkpoint")
        running.awaitTermination()
        return {"rows": self.rows(self.spark.read.parquet("rows")), "batches": running.lastProgress["batchId"] + 1}

    def op_close(self, _):
        self.spark.stop()


serve(Client(*sys.argv[1:]), code_of)
