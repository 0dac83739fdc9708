"""Salts and keys of principals."""

from __future__ import annotations

from penstock.coordinator.access.sealing import KEY_BYTES, SealingKeys, new_key
from penstock.gateway.kafka.access.scram import keys_of
from penstock.gateway.kafka.access.scram_keys import ScramKeyCache

SEALING = SealingKeys.parse(new_key(bytes(KEY_BYTES)), where="the file")


def test_salts_are_the_same_at_every_gateway_and_differ_by_name_and_mechanism() -> None:
    one, other = ScramKeyCache(SEALING), ScramKeyCache(SEALING)
    places = [(mechanism, name) for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512") for name in ("shop", "nobody")]
    assert [one.salt(*place) for place in places] == [other.salt(*place) for place in places]
    assert len({one.salt(*place) for place in places}) == len(places)


async def test_keys_are_kept_by_their_secret_and_so_many() -> None:
    cache = ScramKeyCache(SEALING, kept_max=2)

    async def keys(sealed: str, secret: str) -> object:
        return await cache.keys("SCRAM-SHA-256", "shop", sealed, secret, address="here")

    first = await keys("a", "one")
    assert first == keys_of("sha256", "one", cache.salt("SCRAM-SHA-256", "shop"))
    assert await keys("a", "one") is first
    assert await keys("b", "another") != first, "a rotated secret has its own"
    await keys("c", "a third")
    assert await keys("a", "one") is not first, "the one that was used longest ago is made again"
