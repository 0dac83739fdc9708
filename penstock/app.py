"""An application: a lake, and the listeners that `penstock run` keeps at work."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import EllipsisType
from typing import Any, Literal, TypedDict, TypeVar, Unpack

from penstock.consumers import MemoryMetrics, Metrics, PushOptions
from penstock.consumers.arguments import Topics, check_listener, settings_stated, subscribed
from penstock.consumers.handlers.missing_result import name_of
from penstock.consumers.handlers.row_listener import RowClass, row_class, with_rows
from penstock.coordinator import DeadLetterPolicyLike, DeliveryOrderLike, RetryPolicy
from penstock.log import Duration, InvalidArgument, Position

from .blocking.consumers import PushConsumer
from .blocking.lake import Lake
from .lake import connect

ListenerT = TypeVar("ListenerT", bound=Callable[..., Any])

_OPERATION = "app.listener"
_OF_THE_GROUP = ("delivery_order", "retry", "max_attempts", "dead_letter_policy")
_OF_THE_TOPIC = ("filter", "start")


class ListenerOptions(TypedDict, total=False):
    """The options of `Lake.push_consumer`, which says what each means."""

    delivery_order: DeliveryOrderLike | None
    filter: str | None
    start: Position
    retry: RetryPolicy | None
    max_attempts: int | EllipsisType | None
    dead_letter_policy: DeadLetterPolicyLike | None
    threads: int
    cache_messages: int
    cache_bytes: int
    consume_timeout: Duration
    on_expired: Literal["skip", "stop"]
    batch: Literal["group", "queue"] | None
    batch_messages: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AppListener:
    """A function of an `App`, and the consumer that will call it."""

    function: Callable[..., Any]
    """The decorated function."""
    topics: tuple[str, ...]
    group: str
    options: ListenerOptions
    rows: RowClass | None
    """The class of the rows that the function takes; None: it takes messages."""
    subscribed: Topics

    @property
    def name(self) -> str:
        """The function's name."""
        return name_of(self.function)

    @property
    def handle(self) -> Callable[[Any], Any]:
        """The function of a message, or of a list of messages, for `Lake.push_consumer`."""
        return self.function if self.rows is None else with_rows(self.function, self.rows)


class App:
    """The listeners of a program, each a push consumer of its own: ``penstock run module:app`` runs them in one or several processes.

    app = penstock.App("s3://bucket/lake")

    @app.listener("orders", group="billing", delivery_order="ORDERLY", max_attempts=5)
    def bill(message: penstock.MessageView) -> penstock.ConsumeResult: ...

    It is a list of what to open, and opens nothing by itself. A decorated function stays as it is.
    """

    def __init__(
        self,
        lake: str | os.PathLike[str] | None = None,
        *,
        coordination: str | None = None,
        maintenance: bool = True,
        options: Mapping[str, str] | None = None,
    ) -> None:
        """The arguments are those of `penstock.connect`. Without ``lake``, `penstock run` is told one by ``--lake`` or ``PENSTOCK_LAKE``."""
        self.lake = None if lake is None else os.fspath(lake)
        self.coordination = coordination
        self._maintenance = maintenance
        self._options = None if options is None else dict(options)
        self._listeners: list[AppListener] = []

    def __repr__(self) -> str:
        return f"App({self.lake or 'no lake'}, {len(self._listeners)} listeners)"

    @property
    def listeners(self) -> tuple[AppListener, ...]:
        """The listeners, as they were declared."""
        return tuple(self._listeners)

    def listener(self, topic: Topics, *, group: str, **options: Unpack[ListenerOptions]) -> Callable[[ListenerT], ListenerT]:
        """Declare the decorated function a listener of a topic, or of several (``{topic: filter}``), in a consumer group.

        ``options`` are those of `Lake.push_consumer`. The function, which may be a coroutine function, takes what its first parameter is annotated
        with: a `MessageView` (also without annotation), or the rows of a typed topic, by a dataclass, NamedTuple, TypedDict or pydantic model. With
        ``batch`` it is a list of them. ``Order | None`` takes tombstones as None; with ``Order`` they fail.

        Raises `InvalidArgument` for options that `Lake.push_consumer` would refuse without looking at the lake, for other names, and for two
        listeners of one group on one topic.
        """
        _check_names(options)
        plain = dict(options)
        settings_stated(**{name: plain[name] for name in _OF_THE_GROUP if name in plain})  # type: ignore[arg-type]  # checked there
        PushOptions(**{name: plain[name] for name in plain if name not in (*_OF_THE_GROUP, *_OF_THE_TOPIC)})  # type: ignore[arg-type]
        topics = tuple(subscribed(topic, options.get("filter"), options.get("start", "earliest")))
        for other in self._listeners:
            if other.group == group and (both := set(other.topics).intersection(topics)):
                raise InvalidArgument(
                    "two listeners of one group on one topic would each get a part of its messages",
                    operation=_OPERATION,
                    object=f"{min(both)} in group {group}",
                    observed=f"{other.name} listens there",
                    hint="give each a group of its own: then each gets all messages",
                )

        def declare(function: ListenerT) -> ListenerT:
            check_listener(function, batch=options.get("batch") is not None)
            rows = row_class(function, batch=options.get("batch") is not None)
            self._listeners.append(
                AppListener(function=function, topics=topics, group=group, options=options, rows=rows, subscribed=topic)
            )
            return function

        return declare

    def connect(self, lake: str | os.PathLike[str] | None = None, *, coordination: str | None = None, **more: Any) -> Lake:  # noqa: ANN401
        """Open the app's lake, or another one, as `penstock.connect` does, which takes ``more``."""
        if lake is None and self.lake is None:
            raise InvalidArgument(
                "the app names no lake",
                operation="connect",
                expected='penstock.App("s3://bucket/prefix")',
                observed="penstock.App()",
                hint="name one there, or give connect a URL",
            )
        more = {"maintenance": self._maintenance, "options": self._options, **more}
        return connect(lake or self.lake, coordination=coordination or self.coordination, **more)

    def check(self, lake: Lake) -> None:
        """Raise `TopicNotFound` for a topic that is not there, and `InvalidArgument` for one whose rows a listener cannot take, or an app without
        listeners. Nothing is begun.
        """
        if not self._listeners:
            raise InvalidArgument(
                "the app has no listener",
                operation="run",
                expected="functions with @app.listener(…)",
                hint="does its module import theirs?",
            )
        for one in self._listeners:
            for topic in one.topics:
                schema = lake.topic_schema(topic)
                if one.rows is not None:
                    one.rows.check(topic, schema, listener=one.name)

    @contextmanager
    def consume(
        self,
        lake: Lake,
        *,
        metrics: Metrics | None = None,
        handle: Callable[[AppListener], Callable[[Any], Any]] = lambda listener: listener.handle,
    ) -> Iterator[list[PushConsumer]]:
        """Open a push consumer for each listener inside the block. ``handle`` may put a function around the listener's."""
        counted = MemoryMetrics() if metrics is None else metrics
        with ExitStack() as stack:
            yield [
                stack.enter_context(
                    lake.push_consumer(one.subscribed, group=one.group, listener=handle(one), metrics=counted, **one.options)
                )
                for one in self._listeners
            ]


def _check_names(options: Mapping[str, object]) -> None:
    known = ListenerOptions.__annotations__
    if unknown := [name for name in options if name not in known]:
        near = difflib.get_close_matches(unknown[0], known, n=1)
        raise InvalidArgument(
            "a listener has no such option",
            operation=_OPERATION,
            object=unknown[0],
            expected=", ".join(known),
            hint=f"{near[0]} is one" if near else None,
        )
