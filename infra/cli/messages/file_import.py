"""An import: records of files, through one producer, until the end, a bad record, or a signal. Every sent message is reported."""

from __future__ import annotations

import gzip
import io
import os
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, cast

from ....log import CallError, FencedError, InvalidArgument, Message, NotWritten, ProducerFailedError, SequenceError
from ....log.message.message import VALUE
from ...files import open_file
from ...formats import FileFormat, read_records
from ...labels import InputRecord, MessageLabels
from ...terminal import output
from ...terminal.session import Interrupted, Signals
from .label_columns import columns_of

if TYPE_CHECKING:
    from ....blocking.topics import Producer
    from ....log.message.arrow import ArrowData
    from ....log.schema.topic_schema import TopicSchema

_SHOWN_ERRORS = 5
_PROGRESS_EVERY = 1024
_BATCH_ROWS = 65_536
_GZIP = b"\x1f\x8b"


@dataclass(frozen=True, slots=True)
class ImportFile:
    """A file to import."""

    url: str
    format: FileFormat


@dataclass(frozen=True, slots=True)
class ImportSummary:
    """The outcome of an import."""

    sent: int
    duplicates: int
    """Messages that an earlier run had sent."""
    skipped: int
    unknown: int
    """Sent messages that are neither confirmed nor proved absent."""
    not_written: int
    """Messages proved absent or never sent."""
    seconds: float
    last_sequence: int | None

    @property
    def messages_per_s(self) -> float:
        return self.sent / self.seconds if self.seconds else 0.0


