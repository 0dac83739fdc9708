"""Rows of typed topics in a transaction, checked at the send."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from ....log.message.message import Message
from ....log.produce.typed_rows import TypedRows, check_content, refusal, rows_of_converted, rules_of
from ....log.schema.values import convert
from ....log.topic.topics import Topic


async def typed_halves(topic: Topic, messages: Sequence[Message], queue: int | None) -> pa.Table | None:
    """The messages in the columns of `SEND_SCHEMA` and ``value``; None without a schema. Raises `InvalidArgument` for rows that do not fit the
    schema, rows without a schema, and bodies with one.
    """
    is_typed = topic.settings.schema is not None
    rules = rules_of(topic.settings, topic.schema) if is_typed else None
    for message in messages:
        check_content(message, rules, topic=topic.paths.topic)
    if not is_typed:
        return None
    typed = await _rows(topic, messages, queue)
    if typed.bad:  # a later version of the schema may have what they have
        await topic.tail.catch_up()
        if topic.schema.version != typed.schema_version:
            typed = await _rows(topic, messages, queue)
    if typed.bad:
        raise refusal(typed.bad, topic=topic.paths.topic, count=len(messages))
    return typed.table


async def _rows(topic: Topic, messages: Sequence[Message], queue: int | None) -> TypedRows:
    rules = rules_of(topic.settings, topic.schema)
    queues = {} if queue is None else dict.fromkeys(range(len(messages)), queue)
    nobody = np.zeros(len(messages), np.int64)  # messages of transactions have no delivery time, which would count from their birth
    values, groups = [message.value for message in messages], [message.message_group for message in messages]
    return await topic.runtime.offload(
        lambda: rows_of_converted(convert(values, rules.schema), groups, dict(enumerate(messages)), queues, rules, born_us=nobody)
    )
