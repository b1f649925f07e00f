"""Requests that are parked: odd news, settings that contradict each other, and what a subject may not say."""

from typing import Any

import pytest
from attrs import evolve

from schedspec.reference import make
from schedspec.spec.admission import Door
from schedspec.spec.errors import ProtocolError
from schedspec.spec.monitor import Monitor
from schedspec.spec.protocol import read_outcome
from schedspec.spec.vocabulary import Capabilities, Header, Lane, Message, Outcome, Plan, Receipt, Request, Settings

PARKING = Settings(blocks=8, block_size=2, seats=2, token_budget=8, park_timeout_ns=100)
ASKING = Request(id="a", prompt_ids=(1, 2, 3), max_output_tokens=3, dependencies=("grammar", "transfer"))


def news(kind: Any, request: Any = "a", dependency: Any = "grammar") -> dict[str, Any]:
    return {"type": kind, "request": request, "dependency": dependency}


@pytest.mark.parametrize(
    "event",
    [
        {},
        {"type": "resolved"},
        news("resolved", request=["a"]),
        news("resolved", dependency=["grammar"]),
        news("resolved", dependency=None),
        news("done"),
        news(["resolved"]),
        news("resolved", request="nobody"),
        {"type": "disconnected", "request": ["a"]},
    ],
)
def test_odd_news_changes_nothing(event: dict[str, Any]) -> None:
    subject = make(evolve(PARKING, cancel_on_disconnect=True), 0)
    subject.submit(ASKING, 0)
    assert subject.notify(event, 0) == []
    assert subject.observe().requests["a"].state == "parked"


def test_the_first_answer_counts_and_who_is_gone_hears_nothing() -> None:
    subject = make(PARKING, 0)
    subject.submit(ASKING, 0)
    assert subject.notify(news("resolved"), 0) == []
    assert subject.notify(news("failed"), 0) == []
    assert subject.notify(news("resolved", dependency="transfer"), 0) == [("unparked", "a")]
    assert subject.notify(news("failed", dependency="transfer"), 0) == []
    assert subject.cancel("a", 0) == [("cancelled", "a")]
    assert subject.notify(news("resolved"), 0) == []


def test_where_nobody_is_parked_dependencies_say_nothing() -> None:
    subject = make(evolve(PARKING, park_timeout_ns=0), 0)
    subject.submit(ASKING, 0)
    assert subject.step(0).request == ["a"]
    outcome = Outcome(step=1, request=("a",), token=(7,), stop=(False,), pause=("tool",))
    assert subject.complete(outcome, 0) == [("delivered", ["a"], [7])]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"hold_ns": 5}, "hold_ns is 5, but nobody is parked: give a park_timeout_ns of at least 5"),
        (
            {"park_timeout_ns": 3, "hold_ns": 5, "prefix_caching": True},
            "hold_ns is 5, but a request is parked at most 3 ns: give a park_timeout_ns of at least 5",
        ),
        (
            {"park_timeout_ns": 9, "hold_ns": 5},
            "hold_ns is 5, but what is held is found in the prefix cache: write prefix_caching=True",
        ),
        ({"park_timeout_ns": -1}, "park_timeout_ns is -1, but must be an integer of at least 0"),
        ({"park_timeout_ns": 9, "door": Door(queue_age_ns=5)}, "whoever is parked comes back at any time"),
        (
            {
                "park_timeout_ns": 9,
                "policy": "lanes",
                "lanes": [Lane(name="x", share_percent=50, objective_steps=3, load_tokens=9)],
            },
            "park_timeout_ns is given, but the door or a lane promises how long somebody waits",
        ),
    ],
)
def test_contradictions_are_told(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match="settings: ") as told:
        Settings(**changes)
    assert sentence in str(told.value)


def test_the_columns_of_an_outcome_are_equally_long() -> None:
    plain = {"step": 1, "request": ["a"], "token": [7], "stop": [False]}
    assert read_outcome(plain).pauses == {}
    assert read_outcome(plain | {"pause": [""]}).pauses == {}
    assert read_outcome(plain | {"pause": ["tool"]}).pauses == {"a": "tool"}
    with pytest.raises(ProtocolError, match=r"pause is .* but has 2 entries where request has 1: columns"):
        read_outcome(plain | {"pause": ["tool", ""]})


def test_who_does_not_claim_it_parks_nobody() -> None:
    request = evolve(ASKING, dependencies=())
    monitor = Monitor(Header(settings=PARKING, capabilities=Capabilities()))
    monitor.feed(Message("submit", 0, request, Receipt(verdict="accepted")))
    plan = Plan(step=1, request=("a",), start=(0,), tokens=(3,), samples=(1,), deltas=(("admitted", "a", 0),))
    assert monitor.feed(Message("step", 0, None, plan)) == []
    outcome = Outcome(step=1, request=("a",), token=(7,), stop=(False,))
    says = (
        "deltas.parked is 'a', but nobody is parked here: claim 'parking', and honour park_timeout_ns where it is not 0"
    )
    with pytest.raises(ProtocolError) as told:
        monitor.feed(Message("complete", 0, outcome, (("delivered", ("a",), (7,)), ("parked", "a", ("tool",)))))
    assert says in str(told.value)
