"""What must hold of a group, whatever befalls its gateways.

C1: no commit that was acknowledged is forgotten: who begins later begins there or behind. C2: a generation has one assignment, in which a partition
has one member. C3: while only gateways end, no rebalance begins. C4: in the end all members share all partitions. C5: a reset counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

CARRIED_OUT_S = 90.0
"""A reset is carried out so long after it was ordered, whatever befalls gateways."""


class GroupJudge:
    """Hears of what members see."""

    def __init__(self) -> None:
        self.wrong: list[str] = []
        self.generations: set[int] = set()
        self.begun_at: dict[int, int] = {}
        """The least position at which each partition was begun since the last reset."""
        self._void_until_s = 0.0
        self._acked: dict[int, int] = {}
        self._acks: dict[int, list[tuple[int, int]]] = {}
        """By partition, the generation and position of each."""
        self._doubted: dict[int, list[tuple[int, int]]] = {}
        """The same of commits without an answer: they may come to be after later ones, until the next generation begins there."""
        self._nonces: dict[int, int] = {}
        self._owners: dict[tuple[int, int], str] = {}

    def assigned(self, generation: int, nonce: int, member: str, queues: Iterable[int]) -> None:
        self.generations.add(generation)
        if self._nonces.setdefault(generation, nonce) != nonce:
            self.wrong.append(f"C2 generation {generation} has two assignments")
        for queue in queues:
            if (owner := self._owners.setdefault((generation, queue), member)) != member:
                self.wrong.append(f"C2 in generation {generation} partition {queue} is both {owner}'s and {member}'s")

    def committed(self, generation: int, queue: int, offset: int, now_s: float) -> None:
        """A commit was acknowledged."""
        if now_s < self._void_until_s:
            return
        self._acked[queue] = max(offset, self._acked.get(queue, -1))
        acks = self._acks.setdefault(queue, [])
        for other, its in acks:
            if (other < generation and its > offset) or (other > generation and its < offset):
                self.wrong.append(
                    f"C1 partition {queue} was committed at {offset} in generation {generation}, and at {its} in generation {other}"
                )
        acks.append((generation, offset))

    def doubted(self, generation: int, queue: int, offset: int) -> None:
        """A commit has no answer."""
        self._doubted.setdefault(queue, []).append((generation, offset))

    def _may_be(self, queue: int, offset: int) -> bool:
        return offset >= self._acked.get(queue, -1) or any(its == offset for _, its in self._doubted.get(queue, ()))

    def reset(self, now_s: float) -> None:
        """A reset is ordered: what is committed until it is carried out counts no longer."""
        self._void_until_s = now_s + CARRIED_OUT_S
        self._acked.clear()
        self._acks.clear()
        self.begun_at.clear()

    def required(self, queues: Iterable[int]) -> Mapping[int, int]:
        """The least position of each queue that who asks now has to be told."""
        return {queue: self._acked.get(queue, -1) for queue in queues}

    def fetched(self, member: str, generation: int, required: Mapping[int, int], found: Mapping[int, int]) -> None:
        self.begun_at |= {queue: min(offset, self.begun_at.get(queue, offset)) for queue, offset in found.items()}
        for queue, offset in found.items():
            if offset < required[queue] and not self._may_be(queue, offset):
                self.wrong.append(
                    f"C1 {member} begins partition {queue} in generation {generation} at {offset}; committed was {required[queue]}"
                )
            self._doubted[queue] = [one for one in self._doubted.get(queue, ()) if one[0] >= generation]

    def left(self, found: Mapping[int, int]) -> None:
        """What the cell has in the end."""
        for queue, offset in self._acked.items():
            if not self._may_be(queue, found.get(queue, -1)):
                self.wrong.append(f"C1 partition {queue} ends at {found.get(queue)}, and {offset} was committed")
