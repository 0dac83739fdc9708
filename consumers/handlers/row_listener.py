"""Listeners that take the rows of typed topics instead of messages."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Union

from ...log.errors import InvalidArgument
from ...log.limits import plain
from ...log.message.message import MessageView
from ...log.schema.class_values import missing_fields
from ...log.schema.python_types import is_class_of_fields
from ...log.schema.topic_schema import TopicSchema
from .executor import is_coroutine_function
from .missing_result import name_of

_OPERATION = "listen to rows"


@dataclass(frozen=True, slots=True)
class RowClass:
    """What a listener takes a row as."""

    cls: type
    tombstones: bool
    """Whether it takes None for a message without a row."""
    batch: bool

    def row(self, message: MessageView) -> Any:  # noqa: ANN401 - a `cls`, or None
        """Raises `InvalidArgument` for a row that the class does not take."""
        row = message.as_(self.cls)
        if row is None and not self.tombstones:
            raise InvalidArgument(
                "the message is a tombstone, which has no row",
                operation=_OPERATION,
                expected=f"a row for {self.cls.__name__}",
                hint=f"annotate the listener with {self.cls.__name__} | None",
            )
        return row

    def check(self, topic: str, schema: TopicSchema | None, *, listener: str) -> None:
        """Raise `InvalidArgument` where no row of the topic can be a ``cls``."""
        if schema is None:
            raise InvalidArgument(
                "the listener takes rows, and the topic has no schema",
                operation=_OPERATION,
                object=topic,
                expected=f"a topic with the schema of {self.cls.__name__}",
                observed=f"{listener} takes {self.cls.__name__}",
                hint="create the topic with schema=…, or take a MessageView",
            )
        if missing := missing_fields(self.cls, [field.name for field in schema.fields]):
            raise InvalidArgument(
                "the topic lacks fields that the listener's class needs",
                operation=_OPERATION,
                object=topic,
                expected=f"{self.cls.__name__} with {', '.join(missing)}",
                observed=schema.ddl,
                hint="give the class's fields defaults, or let their annotations allow None",
            )


def row_class(listener: Callable[..., Any], *, batch: bool) -> RowClass | None:
    """What the listener's first parameter is annotated with, as rows; None: messages. Raises `InvalidArgument` for anything else."""
    hint = _annotation(listener)
    if batch and typing.get_origin(hint) in (list, Sequence):
        (hint,) = typing.get_args(hint)
    elif batch and hint not in (None, Any, object):
        raise _neither(listener, hint, batch=batch)
    if hint in (None, Any, object, MessageView):
        return None
    cls, tombstones = _without_none(hint)
    if not is_class_of_fields(cls):
        raise _neither(listener, hint, batch=batch)
    return RowClass(cls, tombstones, batch)


def with_rows(listener: Callable[..., Any], rows: RowClass) -> Callable[[Any], Any]:
    """The listener as a function of messages."""

    def take(given: Any) -> Any:  # noqa: ANN401 - a message, or a list of them
        return [rows.row(message) for message in given] if rows.batch else rows.row(given)

    def listen(given: Any) -> Any:  # noqa: ANN401 - a message, or a list of them
        return listener(take(given))

    async def listen_async(given: Any) -> Any:  # noqa: ANN401 - a message, or a list of them
        return await listener(take(given))

    made: Callable[[Any], Any] = listen_async if is_coroutine_function(listener) else listen
    made.__qualname__ = name_of(listener)
    return made


def _annotation(listener: Callable[..., Any]) -> Any:  # noqa: ANN401 - a type, or what stands for one
    try:
        first = next(iter(inspect.signature(listener).parameters.values()), None)
    except ValueError:
        return None  # of some built-in functions
    if first is None or first.annotation is inspect.Parameter.empty:
        return None
    function = inspect.unwrap(listener)
    function = getattr(function, "__func__", function)
    if not inspect.isfunction(function):
        function = type(listener).__call__
    holder = types.SimpleNamespace(__annotations__={first.name: first.annotation})
    try:
        return typing.get_type_hints(holder, globalns=getattr(function, "__globals__", {}))[first.name]
    except (NameError, TypeError, SyntaxError) as error:
        if str(first.annotation).endswith("MessageView"):
            return None  # imported for type checkers only
        raise InvalidArgument(
            "the listener's annotation cannot be read",
            operation=_OPERATION,
            object=name_of(listener),
            observed=plain(error),
            hint="define or import the class at the top of the module, and not for type checkers only",
        ) from error


def _without_none(hint: Any) -> tuple[Any, bool]:  # noqa: ANN401 - an annotation
    parts = typing.get_args(hint)
    if typing.get_origin(hint) in (Union, types.UnionType) and len(parts) == 2 and type(None) in parts:
        return next(part for part in parts if part is not type(None)), True
    return hint, False


def _neither(listener: Callable[..., Any], hint: object, *, batch: bool) -> InvalidArgument:
    one = "penstock.MessageView, or a dataclass, NamedTuple, TypedDict or pydantic model"
    return InvalidArgument(
        "the listener takes neither messages nor rows",
        operation=_OPERATION,
        object=name_of(listener),
        expected=f"a list of {one}" if batch else one,
        observed=plain(hint),
    )
