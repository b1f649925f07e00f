"""The search in small scopes: what it finds, what it does not claim, and that nothing is left out on the way."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest
from attrs import evolve
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from schedspec import optimized
from schedspec.cli import cli
from schedspec.conformance.small_scope.cases import Case, Manner, differences, faults, run_case
from schedspec.conformance.small_scope.copies import CannotCopy, Copies
from schedspec.conformance.small_scope.graph import NO_LIMITS, Edge, Graph, Limits, explore
from schedspec.conformance.small_scope.judge import BY_TRANSITION, Judge
from schedspec.conformance.small_scope.lassos import Counterexample, find_lasso
from schedspec.conformance.small_scope.questions import asked
from schedspec.conformance.small_scope.runs import look_at_runs
from schedspec.conformance.small_scope.scope import Event, Kind, Scope
from schedspec.conformance.small_scope.search import CannotSay, DoesNotRepeat, goes_round, search
from schedspec.conformance.small_scope.world import World
from schedspec.proofs import exhausted
from schedspec.reference import make
from schedspec.reference.canonical import gaps, ranks
from schedspec.reference.decide import Room
from schedspec.reference.faults import FAULTS
from schedspec.reference.faults.memory import SkipsAToken
from schedspec.reference.faults.progress import HoldsAndWaits, PrefillFirst
from schedspec.reference.job import RUNNING, Job
from schedspec.reference.scheduler import Scheduler
from schedspec.reference.selection import SharedQueue, WaitingQueue
from schedspec.reference.state import Admission, Decision
from schedspec.spec.cards import cards
from schedspec.spec.settings import Lane, Settings
from schedspec.spec.vocabulary import Delta, Receipt, Request, SubjectFactory, Unsupported, to_json

SHORT, LONG = Kind(1, 1), Kind(2, 2)
FIRST = Kind(1, 1, (("priority", 0),))
LAST = Kind(2, 2, (("priority", 1),))


def scope(*kinds: Kind, requests: int = 3, cancels: bool = False, stops: bool = False, **settings: Any) -> Scope:
    pool: dict[str, Any] = {"blocks": 4, "block_size": 1, "seats": 2, "token_budget": 3}
    return Scope(Settings(**(pool | settings)), kinds or (SHORT, LONG), requests, cancels=cancels, stops=stops)


def verdicts(factory: SubjectFactory, within: Scope, limits: Limits = NO_LIMITS) -> dict[str, str]:
    return {question: answer.verdict for question, answer in search(factory, within, limits).answers.items()}


# --- the reference ---------------------------------------------------------------------------------------------

LANES = (Lane(name="chat", share_percent=60, max_prompt_tokens=1), Lane(name="long", share_percent=40))
CLEAN: Mapping[str, Scope] = {
    "fcfs": scope(cancels=True),
    "overlap": scope(overlap_depth=2),
    "adapters": scope(Kind(1, 1, (("adapter", "x"),)), Kind(2, 2, (("adapter", "y"),)), adapter_slots=1),
    "priority": scope(FIRST, LAST, policy="priority", max_overtaken=1, reserve="declared"),
    "edf": scope(LONG, policy="edf"),
    "sjf": scope(policy="sjf", requests=2, cancels=True),
    "srpt": scope(policy="srpt", requests=2, stops=True),
    "aging": scope(FIRST, LAST, policy="aging", requests=2),
    "mlfq": scope(LONG, policy="mlfq", quantum=2),
    "lpm": scope(policy="lpm", prefix_caching=True, max_overtaken=1, requests=2),
    "vtc": scope(LONG, policy="vtc", requests=2, cancels=True),
    "vtc, aged": scope(LONG, policy="vtc", aging_picks=1, aging_credit=1),
    "round_robin": scope(LONG, policy="round_robin", requests=2, cancels=True),
    "drr": scope(LONG, policy="drr", quantum=2, reserve="declared"),
    "dlpm": scope(LONG, policy="dlpm", quantum=2, prefix_caching=True, requests=2),
}


@pytest.mark.parametrize("name", CLEAN)
def test_in_the_reference_everybody_ends(name: str) -> None:
    assert verdicts(make, CLEAN[name]) == dict.fromkeys(("work", "progress", "starvation"), "exhausted")


@pytest.mark.parametrize(("policy", "others"), [("lcf", {}), ("lanes", {"lanes": LANES})])
def test_where_counters_have_no_bound_arrivals_have(policy: str, others: dict[str, Any]) -> None:
    pool = {"blocks": 4, "block_size": 1, "seats": 2, "token_budget": 3}
    within = Scope(Settings(**pool, policy=policy, **others), (SHORT, LONG), arrivals=3, cancels=False, stops=False)  # type: ignore[arg-type]
    assert verdicts(make, within) == {"work": "exhausted", "progress": "exhausted"}


# --- faults that the search was not written for ------------------------------------------------------------------


class ForgetsAVictim(Scheduler):
    """A preempted request waits, and stands in no queue."""

    def preempt(self, job: Job, requester: Job) -> None:
        super().preempt(job, requester)
        self.state.queue.left(job)


class WakesNobody(Scheduler):
    """Who does not fit is looked at again when somebody comes, not when blocks come back."""

    sleeps = False

    def submit(self, request: Request, now_ns: int) -> Receipt:
        self.sleeps = False
        return super().submit(request, now_ns)

    def admit(self, budget: int, blocks: int) -> list[Admission]:
        return [] if self.sleeps else super().admit(budget, blocks)

    def fit(self, job: Job, room: Room, *, anything_runs: bool) -> Admission | None:
        admission = super().fit(job, room, anything_runs=anything_runs)
        self.sleeps = admission is None
        return admission


class KeepsTheSeatOfTheCancelled(Scheduler):
    """The cap of a client still counts whoever was cancelled while running."""

    def end(self, job: Job, event: Delta) -> None:
        ran = job.state == RUNNING
        super().end(job, event)
        if ran and event[0] == "cancelled" and isinstance(self.state.queue, SharedQueue):
            self.state.queue.caps.seat(job)
            self.state.queue.members.review(job.request.client)


class LeavesAClientParked(Scheduler):
    """A client that a cap held is not looked at again when something of it leaves."""

    def end(self, job: Job, event: Delta) -> None:
        queue = self.state.queue
        assert isinstance(queue, SharedQueue)
        held = {name for name, member in queue.members.members.items() if member.held}
        super().end(job, event)
        for name in held:
            queue.members.members[name].held = True


class LosesTheBlocked(WaitingQueue):
    """Who did not fit is counted, and stands nowhere."""

    def put_back(self, job: Job) -> None:
        self.size += 1


class ParksForEver(Scheduler):
    def __init__(self, settings: Settings, seed: int = 0, *, record: bool = True) -> None:
        super().__init__(settings, seed, record=record)
        assert isinstance(self.state.queue, WaitingQueue)
        self.state.queue = LosesTheBlocked(self.state.queue.key)


class EverySecondRound(Scheduler):
    """Every second step with nothing under way runs nobody: late, and yet everybody ends."""

    rests = False

    def decide(self) -> Decision:
        self.rests = not self.rests
        return Decision([], None, [], 0) if self.rests else super().decide()


SEEDED: list[tuple[type[Scheduler], Scope]] = [
    (ForgetsAVictim, scope()),
    (WakesNobody, scope()),
    (KeepsTheSeatOfTheCancelled, scope(LONG, policy="vtc", client_seats=1, requests=1, cancels=True)),
    (LeavesAClientParked, scope(SHORT, policy="vtc", client_seats=1, requests=2)),
    (ParksForEver, scope(FIRST, LAST, policy="aging")),
    (ParksForEver, scope(policy="mlfq", quantum=2)),
    (EverySecondRound, scope(requests=2)),
    (HoldsAndWaits, scope(stops=True)),
    (FAULTS["LIVE-1"], scope(watermark_blocks=3)),
    (FAULTS["LIVE-2"], scope(stops=True)),
]


@pytest.mark.parametrize(("fault", "within"), SEEDED, ids=lambda value: getattr(value, "__name__", ""))
def test_a_scheduler_in_which_somebody_never_ends_is_noticed(fault: type[Scheduler], within: Scope) -> None:
    result = search(fault, within, Limits(states=600))
    answer = result.answers["progress"]
    assert answer.verdict == "refuted"
    assert answer.counterexample is not None
    assert all(event.is_quiet for event in answer.counterexample.loop)


def test_who_ends_late_is_refuted_by_a_way_without_a_loop() -> None:
    answers = search(EverySecondRound, scope(requests=2)).answers
    late = answers["progress"].counterexample
    assert answers["work"].verdict == "refuted"
    assert late is not None
    assert late.loop == ()


STARVING: list[tuple[SubjectFactory, Scope]] = [
    (PrefillFirst, scope()),
    (make, scope(FIRST, LAST, policy="priority")),
    (make, scope(policy="mlfq", quantum=2)),
    (make, scope(FIRST, LAST, policy="priority", max_overtaken=1)),
    (make, scope(policy="round_robin")),
]


@pytest.mark.parametrize(("factory", "within"), STARVING)
def test_who_starves_has_enough_while_nobody_comes(factory: SubjectFactory, within: Scope) -> None:
    expected = {"work": "exhausted", "progress": "exhausted", "starvation": "refuted"}
    assert verdicts(factory, within) == expected


# --- what is not claimed ---------------------------------------------------------------------------------------


def test_what_is_cut_off_is_unknown() -> None:
    result = search(make, scope(cancels=True), Limits(states=50))
    assert {answer.verdict for answer in result.answers.values()} == {"unknown"}
    assert result.answers["progress"].why == "there are more than 50 states"
    assert {answer.verdict for answer in search(make, scope(), Limits(seconds=0)).answers.values()} == {"unknown"}


def test_a_cycle_is_a_cycle_in_half_a_graph_too() -> None:
    within = scope(watermark_blocks=3, cancels=True, stops=True)
    assert verdicts(FAULTS["LIVE-1"], within, Limits(states=60))["work"] == "refuted"


class HidesACount(Scheduler):
    """Every fifth step preempts nobody and admits nobody, and it does not say that it counts."""

    def admit(self, budget: int, blocks: int) -> list[Admission]:
        return [] if self.state.step % 5 == 4 else super().admit(budget, blocks)


def test_a_state_that_does_not_tell_all_is_unknown() -> None:
    answers = search(HidesACount, scope(SHORT)).answers
    assert answers["starvation"].verdict == "unknown"
    assert "equal states do not go on alike" in answers["starvation"].why


def test_a_loop_that_does_not_repeat_is_not_believed() -> None:
    step = Event("step")
    with pytest.raises(DoesNotRepeat):
        goes_round(make, scope(), Counterexample((Event("submit", kind=1),), (step, Event("complete")), 0))


def test_few_arrivals_are_not_asked_about_starvation() -> None:
    assert asked(scope()) == ["work", "progress", "starvation"]
    assert asked(Scope(Settings(), (SHORT,), arrivals=3)) == ["work", "progress"]


def test_what_would_be_shared_is_not_copied() -> None:
    world = World.new(make, scope())
    world.subject.noted = _closure()  # type: ignore[attr-defined]
    with pytest.raises(CannotCopy):
        Copies().keep(world, [])


class HoldsByAClosure(Scheduler):
    """A copy of it would count in the original's list."""

    def __init__(self, settings: Settings, seed: int = 0, *, record: bool = True) -> None:
        super().__init__(settings, seed, record=record)
        self.state.queue.noted = _closure()  # type: ignore[union-attr]


