"""The rights of callers, in no protocol's words. Pure."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TypeAlias

from ...coordinator.access.grants import TOPIC_VERBS, Grant, Verb, is_allowed
from ...log.paths import AUDIT_TOPIC
from .refusals import Forbidden, GroupForbidden

Right: TypeAlias = tuple[frozenset[Verb], str]
"""A name, and verbs of which any one will do."""


@dataclass(slots=True)
class CallerRights:
    """What a caller may do, for handlers that ask for one name after the other."""

    principal: str = ""
    grants: frozenset[Grant] | None = None
    """None: nobody proves anything here, and all is allowed but to touch the audit topic."""
    was_refused: bool = False
    """Whether a check failed."""

    def has(self, verb: Verb, name: str) -> bool:
        if self.grants is None:
            return verb in (Verb.RECEIVE, Verb.JOIN) or name != AUDIT_TOPIC
        return is_allowed(self.grants, verb, name)

    def has_any(self, topic: str) -> bool:
        """Whether it may know of the topic: it has some right to it."""
        return any(self.has(verb, topic) for verb in TOPIC_VERBS)

    def check(self, verb: Verb, name: str) -> None:
        """Return if it has the right. Raises `Forbidden`, for groups `GroupForbidden`."""
        if not self.has(verb, name):
            self._refuse(frozenset({verb}), name)

    def check_any(self, topic: str) -> None:
        """Return if it has any right to the topic. Raises `Forbidden`."""
        if not self.has_any(topic):
            self._refuse(TOPIC_VERBS, topic)

    def _refuse(self, verbs: frozenset[Verb], name: str) -> None:
        self.was_refused = True
        if self.grants is None:
            raise Forbidden(f"{name} is written by consoles, and by principals to whom it is granted by name")
        raise forbidden(self.principal, verbs, name)


def forbidden(principal: str, verbs: frozenset[Verb], name: str) -> Forbidden:
    """The refusal that says who may not do what, and how it is granted."""
    kind = GroupForbidden if verbs == {Verb.JOIN} else Forbidden
    doing = " or ".join(sorted(verbs))
    return kind(
        f"{principal} may not {doing} {min(verbs).noun} {name}; an operator grants it by "
        f"`penstock access grant {principal} --{max(verbs)} {shlex.quote(name)}`"
    )
