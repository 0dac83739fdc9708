"""Headers as text: what is written is read, and nothing else is taken for one."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.log.errors import DataDamaged, NewerFormatError
from penstock.log.format.header import Batch, BatchForm, Header, batch_document, decode_header, encode_header, parse_batches
from penstock.log.format.stored_json import check_stored
from tests.log.strategies import batches, headers
from tests.thorough import examples

HEADER = Header(1, "w", 2, "d", {0: 1})


@settings(max_examples=examples(100))
@given(headers)
def test_a_header_comes_back_as_it_was(header: Header) -> None:
    assert decode_header(encode_header(header), where="here") == header


@given(batches())
def test_a_batch_comes_back_as_it_was(batch: Batch) -> None:
    form = check_stored(json.loads(json.dumps(batch_document(batch))), BatchForm, what="a batch", where="x")
    assert parse_batches([form]) == (batch,)


def test_a_newer_format_is_named() -> None:
    text = encode_header(HEADER).replace('"format":1', '"format":3')
    with pytest.raises(NewerFormatError, match="upgrade this process") as caught:
        decode_header(text, where="log/7")
    assert (caught.value.object, caught.value.observed) == ("log/7", "format 3")


@pytest.mark.parametrize("key", json.loads(encode_header(HEADER)))
def test_a_missing_value_is_damage(key: str) -> None:
    document: dict[str, Any] = json.loads(encode_header(HEADER))
    if key == "combines":
        pytest.skip("absent means no")
    del document[key]
    with pytest.raises(DataDamaged, match="log/7"):
        decode_header(json.dumps(document), where="log/7")


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_other_json_is_damage(document: Any) -> None:
    with pytest.raises((DataDamaged, NewerFormatError)):
        decode_header(json.dumps(document), where="x")


def test_every_field_is_compared() -> None:
    assert all(field.compare for field in fields(Header))


@pytest.mark.parametrize("counts", [[0, 1, 0, 2], [1, 1, 0, 2], [0, 1, 1]])
def test_counts_of_a_queue_that_comes_twice_or_too_late_or_without_a_count_are_damage(counts: list[int]) -> None:
    document = {**json.loads(encode_header(HEADER)), "bases": counts}
    with pytest.raises(DataDamaged, match="log/7"):
        decode_header(json.dumps(document), where="log/7")
