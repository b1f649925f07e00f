"""Rules of lanes, caps, adapters and classes, and of how prefill and decode share a step: each on a run that keeps it,
and on one of a scheduler with a natural mistake."""

import random
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pytest
from attrs import evolve

from schedspec.conformance.driver import Driver, all_but
from schedspec.conformance.script import COMPLETE, STEP, Op, cancel, rounds, submit
from schedspec.reference import make
from schedspec.reference.caps import Caps
from schedspec.reference.decide import Room
from schedspec.reference.faults.lanes import (
    LendsNothing,
    LiftsNobody,
    PrefersTenfold,
    PromisesAnObjective,
    ServesAStrictly,
    SharesLanesOtherwise,
)
from schedspec.reference.faults.liveness import PromisesABound, StopsAtAnAdapter, WaitsForASeat
from schedspec.reference.faults.steps import LetsThemIn, PrefillFirst, PrefillFirstForever, TakesItAll
from schedspec.reference.job import Job
from schedspec.reference.scheduler import Scheduler
from schedspec.reference.selection.lanes import LaneQueues
from schedspec.reference.selection.lines import Line
from schedspec.reference.selection.race import Member, Rank
from schedspec.reference.selection.sharing import ClientQueues, SharedQueue, Sharing
from schedspec.reference.state import Admission
from schedspec.spec.spells import Spells
from schedspec.spec.tracks import Track
from schedspec.spec.vocabulary import Lane, Request, Settings, SubjectFactory

LANES = (Lane(name="a", share_percent=60), Lane(name="b", share_percent=20))
SETTINGS = Settings(blocks=64, block_size=1, seats=1, token_budget=16, policy="lanes", lanes=LANES)


def of(lane: str, *requests: tuple[str, int, int], client: str = "default", **more: Any) -> tuple[Op, ...]:
    """Submissions to one lane: id, prompt tokens, output tokens."""
    return tuple(asks(submit(id, prompt, output, client=client), lane=lane, **more) for id, prompt, output in requests)


def asks(op: Op, **changes: Any) -> Op:
    assert op.request is not None
    return evolve(op, request=evolve(op.request, **changes))


def flood(lane: str, count: int, **more: Any) -> tuple[Op, ...]:
    return of(lane, *((f"{lane}{number}", 1, 1) for number in range(count)), **more)


def run(ops: Iterable[Op], settings: Settings, subject: SubjectFactory, rules: str) -> Driver:
    """A run to its end, or to where it breaks one of the rules that are named."""
    driver = Driver.start(subject, settings, 0, ignored=all_but(rules.split()))
    driver.run(list(ops))
    driver.drain()
    assert driver.fault is None, str(driver.fault)
    return driver


def keeps(rule: str, ops: Iterable[Op], settings: Settings, subject: SubjectFactory = make) -> None:
    """The rule is asked, and nothing is broken but the advice of LIVE-11."""
    driver = Driver.start(subject, settings, 0, ignored=frozenset({"LIVE-11"}))
    driver.run(list(ops))
    driver.drain()
    assert driver.fault is None, str(driver.fault)
    assert not driver.broken, str(driver.broken[0])
    assert driver.monitor.exercised()[rule] > 0


def breaks(conjunct: str, ops: Iterable[Op], settings: Settings, subject: SubjectFactory) -> Mapping[str, Any]:
    broken = run(ops, settings, subject, conjunct.rpartition(".")[0]).broken
    assert broken, f"{conjunct} is not broken"
    assert broken[0].conjunct == conjunct
    return broken[0].facts


def order(driver: Driver) -> str:
    """Who was admitted, in order."""
    deltas = [delta for message in driver.messages if message.kind == "step" for delta in message.answer.deltas]
    return " ".join(delta[1] for delta in deltas if delta[0] in ("admitted", "resumed"))


# --- lanes -------------------------------------------------------------------------------------------------


class ByNumber(Sharing):
    """Clients in the order in which they were first seen."""

    def rank(self, member: Member, counter: int) -> Rank:
        return member.number, 0


class ClientsOneAfterAnother(LaneQueues):
    def line(self, name: str) -> Line:
        return ClientQueues(ByNumber(), self.caps)


class EmptiesClients(SharesLanesOtherwise):
    queues = ClientsOneAfterAnother


BOTH = (*flood("b", 40), *flood("a", 40))


