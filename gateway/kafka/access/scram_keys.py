"""Salts of principals, and the keys that their secrets give with these."""

from __future__ import annotations

import asyncio
import hmac
from collections import OrderedDict
from typing import Final

from ....coordinator.access.sealing import SealingKeys
from ...bounds.fair_semaphore import FairSemaphore
from .scram import HASHES, ScramKeys, keys_of

_SALT_BYTES: Final = 16
_KEPT_MAX: Final = 1_024


class ScramKeyCache:
    """Makes keys in threads, few at a time, and keeps those that were used last."""

    def __init__(self, sealing: SealingKeys, *, kept_max: int = _KEPT_MAX) -> None:
        self._salting = sealing.derived("salts of scram")
        self._kept_max = kept_max
        self._kept: OrderedDict[tuple[str, str, str], ScramKeys] = OrderedDict()
        self._turns = FairSemaphore(each=1, all=2)

    def salt(self, mechanism: str, name: str) -> bytes:
        """The same for a name at every gateway, whether there is such a principal or not, so that it tells nothing."""
        return hmac.digest(self._salting, f"{mechanism}\0{name}".encode(), "sha256")[:_SALT_BYTES]

    async def keys(self, mechanism: str, name: str, sealed: str, secret: str, *, address: str) -> ScramKeys:
        """The keys of a principal's secret. ``sealed`` names the secret; ``address`` waits for its turn alone."""
        place = (mechanism, name, sealed)
        if (known := self._kept.get(place)) is None:
            async with self._turns.of(address):
                known = await asyncio.to_thread(keys_of, HASHES[mechanism], secret, self.salt(mechanism, name))
        self._kept[place] = known
        self._kept.move_to_end(place)
        if len(self._kept) > self._kept_max:
            self._kept.popitem(last=False)
        return known
