"""Filter expressions of clients and of consumer groups. Pure."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from ....log.errors import InvalidArgument, LimitExceeded
from ....log.filter.filters import parse_filter, parse_stated
from ....log.filter.tags import SQL92
from ..protocol import rocketmq_pb2 as pb
from ..protocol.status import StatusError

_ALL: Final = "*"


def filter_of(expression: pb.FilterExpression) -> str:
    """Raises `StatusError`."""
    return _filter_of(expression.expression, expression.type == pb.SQL)


@lru_cache(maxsize=256)  # a client states the same with every receive
def _filter_of(text: str, is_sql: bool) -> str:
    if is_sql:
        text = f"{SQL92} {text}"
    elif text.lstrip().startswith(SQL92):
        raise StatusError(
            pb.ILLEGAL_FILTER_EXPRESSION, f"the tag expression {text!r} begins like an SQL92 condition: its type must be SQL"
        )
    else:
        # RocketMQ leaves out what is empty between the pipes, as long as a tag is left.
        tags = [tag.strip() for tag in text.split("||")]
        named = [tag for tag in tags if tag]
        if not named and len(tags) > 1:
            raise StatusError(pb.ILLEGAL_FILTER_EXPRESSION, f"the tag expression {text!r} names no tag")
        text = " || ".join(named) or _ALL
    try:
        parse_stated(text)
    except (InvalidArgument, LimitExceeded) as error:
        raise StatusError(pb.ILLEGAL_FILTER_EXPRESSION, str(error)) from error
    return text


def check_agreement(stated: str, of_group: str, *, group: str, topic: str) -> None:
    """Raise `StatusError`, with both filters, unless they agree: all members of a group take the same messages."""
    if stated != of_group and parse_filter(stated) != parse_filter(of_group):
        raise StatusError(
            pb.ILLEGAL_FILTER_EXPRESSION,
            f"consumer group {group} has the filter {of_group!r} on topic {topic}, and this client states {stated!r}: "
            "all members of a group must state the same, or the group's filter be altered",
        )
