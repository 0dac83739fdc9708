"""Following any database that Debezium has a connector for and whose positions are known here, in a topic, exactly once.

Debezium's own engine runs in this process, in a Java of this machine. Needs the extra ``debezium`` (JPype), which is imported when a capture
begins. How it works: docs/0019-capturing-by-debezium.md.
"""

from .capture import EngineCapture, EngineOptions
from .configuration import Connector, connector_of, read_properties
from .errors import BinlogLost, ConnectorStopped, EventUnreadable, HistoryLost
from .state import EngineStateStore

__all__ = [
    "BinlogLost",
    "Connector",
    "ConnectorStopped",
    "EngineCapture",
    "EngineOptions",
    "EngineStateStore",
    "EventUnreadable",
    "HistoryLost",
    "connector_of",
    "read_properties",
]