def test_what_cannot_be_copied_is_done_again() -> None:
    copied, replayed = (explore(factory, scope(requests=2)) for factory in (make, HoldsByAClosure))
    assert (copied.keys, copied.edges) == (replayed.keys, replayed.edges)


class Twins:
    """The reference and the optimized scheduler, which must answer alike."""

    def __init__(self, settings: Settings, seed: int) -> None:
        self.first, self.second = make(settings, seed), optimized.make(settings, seed)
        self.canonical, self.capabilities = self.first.canonical, self.first.capabilities

    def __getattr__(self, method: str) -> Any:
        def both(*arguments: Any) -> Any:
            answers = [getattr(subject, method)(*arguments) for subject in (self.first, self.second)]
            first, second = (json.dumps(to_json(answer), default=int) for answer in answers)
            assert first == second
            return answers[0]

        return both


def test_optimized_decides_alike_on_every_transition() -> None:
    graph = explore(Twins, scope(requests=2))
    assert (graph.cut_off, graph.keys) == ("", explore(make, scope(requests=2)).keys)


def test_who_cannot_say_what_matters_is_not_searched() -> None:
    with pytest.raises(CannotSay, match="canonical"):
        search(optimized.make, scope())


def _closure() -> Any:
    seen: list[str] = []
    return lambda id: seen.append(id)