class FileImport:
    """Sends files through a producer, which it closes."""

    def __init__(
        self,
        producer: Producer,
        labels: Mapping[FileFormat, MessageLabels],
        *,
        skip: bool,
        signals: Signals,
        schema: TopicSchema | None = None,
    ) -> None:
        """``schema``: each record is a row of it."""
        self._producer = producer
        self._schema = schema
        self._labels = labels
        self._skip = skip
        self._signals = signals
        self._last = producer.last_sequence
        self._taken = self._duplicates = self._skipped = 0
        self._started_s = time.monotonic()
        self._tell: Callable[[int], None] = lambda done: None

    def run(self, sources: Sequence[ImportFile], *, report: Callable[[ImportSummary], None]) -> ImportSummary:
        """Send everything. The first Ctrl-C or SIGTERM ends the reading and waits for sent messages; the second does not wait. ``report`` is called
        in every case, before any error is raised.
        """
        try:
            with self._signals.held():
                try:
                    with output.progress("sending") as self._tell:
                        for source in sources:
                            self._send_file(source)
                finally:
                    self._producer.close()
        except Interrupted as stopped:
            report(self._summary())
            if self._producer.statistics().bytes_waiting:
                # The user has asked twice to stop: closing the lake would wait for the store again.
                os._exit(stopped.exit_code)
            raise
        except Exception as error:
            report(self._summary(error))
            raise
        summary = self._summary()
        report(summary)
        return summary

    def _summary(self, error: Exception | None = None) -> ImportSummary:
        durable = self._producer.statistics().messages_durable
        rest = self._taken - durable
        absent = rest if _proves_absence(error) else 0
        return ImportSummary(
            sent=durable,
            duplicates=self._duplicates,
            skipped=self._skipped,
            unknown=rest - absent,
            not_written=absent,
            seconds=round(time.monotonic() - self._started_s, 3),
            last_sequence=self._producer.last_sequence if self._last >= 0 or self._sequenced else None,
        )

    @property
    def _sequenced(self) -> bool:
        return any(labels.sequence for labels in self._labels.values())

    def _send_file(self, source: ImportFile) -> None:
        name = "standard input" if source.url == "-" else source.url
        labels = self._labels[source.format]
        with open_file(source.url) as raw, _unpacked(raw, source.url) as file:
            if source.format is FileFormat.PARQUET and not self._skip and self._send_columns(file, name, labels):
                return
            skip = self._bad if self._skip else None
            typed = self._schema is not None
            records = read_records(file, source.format, name=name, labels=labels, skip=skip, typed=typed)
            self._send_records(records, name, as_texts=source.format is FileFormat.CSV)

    def _send_records(self, records: Iterator[InputRecord], name: str, *, as_texts: bool) -> None:
        read = 0
        while self._signals.received is None:
            # Only here may the first signal break in: reading may take for ever, and nothing is half done.
            record = self._signals.interruptible(lambda: next(records, None))
            if record is None:
                return
            read += 1
            try:
                self._send(self._message(record, as_texts=as_texts), record.sequence)
            except CallError as error:
                field = f", {error.object}" if self._schema is not None and error.object else ""
                error.object = f"{name}, record {read}{field}"
                if isinstance(error, SequenceError):  # leaving the record out would lose it silently
                    error.hint = "sort the input by its sequence"
                    raise
                if not self._skip:
                    raise
                self._bad(error)

    def _message(self, record: InputRecord, *, as_texts: bool) -> Message:
        labels = (record.message_group, record.tag, record.keys, record.properties)
        if self._schema is None:
            return Message(record.body, *labels, record.delivery_timestamp, record.delay)
        from ...operating.row_records import row_of

        row = row_of(record.body, self._schema, as_texts=as_texts)
        return Message(None, *labels, record.delivery_timestamp, record.delay, value=row)

    def _send(self, message: Message, sequence: int | None) -> None:
        self._producer.send(message, sequence=sequence)
        if sequence is not None and sequence <= self._last:
            self._duplicates += 1
            return
        self._taken += 1
        if self._taken % _PROGRESS_EVERY == 0:
            self._tell(self._taken)

    def _send_columns(self, file: BinaryIO, name: str, labels: MessageLabels) -> bool:
        """Send a Parquet file column by column. Returns False, without a send, unless its labels allow that."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        if not file.seekable():
            return False
        try:
            parquet = pq.ParquetFile(file, pre_buffer=False)
            plan = None
            if self._schema is None:
                plan = columns_of(parquet.schema_arrow, labels)
                if plan is None:
                    return False
            elif labels != MessageLabels():
                return False
            elif VALUE in parquet.schema_arrow.names:
                raise InvalidArgument(
                    "the file has columns of messages, and its rows are one of them",
                    operation="read the file",
                    object=name,
                    expected=self._schema.ddl,
                    observed=", ".join(parquet.schema_arrow.names),
                    hint="give --body value; others by --group message_group, --tag tag and --key keys where they are meant",
                )
            row = 0
            for batch in parquet.iter_batches(_BATCH_ROWS, columns=None if plan is None else plan.read, use_threads=False):
                if self._signals.received is not None:
                    break
                table = batch if plan is None else plan.table(batch, first_row=row, name=name)
                duplicates = 0 if plan is None else plan.duplicates(table, self._last)
                self._send_table(table, row, name)
                self._duplicates += duplicates
                self._taken += table.num_rows - duplicates
                row += table.num_rows
                self._tell(self._taken)
        except (pa.ArrowException, UnicodeDecodeError) as error:
            raise InvalidArgument(
                "this is no Parquet file, or a damaged one", operation="read the file", object=name, observed=error
            ) from error
        return True

    def _send_table(self, table: ArrowData, row: int, name: str) -> None:
        try:
            self._producer.send_batch(table)
        except CallError as error:
            place = (error.object or "").removeprefix("row ")
            typed = f", from row {row + 1} on" if self._schema is not None else ""
            if typed and error.object:
                typed += f": {error.object}"
            error.object = f"{name}, row {row + int(place) + 1}" if place.isdecimal() else name + typed
            raise

    def _bad(self, error: CallError) -> None:
        self._skipped += 1
        if self._skipped <= _SHOWN_ERRORS:
            output.note(f"skipped: {error.message} ({error.object})")
        elif self._skipped == _SHOWN_ERRORS + 1:
            output.note("skipped: more are only counted")


def _proves_absence(error: BaseException | None) -> bool:
    while isinstance(error, ProducerFailedError):  # this is the error of messages that were sent behind a failed batch
        error = error.__cause__
    return isinstance(error, FencedError | NotWritten)


@contextmanager
def _unpacked(file: BinaryIO, url: str) -> Iterator[BinaryIO]:
    """The unpacked bytes of a file. Standard input is known as packed by its first bytes, files by their names, in `open_file`."""
    if url != "-":
        yield file
        return
    peeking = file if isinstance(file, io.BufferedReader) else io.BufferedReader(cast("io.RawIOBase", file))
    try:
        if peeking.peek(2)[:2] != _GZIP:
            yield peeking
            return
        with gzip.GzipFile(fileobj=peeking) as unpacked:
            yield cast("BinaryIO", unpacked)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InvalidArgument("not a whole gzip file", operation="read", object="standard input", observed=str(error)) from error
    finally:
        if peeking is not file:
            peeking.detach()
