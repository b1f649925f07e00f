"""`schedspec why`: each limit is named where lifting it, and nothing else, lets the request in."""

import json
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from click.testing import CliRunner

from schedspec.cli import cli
from schedspec.conformance.driver import Driver
from schedspec.conformance.scenarios_of_transfers import a_transfer_takes_half_its_time
from schedspec.conformance.script import COMPLETE, STEP, Op, answer, submit
from schedspec.conformance.story import Story
from schedspec.conformance.walks import walk
from schedspec.conformance.why import sentences, tell_of
from schedspec.reference import make
from schedspec.spec.trace import TraceWriter
from schedspec.spec.vocabulary import Door, Lane, Request, Settings, Unsupported
from schedspec.spec.waiting import LIMITS

ROOM = Settings(blocks=16, block_size=2, seats=4, token_budget=32)
FIRST = Request(id="first", prompt_ids=(1, 2, 3, 4, 5, 6), max_output_tokens=4, client="a", adapter="x")
LATER = Request(id="later", prompt_ids=(7, 8, 9, 10, 11, 12), max_output_tokens=4, client="a", adapter="y")
FOURTH = Lane(name="default", share_percent=25, maximum_percent=40)
OTHER = Lane(name="other", share_percent=75)

LIFTED: dict[str, dict[str, Any]] = {
    "seats": {"seats": 1},
    "budget": {"token_budget": 6},
    "client cap": {"policy": "vtc", "client_seats": 1},
    "lane share": {"policy": "lanes", "lanes": (FOURTH, OTHER)},
    "resident tokens": {"resident_tokens": 10},
    "adapter": {"adapter_slots": 1},
    "prefill cap": {"prefilling_requests": 1},
    "blocks": {"blocks": 5},
    "watermark": {"blocks": 7, "watermark_blocks": 2},
}
"""Limit -> the setting that makes it bind; under `ROOM` nothing does."""


def comes(request: Request) -> Op:
    return Op("submit", request)


def run_of(settings: Settings, ops: list[Op], step_ns: int = 0) -> Driver:
    driver = Driver.start(make, settings, 0)
    for op in ops:
        driver.do(op)
        if op == STEP and step_ns:
            driver.do(Op("tick", ns=step_ns))
    return driver


def story_of(settings: Settings, request: str = "later") -> Story:
    driver = run_of(settings, [comes(FIRST), comes(LATER), STEP, COMPLETE])
    return tell_of(driver.header, driver.messages, request)


def what(story: Story) -> list[str]:
    return [getattr(event, "what", "wait") for event in story.events]


@pytest.mark.parametrize("limit", LIFTED)
def test_a_limit_is_named_and_lifting_it_lets_the_request_in(limit: str) -> None:
    (wait,) = story_of(evolve(ROOM, **LIFTED[limit])).waits()
    assert wait.reason.limit == limit
    lifted = story_of(ROOM)
    assert lifted.waits() == []
    assert "admitted" in what(lifted)


def test_of_two_limits_the_first_is_named_and_lifting_it_names_the_other() -> None:
    both = evolve(ROOM, seats=1, blocks=5)
    assert story_of(both).waits()[0].reason.limit == "seats"
    assert story_of(evolve(both, seats=4)).waits()[0].reason.limit == "blocks"
    assert list(LIMITS).index("seats") < list(LIMITS).index("blocks")


def test_who_would_fit_but_stands_behind_a_blocked_head_waits_for_order() -> None:
    large = Request(id="large", prompt_ids=tuple(range(40, 62)), max_output_tokens=4)
    settings = evolve(ROOM, blocks=13, token_budget=64)
    driver = run_of(settings, [comes(FIRST), comes(large), comes(LATER), STEP, COMPLETE])
    (wait,) = tell_of(driver.header, driver.messages, "later").waits()
    assert wait.reason.limit == "order"
    passed = run_of(evolve(settings, at_blocked_head="skip"), [comes(FIRST), comes(large), comes(LATER), STEP])
    story = tell_of(passed.header, passed.messages, "large")
    assert [one.request for one in story.overtaken] == ["later"]
    assert story.waits()[0].reason.limit == "blocks"


def test_a_preemption_names_whom_the_memory_was_for_and_the_victims_wait() -> None:
    settings = evolve(ROOM, blocks=6)
    driver = run_of(settings, [comes(FIRST), comes(LATER), *[STEP, COMPLETE] * 3])
    story = tell_of(driver.header, driver.messages, "later")
    assert what(story)[-3:] == ["preempted", "wait", "wait"]
    assert "the memory was for first" in "\n".join(sentences(story))
    assert [wait.reason.limit for wait in story.waits()] == ["victims", "blocks"]


def test_who_is_parked_says_for_what_and_for_how_long() -> None:
    settings = Settings(blocks=12, block_size=2, seats=2, token_budget=8, park_timeout_ns=10**9)
    ops = [submit("a", 3, 4, pauses=(1,), dependencies=("grammar",)), STEP, answer("a", "grammar")]
    driver = run_of(settings, [*ops, STEP, COMPLETE, STEP, STEP, answer("a", 1), *[STEP, COMPLETE] * 3], step_ns=10**8)
    story = tell_of(driver.header, driver.messages, "a")
    assert what(story) == [
        *("accepted", "parked", "unparked", "admitted", "prefill", "first token"),
        *("parked", "unparked", "admitted", "prefill", "finished"),
    ]
    told = "\n".join(sentences(story))
    assert "parked until it has tool 1, at most 1.000 s" in told
    assert story.parts_ns["parked for tool 1"] == 2 * 10**8


