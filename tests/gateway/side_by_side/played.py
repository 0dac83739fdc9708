"""All plays at once: most of each is waiting."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from tests.gateway.sdk import Sdk

from . import consuming, producing
from .scene import Play, Scene
from .stages import Stage

PLAYS: tuple[Play, ...] = (*producing.PLAYS, *consuming.PLAYS)


def play_all(
    plays: Sequence[Play], sdks: Sequence[Sdk], stage: Stage, prefix: str, *, at_once: int = 12
) -> dict[str, dict[str, str]]:
    """What each SDK saw in each play. A play that ends by an error says so in place of what it saw."""
    stage.prepare(plays, prefix, [sdk.language for sdk in sdks])

    def one(play: Play, sdk: Sdk) -> str:
        scene = Scene(play, sdk, prefix, stage.reset)
        try:
            return play.run(scene)
        except Exception as error:  # noqa: BLE001 - the others go on, and the outcome is compared
            return f"{type(error).__name__}: {error}"

    with ThreadPoolExecutor(at_once) as pool:
        running = {(play.name, sdk.language): pool.submit(one, play, sdk) for play in plays for sdk in sdks}
    found: dict[str, dict[str, str]] = {}
    for (name, language), future in running.items():
        found.setdefault(name, {})[language] = future.result()
    return found
