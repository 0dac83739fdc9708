"""Workers in words. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...coordinator.workers.lease import ListedMember


def consumption_text(member: ListedMember) -> str:
    """A member's consumption; without a group it only maintains topics, and lets delayed messages go."""
    if not member.group:
        return "upkeep"
    return f"{member.group}: {' '.join(member.topics)}" if member.topics else member.group
