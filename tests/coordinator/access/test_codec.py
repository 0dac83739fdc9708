"""Records of principals that former versions read, and those that they refuse by name."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from penstock.coordinator.access.codec import decode_access, encode_access
from penstock.coordinator.access.grants import Grant, Verb
from penstock.coordinator.access.record import AccessRecord, Principal, SealedSecret
from penstock.log.errors import NewerFormatError

SHOP = Principal(id="1", secrets=(SealedSecret("c2hvcA==", "key", 0),), grants=frozenset({Grant(Verb.SEND, "orders")}))
MANAGING = frozenset({Grant(Verb.MANAGE, "orders*")})


def test_a_record_is_of_the_first_format_until_it_grants_what_that_does_not_know() -> None:
    plain = AccessRecord(principals={"shop": SHOP})
    of_principal = AccessRecord(principals={"shop": replace(SHOP, grants=SHOP.grants | MANAGING)})
    of_role = replace(plain, roles={"operators": MANAGING})
    formats = [json.loads(encode_access(one))["format"] for one in (plain, of_principal, of_role)]
    assert formats == [1, 2, 2]
    for one in (plain, of_principal, of_role):
        assert decode_access(encode_access(one), where="access") == one


def test_a_later_format_is_refused_by_its_name() -> None:
    document = {**json.loads(encode_access(AccessRecord())), "format": 3}
    with pytest.raises(NewerFormatError, match="another version"):
        decode_access(json.dumps(document).encode(), where="access")