def test_lanes_get_their_shares() -> None:
    """Three of a for each of b."""
    keeps("LANE-1", BOTH, SETTINGS)
    assert order(run(BOTH, SETTINGS, make, "LANE-1")).split()[:8].count("b0") == 1


def test_a_lane_that_is_never_served_lacks_its_share() -> None:
    facts = breaks("LANE-1.share", BOTH, SETTINGS, ServesAStrictly)
    assert facts["lane"] == "b"
    assert facts["behind"] > facts["bound"]


def test_a_short_run_does_not_exercise_the_share() -> None:
    driver = run((*flood("a", 2), *flood("b", 2)), SETTINGS, make, "LANE-1")
    assert driver.monitor.exercised()["LANE-1"] == 0


def test_a_lane_whose_clients_are_at_a_cap_does_not_wait() -> None:
    """b's only client may have one running: b gets less than its share, and that is what was asked for."""
    settings = evolve(SETTINGS, seats=4, client_seats=1, lanes=(*LANES[:1], Lane(name="b", share_percent=40)))
    many = tuple(op for n in range(30) for op in of("a", (f"a{n}", 1, 1), client=f"c{n}"))
    slow = of("b", ("b0", 1, 12), ("b1", 1, 12), ("b2", 1, 12), client="slow")
    driver = run((*slow, *many), settings, make, "LANE-1 LANE-5 LIVE-8")
    assert not driver.broken


SLICES = tuple(evolve(lane, maximum_percent=lane.share_percent) for lane in LANES)


def test_what_a_lane_leaves_is_lent() -> None:
    ops = (*flood("b", 6), *rounds(12))
    keeps("LANE-2", ops, evolve(SETTINGS, seats=8, blocks=4))


def test_rigid_slices_lend_nothing() -> None:
    """b may have a fifth of ten blocks: one request of two, while eight idle."""
    settings = evolve(SETTINGS, seats=8, blocks=10, lanes=SLICES)
    ops = of("b", *((f"b{n}", 1, 1) for n in range(4)))
    assert not run(ops, settings, make, "LIVE-8 LANE-2").broken
    breaks("LANE-2.idle", ops, settings, LendsNothing)


BURSTS = (Lane(name="a", share_percent=50, burst=6), Lane(name="b", share_percent=50))
AWAY = (*flood("b", 120), *rounds(60), *flood("a", 60))


def test_a_lane_that_comes_back_is_ahead_by_its_burst_alone() -> None:
    settings = evolve(SETTINGS, lanes=BURSTS)
    keeps("LANE-3", AWAY, settings)
    assert order(run(AWAY, settings, make, "LANE-3")).split()[59:66] == ["b59", "a0", "a1", "b60", "a2", "b61", "a3"]


def test_what_was_not_used_is_no_credit() -> None:
    facts = breaks("LANE-3.burst", AWAY, evolve(SETTINGS, lanes=BURSTS), LiftsNobody)
    assert (facts["lane"], facts["waits"]) == ("a", "b")


def test_a_lane_that_comes_back_is_served_soon() -> None:
    ops = (*flood("a", 120), *rounds(60), *flood("b", 10))
    broken = {violation.conjunct: violation.facts for violation in run(ops, SETTINGS, ServesAStrictly, "LANE-3").broken}
    assert (broken["LANE-3.waits"]["lane"], broken["LANE-3.waits"]["served"]) == ("b", "a")


AGED = evolve(SETTINGS, aging_picks=2, aging_credit=3)


def test_aging_stays_within_its_credit() -> None:
    """a has waited longer when b comes, and costs 6 each time."""
    ops = (*of("a", *((f"a{n}", 4, 1) for n in range(10))), *rounds(4), *flood("b", 2))
    keeps("LANE-5", ops, AGED)
    facts = breaks("LANE-5.credit", ops, AGED, PrefersTenfold)
    assert facts["counter"] > facts["least"] + facts["credit"]


PROMISED = (LANES[0], evolve(LANES[1], objective_steps=10, load_tokens=4))


def test_who_comes_under_the_declared_load_is_admitted_in_time() -> None:
    settings = evolve(SETTINGS, lanes=PROMISED, max_output_tokens=10)
    ops = (*flood("a", 20), *rounds(4), *flood("b", 2), *rounds(2))
    keeps("LANE-6", ops, settings)
    facts = breaks("LANE-6.objective", ops, settings, PromisesAnObjective)
    assert facts["request"] == "b0"


