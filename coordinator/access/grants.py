"""Verbs on topics and groups, granted by name or by the beginning of names. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from ...log.errors import InvalidArgument, PenstockError
from ...log.paths import AUDIT_TOPIC, check_group_name, check_topic_name

ANY = "*"
"""Stands for any text, only at the end of a pattern."""


class Verb(StrEnum):
    """The rights of a principal."""

    SEND = "send"
    """Send to a topic, decide transactions there, and recall what waits."""
    RECEIVE = "receive"
    """Receive messages of a topic. `JOIN` on the group is needed, too."""
    JOIN = "join"
    """Work in a consumer group: receive, settle, and move its place."""
    MANAGE = "manage"
    """Make and delete a topic, and change its settings."""

    @property
    def noun(self) -> str:
        return "group" if self is Verb.JOIN else "topic"


TOPIC_VERBS: Final = frozenset({Verb.SEND, Verb.RECEIVE, Verb.MANAGE})
_OF_FULL_NAME: Final = frozenset({Verb.SEND, Verb.MANAGE})


@dataclass(frozen=True, slots=True, order=True)
class Grant:
    """A verb on all topics or groups that a pattern fits: a name, or its beginning and ``*``."""

    verb: Verb
    pattern: str

    def __post_init__(self) -> None:
        beginning = self.pattern.removesuffix(ANY)
        if not beginning and self.pattern == ANY:
            return
        check = check_group_name if self.verb is Verb.JOIN else check_topic_name
        try:
            # A beginning such as %DLQ% is none yet.
            check(f"{beginning}x" if beginning != self.pattern else beginning)
        except PenstockError as error:
            raise InvalidArgument(
                f"bad pattern of {self.verb.noun}s",
                expected="a name, its beginning and '*', or '*'",
                observed=self.pattern,
                hint=str(error),
            ) from error

    def covers(self, verb: Verb, name: str) -> bool:
        """Whether the grant allows this; to send to the audit topic, or manage it, needs its full name."""
        if verb is not self.verb:
            return False
        if verb in _OF_FULL_NAME and name == AUDIT_TOPIC:
            return self.pattern == name
        return name.startswith(self.pattern[:-1]) if self.pattern.endswith(ANY) else name == self.pattern

    def __str__(self) -> str:
        return f"{self.verb} {self.pattern}"


def is_allowed(grants: Iterable[Grant], verb: Verb, name: str) -> bool:
    """Nothing is allowed by default, and no grant takes rights away."""
    return any(grant.covers(verb, name) for grant in grants)
