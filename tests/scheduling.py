"""Which worker of pytest-xdist runs which tests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

import pytest
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController


class _Places(list[str]):
    """A worker's tests, which know where they are: xdist looks each of them up."""

    def __init__(self, tests: Iterable[str]) -> None:
        super().__init__(tests)
        self._places = {test: place for place, test in reversed([*enumerate(self)])}

    def index(self, test: str, *_: object) -> int:
        return self._places[test]


class Scheduling(LoadFileScheduling):  # type: ignore[misc]
    """Workers take group after group of tests. A test that ends its worker has failed, and the others are run.

    xdist hands the groups that the worker had finished to the others once more. A worker runs its last test when it knows what follows, so one
    that is given such an empty group waits for ever, and with it the run.
    """

    def __init__(self, config: pytest.Config, log: object, group_of: Callable[[str, str], str]) -> None:
        """``group_of`` gives the group of a test, from its name and its file."""
        super().__init__(config, log)
        self._group_of = group_of

    def _split_scope(self, nodeid: str) -> str:
        return self._group_of(nodeid, super()._split_scope(nodeid))

    def add_node_collection(self, node: WorkerController, collection: Sequence[str]) -> None:
        super().add_node_collection(node, collection)
        if node in self.registered_collections:
            self.registered_collections[node] = _Places(collection)

    def mark_test_complete(self, node: WorkerController, item_index: int, duration: float = 0) -> None:
        """Forget groups that are done: xdist counts what is left of all that a worker ever had, several times for each test."""
        super().mark_test_complete(node, item_index, duration)
        work = self.assigned_work[node]
        group = self._split_scope(self.registered_collections[node][item_index])
        if all(work[group].values()):
            del work[group]

    def remove_node(self, node: WorkerController) -> str | None:
        """Give what a worker has not run to the others. Returns the test that ended it."""
        left = {group: tests for group, tests in self.assigned_work.pop(node).items() if not all(tests.values())}
        if not left:
            return None
        tests = next(iter(left.values()))
        fatal: str = next(test for test, done in tests.items() if not done)
        tests[fatal] = True
        self.workqueue.update({group: tests for group, tests in left.items() if not all(tests.values())})
        for other in self.assigned_work:
            self._reschedule(other)
        return fatal

    def _assign_work_unit(self, node: WorkerController) -> None:
        # One that has just ended is given work until its end is told; `remove_node` then gives that to the others.
        with suppress(OSError):
            super()._assign_work_unit(node)

    def _reschedule(self, node: WorkerController) -> None:
        super()._reschedule(node)
        while not node.shutting_down and self._pending_of(self.assigned_work[node]) < 2:
            super()._reschedule(node)
