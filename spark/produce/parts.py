"""The executors' part: rows become parts of about 16 MiB, uploaded while the next ones are read."""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace

import pyarrow as pa

from ...coordinator.lakes import LakePlace, lakes
from ...log.errors import CallError, InternalError, PenstockError
from ...log.format.header import Part
from ...log.limits import MIB
from ...log.message.arrow import check_arrow
from ...log.message.batch_rows import MessageIds, rows_of_arrow
from ...log.message.message import VALUE
from ...log.message.routing import Router
from ...log.paths import TopicPaths
from ...log.produce.typed_rows import RowRules, refusal, rows_of_columns
from ...log.runtime.backoff import until_answered
from ...log.stage.jobs import upload_part
from ...log.topic.settings import TopicSettings

_UPLOADS_AT_ONCE = 2
STORE_PATIENCE_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadPlan:
    """A task's plan, from the driver, without secrets."""

    place: LakePlace
    paths: TopicPaths
    settings: TopicSettings
    producer: str
    job: str
    born_us: int
    """The beginning of the write by the lake's clock, and all messages' birth time."""
    part_bytes: int = 16 * MIB
    """The size of a part's rows in memory."""
    named: tuple[tuple[str, str], ...] = ()
    rules: RowRules | None = None
    before_part: Callable[[int, int, int], None] | None = None
    """Called with task, attempt and part before each upload, for tests."""


@dataclass(frozen=True, slots=True)
class UploadedPart:
    """A part on the store."""

    part: Part
    extended: bool = False
    """Whether a row of it has a key, headers, or NULL instead of a body."""


def link_form(upload: UploadPlan, parts: Iterable[UploadedPart]) -> tuple[int, bool]:
    return (0 if upload.rules is None else upload.rules.schema.version), any(one.extended for one in parts)


def upload_rows(
    upload: UploadPlan, batches: Iterable[pa.RecordBatch], *, task: int, attempt: int
) -> Generator[UploadedPart, None, None]:
    """Upload the rows as parts, in order. Raises `CallError` for rows that the topic does not take."""
    opened = lakes.open(upload.place)
    store, runtime = opened.lake.store, opened.lake.runtime
    router = Router(upload.settings.queues, upload.settings.routing)
    prefix, done_rows = runtime.random.getrandbits(64), 0

    def send(table: pa.Table, number: int, first_row: int) -> UploadedPart:
        ids = MessageIds(prefix, first_row)
        checked = _checked(upload, table, task, first_row)
        rows = rows_of_arrow(checked, upload.born_us, router, producer=upload.producer, ids=ids)
        label = f"{task:05d}-{number:05d}"

        def work() -> Awaitable[Part]:
            return upload_part(store, upload.paths, runtime, upload.job, label, lambda: rows.part(0, rows.count))

        # A busy store costs no task: in local mode Spark does not try a task again.
        return UploadedPart(opened.run(lambda: until_answered(work, runtime.clock, timeout_s=STORE_PATIENCE_S)), rows.is_extended)

    waiting: deque[Future[UploadedPart]] = deque()
    with ThreadPoolExecutor(_UPLOADS_AT_ONCE, "penstock-upload") as pool:
        for number, table in enumerate(_tables(batches, upload.part_bytes)):
            if upload.before_part is not None:
                upload.before_part(task, attempt, number)
            if len(waiting) == _UPLOADS_AT_ONCE:
                yield waiting.popleft().result()
            waiting.append(pool.submit(send, table, number, done_rows))
            done_rows += table.num_rows
        while waiting:
            yield waiting.popleft().result()


def _checked(upload: UploadPlan, table: pa.Table, task: int, first_row: int) -> pa.Table:
    """The rows for `rows_of_arrow`. Raises `CallError`."""
    settings = upload.settings
    if upload.rules is None:
        return check_arrow(table, settings.message_type, settings.limits, settings.queues)
    typed = rows_of_columns(table, upload.rules)
    if typed.bad:
        named = {at: f"row {first_row + at} of partition {task}" for at in typed.bad}
        raise refusal(typed.bad, topic=upload.paths.topic, named=named, count=table.num_rows)
    checked = check_arrow(typed.table.drop_columns([VALUE]), settings.message_type, settings.limits, settings.queues)
    return checked.append_column(VALUE, typed.table[VALUE])


