"""Every stored form with a number is written byte for byte as it was, read as it was, and refused by name where its number is not known.

A form that fails here has changed: it needs a number of its own, which `python -m tests.data.write_forms` adds beside the former ones.
"""

from __future__ import annotations

import json
import re

import pytest

from penstock.cdc.postgres.state import CapturedTable, PostgresState, PostgresStateStore
from penstock.log.errors import NewerFormatError
from tests.data.forms import FORMS, WHERE, Form
from tests.data.write_forms import GOLDEN
from tests.tree import ROOT

KEPT: dict[str, dict[int, bytes]] = {
    name: {int(number): text.encode("latin-1") for number, text in kept.items()}
    for name, kept in json.loads(GOLDEN.read_text()).items()
}
NUMBERS = [(form, number) for form in FORMS for number in form.reads]
NAMES_ONLY = b'{"format":1,"life":"life","system":"system","database":"db","publication":"publication","done":["public.orders"]}'
"""The only number that is read and not written any more."""


@pytest.mark.parametrize(("form", "number"), NUMBERS, ids=lambda one: one.name if isinstance(one, Form) else str(one))
def test_a_form_is_read_and_written_byte_for_byte_as_it_was(form: Form, number: int) -> None:
    if number not in form.values:
        assert (form.name, number) == ("state of a capture of PostgreSQL", 1)
        return
    data = KEPT[form.name][number]
    assert form.encode(form.values[number]) == data, "today's code writes other bytes"
    assert form.encode(form.decode(data)) == data, "today's code reads something else"


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_a_number_that_is_not_known_is_refused_by_name(form: Form) -> None:
    data = KEPT[form.name][max(form.values)]
    form.decode(form.newer(data, max(form.values)))
    for number in {*range(1, max(form.reads) + 3)} - {*form.reads}:
        with pytest.raises(NewerFormatError, match=WHERE) as refused:
            form.decode(form.newer(data, number))
        assert str(number) in str(refused.value)
        assert refused.value.kind == "newer_format"


def test_the_state_of_a_capture_that_had_only_names_is_read() -> None:
    found = PostgresStateStore.parse(NAMES_ONLY, WHERE)
    assert found == PostgresState(
        "life", "system", "db", "publication", (CapturedTable("", "public.orders", is_read=True, is_told=True),)
    )


def test_the_page_has_every_form_and_all_numbers() -> None:
    page = (ROOT / "docs" / "versions.md").read_text()
    (table,) = re.findall(r"^## Stored forms$.*?^\| ---[^\n]*\n((?:\|[^\n]*\n)+)", page, re.MULTILINE | re.DOTALL)
    rows = [tuple(cell.strip() for cell in line.strip("|\n").split("|")) for line in table.splitlines()]
    assert {name: numbers for name, numbers, *_ in rows} == {form.name: ", ".join(map(str, form.reads)) for form in FORMS}


def test_all_that_is_kept_belongs_to_a_form() -> None:
    assert {name: {*kept} for name, kept in KEPT.items()} == {form.name: {*form.values} for form in FORMS}
