"""Message headers for protocol fields that Penstock lacks."""

from typing import Final

BORN_HOST: Final = "rocketmq.born_host"
TRACE_CONTEXT: Final = "rocketmq.trace_context"
