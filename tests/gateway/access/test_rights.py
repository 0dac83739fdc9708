"""What a caller may do, name by name."""

from __future__ import annotations

import pytest

from penstock.coordinator.access.grants import Grant, Verb
from penstock.gateway.access.refusals import Forbidden, GroupForbidden
from penstock.gateway.access.rights import CallerRights
from penstock.log.paths import AUDIT_TOPIC


def test_a_right_is_a_grant_of_the_verb_on_the_name() -> None:
    shop = CallerRights("shop", frozenset({Grant(Verb.SEND, "orders*"), Grant(Verb.JOIN, "billing")}))
    shop.check(Verb.SEND, "orders-eu")
    shop.check_any("orders-eu")
    shop.check(Verb.JOIN, "billing")
    assert not shop.was_refused
    with pytest.raises(Forbidden, match=r"shop may not receive topic orders-eu; .* grant shop --receive orders-eu"):
        shop.check(Verb.RECEIVE, "orders-eu")
    assert shop.was_refused
    with pytest.raises(GroupForbidden, match="join group audit"):
        shop.check(Verb.JOIN, "audit")
    with pytest.raises(Forbidden, match="manage or receive or send topic bills"):
        shop.check_any("bills")
    assert not shop.has_any("billing"), "a group is no topic"


def test_without_proofs_all_is_allowed_but_to_touch_the_audit_topic() -> None:
    anybody = CallerRights()
    for verb in Verb:
        anybody.check(verb, "orders")
    anybody.check(Verb.RECEIVE, AUDIT_TOPIC)
    anybody.check_any(AUDIT_TOPIC)
    for verb in (Verb.SEND, Verb.MANAGE):
        with pytest.raises(Forbidden, match="written by consoles"):
            anybody.check(verb, AUDIT_TOPIC)


def test_a_principal_without_grants_may_nothing() -> None:
    nobody = CallerRights("nobody", frozenset())
    assert not any(nobody.has(verb, "orders") for verb in Verb)