def _tables(batches: Iterable[pa.RecordBatch], part_bytes: int) -> Iterator[pa.Table]:
    gathered: list[pa.RecordBatch] = []
    size_bytes = 0
    for batch in batches:
        for piece in _pieces(batch, part_bytes):
            if gathered and size_bytes + piece.nbytes > part_bytes:
                yield pa.Table.from_batches(gathered)
                gathered, size_bytes = [], 0
            gathered.append(piece)
            size_bytes += piece.nbytes
    if gathered:
        yield pa.Table.from_batches(gathered)


def _pieces(batch: pa.RecordBatch, part_bytes: int) -> Iterator[pa.RecordBatch]:
    if batch.num_rows == 0:
        return
    rows = max(1, batch.num_rows * part_bytes // max(1, batch.nbytes))
    yield from (batch.slice(first, rows) for first in range(0, batch.num_rows, rows))


# --- What comes back from a task: one row for each part, or for the error that ended it ---------------------------------------------

ANSWER = "task int, number int, answer binary"
_ANSWER = pa.schema([("task", pa.int32()), ("number", pa.int32()), ("answer", pa.binary())])


def upload_results(upload: UploadPlan, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """`upload_rows` for ``mapInArrow``. An error of the rows is an answer, as no other try would mend it."""
    from pyspark import TaskContext

    context = TaskContext.get()
    task, attempt = (context.partitionId(), context.attemptNumber()) if context else (0, 0)
    number = 0
    try:
        for number, part in enumerate(upload_rows(upload, batches, task=task, attempt=attempt)):
            yield _answer(task, number, part)
    except CallError as error:
        yield _answer(task, number + 1, _in_users_words(upload, error))
        for _ in batches:
            pass  # Spark waits until its rows have been taken


def parts_of(rows: Iterable[tuple[int, int, bytes]], *, routed: bool = False) -> list[UploadedPart]:
    """The parts by task, in order. Raises the first error. Raises `InternalError` unless each queue's ``routed`` rows came from one task."""
    parts: list[UploadedPart] = []
    task_of: dict[int, int] = {}
    for task, _, answer in sorted(rows):
        found: UploadedPart | PenstockError = pickle.loads(answer)  # noqa: S301 - our own tasks wrote it
        if isinstance(found, PenstockError):
            raise found
        if routed and any(task_of.setdefault(queue, task) != task for queue in found.part.rows):
            raise InternalError("the rows of one queue came from several tasks", operation="write_ordered", observed=task_of)
        parts.append(found)
    return parts


def _in_users_words(upload: UploadPlan, error: CallError) -> CallError:
    """The error with the user's name of the column, and no row number."""
    words = {
        "message_group": "message group",
        "tag": "tag",
        "keys": "key",
        "properties": "propert",
        "body": "body",
        "queue": "queues",
    }
    if upload.rules is not None:  # it names the row, the column, what was expected and found
        error.operation = "write_ordered"
        error.hint = (error.hint or "").replace("nothing of the batch was sent", "nothing was written") or None
        return error
    text = error.message.replace("_", " ")
    column = next((given for name, given in upload.named if words[name] in text), None)
    named = type(error)(error.message + (f", in column {column}" if column else ""))
    named.operation, named.object = "write_ordered", upload.paths.topic
    named.expected, named.observed, named.hint = error.expected, error.observed, error.hint
    return named


def _answer(task: int, number: int, answer: UploadedPart | PenstockError) -> pa.RecordBatch:
    if isinstance(answer, UploadedPart):
        answer = replace(answer, part=replace(answer.part, rows=dict(answer.part.rows)))
    return pa.record_batch([[task], [number], [pickle.dumps(answer)]], schema=_ANSWER)
