"""The caller of a command."""

from __future__ import annotations

import getpass
import os
import socket


def user_at_host() -> str:
    """The user and the machine, as ``ann@desk``."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        user = f"uid {os.getuid()}"
    return f"{user}@{socket.gethostname()}"
