"""The protocol's committed files are what its definition gives, and an official SDK beside it does no harm."""

from __future__ import annotations

import importlib.util

from google.protobuf import descriptor_pool

from penstock.gateway.rocketmq.protocol import rocketmq_pb2 as pb
from tests.tree import ROOT


def test_the_committed_files_are_what_the_definition_gives() -> None:
    spec = importlib.util.spec_from_file_location("compile_protocol", ROOT / "infra" / "scripts" / "compile_protocol.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    for path, content in script.compiled().items():
        assert path.read_bytes() == content, "run `make protocol`"


def test_its_names_are_not_in_the_pool_that_an_sdk_uses() -> None:
    known = descriptor_pool.Default()
    assert pb.DESCRIPTOR.pool is not known
    try:
        known.FindMessageTypeByName("apache.rocketmq.v2.Message")
    except KeyError:
        return
    raise AssertionError("the gateway's messages are in the default pool")


def test_fields_that_it_does_not_know_are_kept() -> None:
    unknown = b"\x9a\x06\x03abc"  # field 99
    message = pb.Settings.FromString(pb.Settings(client_type=pb.PRODUCER).SerializeToString() + unknown)
    copied = pb.Settings()
    copied.CopyFrom(message)
    assert unknown in copied.SerializeToString()
