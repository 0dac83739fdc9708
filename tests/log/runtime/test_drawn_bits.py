"""Numbers drawn ahead are the system's, each once, in every thread and in every process."""

from __future__ import annotations

import os
import random
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.log.runtime.runtime import DrawnBits


@given(st.integers(0, 40_000))
def test_a_number_has_as_many_bits_as_asked_for(bits: int) -> None:
    assert DrawnBits().getrandbits(bits).bit_length() <= bits


def test_every_bit_is_drawn_and_no_number_comes_twice() -> None:
    source = DrawnBits()
    drawn = [source.getrandbits(61) for _ in range(3_000)]
    assert len(set(drawn)) == len(drawn)
    counts = [sum(number >> bit & 1 for number in drawn) for bit in range(61)]
    assert all(1_200 < count < 1_800 for count in counts)


def test_what_is_derived_from_bits_is_in_range() -> None:
    source = DrawnBits()
    assert all(0.0 <= source.random() < 1.0 for _ in range(1_000))
    assert {source.randrange(3) for _ in range(200)} == {0, 1, 2}
    assert sorted(source.sample(range(5), 5)) == [0, 1, 2, 3, 4]


def test_threads_draw_different_numbers() -> None:
    source = DrawnBits()
    with ThreadPoolExecutor(8) as threads:
        drawn = [
            number for part in threads.map(lambda _: [source.getrandbits(128) for _ in range(500)], range(8)) for number in part
        ]
    assert len(set(drawn)) == 4_000


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_draws_its_own() -> None:
    source = DrawnBits()
    source.getrandbits(8)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, source.getrandbits(128).to_bytes(16, "big"))
        os._exit(0)
    own = source.getrandbits(128)
    os.waitpid(child, 0)
    assert int.from_bytes(os.read(reading, 16), "big") != own


def test_it_is_no_generator_that_a_seed_repeats() -> None:
    with pytest.raises(NotImplementedError):
        DrawnBits().getstate()
    assert isinstance(DrawnBits(), random.Random)
