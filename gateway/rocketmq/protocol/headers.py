"""The names of message headers that keep what the protocol has and Penstock has no field for."""

from typing import Final

BORN_HOST: Final = "rocketmq.born_host"
TRACE_CONTEXT: Final = "rocketmq.trace_context"