PLACES: tuple[dict[str, Any], ...] = (
    {},
    {"seats": 3},
    {"seats": 9, "token_budget": 2},
    {"seats": 2, "block_size": 4, "blocks": 9, "watermark_blocks": 2},
    {"seats": 2, "reserve": "declared", "resident_tokens": 21},
    {"lanes": (evolve(LANES[0], maximum_percent=70), LANES[1])},
    {"max_output_tokens": 5, "overlap_depth": 2},
)


@pytest.mark.parametrize("changes", PLACES)
def test_an_objective_that_nobody_could_keep_is_refused_with_the_least_that_may_hold(changes: dict[str, Any]) -> None:
    """Others fill all seats right before; in a step before that one nobody else is admitted."""
    plain = evolve(SETTINGS, **changes)
    with pytest.raises(ValueError, match=r"for (\d+) steps") as refused:
        promised(plain, 1)
    least = int(re.search(r"for (\d+) steps", str(refused.value))[1])  # type: ignore[index]
    with pytest.raises(ValueError, match=f"for {least} steps"):
        promised(plain, least - 1)
    settings = promised(plain, least)
    others = of("a", *((f"a{n}", 1, least) for n in range(min(settings.seats, settings.token_budget))))
    ops = (*others, STEP, *of("b", ("b0", 1, 1)), COMPLETE, *rounds(least - 1))
    driver = Driver.start(make, settings, 0, ignored=all_but(["LANE-6"]))
    driver.run(ops)
    assert driver.monitor.tracks["b0"].waits
    driver.run(rounds(1))
    assert not driver.monitor.tracks["b0"].waits
    assert driver.monitor.exercised()["LANE-6"] == 1
    assert not driver.broken


def promised(settings: Settings, steps: int) -> Settings:
    first, second = settings.lanes
    return evolve(settings, lanes=(first, evolve(second, objective_steps=steps, load_tokens=4)))


def test_beyond_the_declared_load_nothing_is_promised() -> None:
    settings = evolve(SETTINGS, lanes=PROMISED, max_output_tokens=10)
    driver = run((*flood("a", 20), *flood("b", 8)), settings, make, "LANE-6")
    assert driver.monitor.exercised()["LANE-6"] == 2


def test_in_a_lane_of_arrival_the_client_does_not_matter() -> None:
    ops = tuple(op for n in range(4) for c in "xy" for op in of("a", (f"{c}{n}", 1, 1), client=c))
    keeps("LANE-4", ops, SETTINGS)
    facts = breaks("LANE-4.overtaken", ops, SETTINGS, EmptiesClients)
    assert (facts["admitted"], facts["overtaken"]) == ("x1", "y0")
    fair = evolve(SETTINGS, lanes=(evolve(LANES[0], order="vtc"),))
    assert not run(ops, fair, EmptiesClients, "LANE-4").broken


def test_a_client_at_its_cap_is_passed_in_a_lane_of_arrival() -> None:
    settings = evolve(SETTINGS, seats=3, client_seats=1)
    ops = (*of("a", ("x0", 1, 4), ("x1", 1, 4), client="x"), *of("a", ("y0", 1, 1), client="y"))
    keeps("LANE-4", ops, settings)
    assert order(run(ops, settings, make, "LANE-4")) == "x0 y0 x1"


# --- one queue: places that change, overtaking, adapters, classes -----------------------------------------------


class LatestFirst(Scheduler):
    """Of who waits, who came last."""

    def admit(self, budget: int, blocks: int) -> list[Admission]:
        waiting = [job for job in self.state.jobs.values() if job.state == "waiting"]
        for job in waiting:
            self.state.queue.left(job)
            job.arrival = -job.arrival if job.arrival > 0 else job.arrival
            self.state.queue.push(job)
        return super().admit(budget, blocks)


@pytest.mark.parametrize("policy", ["srpt", "mlfq", "drr", "dlpm", "fcfs"])
def test_the_order_of_every_policy_is_judged(policy: Any) -> None:
    settings = evolve(SETTINGS, policy=policy, lanes=())
    ops = tuple(submit(f"r{n}", 1, 1) for n in range(4))
    keeps("LANE-4", ops, settings)
    breaks("LANE-4.overtaken", ops, settings, LatestFirst)


def test_the_place_of_a_victim_is_that_of_what_is_left() -> None:
    """c is preempted with three of its four outputs, and stands before d, which came with two to go."""
    settings = evolve(SETTINGS, policy="srpt", lanes=(), blocks=9, seats=3)
    ops = (submit("a", 1, 4), submit("b", 1, 4), submit("c", 1, 4), *rounds(3), submit("d", 1, 2))
    driver = run(ops, settings, make, "LANE-4")
    assert not driver.broken
    assert order(driver).split()[-2:] == ["c", "d"]


