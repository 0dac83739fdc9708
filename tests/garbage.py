"""What the garbage collector need not look at: modules, tests and libraries, which live as long as the process."""

from __future__ import annotations

import gc


class SetAside:
    """What lives when `now` is called, until it is taken `back`."""

    def __init__(self) -> None:
        self.any = False
        """Whether there is some. `gc.get_freeze_count` walks over a million objects to say so, longer than most simulated runs take."""

    def now(self) -> None:
        gc.collect()
        gc.freeze()
        self.any = True

    def back(self) -> None:
        gc.unfreeze()
        self.any = False


SET_ASIDE = SetAside()
"""Of this process."""
