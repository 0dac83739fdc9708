"""Captures that keep their place in the lake: who owns the state, and patience with the source."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Generic, Protocol

from ...log.errors import InvalidArgument
from .chosen_tables import ChosenTables, choice_text, may_overlap
from .errors import SourceReplaced
from .options import SourceCaptureOptions
from .progress import SourceProgress
from .resources import CaptureResources
from .retry_loop import RetryLoop
from .state import S, SourceStateStore, name_of

_STEADY_S = 60.0
"""The length of a good life, also without changes."""


class SourceServer(Protocol):
    """A database server."""

    where: str

    def identity(self) -> str:
        """The identity of the server, which survives a restart."""
        ...

    def close(self) -> None:
        """End the connection."""
        ...


class SourceCapture(ABC, Generic[S]):
    """One database into one topic."""

    def __init__(
        self,
        kind: str,
        source: SourceServer,
        options: SourceCaptureOptions,
        resources: CaptureResources[SourceStateStore[S]],
        *,
        chosen: ChosenTables = (),
    ) -> None:
        self._kind, self._source, self._options, self._resources, self._chosen = kind, source, options, resources, chosen
        self._producer, self._rows_producer, self._life = resources.producer, resources.rows_producer, resources.life
        self._states, self._clock, self._reached = resources.states, resources.clock, resources.reached
        self._retry_loop = RetryLoop(options.patience_s, resources.clock, resources.pause)
        self._renewed = False
        self._rows = self._events = self._duplicates = 0
        self._position: str | None = None
        self._moved_before = self._moved
        self._on_progress: Callable[[SourceProgress], None] = lambda progress: None

    @abstractmethod
    def _run(self, stopped: Callable[[], bool]) -> None:
        """Capture until stopped, or until the source goes away."""

    @abstractmethod
    def _new_state(self, server: str, opened: tuple[int, int], former: S | None) -> S:
        """The state of a new capture; ``former``: its state before all is read again."""

    @abstractmethod
    def _check_beginning(self) -> None:
        """Raise `SourceReplaced` for a log that ends before the topic does."""

    @property
    def progress(self) -> SourceProgress:
        return SourceProgress(self._rows, self._events, self._duplicates, self._position)

    @property
    def _moved(self) -> tuple[int, int, str | None]:
        return self._rows, self._events, self._position

    def run(
        self,
        *,
        stopped: Callable[[], bool] = lambda: False,
        on_progress: Callable[[SourceProgress], None] = lambda progress: None,
    ) -> SourceProgress:
        """Capture until ``stopped()``, or with ``once`` to the log's end. ``on_progress`` is called about every second.

        Raises `SourceUnavailable` or `ConnectorStopped` after the patience; `BinlogLost`, `HistoryLost`, `SourceReplaced`,
        `PermissionDenied`, `InvalidArgument`, `FencedError`, and the errors of a producer whose lake does not answer.
        """
        self._on_progress = on_progress

        def attempt() -> None:
            self._began_s = self._clock.monotonic_s()
            self._run(stopped)

        try:
            self._retry_loop.run(attempt, stopped, failed=self._failed)
            return self.progress
        finally:
            self._source.close()

    def _failed(self) -> None:
        if self._moved != self._moved_before or self._clock.monotonic_s() - self._began_s >= _STEADY_S:
            self._moved_before = self._moved
            self._retry_loop.note_progress()

    # --- Where it stands ----------------------------------------------------------------------------------------------------------

    def _prepared(self) -> S:
        """The state, made where it is missing, or where all is read again. Each life checks its owner: an earlier process that
        reconnects would end the later one's connection.
        """
        server = self._source.identity()
        epoch = self._producer.epoch
        assert epoch is not None, "it has a name"
        opened = epoch.entry, epoch.position
        state = self._states.take_over(self._life, opened)
        if state is not None and state.life != self._life:
            state = None
        if state is not None and state.connector != self._kind:
            raise SourceReplaced(
                "the topic has changes of another kind of database under this name",
                operation="capture",
                object=self._options.name,
                expected=state.connector,
                observed=self._kind,
                hint="give this capture another --name, or another topic",
            )
        if state is not None and _differ(state.server, server):
            raise SourceReplaced(
                "the topic has changes of another server under this name: positions in their logs say nothing beside each other",
                operation="capture",
                object=self._source.where,
                expected=f"the server {state.server}",
                observed=f"the server {server}",
                hint="connect to that server, or capture this one into a new topic",
            )
        again = self._options.snapshot == "again" and not self._renewed
        begun = state is not None and state.offset is not None
        if state is not None and begun and state.chosen not in (None, self._chosen) and not again:
            raise InvalidArgument(
                "the capture has begun with another choice of tables, and the rows of those that it adds would be missing",
                operation="capture",
                object=self._options.name,
                expected=choice_text(state.chosen or ()),
                observed=choice_text(self._chosen),
                hint="--snapshot again reads all tables of the new choice; or capture the others under another --name",
            )
        if state is not None and state.chosen != self._chosen and not again:  # an earlier release noted none, or nothing has begun
            state = replace(state, chosen=self._chosen)
            self._states.save(state)
        old = state
        if state is None or again:
            self._check_beginning()
            state = self._new_state(server, opened, state)
            self._states.save(state)
            self._renewed = True
            self._reached("renewed")
        if state.offset is None:  # behind the write: of two captures that begin at once, one at least sees the other
            try:
                self._check_alone(server)
            except InvalidArgument:
                if old is None or old.offset is None:
                    self._states.remove()
                else:
                    self._states.save(old)
                raise
        return state

    def _may_have_rows(self, state: S) -> bool:
        """Whether the topic may have rows of an earlier beginning, to be emptied first."""
        return state.renewed or max(self._producer.last_sequence, self._rows_producer.last_sequence) >= 0

    def _check_alone(self, server: str) -> None:
        """Raise `InvalidArgument` where another capture sends the same tables' changes: the topic would have them twice."""
        for key, other in self._states.others().items():
            same = (other.life, other.connector) == (self._life, self._kind) and not _differ(other.server, server)
            if same and may_overlap(other.chosen or (), self._chosen):
                raise InvalidArgument(
                    "another capture sends changes of these tables to this topic",
                    operation="capture",
                    object=choice_text(self._chosen),
                    expected="one --name for a table and a topic",
                    observed=f"{name_of(key)} sends {choice_text(other.chosen or ())}",
                    hint=f"go on with that one (--name {name_of(key)}), remove the object {key} if it was given up, or capture into another topic",
                )

    def _add_progress(self, *, rows: int = 0, events: int = 0, duplicates: int = 0, position: str | None = None) -> None:
        self._rows, self._events, self._duplicates = self._rows + rows, self._events + events, self._duplicates + duplicates
        self._position = position or self._position
        self._on_progress(self.progress)


def _differ(one: str, other: str) -> bool:
    """Whether two identities differ: one may have fewer words, for want of privileges."""
    return any(mine != theirs for mine, theirs in zip(one.split(), other.split(), strict=False))
