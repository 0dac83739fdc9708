"""Errors on their way through Spark, which hands on a traceback's text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ContextDecorator, contextmanager
from copy import copy
from types import TracebackType

from ..log import errors
from ..log.errors import InternalError, MissingDependency, PenstockError

_OURS = re.compile(r"^penstock\.log\.errors\.(\w+): (.*)$", re.MULTILINE)
_WITHOUT_US = re.compile(r"^ModuleNotFoundError: No module named 'penstock.*$", re.MULTILINE)


class CleanTraceback(ContextDecorator):
    """Wraps a method that Spark calls, and cuts our errors' tracebacks and causes. A bug's error keeps them."""

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if isinstance(error, PenstockError) and not isinstance(error, InternalError):
            raise error.with_traceback(None) from copy(error)  # a cause is told first, and this one has no calls


@contextmanager
def reraise_ours() -> Iterator[None]:
    """Raise our error that a task ended with, instead of Spark's."""
    try:
        yield
    except PenstockError:
        raise
    except Exception as error:
        ours = error_in_spark_text(error)
        if ours is None:
            raise
        raise ours from None


def error_in_spark_text(error: BaseException) -> PenstockError | None:
    """Our last error in the text of one of Spark's, or that Penstock is missing in the tasks."""
    if without := _WITHOUT_US.search(str(error)):
        return MissingDependency(
            "Spark's executors have no Penstock",
            operation="run a task",
            expected="the same version as on the driver",
            observed=without[0],
            hint="install it there, or bring it along: spark-submit --py-files penstock-….whl, and penstock.spark.register(spark)",
        )
    found = _OURS.findall(str(error))
    for name, said in reversed(found):
        kind = getattr(errors, name, None)
        if isinstance(kind, type) and issubclass(kind, PenstockError):
            return kind(said.strip())
    return None
