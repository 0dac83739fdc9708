"""The actions by name."""

from __future__ import annotations

from typing import Any

from .action import Action
from .edit_letter import EDIT
from .grants import GRANT, REVOKE
from .group_settings import ALTER_GROUP, CREATE_GROUP
from .parked_groups import RELEASE, SKIP
from .recall import RECALL
from .redrive import REDRIVE
from .reset import RESET
from .send import SEND
from .topic_settings import ALTER_TOPIC, CREATE_TOPIC
from .transactions import COMMIT, ROLL_BACK

_ALL: tuple[Action[Any], ...] = (
    *(RELEASE, SKIP, RESET, REDRIVE, COMMIT, ROLL_BACK, RECALL, SEND, EDIT),
    *(CREATE_TOPIC, ALTER_TOPIC, CREATE_GROUP, ALTER_GROUP, GRANT, REVOKE),
)
ACTIONS: dict[str, Action[Any]] = {one.name: one for one in _ALL}