@pytest.mark.parametrize("seed", range(10))
def test_parts_of_the_time_sum_to_the_whole(seed: int) -> None:
    """OBS-4, of stories: no part is negative, and all of them are the time between coming and ending."""
    script = walk(seed)
    try:
        driver = run_of(script.settings, list(script.ops), step_ns=7)
    except Unsupported as error:
        pytest.skip(f"the reference refuses these settings: {error}")
    driver.drain()
    for message in driver.messages:
        if message.kind == "submit":
            story = tell_of(driver.header, driver.messages, message.given.id)
            assert story.ended_ns is not None
            assert min(story.parts_ns.values(), default=0) >= 0
            assert story.parts_ns.total() == story.ended_ns - story.came_ns
            steps = sum(wait.steps for wait in story.waits())
            assert steps == _steps_waited(driver, message.given.id)


def _steps_waited(driver: Driver, request: str) -> int:
    """Counted from the deltas alone: steps at whose end it stood in the queue."""
    waiting, steps = False, 0
    for message in driver.messages:
        if message.kind == "submit" and message.given.id == request:
            is_parked = bool(driver.monitor.parks and message.given.dependencies)
            waiting = message.answer.verdict == "accepted" and not is_parked
        deltas = message.answer.deltas if message.kind in ("step", "submit") else message.answer
        for delta in deltas if message.kind not in ("observe", "end") else ():
            if delta[1] == request:
                waiting = delta[0] in ("preempted", "unparked") or (waiting and delta[0] not in ENDING)
        steps += waiting and message.kind == "step"
    return steps


ENDING = ("parked", "admitted", "resumed", "cancelled", "finished", "failed", "expired")


def test_of_two_pools_it_says_where_the_request_was_and_for_how_long() -> None:
    """60 ns of its time are those of the transfer; the clock stands still else."""
    _, settings, ops = a_transfer_takes_half_its_time()
    driver = run_of(settings, [*ops, *[STEP, COMPLETE] * 4])
    story = tell_of(driver.header, driver.messages, "a")
    stages = [
        "accepted",
        "admitted",
        "first token",
        "held",
        "pulled",
        "transfer",
        "transferred",
        "admitted",
        "finished",
    ]
    assert what(story) == stages
    assert +story.parts_ns == {"in transfer": 60}
    assert sentences(story)[-1] == "60 ns in all, 0.000 s to its first token: 60 ns in transfer"
    with pytest.raises(ValueError, match="no request 'z' in this trace; it has a"):
        tell_of(driver.header, driver.messages, "z")


# --- the command -------------------------------------------------------------------------------------------


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    driver = run_of(evolve(ROOM, seats=1), [comes(FIRST), comes(LATER), *[STEP, COMPLETE] * 12], step_ns=5_000_000)
    path = tmp_path / "run.jsonl"
    with path.open("w") as file:
        writer = TraceWriter(file, driver.header)
        for message in driver.messages:
            writer.write(message)
    return path


def test_the_story_is_told_in_lines(trace: Path) -> None:
    result = CliRunner().invoke(cli, ["why", str(trace), "later"])
    assert result.exit_code == 0
    assert "waits 4 steps, to step 4, for seats: every seat was taken (1 needed, 0 left)" in result.output
    assert "0.040 s in all, 0.025 s to its first token: 0.020 s waiting: seats, 0.020 s running" in result.output


def test_the_story_as_json(trace: Path) -> None:
    result = CliRunner().invoke(cli, ["why", str(trace), "later", "--json"])
    told = json.loads(result.output)
    assert told["events"][1]["reason"] == {"limit": "seats", "needed": 1, "left": 0}
    assert sum(told["parts_ns"].values()) == told["ended_ns"] - told["came_ns"]


def test_a_refusal_is_a_short_story() -> None:
    huge = Request(id="huge", prompt_ids=tuple(range(1, 60)), max_output_tokens=4)
    driver = run_of(ROOM, [comes(huge)])
    told = sentences(tell_of(driver.header, driver.messages, "huge"))
    assert any("refused at the door, kv_blocks: 31 against 16" in line for line in told)
    later = [evolve(message, now_ns=7_000_000) for message in driver.messages]
    (line,) = (line for line in sentences(tell_of(driver.header, later, "huge")) if "refused" in line)
    assert line.endswith("31 against 16, at now_ns 7,000,000")


@pytest.mark.parametrize(("name", "hint"), [("latter", "did you mean later?"), ("zzz", "it has first, later")])
def test_a_request_that_is_not_there(trace: Path, name: str, hint: str) -> None:
    result = CliRunner().invoke(cli, ["why", str(trace), name])
    assert result.exit_code == 2
    assert hint in result.output


def test_who_is_refused_is_told_when_to_come_again() -> None:
    settings = evolve(ROOM, reserve="declared", door=Door(client_requests=1, step_ns=10**9))
    says = [event.says for event in story_of(settings).events]  # type: ignore[union-attr]
    assert says == ["refused at the door, client_requests: 2 against 1; told to come again in 4.000 s"]


def test_chunks_of_several_steps_say_until_which() -> None:
    settings = Settings(blocks=8, block_size=4, token_budget=4)
    driver = run_of(settings, [submit("a", list(range(10)), 1), *((STEP, COMPLETE) * 4)])
    story = tell_of(driver.header, driver.messages, "a")
    assert any("step 1     computes positions 0 to 9, until step 3" in line for line in sentences(story))
