"""Forms batches: turns what was gathered into rows, by the topic's schema if it has one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..limits import HANDED_BYTES_MAX
from ..message.batch_rows import BatchRows, MessageIds, WrittenIds, rows_of_arrow, rows_of_messages
from ..message.few_rows import FEW_BYTES, FEW_ROWS, FewRows, few_rows
from ..message.message import VALUE
from ..runtime.runtime import Runtime
from ..topic.routing import TopicRouter
from ..topic.topics import Topic
from .accumulator import BatchBuilder
from .gathered_rows import GatheredRows, RowExtractor
from .invalid_rows import InvalidRowSender, divert
from .typed_rows import RowRules, TypedRows, as_json_bodies, refusal, rows_of_converted, rules_of

_FIRST_ROW_BYTES = 256


@dataclass(frozen=True, eq=False, slots=True)
class EncodedBatch:
    """A batch as it is written."""

    rows: BatchRows | FewRows
    generation: int
    """The routing generation by which the rows have their queues."""
    schema_version: int
    kept: npt.NDArray[np.int64] | None
    """Written messages by place among those sent; None: all."""
    invalid: Mapping[int, str]


class BatchEncoder:
    """Forms the batches of one producer."""

    def __init__(
        self,
        runtime: Runtime,
        served: Topic,
        router: TopicRouter,
        *,
        producer: str,
        ignore_extra: bool,
        invalid: InvalidRowSender | None,
        to_timer_log: bool,
    ) -> None:
        """``served`` is the messages' topic, ``router`` the log's. ``invalid`` sends rows that do not fit the schema elsewhere. ``to_timer_log``:
        a log without schema.
        """
        self._runtime, self._served, self.router = runtime, served, router
        self._producer, self._ignore_extra, self._invalid, self._to_timer_log = producer, ignore_extra, invalid, to_timer_log
        self.is_typed = served.settings.schema is not None
        self._rules: RowRules | None = None
        self._form: RowExtractor | None = None
        self.row_bytes = float(_FIRST_ROW_BYTES)

    @property
    def queues(self) -> int:
        return self._served.settings.queues

    @property
    def rules(self) -> RowRules:
        schema = self._served.schema
        if self._rules is None or self._rules.schema is not schema:
            self._rules = rules_of(self._served.settings, schema, ignore_extra=self._ignore_extra)
        return self._rules

    def gather(self) -> list[Any] | GatheredRows:
        if not self.is_typed:
            return []
        schema = self._served.schema
        if self._form is None or self._form.schema is not schema:
            self._form = RowExtractor(schema, ignore_extra=self._ignore_extra)
        return GatheredRows(self._form)

    async def form(self, builder: BatchBuilder) -> EncodedBatch:
        """Raises `InvalidArgument` for rows that do not fit, unless they go to another topic."""
        routed_by, now_us, size_bytes = self._followed(), 1000 * self._runtime.clock.wall_ms(), builder.size_bytes
        if (few := self._few(builder, now_us, routed_by)) is not None:
            builder.built()
            return EncodedBatch(few, routed_by.generation, 0, None, MappingProxyType({}))
        if not self.is_typed:
            return await self._runtime.offload(
                lambda: self._finish(builder, self._rows(builder, now_us, routed_by), routed_by, 0, None), size_bytes=size_bytes
            )
        typed, check = builder.typed, builder.again or (lambda rules: self._typed_rows(builder, now_us, rules))
        if typed is None:
            typed = await self._runtime.offload(lambda: check(self.rules), size_bytes=size_bytes)
        if typed.bad:  # a later version of the schema may have what they have
            await self.read_on()
            if self._served.schema.version != typed.schema_version:
                typed = await self._runtime.offload(lambda: check(self.rules), size_bytes=size_bytes)
        if typed.bad:
            await self._take_out(builder, typed)
        return await self._runtime.offload(lambda: self._of_typed(builder, typed, now_us, routed_by), size_bytes=size_bytes)

    async def routed_anew(self, formed: EncodedBatch) -> EncodedBatch:
        """A formed batch by the queues that the topic has now."""
        routed_by = self._followed()
        anew = formed.rows.routed_anew(routed_by.router)
        if anew.size_bytes <= HANDED_BYTES_MAX:
            await self._runtime.offload(lambda: anew.table, size_bytes=anew.size_bytes)
        return replace(formed, rows=anew, generation=routed_by.generation)

    def _followed(self) -> TopicRouter:
        """The topic's present router. A timer log has one queue for ever."""
        if not self._to_timer_log:
            self.router = self.router.followed(self._served.tail.state)
        return self.router

    async def read_on(self) -> None:
        await self._served.tail.catch_up()

    def _typed_rows(self, builder: BatchBuilder, now_us: int, rules: RowRules) -> TypedRows:
        assert isinstance(builder.contents, GatheredRows), "rows gather in blocks"
        sent = (builder.groups, builder.labelled, builder.queues)
        return rows_of_converted(builder.contents.converted(rules.schema), *sent, rules, born_us=self._born_us(builder, now_us))

    async def _take_out(self, builder: BatchBuilder, typed: TypedRows) -> None:
        """Raises `InvalidArgument` where there is no topic beside."""
        ids = {at: builder.ids.one(at) for at in typed.bad}
        if self._invalid is None:
            named = {at: f"message {one}" for at, one in ids.items()}
            raise refusal(typed.bad, topic=self._served.paths.topic, named=named, count=typed.table.num_rows)
        if isinstance(builder.contents, GatheredRows):
            rows: dict[int, object] = {at: builder.contents.row(at) for at in typed.bad}
            sequences = {at: builder.sequences[at] for at in typed.bad if builder.sequences}
        else:
            rows = dict(typed.given)
            column = typed.table["sequence"]
            sequences = {at: one for at in typed.bad if (one := column[at].as_py()) is not None}
        await divert(self._invalid, self._served.paths.topic, typed.bad, rows, ids, sequences)

    def _of_typed(self, builder: BatchBuilder, typed: TypedRows, now_us: int, routed_by: TopicRouter) -> EncodedBatch:
        of_all = builder.ids
        ids: MessageIds | WrittenIds = of_all
        born_us = now_us if builder.table is not None else self._born_us(builder, now_us)
        table, kept = typed.table, None
        self.row_bytes += 0.5 * (table[VALUE].nbytes / max(1, table.num_rows) - self.row_bytes)
        if typed.bad:
            fits = typed.fits
            kept = np.flatnonzero(fits)
            table, ids = table.filter(pa.array(fits)), WrittenIds(of_all, kept)
            born_us = born_us if isinstance(born_us, int) else born_us[kept]
        if self._to_timer_log:
            table = as_json_bodies(table)
        in_runs = builder.table is not None  # rows that were sent one by one take the queues in turn
        rows = rows_of_arrow(table, born_us, routed_by.router, producer=self._producer, ids=ids, in_runs=in_runs)
        version = 0 if self._to_timer_log else typed.schema_version
        return self._finish(builder, rows, routed_by, version, kept, {at: str(fault) for at, fault in typed.bad.items()})

    def _finish(
        self,
        builder: BatchBuilder,
        rows: BatchRows,
        routed_by: TopicRouter,
        schema_version: int,
        kept: npt.NDArray[np.int64] | None,
        invalid: Mapping[int, str] = MappingProxyType({}),
    ) -> EncodedBatch:
        if 0 < rows.size_bytes <= HANDED_BYTES_MAX:
            _ = rows.table  # here, and not on the event loop
        builder.built()
        return EncodedBatch(rows, routed_by.generation, schema_version, kept, invalid)

    def _rows(self, builder: BatchBuilder, now_us: int, routed_by: TopicRouter) -> BatchRows:
        ids = builder.ids
        if builder.table is not None:
            return rows_of_arrow(builder.table, now_us, routed_by.router, producer=self._producer, ids=ids)
        assert isinstance(builder.contents, list), "bodies gather in a list"
        sent = (builder.contents, builder.groups, builder.labelled, builder.queues)
        return rows_of_messages(*sent, self._born_us(builder, now_us), routed_by.router, producer=self._producer, ids=ids)

    def _few(self, builder: BatchBuilder, now_us: int, routed_by: TopicRouter) -> FewRows | None:
        """None: they are many, or of a kind that has Arrow's columns."""
        bodies = builder.contents
        if not isinstance(bodies, list) or not 0 < len(bodies) <= FEW_ROWS or builder.sent_bytes > FEW_BYTES or self._to_timer_log:
            return None
        now_s = self._runtime.clock.monotonic_s()
        born_us = [now_us - int(1e6 * (now_s - born_s)) for born_s in builder.born_s]
        sent = (bodies, builder.groups, builder.labelled, builder.queues)
        return few_rows(*sent, born_us, routed_by.router, producer=self._producer, ids=builder.ids)

    def _born_us(self, builder: BatchBuilder, now_us: int) -> npt.NDArray[np.int64]:
        return now_us - (1e6 * (self._runtime.clock.monotonic_s() - np.asarray(builder.born_s))).astype(np.int64)