# --- the state and its symmetries ------------------------------------------------------------------------------


def test_a_copy_goes_its_own_way() -> None:
    world, copies = World.new(make, scope(policy="vtc")), Copies()
    world.do(Event("submit", kind=1))
    before = world.key()
    copy = copies.again(copies.keep(world, []))
    copy.do(Event("step"))
    assert copy.key() != before
    assert world.key() == before


def test_names_do_not_matter() -> None:
    """Another has come and gone: requests, clients and blocks are called otherwise."""
    fresh, old = World.new(make, scope()), World.new(make, scope())
    for event in (Event("submit", kind=1, number=1), Event("step"), Event("complete"), Event("cancel")):
        old.do(event)
    for world in (fresh, old):
        world.do(Event("submit", kind=1))
        world.do(Event("step"))
    assert list(fresh.live) != list(old.live)
    assert fresh.key() == old.key()


def test_what_a_client_owes_does() -> None:
    fresh, old = World.new(make, scope(policy="lcf")), World.new(make, scope(policy="lcf"))
    for event in (Event("submit"), Event("step"), Event("cancel")):
        old.do(event)
    assert fresh.key() != old.key()


def test_numbers_that_only_grow_are_shifted_in_order() -> None:
    assert ranks([7, 3, 100]) == {3: 0, 7: 1, 100: 2}
    assert gaps({7: 1, 3: 9, 100: 1}) == {3: 0, 7: 4, 100: 13}
    assert gaps({7: 9, 3: 1, 100: 1}) == {3: 0, 7: 1, 100: 10}


