"""RocketMQ's messages, compiled from `rocketmq.proto` by `make protocol`, in a pool of their own: official SDKs register the same names in the
default one.
"""

from pathlib import Path

from google.protobuf import descriptor_pb2, descriptor_pool, duration_pb2, message_factory, timestamp_pb2
from google.protobuf.internal.enum_type_wrapper import EnumTypeWrapper

_NAME = "rocketmq.proto"


def _descriptors() -> descriptor_pool.DescriptorPool:
    pool = descriptor_pool.DescriptorPool()
    for known in (duration_pb2, timestamp_pb2):
        pool.AddSerializedFile(known.DESCRIPTOR.serialized_pb)
    compiled = Path(__file__).with_name("rocketmq.binpb").read_bytes()
    for file in descriptor_pb2.FileDescriptorSet.FromString(compiled).file:
        pool.Add(file)
    return pool


DESCRIPTOR = _descriptors().FindFileByName(_NAME)
globals().update({name: message_factory.GetMessageClass(kind) for name, kind in DESCRIPTOR.message_types_by_name.items()})
for _name, _kind in DESCRIPTOR.enum_types_by_name.items():
    globals()[_name] = EnumTypeWrapper(_kind)
    globals().update({value.name: value.number for value in _kind.values})
