"""The Java class of our converter, named in Debezium's property ``converters``.

The class, made here byte by byte, hands all calls to an object of Python's.
"""

from __future__ import annotations

import struct

from .errors import load_jpype

INTERFACE = "io.debezium.spi.converter.CustomConverter"
CLASS = "io.debezium.spi.converter.PenstockConverter"
_METHODS = (
    ("configure", ("Ljava/util/Properties;",)),
    ("converterFor", ("Lio/debezium/spi/converter/ConvertedField;", f"L{INTERFACE.replace('.', '/')}$ConverterRegistration;")),
)


def define_bridge_class(target: object) -> None:
    """Define the class, whose objects hand their calls to ``target`` from now on."""
    jpype = load_jpype()
    interface = jpype.JClass(INTERFACE)
    try:
        door = jpype.JClass(CLASS)
    except TypeError:  # there is none yet
        handles = jpype.JClass("java.lang.invoke.MethodHandles")
        lookup = handles.privateLookupIn(interface.class_, handles.lookup())
        lookup.defineClass(jpype.JArray(jpype.JByte)(class_file()))
        door = jpype.JClass(CLASS)
    door.target = jpype.JProxy(interface, inst=target)


def class_file() -> bytes:
    """The class file: each method calls that of ``target``."""
    this_name, interface_name = CLASS.replace(".", "/"), INTERFACE.replace(".", "/")
    pool: dict[bytes, int] = {}

    def add(tag: int, data: bytes) -> int:
        return pool.setdefault(bytes((tag,)) + data, len(pool) + 1)

    def text(value: str) -> int:
        return add(1, struct.pack(">H", len(value)) + value.encode())

    def type_of(name: str) -> int:
        return add(7, struct.pack(">H", text(name)))

    def member(tag: int, owner: str, name: str, descriptor: str) -> int:
        named = add(12, struct.pack(">HH", text(name), text(descriptor)))
        return add(tag, struct.pack(">HH", type_of(owner), named))

    def method(name: str, descriptor: str, slots: int, code: bytes) -> bytes:
        body = struct.pack(">HHI", slots, slots, len(code)) + code + struct.pack(">HH", 0, 0)
        return struct.pack(">HHHHHI", 1, text(name), text(descriptor), 1, text("Code"), len(body)) + body

    kind = f"L{interface_name};"
    target = member(9, this_name, "target", kind)
    start = member(10, "java/lang/Object", "<init>", "()V")
    methods = [method("<init>", "()V", 1, struct.pack(">BBHB", 0x2A, 0xB7, start, 0xB1))]  # aload_0, invokespecial, return
    for name, arguments in _METHODS:
        descriptor, slots = f"({''.join(arguments)})V", len(arguments) + 1
        called = member(11, interface_name, name, descriptor)
        loads = bytes(0x2A + place for place in range(1, slots))  # aload_1 and so on
        code = struct.pack(">BH", 0xB2, target) + loads + struct.pack(">BHBBB", 0xB9, called, slots, 0, 0xB1)
        methods.append(method(name, descriptor, slots, code))  # getstatic, …, invokeinterface, return
    field = struct.pack(">HHHH", 0x0009, text("target"), text(kind), 0)  # public static
    this, above, interface = type_of(this_name), type_of("java/lang/Object"), type_of(interface_name)
    return b"".join(
        (
            struct.pack(">IHHH", 0xCAFEBABE, 0, 52, len(pool) + 1),  # Java 8's
            *pool,
            struct.pack(">HHHHHH", 0x0021, this, above, 1, interface, 1),
            field,
            struct.pack(">H", len(methods)),
            *methods,
            struct.pack(">H", 0),
        )
    )
