"""Times and texts in headers."""

from __future__ import annotations

from urllib.parse import unquote

import pytest
from hpack import Decoder
from hypothesis import given
from hypothesis import strategies as st

from penstock.gateway.rocketmq.http2.heads import GrpcStatus, call_head, trailers
from tests.gateway.rocketmq.http2.peer import HEAD


@pytest.mark.parametrize(
    ("text", "seconds"), [("1H", 3600), ("2M", 120), ("3S", 3), ("4m", 0.004), ("5u", 5e-6), ("99999999n", 0.099999999)]
)
def test_a_timeout_has_a_unit(text: str, seconds: float) -> None:
    head = call_head([(name.encode(), value.encode()) for name, value in (*HEAD, ("grpc-timeout", text))])
    assert head.timeout_s == pytest.approx(seconds)


@given(st.text(max_size=200) | st.just("\ud800"))
def test_any_text_comes_back_from_the_trailers(text: str) -> None:
    pairs = {str(name): str(value) for name, value in Decoder().decode(trailers(GrpcStatus.UNKNOWN, text))}
    said = pairs.get("grpc-message", "")
    assert unquote(said) == text.encode("utf-8", "replace").decode()
    assert said.isascii()
    assert said.isprintable()
