"""What operators may change in the record of principals, and what is granted by it. Pure."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.coordinator.access.grants import Grant, Verb, is_allowed
from penstock.coordinator.access.record import (
    SECRETS_MAX,
    AccessRecord,
    GrantNotFound,
    Principal,
    PrincipalExists,
    PrincipalNotFound,
    SealedSecret,
)
from penstock.log.errors import InvalidArgument, LimitExceeded
from penstock.log.paths import AUDIT_TOPIC

SEND, RECEIVE, JOIN, MANAGE = Verb


def secret(name: str, since_ms: int = 0) -> SealedSecret:
    return SealedSecret(name, "key", since_ms)


def principal(id: str = "1") -> Principal:
    return Principal(id=id, secrets=(secret(f"first of {id}"),))


SHOP = AccessRecord().with_added("shop", principal())


@pytest.mark.parametrize(
    ("pattern", "covered", "not_covered"),
    [
        ("orders", ["orders"], ["orders2", "order", "Orders"]),
        ("orders*", ["orders", "orders-eu"], ["order", "my-orders"]),
        ("*", ["orders", "%DLQ%billing"], []),
        ("%DLQ%*", ["%DLQ%billing"], ["orders"]),
    ],
)
def test_a_pattern_is_a_name_or_its_beginning(pattern: str, covered: list[str], not_covered: list[str]) -> None:
    grant = Grant(SEND, pattern)
    assert all(grant.covers(SEND, name) for name in covered)
    assert not any(grant.covers(SEND, name) for name in not_covered)
    assert not any(grant.covers(RECEIVE, name) for name in covered), "a verb is one verb"


def test_the_audit_topic_is_sent_to_by_its_name_alone() -> None:
    assert not any(Grant(SEND, pattern).covers(SEND, AUDIT_TOPIC) for pattern in ("*", "penstock*", f"{AUDIT_TOPIC}*"))
    assert Grant(SEND, AUDIT_TOPIC).covers(SEND, AUDIT_TOPIC)
    assert Grant(RECEIVE, "*").covers(RECEIVE, AUDIT_TOPIC)
    assert not Grant(MANAGE, "*").covers(MANAGE, AUDIT_TOPIC), "nor is it deleted so"


@pytest.mark.parametrize("pattern", ["", "a*b", "**", "a b", "a,b", "*a", "ä"])
def test_a_pattern_that_would_mean_something_else_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidArgument, match="bad pattern of topics"):
        Grant(SEND, pattern)


def test_a_group_s_pattern_is_no_dead_letter_topic_s() -> None:
    assert Grant(JOIN, "billing-*").covers(JOIN, "billing-eu")
    assert Grant(JOIN, "team/αβ *").covers(JOIN, "team/αβ group#1")
    assert Grant(JOIN, "a*b").covers(JOIN, "a*b")
    assert not Grant(JOIN, "a*b").covers(JOIN, "a-b")
    assert Grant(RECEIVE, "inventory.*").covers(RECEIVE, "inventory.public.customers")
    with pytest.raises(InvalidArgument, match="bad pattern of groups"):
        Grant(JOIN, "%DLQ%*")


def test_nothing_is_allowed_by_default() -> None:
    assert not is_allowed(SHOP.grants_of("shop"), SEND, "orders")


def test_grants_are_a_principal_s_own_and_its_roles() -> None:
    record = SHOP.with_granted("role:analysts", [Grant(RECEIVE, "*")]).with_granted("shop", [Grant(SEND, "orders")], ["analysts"])
    assert record.grants_of("shop") == {Grant(SEND, "orders"), Grant(RECEIVE, "*")}
    fewer = record.without_granted("role:analysts", [Grant(RECEIVE, "*")])
    assert fewer.roles == {}, "a role without grants is gone"
    assert fewer.grants_of("shop") == {Grant(SEND, "orders")}
    assert record.without_granted("shop", [], ["analysts"]).grants_of("shop") == {Grant(SEND, "orders")}


def test_a_role_that_nobody_made_is_refused() -> None:
    with pytest.raises(GrantNotFound, match=r"no role of this name has any grants.*analyst"):
        SHOP.with_granted("shop", [], ["analyst"])
    with pytest.raises(GrantNotFound, match="penstock access grant role:analyst"):
        SHOP.with_added("ann", replace(principal("2"), roles=frozenset({"analyst"})))
    with pytest.raises(InvalidArgument, match="a role has grants, and no roles"):
        SHOP.with_granted("role:a", [], ["b"])


def test_what_was_not_granted_cannot_be_revoked() -> None:
    record = SHOP.with_granted("shop", [Grant(SEND, "orders*")])
    with pytest.raises(GrantNotFound, match=r"nothing was revoked.*expected: send orders\*; observed: send orders"):
        record.check_granted("shop", [Grant(SEND, "orders")])
    with pytest.raises(GrantNotFound, match="it has no grants"):
        record.check_granted("role:nobody", [Grant(SEND, "orders")])
    record.check_granted("shop", [Grant(SEND, "orders*")])


def test_a_name_is_made_once_until_it_is_removed() -> None:
    assert SHOP.with_added("shop", principal()) == SHOP, "its own result is left as it is"
    with pytest.raises(PrincipalExists, match="user rotate"):
        SHOP.with_added("shop", principal("2"))
    again = SHOP.with_granted("shop", [Grant(SEND, "*")]).without("shop").with_added("shop", principal("2"))
    assert again.grants_of("shop") == frozenset(), "a later one begins with no rights"
    with pytest.raises(PrincipalNotFound, match="made again"):
        again.with_rotated("shop", secret("second"), id="1", until_ms=10)
    with pytest.raises(PrincipalNotFound, match="there is no such principal"):
        SHOP.without("shopp")


@pytest.mark.parametrize("name", ["", "a b", "a,b", "-a", "role:a", "a" * 65, "ä", "a\n"])
def test_a_name_that_a_header_cannot_carry_is_refused(name: str) -> None:
    with pytest.raises(InvalidArgument, match="bad name of a principal"):
        SHOP.with_added(name, principal("2"))


def test_a_former_secret_is_valid_for_a_time() -> None:
    after = SHOP.with_rotated("shop", secret("second", 100), id="1", until_ms=160)
    present, former = after.principals["shop"].secrets
    assert (present.sealed, former.sealed) == ("second", "first of 1")
    assert [former.valid_at(now) for now in (100, 159, 160)] == [True, True, False]
    assert after.with_rotated("shop", secret("second", 100), id="1", until_ms=999) == after, "its own result is left as it is"
    third = after.with_rotated("shop", secret("third", 120), id="1", until_ms=130)
    assert [one.until_ms for one in third.principals["shop"].secrets] == [None, 130, 130], "a shorter time holds for all of them"
    assert third.with_rotated("shop", secret("second", 100), id="1", until_ms=999) == third, "and so if it was superseded"
    later = third.with_rotated("shop", secret("fourth", 200), id="1", until_ms=300)
    assert [one.sealed for one in later.principals["shop"].secrets] == ["fourth", "third"], "those that ended are dropped"
    at_once = SHOP.with_rotated("shop", secret("second", 100), id="1", until_ms=100)
    assert len(at_once.principals["shop"].secrets) == 1


def test_former_secrets_are_few() -> None:
    record = SHOP
    for number in range(1, SECRETS_MAX):
        record = record.with_rotated("shop", secret(f"number {number}", number), id="1", until_ms=1000)
    with pytest.raises(LimitExceeded, match="--keep 0s"):
        record.with_rotated("shop", secret("one more", 50), id="1", until_ms=1000)
    assert len(record.with_rotated("shop", secret("one more", 50), id="1", until_ms=50).principals["shop"].secrets) == 1
