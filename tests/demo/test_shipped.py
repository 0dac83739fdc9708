"""The shipped change events: packed, they are the capture, byte for byte."""

from __future__ import annotations

import gzip
import hashlib
import itertools
import json
import os
from pathlib import Path

import pytest

from examples.demo import shipped
from examples.demo.steps import Capture
from examples.demo.tables import SHOP_TYPES
from penstock.log.errors import InvalidArgument
from tests.test_release import script

pack_capture = script("pack_capture")


def beginning(count: int) -> list[bytes]:
    return list(itertools.islice(shipped.unpacked(shipped.PACKED.read_bytes()), count))


def test_what_is_packed_is_unpacked_byte_for_byte() -> None:
    first = beginning(3_000)
    assert {json.loads(line)["value"]["op"] for line in first} == {"c", "u", "d"}
    packed = pack_capture.pack(first)
    assert list(shipped.unpacked(packed)) == first
    assert len(packed) < len(gzip.compress(b"\n".join(first))) / 5


def test_it_takes_less_than_a_megabyte() -> None:
    assert sum(file.stat().st_size for file in shipped.DATA.iterdir()) < 1_000_000


@pytest.mark.slow
def test_the_shipped_events_are_those_that_were_captured() -> None:
    unpacked = b"".join(line + b"\n" for line in shipped.unpacked(shipped.PACKED.read_bytes()))
    assert len(unpacked) == 48_903_955
    assert hashlib.sha256(unpacked).hexdigest() == "56ac4cce918abeeb1eab778289157dad4cdeb4adfc3dc7c55c19997ca911c7ca"


def test_the_first_use_unpacks_them_into_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = tmp_path / "events.xz"
    packed.write_bytes(pack_capture.pack(beginning(50)))
    monkeypatch.setattr(shipped, "PACKED", packed)
    monkeypatch.setenv("PENSTOCK_CACHE", str(tmp_path / "cache"))
    file = shipped.events_file()
    with gzip.open(file) as found:
        lines = [json.loads(line) for line in found]
    assert {line["value"]["source"].pop("types") for line in lines} <= {one.name for one in SHOP_TYPES}
    assert lines == [json.loads(line) for line in beginning(50)]
    written = file.stat().st_mtime_ns
    assert shipped.events_file() == file
    assert file.stat().st_mtime_ns == written
    assert os.listdir(file.parent) == [file.name]  # nothing unfinished is left


def test_a_capture_of_the_user_s_own_unpacks_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_CACHE", str(tmp_path / "cache"))
    own = tmp_path / "events.jsonl"
    own.write_bytes(b"\n".join(beginning(50)))
    assert Capture(own, tmp_path).targets()
    assert not (tmp_path / "cache").exists()


def test_a_cache_that_cannot_be_written_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("PENSTOCK_CACHE", str(tmp_path / "file"))
    with pytest.raises(InvalidArgument, match=r"cannot be unpacked .*set PENSTOCK_CACHE to a folder"):
        shipped.events_file()
