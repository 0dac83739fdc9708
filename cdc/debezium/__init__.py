"""A database's changes by Debezium's engine, in a topic, exactly once, for connectors with known positions.

The engine runs in this process, in a Java of this machine. Needs the extra ``debezium`` (JPype) when a capture begins. See
docs/0019-capturing-by-debezium.md.
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
