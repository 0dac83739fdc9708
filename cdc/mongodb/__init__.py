"""Following a MongoDB's change streams into a topic, exactly once, by MongoDB's own driver.

Needs the extra ``mongodb`` (PyMongo), which is imported when a capture begins. How it works: docs/0021-capturing-mongodb.md.
"""

from .capture import MongoCapture, MongoOptions
from .errors import OplogLost
from .server import MongoServer

__all__ = ["MongoCapture", "MongoOptions", "MongoServer", "OplogLost"]
