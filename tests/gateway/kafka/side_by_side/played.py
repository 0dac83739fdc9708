"""All plays at once: most of each is waiting."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from . import administering, connecting, fetching, grouping, positions, producing
from .scene import Play, Scene

SECTIONS = {
    "Records sent": producing.PLAYS,
    "Records and offsets read": fetching.PLAYS,
    "Members of groups": grouping.PLAYS,
    "Positions of groups": positions.PLAYS,
    "Topics and configs": administering.PLAYS,
    "Transactions and the wire": connecting.PLAYS,
}
PLAYS: tuple[Play, ...] = tuple(play for plays in SECTIONS.values() for play in plays)


async def play_all(plays: Sequence[Play], address: str, prefix: str, *, at_once: int = 12) -> dict[str, str]:
    """What was seen in each play. A play that ends by an error says so in place of what it saw."""
    places = asyncio.Semaphore(at_once)

    async def one(play: Play) -> str:
        scene = Scene(play.name, prefix, address)
        async with places:
            try:
                return await play.run(scene)
            except Exception as error:  # noqa: BLE001 - the others go on, and the outcome is compared
                return f"{type(error).__name__}: {error}"
            finally:
                await scene.close()

    found = await asyncio.gather(*map(one, plays))
    return {play.name: seen for play, seen in zip(plays, found, strict=True)}
