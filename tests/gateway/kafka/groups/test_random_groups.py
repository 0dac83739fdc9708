"""Any order of events: every call is answered once, generations rise, and a group comes to rest."""

from __future__ import annotations

import math
import random

import pytest

from penstock.gateway.kafka.groups.membership.group import Answer, Group, GroupLimits, GroupState, JoinAnswer, JoinProtocol
from penstock.gateway.kafka.groups.membership.rebalancing import next_due_s
from penstock.gateway.kafka.wire.errors import ErrorCode
from tests.gateway.kafka.groups.members import Play

_PROTOCOLS = (
    (JoinProtocol("range", b"1"),),
    (JoinProtocol("range", b"2"), JoinProtocol("robin", b"3")),
    (JoinProtocol("robin", b"4"),),
)


def _check(group: Group) -> None:
    assert (group.rebalance is not None) == (group.state is GroupState.PREPARING)
    assert group.leader == "" or group.leader in group.members
    if group.state is GroupState.EMPTY:
        assert not group.members
    if group.state in (GroupState.STABLE, GroupState.COMPLETING):
        assert group.leader
        assert group.protocol in group.common_protocols()
        assert all(one.joining is None for one in group.members.values())
    if group.state is GroupState.STABLE:
        assert all(one.syncing is None for one in group.members.values())
    assert len(group.instances) == sum(one.instance_id is not None for one in group.members.values())
    for one in group.members.values():
        assert one.until_s < math.inf or one.joining is not None or one.syncing is not None, "who is silent dies"


@pytest.mark.parametrize("seed", range(60))
def test_any_order_of_events(seed: int) -> None:
    rng = random.Random(seed)
    play = Play(GroupLimits(initial_delay_s=rng.choice([0.0, 3.0]), members_max=5, pending_max=3))
    ids: list[tuple[str, str | None]] = [("ghost", None)]
    generations: list[int] = []
    for _ in range(300):
        before = play.group
        member, instance = rng.choice(ids[-12:])
        generation = play.group.generation - (rng.random() < 0.1)
        match rng.randrange(7):
            case 0:
                new_instance = rng.choice([None, None, "i", "j"])
                call = play.join(instance=new_instance, protocols=rng.choice(_PROTOCOLS), needs_id=rng.random() < 0.5)
                ids.append((f"m{call}", new_instance))
            case 1 | 2:
                play.join(member, instance=instance, protocols=rng.choice(_PROTOCOLS), skips=rng.random() < 0.5)
            case 3:
                play.sync(member, {one: one.encode() for one in play.group.members}, instance=instance, generation=generation)
            case 4:
                play.beat(member, instance=instance, generation=generation)
            case 5:
                if rng.random() < 0.3:
                    play.leave(member)
                else:
                    play.commits(member, instance=instance, generation=generation)
            case _:
                play.wait(rng.choice([0.1, 1.0, 5.0, 20.0]))
        _check(play.group)
        assert play.group.generation in (before.generation, before.generation + 1)
        generations.append(play.group.generation)
    assert generations == sorted(generations)
    for _ in range(100):
        if (due_s := next_due_s(play.group)) == math.inf:
            break
        play.wait(max(0.0, due_s - play.now_s))
        _check(play.group)
    assert play.group.state is GroupState.EMPTY
    assert play.answers.keys() == {*range(1, play.calls + 1)}


@pytest.mark.parametrize("seed", range(20))
def test_members_that_do_as_they_are_told_end_in_one_generation(seed: int) -> None:
    """Each follows the protocol, with calls that are repeated now and then."""
    rng = random.Random(seed)
    play = Play()
    stage: dict[str, int | None] = {f"m{n}": None for n in range(4)}
    """The call that each waits for."""
    known: dict[str, JoinAnswer] = {}
    assigned: dict[str, int] = {}
    for _ in range(600):
        name = rng.choice(sorted(stage))
        play.now_s += 0.01
        call = stage[name]
        answer: Answer | None = play.answers.get(call) if call is not None else None
        if call is None:
            stage[name] = play.join(name if name in known else "", new_id=name)
        elif answer is None:
            continue
        elif isinstance(answer, JoinAnswer):
            known[name] = answer
            told = {one.id: f"{one.id} {answer.generation}".encode() for one in answer.members}
            stage[name] = play.sync(name, told, generation=answer.generation)
        elif answer.code is ErrorCode.REBALANCE_IN_PROGRESS or play.beat(name, generation=known[name].generation):
            stage[name] = play.join(name, new_id=name)
        else:
            assert answer.assignment == f"{name} {known[name].generation}".encode()
            assigned[name] = known[name].generation
            if rng.random() < 0.02:
                stage[name] = play.join(name)
    assert play.group.generation > 1
    assert len(assigned) == len(stage)
