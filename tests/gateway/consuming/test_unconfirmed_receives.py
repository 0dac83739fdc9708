"""Whether a client got what it was given."""

from __future__ import annotations

import pytest

from penstock.gateway.rocketmq.consuming.unconfirmed_receives import WAY_S, SentReceive, UnconfirmedReceives

PLACE = ("billing", "orders")


def given_receive(
    answers: UnconfirmedReceives, attempt: str, *handles: str, peer: str = "one", is_whole: bool = True
) -> SentReceive:
    answer = answers.add("c", PLACE, attempt, peer, handles)
    answer.is_whole = is_whole
    return answer


def outcomes_of(answers: UnconfirmedReceives, attempt: str, *, peer: str = "one") -> tuple[list[str], list[str]]:
    """What arrived, and what is lost."""
    shown = answers.note_request("c", PLACE, attempt, peer)
    return sorted(shown.arrived), sorted(shown.lost)


def test_an_answer_has_arrived_when_its_client_asks_for_more_by_the_same_connection() -> None:
    answers = UnconfirmedReceives()
    given_receive(answers, "first", "h1", "h2")
    assert outcomes_of(answers, "second") == (["h1", "h2"], [])
    assert len(answers) == 0
    assert answers.unconfirmed_handles("c") == []
    assert outcomes_of(answers, "third", peer="two") == ([], [])


@pytest.mark.parametrize(("left_s", "has_arrived"), [(WAY_S + 0.1, True), (WAY_S - 0.1, False), (-1.0, False)])
def test_an_answer_that_was_written_late_may_have_come_when_its_client_waited_no_longer(left_s: float, has_arrived: bool) -> None:
    """Its connection is good then, and by that the client asks for other messages."""
    answers = UnconfirmedReceives()
    answers.add("c", PLACE, "first", "one", ["h1"], until_s=100.0).mark_written(100.0 - left_s)
    for attempt in ("second", "third"):
        shown = answers.note_request("c", PLACE, attempt, "one")
        assert shown.late == ([] if has_arrived else ["h1"])
    assert len(answers) == (not has_arrived)
    assert answers.settled("h1") == (frozenset() if has_arrived else {"h1"})


def test_an_answer_that_is_under_way_has_not_arrived_when_its_client_asks_for_more_beside_it() -> None:
    answers = UnconfirmedReceives()
    answer = given_receive(answers, "first", "h1", is_whole=False)
    assert outcomes_of(answers, "second") == ([], [])
    assert answers.mark_broken(answer) == {"h1"}
    assert outcomes_of(answers, "third") == ([], ["h1"])


def test_an_answer_that_was_written_whole_is_open_when_its_connection_broke_behind_it() -> None:
    """The client may have it: it asks in the same way for the messages behind those that it handles."""
    answers = UnconfirmedReceives()
    given_receive(answers, "first", "h1", "h2")
    assert sorted(answers.unconfirmed_handles("c")) == ["h1", "h2"]
    assert outcomes_of(answers, "second", peer="two") == ([], [])
    assert answers.settled("h2") == {"h1", "h2"}


def test_a_poll_by_another_connection_shows_what_was_written_to_the_former_one() -> None:
    answers = UnconfirmedReceives()
    given_receive(answers, "first", "h1")
    given_receive(answers, "beside", "h2", peer="two")
    given_receive(answers, "under way", "h3", is_whole=False)
    answers.add_adopted("c", PLACE, ["h4"])
    for attempt in ("second", "third"):
        assert answers.note_request("c", PLACE, attempt, "two").left == ["h1"]


def test_it_has_arrived_when_only_the_stream_broke() -> None:
    answers = UnconfirmedReceives()
    given_receive(answers, "first", "h1")
    assert answers.unconfirmed_handles("c") == ["h1"]
    assert outcomes_of(answers, "second") == (["h1"], [])


def test_one_that_broke_off_is_lost_when_its_client_asks_for_others() -> None:
    answers = UnconfirmedReceives()
    answer = given_receive(answers, "first", "h1", is_whole=False)
    assert answers.mark_broken(answer) == {"h1"}
    assert outcomes_of(answers, "second") == ([], ["h1"])
    assert outcomes_of(answers, "third") == ([], [])
    assert answers.mark_broken(answer) == frozenset(), "it is known already"


def test_an_answer_that_is_asked_for_again_is_not_lost() -> None:
    answers = UnconfirmedReceives()
    answers.mark_broken(given_receive(answers, "first", "h1", is_whole=False))
    assert outcomes_of(answers, "first", peer="two") == ([], [])
    given_receive(answers, "first", "h1", peer="two")
    assert outcomes_of(answers, "second", peer="two") == (["h1"], [])
    assert len(answers) == 0


def test_an_end_that_is_noticed_late_says_nothing_of_the_answer_that_was_given_again() -> None:
    answers = UnconfirmedReceives()
    before = given_receive(answers, "first", "h1", is_whole=False)
    given_receive(answers, "first", "h1", peer="two")
    assert answers.mark_broken(before) == frozenset()
    assert outcomes_of(answers, "second", peer="three") == ([], []), "the client has it"


def test_a_poll_by_another_connection_says_nothing_by_itself() -> None:
    answers = UnconfirmedReceives()
    answer = given_receive(answers, "first", "h1", is_whole=False)
    assert outcomes_of(answers, "second", peer="two") == ([], []), "a balancer shares the calls of one client among connections"
    answers.mark_broken(answer)
    assert outcomes_of(answers, "third", peer="two") == ([], ["h1"]), "it only came to be known late"


def test_a_client_that_settles_a_message_has_all_of_its_receive() -> None:
    answers = UnconfirmedReceives()
    given_receive(answers, "first", "h1", "h2")
    assert answers.settled("h1") == {"h1", "h2"}
    assert answers.unconfirmed_handles("c") == []
    assert outcomes_of(answers, "second") == ([], [])
    assert answers.settled("h2") == frozenset()


def test_what_another_gateway_gave_is_neither_lost_nor_seen_until_some_of_it_is_settled() -> None:
    answers = UnconfirmedReceives()
    answers.add_adopted("c", PLACE, ["h1", "h2"])
    answers.add_adopted("c", PLACE, ["h1", "h2"])
    assert answers.unconfirmed_handles("c") == []
    assert outcomes_of(answers, "second") == ([], [])
    assert answers.settled("h2") == {"h1", "h2"}
    assert len(answers) == 0


def test_answers_of_other_topics_and_clients_are_left_alone_and_there_are_not_many() -> None:
    answers = UnconfirmedReceives()
    given_receive(answers, "first", "h1")
    answers.add("other", PLACE, "first", "one", ["h2"])
    assert not any(answers.note_request("c", ("billing", "payments"), "second", "one"))
    assert not any(answers.note_request("other", PLACE, "first", "one"))
    for number in range(200):
        given_receive(answers, f"a{number}", f"a{number}")
    assert len(answers) == 65
    answers.end_client("c")
    answers.end_client("other")
    assert (len(answers), answers._of_handle) == (0, {})
