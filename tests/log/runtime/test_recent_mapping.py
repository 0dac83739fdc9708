"""A mapping in the order of last use is what a plain dict with the same order is, and its copies are apart."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.log.runtime import recent_mapping
from penstock.log.runtime.recent_mapping import RecentMapping
from tests.thorough import examples

KEYS = st.integers(0, 30)
STEPS = st.lists(st.tuples(st.just("use"), KEYS) | st.tuples(st.sampled_from(["drop", "copy", "fork"]), KEYS), max_size=120)


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(st.tuples(KEYS, KEYS), max_size=20), STEPS, st.integers(0, 8))
def test_it_is_what_a_plain_dict_is(items: list[tuple[int, int]], steps: list[tuple[str, int]], late_max: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recent_mapping, "_LATE_MAX", late_max)
        found, model = RecentMapping(items), dict(items)
        aside: list[tuple[RecentMapping[int, int], dict[int, int]]] = []
        for number, (step, key) in enumerate(steps):
            match step:
                case "use":
                    found.use(key, number)
                    model.pop(key, None)
                    model[key] = number
                case "drop" if model:
                    found.drop_oldest()
                    del model[next(iter(model))]
                case "copy":
                    aside.append((found.copy(), dict(model)))
                case "fork":  # the one aside goes on, and what it was made of stays as it is
                    aside.append((found, dict(model)))
                    found = found.copy()
            assert found.oldest() == next(iter(model.items()), None)
            assert (len(found), list(found.items()), found.get(key)) == (len(model), list(model.items()), model.get(key))
        assert all(list(one.items()) == list(then.items()) and one == then for one, then in aside)


def test_an_empty_one_has_no_oldest() -> None:
    assert RecentMapping[str, int]().oldest() is None
    with pytest.raises(LookupError):
        RecentMapping[str, int]().drop_oldest()