COUNT = """
from schedspec.conformance.small_scope.copies import CannotCopy, Copies
from schedspec.conformance.small_scope.graph import Limits, explore
from schedspec.conformance.small_scope.runs import look_at_runs
from schedspec.conformance.small_scope.scope import Kind, Scope
from schedspec.reference import make
from schedspec.spec.settings import Settings
settings = Settings(blocks=4, block_size=1, seats=2, token_budget=3, policy="vtc")
graph = explore(make, Scope(settings, (Kind(1, 1), Kind(2, 2)), 2, stops=False), Limits(states=300))
print(graph.states, graph.transitions)
"""


def test_states_are_counted_alike_in_another_process() -> None:
    counts = set()
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", COUNT]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        counts.add(done.stdout)
    assert len(counts) == 1


# --- cycles ----------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.booleans(), st.booleans()), max_size=14))
def test_a_lasso_is_found_where_there_is_one(arrows: list[tuple[int, int, bool, bool]]) -> None:
    """One request is there all the time; an arrow goes on, or its request ends."""
    graph = _graph(arrows)
    found = find_lasso(graph, lambda event: True)
    kept = [(a, b, goes_on) for a, b, goes_on, ends in arrows if not ends]
    expected = any(goes_on and a in _reachable(kept, b) for a, b, goes_on in kept)
    assert (found is not None) == expected


def _graph(arrows: list[tuple[int, int, bool, bool]]) -> Graph:
    graph = Graph(scope())
    for state in range(6):
        edges = [
            Edge(Event("step" if goes_on else "cancel"), target, (-1,) if ends else (0,), 0)
            for source, target, goes_on, ends in arrows
            if source == state
        ]
        graph.edges.append(edges)
        graph.parents.append(None)
        graph.keys.append(bytes([state]))
        graph.there.append((0,))
    return graph


def _reachable(arrows: list[tuple[int, int, bool]], start: int) -> set[int]:
    seen = {start}
    for _ in range(6):
        seen |= {b for a, b, _ in arrows if a in seen}
    return seen


# --- the cases ---------------------------------------------------------------------------------------------------


def test_every_case_has_an_outcome_and_the_reference_always_makes_progress() -> None:
    cases = [Case(**plain) for plain in exhausted.read()]
    assert len({case.name for case in cases}) == len(cases)
    for case in cases:
        assert case.states > 0
        for question in asked(case.scope):
            assert getattr(case, question) in ("exhausted", "refuted"), case.name
        if case.subject == "reference":
            assert (case.work, case.progress) == ("exhausted", "exhausted"), case.name


def test_a_case_is_held_against_what_it_was() -> None:
    case = Case(**next(plain for plain in exhausted.read() if plain["name"] == "fcfs, peak"))
    found = run_case(case, make)
    assert differences(case, found.case) == []
    otherwise = evolve(case, states=1, progress="refuted")
    assert differences(otherwise, found.case) == [
        "fcfs, peak: progress is 'exhausted', but expected was 'refuted'",
        "fcfs, peak: states is 326, but expected was 1",
    ]


def test_a_story_has_a_way_and_a_loop() -> None:
    case = Case(**next(plain for plain in exhausted.read() if plain["name"] == "strict priority"))
    story = run_case(case, make).stories["starvation"]
    assert story[0].startswith("Let there be 4 KV blocks")
    assert "over and over:" in story
    assert story[-1].endswith("never ends")


