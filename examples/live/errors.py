"""Why the demo cannot go on."""


class DemoFailedError(Exception):
    """The demo could not go on; its text says why, and what to do."""
