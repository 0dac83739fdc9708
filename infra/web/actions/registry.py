"""The actions by name."""

from __future__ import annotations

from typing import Any

from .action import Action
from .parked_groups import RELEASE, SKIP
from .recall import RECALL
from .redrive import REDRIVE
from .reset import RESET
from .send import SEND
from .transactions import COMMIT, ROLL_BACK

ACTIONS: dict[str, Action[Any]] = {one.name: one for one in (RELEASE, SKIP, RESET, REDRIVE, COMMIT, ROLL_BACK, RECALL, SEND)}