def test_cards_say_what_is_exhausted() -> None:
    told = {card["id"]: card for card in cards({}, {}, exhausted.exhausted_rules())}
    assert told["LIVE-2"]["evidence"] == "exhausted in a bound"
    assert "refuted: hold and wait, preemption without progress" in told["LIVE-2"]["exhausted"]
    assert told["STEP-8"]["exhausted"].endswith("refuted: left out after an allocation")
    stays, grows = told["PRE-6"]["exhausted"].split("; that completed tokens grow: ")
    assert stays.endswith("refuted: everybody is preempted")
    assert "refuted: hold and wait" in grows
    assert told["LANE-3"]["exhausted"] is None


# --- rules, judged on every transition ---------------------------------------------------------------------------


@pytest.mark.parametrize("rule", BY_TRANSITION)
def test_each_rule_is_exercised_by_the_reference_and_refuted_by_a_twin(rule: str) -> None:
    there = [Case(**plain) for plain in exhausted.read()]
    clean = [case for case in there if case.subject == "reference" and rule not in case.broken]
    assert sum(case.exercised.get(rule, 0) for case in clean) > 0
    assert any(rule in case.broken for case in there)


def test_the_reference_breaks_no_must() -> None:
    there = [plain for plain in exhausted.read() if plain["subject"] == "reference"]
    assert {rule for plain in there for rule in plain["broken"]} == {"LIVE-11"}


def case_of(name: str) -> Case:
    return Case(**next(plain for plain in exhausted.read() if plain["name"] == name))


TWINS = ["a shared block that is written", "left out after an allocation", "a bound that nobody keeps"]


@pytest.mark.parametrize("name", TWINS)
def test_a_twin_is_refuted_by_a_short_run(name: str) -> None:
    case = case_of(name)
    found = run_case(case, FAULTS[case.subject.removeprefix("fault:")])
    assert differences(case, found.case) == []
    (rule,) = case.broken
    assert found.stories[rule][-1].startswith(f"{rule}.")
    assert len(found.stories[rule]) < 14


def test_whoever_is_cancelled_in_time_cannot_make_tokens_grow() -> None:
    """Found by the search: step after step is spent on somebody who is cancelled before the result is there."""
    judge = Judge(World.new(make, scope(cancels=True)))
    for _ in range(40):
        for event in (Event("submit", kind=1), Event("step"), Event("cancel"), Event("complete")):
            assert [broken for broken in judge.do(event)[1] if broken.rule == "PRE-6"] == []


class SaysNothing(Scheduler):
    """Its state can only be come to by the same calls: it does not say what matters, and is not copied."""

    canonical = None  # type: ignore[assignment]

    def __init__(self, settings: Settings, seed: int = 0, *, record: bool = True) -> None:
        if settings.reserve == "peak":
            raise Unsupported("reserve", settings.reserve)
        super().__init__(settings, seed, record=record)
        self.noted = _closure()


class SaysNothingOfAFault(SaysNothing, SkipsAToken):
    """The same with a fault."""


def test_who_does_not_say_what_matters_is_judged_in_all_short_runs() -> None:
    found = run_case(case_of("fcfs, declared"), SaysNothing, Manner(timeout_s=5.0, calls=3))
    assert faults(found) == []
    assert found.case.work == "unknown"
    assert found.case.exercised["KV-12"] > 0
    assert "runs of 3 calls were looked at" in found.why["whether somebody never ends"]


def test_a_fault_is_found_in_the_shortest_run() -> None:
    found = run_case(case_of("fcfs, declared"), SaysNothingOfAFault, Manner(timeout_s=5.0, calls=4))
    assert faults(found) == ["fcfs, declared: KV-12 is broken"]
    assert [line.split()[1] for line in found.stories["KV-12"][1:-1]] == ["submit", "step", "complete"]


def test_what_is_refused_is_named() -> None:
    found = run_case(case_of("fcfs, peak"), SaysNothing, Manner(timeout_s=5.0))
    assert found.refused == "setting reserve='peak' is not supported"
    assert faults(found) == []


def test_short_runs_are_all_there() -> None:
    within = Scope(Settings(), (SHORT,), requests=2, clients=2, stops=False)
    assert look_at_runs(SaysNothing, within, 1).runs == 2  # a step, or somebody comes
    assert look_at_runs(SaysNothing, within, 2).runs == 2 + 4  # or then a step, another of one of two clients, a cancel


@pytest.mark.parametrize(
    ("subject", "status", "says"),
    [("fault:KV-12", 1, "fcfs, declared: KV-12 is broken"), ("fault:nothing", 2, "there is no subject")],
)
def test_another_subject_on_the_command_line(subject: str, status: int, says: str) -> None:
    done = CliRunner().invoke(cli, ["exhaust", "fcfs, declared", "--subject", subject, "--jobs", "1"])
    assert (done.exit_code, says in done.output) == (status, True), done.output
