"""Forms are read from many threads at once, also when nobody has read them before."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import msgspec
import pytest

from penstock.log.format.forms import converted, decoded

AT_ONCE = """
import sys, threading
from typing import Annotated
import msgspec
from penstock.log.format.forms import converted, decoded

sys.setswitchinterval(1e-6)
fields = {f"field_{number}": number for number in range(20)}
data = msgspec.json.encode(fields)
right = []
for _ in range(150):
    inner = msgspec.defstruct("Inner", [(name, Annotated[int, msgspec.Meta(ge=0)]) for name in fields])
    outer = msgspec.defstruct("Outer", [("inner", inner)])
    together = threading.Barrier(4)

    def work(read):
        together.wait()
        right.append(read().field_19 == 19)

    reads = [
        lambda: decoded(data, inner),
        lambda: converted(fields, inner),
        lambda: converted({"inner": fields}, outer).inner,
        lambda: decoded(b'{"inner":' + data + b"}", outer).inner,
    ]
    threads = [threading.Thread(target=work, args=(read,)) for read in reads]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
print(len(right), all(right))
"""


def test_forms_are_read_by_many_threads_at_once_for_the_first_time() -> None:
    done = subprocess.run([sys.executable, "-c", AT_ONCE], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (0, "600 True\n"), done.stderr


class Pair(msgspec.Struct):
    first: int
    rest: dict[int, str] = {}


@pytest.mark.parametrize("data", [b'{"first": "1"}', b"{}", b"[]", b"{", b""])
def test_what_is_no_such_form_is_refused(data: bytes) -> None:
    with pytest.raises(msgspec.MsgspecError):
        decoded(data, Pair)


@pytest.mark.parametrize("value", [{"first": 1.5}, {}, [], None])
def test_values_that_are_no_such_form_are_refused(value: Any) -> None:
    with pytest.raises(msgspec.MsgspecError):
        converted(value, Pair)


def test_keys_of_json_are_numbers_only_where_that_is_said() -> None:
    assert converted({"first": 1, "rest": {"7": "x"}}, Pair, str_keys=True).rest == {7: "x"}
    with pytest.raises(msgspec.MsgspecError):
        converted({"first": 1, "rest": {"7": "x"}}, Pair)
