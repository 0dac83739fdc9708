"""Whether a client got what it was given."""

from __future__ import annotations

from penstock.gateway.consuming.answers import Answers

PLACE = ("billing", "orders")


def given(answers: Answers, attempt: str, *handles: str, peer: str = "one") -> None:
    answers.given("c", PLACE, attempt, peer, handles)


def asked(answers: Answers, attempt: str, *, peer: str = "one") -> list[str]:
    return sorted(answers.asked("c", PLACE, attempt, peer))


def test_an_answer_has_arrived_when_its_client_asks_for_more_by_the_same_connection() -> None:
    answers = Answers()
    given(answers, "first", "h1", "h2")
    assert asked(answers, "second") == []
    assert len(answers) == 0
    answers.all_broken("c")
    assert asked(answers, "third", peer="two") == []


def test_an_answer_is_lost_when_its_connection_broke_and_its_client_asks_for_others() -> None:
    answers = Answers()
    given(answers, "first", "h1", "h2")
    assert sorted(answers.all_broken("c")) == ["h1", "h2"]
    assert asked(answers, "second", peer="two") == ["h1", "h2"]
    assert asked(answers, "third", peer="two") == []


def test_one_that_broke_off_is_lost_too() -> None:
    answers = Answers()
    given(answers, "first", "h1")
    assert answers.broken("c", "first") == ["h1"]
    assert answers.broken("c", "another") == []
    assert asked(answers, "second") == ["h1"]


def test_an_answer_that_is_asked_for_again_is_not_lost() -> None:
    answers = Answers()
    given(answers, "first", "h1")
    answers.all_broken("c")
    assert asked(answers, "first", peer="two") == []
    given(answers, "first", "h1", peer="two")
    assert asked(answers, "second", peer="two") == []
    assert len(answers) == 0


def test_a_poll_by_another_connection_says_nothing_by_itself() -> None:
    answers = Answers()
    given(answers, "first", "h1")
    assert asked(answers, "second", peer="two") == [], "a balancer shares the calls of one client among connections"
    answers.all_broken("c")
    assert asked(answers, "third", peer="two") == ["h1"], "it only came to be known late"


def test_a_client_that_settles_a_message_has_all_of_its_receive() -> None:
    answers = Answers()
    given(answers, "first", "h1", "h2")
    assert answers.settled("h1") == {"h1", "h2"}
    answers.all_broken("c")
    assert asked(answers, "second") == []
    assert answers.settled("h2") == frozenset()


def test_what_another_gateway_gave_is_neither_lost_nor_seen_until_some_of_it_is_settled() -> None:
    answers = Answers()
    answers.adopted("c", PLACE, ["h1", "h2"])
    answers.adopted("c", PLACE, ["h1", "h2"])
    assert answers.all_broken("c") == []
    assert asked(answers, "second") == []
    assert answers.settled("h2") == {"h1", "h2"}
    assert len(answers) == 0


def test_answers_of_other_topics_and_clients_are_left_alone_and_there_are_not_many() -> None:
    answers = Answers()
    given(answers, "first", "h1")
    answers.given("other", PLACE, "first", "one", ["h2"])
    answers.all_broken("c")
    assert answers.asked("c", ("billing", "payments"), "second", "one") == []
    assert answers.asked("other", PLACE, "first", "one") == []
    for number in range(200):
        given(answers, f"a{number}", f"a{number}")
    assert len(answers) == 65
    answers.end_client("c")
    answers.end_client("other")
    assert (len(answers), answers._of_handle) == (0, {})