LOW = (submit("run", 1, 1), STEP, submit("low", 1, 1, priority=1), *(submit(f"h{n}", 1, 1) for n in range(8)))


def test_nobody_is_overtaken_more_often_than_was_promised() -> None:
    settings = evolve(SETTINGS, policy="priority", lanes=(), max_overtaken=2)
    keeps("LIVE-3", LOW, settings)
    assert order(run(LOW, settings, make, "LIVE-3")).split()[:4] == ["run", "h0", "h1", "low"]
    facts = breaks("LIVE-3.overtaken", LOW, settings, PromisesABound)
    assert (facts["overtaken"], facts["times"], facts["most"]) == ("low", 3, 2)


def test_overtaking_is_counted_as_by_hand() -> None:
    """Against a list of all who wait, on random spells; and the slots do not grow with the run."""
    dice, spells, waiting = random.Random(3), Spells(), dict[str, tuple[Track, list[int]]]()
    for number in range(3_000):
        if len(waiting) < 2 or (dice.random() < 0.5 and len(waiting) < 30):
            track = Track.of(Request(id=f"r{number}", prompt_ids=[1], max_output_tokens=1), number)
            waiting[track.id] = (track, [0])
            spells.begin(track)
        else:
            chosen, admitted = dice.choice(sorted(waiting)), dice.random() < 0.8
            track = waiting.pop(chosen)[0]
            for other, times in waiting.values():
                times[0] += admitted and other.arrival < track.arrival
            spells.over(track, admitted=admitted)
        assert [spells.overtaken(track) for track, _ in waiting.values()] == [t for _, (t,) in waiting.values()]
        assert spells.oldest(None) is min((track for track, _ in waiting.values()), key=lambda track: track.arrival)
    assert len(spells.slots) < 150


ADAPTERS = evolve(SETTINGS, policy="fcfs", lanes=(), seats=4, adapter_slots=1)
MIXED = (
    asks(submit("p", 1, 6), adapter="p"),
    *rounds(1),
    asks(submit("q", 1, 2), adapter="q"),
    submit("plain", 1, 2),
    asks(submit("p2", 1, 2), adapter="p"),
)


def test_an_adapter_holds_up_who_needs_it_alone() -> None:
    keeps("LIVE-7", (*MIXED, submit("big", 5, 1)), evolve(ADAPTERS, blocks=7))
    assert order(run(MIXED, ADAPTERS, make, "LIVE-7")) == "p plain p2 q"
    facts = breaks("LIVE-7.idle", MIXED, ADAPTERS, StopsAtAnAdapter)
    assert facts["request"] == "plain"


def test_without_the_claim_a_blocked_head_is_a_reason() -> None:
    assert not run(MIXED, ADAPTERS, StopsAtAnAdapter, "LIVE-8").broken


CLASSES = evolve(
    SETTINGS, policy="priority", lanes=(), preempt_lower_class=True, victim="lowest_priority", blocks=6, seats=2
)
URGENT = (submit("x", 1, 6, priority=2), submit("y", 1, 6, priority=1), *rounds(1), submit("u", 1, 2), *rounds(1))


class TakesFromEquals(Scheduler):
    """Whoever waits takes the place of the newest."""

    def replaceable(self, job: Job, room: Room) -> list[Job]:
        return room.staying[::-1]

    def is_before(self, job: Job, victims: Sequence[Job]) -> bool:
        return True


def test_who_is_first_does_not_wait_for_a_lower_class() -> None:
    full = evolve(CLASSES, seats=3, prefilling_requests=1)
    long = (submit("x", 1, 4, priority=2), *rounds(1), submit("y", 3, 1, priority=0), submit("z", 1, 1, priority=1))
    keeps("LIVE-10", long, full)
    keeps("LIVE-10", URGENT, CLASSES)
    facts = breaks("LIVE-10.inversion", URGENT, CLASSES, WaitsForASeat)
    assert (facts["request"], facts["worse"]) == ("u", ["x", "y"])


