"""gRPC over HTTP/2: connections, streams, and the calls in them, from bytes on. Header blocks are unpacked by the library ``hpack``."""
