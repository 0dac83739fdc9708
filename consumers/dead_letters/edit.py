"""A dead letter changed before it goes back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ...log import MessageView
from .writer import REDRIVE_EDITED_BY, with_own_properties


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterEdit:
    """What goes back in a dead letter's place. Its id, its binary key and its headers stay."""

    body: bytes | None
    """The row as JSON, in a topic with a schema, by the names that the dead letter has."""
    by: str
    """The author of the change."""
    message_group: str | None = None
    tag: str | None = None
    keys: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    """The message's own, without what the dead letter adds."""


def edited(letter: MessageView, edit: LetterEdit) -> MessageView:
    """The letter with the changes, and who made them. Pure."""
    own = {**edit.properties, REDRIVE_EDITED_BY: edit.by}
    return letter._replace(
        body=edit.body,
        message_group=edit.message_group,
        tag=edit.tag,
        keys=edit.keys,
        properties=with_own_properties(letter.properties, own),
    )