def test_an_admission_takes_the_place_of_a_lower_class_alone() -> None:
    keeps("PRE-4", URGENT, CLASSES)
    equal = (submit("x", 1, 6), submit("y", 1, 6), *rounds(1), submit("u", 1, 2), *rounds(1))
    assert not run(equal, CLASSES, make, "PRE-4").broken
    facts = breaks("PRE-4.for_admission", equal, CLASSES, TakesFromEquals)
    assert facts["admitted"] == "u"


# --- caps are declared reasons -----------------------------------------------------------------------------


class NobodyMay(Caps):
    """A client with anything running gets nothing more."""

    def client_may(self, job: Job) -> bool:
        usage = self.clients.get(job.request.client)
        return usage is None or not usage.seats


class OneOfEachClient(Scheduler):
    def __init__(self, settings: Settings, seed: int = 0, *, record: bool = True) -> None:
        super().__init__(settings, seed, record=record)
        queue = self.state.queue
        assert isinstance(queue, SharedQueue)
        queue.caps = queue.members.caps = NobodyMay(settings, queue.bill.due)


CAPS: list[dict[str, Any]] = [
    {"policy": "vtc", "client_seats": 1},
    {"policy": "vtc", "client_resident_tokens": 7},
    {"policy": "drr", "client_committed_cost": 12},
    {"policy": "lanes", "lanes": SLICES},
    {"policy": "fcfs", "resident_tokens": 8},
    {"policy": "fcfs", "prefilling_requests": 1},
    {"policy": "fcfs", "reserve": "peak"},
    {"policy": "sjf", "adapter_slots": 1},
]


@pytest.mark.parametrize("changes", CAPS)
def test_who_keeps_caps_is_not_blamed_for_what_is_idle(changes: dict[str, Any]) -> None:
    settings = evolve(Settings(blocks=20, block_size=1, seats=4, token_budget=4), **changes)
    ops = tuple(
        asks(
            submit(f"{client}{n}", 2, 3, client=client),
            lane=client,
            adapter=client if "adapter_slots" in changes else None,
        )
        for n in range(3)
        for client in "ab"
    )
    driver = run(ops, settings, make, "LIVE-1 LIVE-7 LIVE-8 LIVE-11 LANE-4")
    assert not driver.broken, str(driver.broken[0])


def test_a_cap_that_is_not_reached_is_no_reason() -> None:
    settings = Settings(blocks=20, block_size=1, seats=4, token_budget=8, policy="vtc", client_seats=3)
    ops = (*of("a", ("a0", 2, 3), ("a1", 2, 3), client="A"), *rounds(2))
    breaks("LIVE-8.idle", ops, settings, OneOfEachClient)


# --- how prefill and decode share a step --------------------------------------------------------------------


MIX = Settings(blocks=64, block_size=1, seats=4, token_budget=4)
STREAM = (submit("stream", 1, 9), *rounds(1), submit("long", 16, 1), *rounds(8))


def test_no_decode_stalls_behind_a_prompt() -> None:
    keeps("STEP-9", STREAM, evolve(MIX, chunk_tokens=1))
    facts = breaks("STEP-9.stalled", STREAM, MIX, PrefillFirst)
    assert facts["request"] == "stream"


def test_prefill_alone_ends_some_time() -> None:
    """The prompt takes five steps: one beside the stream, when it is admitted, and then it is alone."""
    keeps("STEP-10", STREAM, evolve(MIX, chunk_tokens=1))
    facts = breaks("STEP-10.alone", STREAM, MIX, PrefillFirstForever)
    assert (facts["steps"], facts["most"]) == (3, 2)


def test_one_prompt_leaves_room_for_another() -> None:
    settings = evolve(MIX, chunk_tokens=2)
    ops = (submit("long", 9, 1), submit("short", 2, 1))
    keeps("STEP-12", ops, settings)
    facts = breaks("STEP-12.share", ops, settings, TakesItAll)
    assert (facts["request"], facts["tokens"], facts["most"]) == ("long", 4, 2)


def test_alone_a_prompt_may_have_it_all() -> None:
    assert not run((submit("long", 9, 1),), evolve(MIX, chunk_tokens=2), TakesItAll, "STEP-12").broken


def test_so_many_prompts_are_in_prefill_at_once() -> None:
    settings = evolve(MIX, prefilling_requests=1, token_budget=16)
    ops = (submit("a", 2, 3), submit("b", 2, 3), cancel("a"))
    keeps("STEP-15", ops, settings)
    facts = breaks("STEP-15.prompts", (*ops[:2], *rounds(2)), settings, LetsThemIn)
    assert facts["prompts"] == ["a", "b"]
