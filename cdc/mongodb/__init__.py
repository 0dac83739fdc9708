"""A MongoDB's change streams in a topic, exactly once, by MongoDB's own driver.

Needs the extra ``mongodb`` (PyMongo) when a capture begins. See docs/0021-capturing-mongodb.md.
"""

from .capture import MongoCapture, MongoOptions
from .errors import OplogLost
from .server import MongoServer

__all__ = ["MongoCapture", "MongoOptions", "MongoServer", "OplogLost"]
