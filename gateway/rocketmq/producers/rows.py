"""JSON rows of topics with a schema."""

from __future__ import annotations

import numpy as np

from ....log import InvalidArgument, Message
from ....log.produce.typed_rows import rows_of_converted, rules_of
from ....log.schema.value_json import value_of_json
from ....log.schema.values import convert
from ....log.topic.topics import Topic
from ..protocol import rocketmq_pb2 as pb
from ..protocol.status import StatusError


async def with_row(topic: Topic, message: Message) -> Message:
    """The body's JSON as the row. Raises `StatusError` for one that does not fit: within a batch it would fail other clients' messages."""
    try:
        return _with_row(topic, message)
    except InvalidArgument:
        await topic.tail.catch_up()  # a later version of the schema may have what it has
    try:
        return _with_row(topic, message)
    except InvalidArgument as error:
        raise StatusError(pb.BAD_REQUEST, f"the body is no row of topic {topic.paths.topic}: {error}") from None


def _with_row(topic: Topic, message: Message) -> Message:
    schema = topic.schema
    row = value_of_json(message.body or b"null", schema)
    found = message._replace(body=None, value=row)
    rules, nobody = rules_of(topic.settings, schema), np.zeros(1, np.int64)
    typed = rows_of_converted(convert([row], schema), [message.message_group], {0: found}, {}, rules, born_us=nobody)
    if typed.bad:
        raise InvalidArgument(str(typed.bad[0]))
    return found
