"""The simulation: its clock, what it logs, and that skipping ahead changes nothing."""

import json
from itertools import pairwise
from math import sqrt
from random import Random

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from schedspec import optimized
from schedspec.optimized.calendar import Calendar
from schedspec.optimized.calm import Calm
from schedspec.optimized.scheduler import Scheduler as Optimized
from schedspec.reference import make
from schedspec.reference.simulation import Batch, Log, Objective, Record, Shares, Simulation, SimulationError, metrics
from schedspec.reference.simulation.metrics import service
from schedspec.reference.simulation.record import Timeline
from schedspec.reference.simulation.samples import distribution
from schedspec.spec.vocabulary import NS_PER_S, Plan, Policy, Settings
from schedspec.spec.workloads import Incoming

from .simulated import MS, Constant, PerToken, Watched, as_bytes, incoming, poisson, run, with_priorities

ROOMY = Settings(blocks=512, seats=16, token_budget=256)


# --- the clock ---------------------------------------------------------------------------------------------


def test_one_request_by_hand() -> None:
    """Comes at 3 ms, two chunks of a prompt, two more outputs; each step takes 10 ms."""
    plain = Settings(blocks=8, token_budget=4)
    log = run(make, plain, [incoming("a", 3 * MS, 6, 3)], Constant())
    record = log.records["a"]
    assert list(record.token_ns) == [23 * MS, 33 * MS, 43 * MS]
    assert (record.admitted_ns, record.ended_ns, record.end, record.queue_ns) == (3 * MS, 43 * MS, "finished", 0)
    assert (log.steps, log.run_tokens, log.busy_ns) == (4, 8, 40 * MS)
    shown = metrics(log)
    assert shown["ttft_ns"] == {
        "count": 1,
        "mean": 20 * MS,
        "p50": 20 * MS,
        "p95": 20 * MS,
        "p99": 20 * MS,
        "max": 20 * MS,
    }
    assert shown["tpot_ns"]["p50"] == shown["itl_ns"]["max"] == 10 * MS
    assert shown["tokens"]["useful"] == shown["tokens"]["run"] == 8


def test_who_comes_during_a_step_waits_for_its_end() -> None:
    log = run(make, ROOMY, [incoming("a", 0, 4, 2), incoming("b", 4 * MS, 4, 1)], Constant())
    b = log.records["b"]
    assert (b.admitted_ns, list(b.token_ns), b.queue_ns) == (10 * MS, [20 * MS], 6 * MS)


def test_a_second_step_in_flight_hides_the_time_of_planning() -> None:
    """Alone, planning and running add up; with overlap the device never waits for a plan after the first."""
    work = [incoming("a", 0, 4, 5)]
    ends = []
    for depth in (1, 2):
        plain = Settings(blocks=8, overlap_depth=depth)
        ends.append(run(make, plain, work, Constant(), host_ns=3 * MS).records["a"].ended_ns)
    assert ends == [5 * (3 + 10) * MS, 3 * MS + 5 * 10 * MS]


def test_a_cancel_comes_when_it_comes() -> None:
    leaves = evolve(incoming("a", 0, 4, 9), cancel_after_ns=25 * MS)
    log = run(make, ROOMY, [leaves, incoming("b", 0, 4, 9)], Constant())
    a = log.records["a"]
    assert (a.end, a.ended_ns, len(a.token_ns)) == ("cancelled", 25 * MS, 2)
    tokens = metrics(log)["tokens"]
    assert tokens["wasted"] == a.run_tokens == 4 + 2
    assert metrics(log)["finished"] == 1


def test_who_is_too_large_is_refused_and_the_rest_goes_on() -> None:
    log = run(make, Settings(blocks=2, block_size=4), [incoming("big", 0, 40, 1), incoming("a", 0, 4, 2)])
    assert log.records["big"].refused == "kv_blocks"
    assert (metrics(log)["requests"], metrics(log)["finished"], metrics(log)["refused"]) == (2, 1, 1)


def test_a_scheduler_that_does_nothing_is_noticed() -> None:
    class Idle(type(make(ROOMY, 0))):  # type: ignore[misc]
        def step(self, now_ns: int) -> Plan:
            return Plan(step=1)

    with pytest.raises(SimulationError, match="1 requests are unfinished, but 1001 steps"):
        run(lambda plain, seed: Idle(plain), ROOMY, [incoming("a", 0, 4, 2)])


def test_a_name_that_comes_twice_is_one_sentence() -> None:
    with pytest.raises(SimulationError, match="two requests of the name 'a'"):
        run(make, ROOMY, [incoming("a", 0, 4, 2), incoming("a", 1, 4, 2)])


def test_a_preemption_repeats_work_and_says_so() -> None:
    tight = Settings(blocks=4, block_size=4, seats=4, token_budget=64)
    log = run(make, tight, [incoming("a", 0, 6, 8), incoming("b", 0, 6, 8)])
    b = log.records["b"]
    assert b.preemptions >= 1
    assert b.repeated_tokens > 0
    assert b.queue_ns > 0
    tokens = metrics(log)["tokens"]
    assert tokens["useful"] == 2 * (6 + 8 - 1)
    assert tokens["wasted"] == tokens["repeated"] == b.repeated_tokens


@pytest.mark.parametrize("depth", [1, 2])
def test_a_seed_gives_the_same_bytes(depth: int) -> None:
    plain = Settings(blocks=24, block_size=4, seats=4, token_budget=32, overlap_depth=depth)
    first, again = (as_bytes(run(make, plain, poisson(3, 40, 60, 20, 20, clients=3))) for _ in range(2))
    assert first == again
    assert first != as_bytes(run(make, plain, poisson(4, 40, 60, 20, 20, clients=3)))


# --- what it is to be measured -------------------------------------------------------------------------------


def test_percentiles_are_nearest_rank() -> None:
    assert distribution(range(1, 201)) == {"count": 200, "mean": 100, "p50": 100, "p95": 190, "p99": 198, "max": 200}
    assert distribution([]) is None


def test_a_timeline_is_split_at_its_windows() -> None:
    line = Timeline(10)
    line.add(5, 25, 3)
    line.add(25, 30, 1)
    assert (line.integrals, line.maxima) == ([15, 30, 20], [3, 3, 3])


def served(client: str, arrived_s: int, prompt: int, outputs_s: list[float]) -> Record:
    record = Record(f"{client}{arrived_s}", client, "default", arrived_s * NS_PER_S, prompt, len(outputs_s))
    record.token_ns.extend(int(second * NS_PER_S) for second in outputs_s)
    return record


@pytest.mark.parametrize("gap", [0, 2])
@pytest.mark.parametrize("begin", [0, 3, 12, 25])
@pytest.mark.parametrize("lengths", [(4,), (3, 3, 3), (5, 1, 4, 7, 30)])
def test_steps_in_one_go_fill_the_windows_as_one_by_one(gap: int, begin: int, lengths: tuple[int, ...]) -> None:
    one, other = Timeline(10), Timeline(10)
    for line in (one, other):
        line.add(0, begin, 5)
    ends = [begin + (gap + 1) * (n + 1) + sum(lengths[: n + 1]) for n in range(len(lengths))]
    one.add_steps(begin, ends, 7, 2, gap)
    for number, (start, end) in enumerate(zip([begin, *ends], ends, strict=False)):
        other.add(start + gap, end, 7 + 2 * (number + 1))
    assert (one.integrals, one.maxima) == (other.integrals, other.maxima)


def test_service_is_compared_as_vtc_does() -> None:
    """Windows of 4 s, a new one each 2 s.  A gets 10 + 2 in the first half, then nothing; B asks for 20 + 2, and gets
    it in the second half; C asks for nothing, and is owed nothing."""
    records = [served("A", 0, 10, [1]), served("B", 0, 20, [3]), served("C", 4, 1, [4.5])]
    shown = service(records, Shares(window_ns=4 * NS_PER_S))
    assert shown["served"] == {"A": [12, 0, 0], "B": [0, 22, 0], "C": [0, 0, 3]}
    # The one whole window before the last arrival: A got 12 of 12, B 22 of 22, C 0 of 0.
    assert shown["difference_per_s"] == {"count": 1, "max": 0.0, "mean": 0.0, "variance": 0.0}


def test_who_asked_and_got_nothing_counts_in_the_difference() -> None:
    records = [served("A", 0, 40, [1]), served("B", 0, 100, [9]), served("A", 8, 1, [9])]
    shown = service(records, Shares(window_ns=4 * NS_PER_S))
    # Windows 0-4, 2-6, 4-8 s.  In the first A got 42, and B asked for 102 and got nothing: min(42, 102) in 4 s.
    assert shown["difference_per_s"] == {"count": 3, "max": 10.5, "mean": 3.5, "variance": 24.5}


def test_fair_sharing_shows_in_the_difference_of_service() -> None:
    """Two clients, one of which floods: VTC's difference is the smaller by far."""
    flood = [incoming(f"f{n}", n * 20 * MS, 32, 16, client="flood") for n in range(150)]
    calm = [incoming(f"c{n}", n * 60 * MS + 1, 32, 16, client="calm") for n in range(50)]
    work = sorted(flood + calm, key=lambda one: one.now_ns)
    means = {}
    for policy in ("fcfs", "vtc"):
        plain = Settings(blocks=64, seats=4, token_budget=64, policy=policy)
        log = run(make, plain, work, Constant())
        means[policy] = metrics(log, shares=Shares(window_ns=NS_PER_S))["service"]["difference_per_s"]["mean"]
    assert 2 * means["vtc"] < means["fcfs"]


def test_goodput_counts_those_who_got_both_promises() -> None:
    log = run(make, ROOMY, [incoming("a", 0, 4, 2), incoming("b", 4 * MS, 4, 1)], Constant())
    shown = metrics(log, Objective(ttft_ns=12 * MS, tpot_ns=10 * MS))
    assert shown["goodput"] == {"met": 1, "share": 0.5, "requests_per_s": 50.0}
    assert metrics(log, Objective(ttft_ns=16 * MS, tpot_ns=9 * MS))["goodput"]["met"] == 1


def test_groups_are_lanes_and_clients() -> None:
    shown = metrics(run(make, ROOMY, poisson(1, 12, 50, 8, 8, clients=3)))
    assert sum(group["requests"] for group in shown["clients"].values()) == shown["requests"] == 12
    assert sum(group["itl_ns"]["count"] for group in shown["clients"].values()) == shown["itl_ns"]["count"]
    assert list(shown["lanes"]) == ["default"]
    assert json.loads(json.dumps(shown)) == shown


# --- laws ------------------------------------------------------------------------------------------------------


class Counting:
    """How many requests there are, summed over time as a subject sees it."""

    def __init__(self, plain: Settings, seed: int) -> None:
        self.subject = make(plain, seed)
        self.live = self.since_ns = self.integral = 0

    def __getattr__(self, name: str) -> object:
        return getattr(self.subject, name)

    def passes(self, now_ns: int) -> None:
        self.integral += self.live * (now_ns - self.since_ns)
        self.since_ns = now_ns

    def submit(self, request, now_ns):  # type: ignore[no-untyped-def]
        self.passes(now_ns)
        self.live += 1
        return self.subject.submit(request, now_ns)

    def complete(self, outcome, now_ns):  # type: ignore[no-untyped-def]
        self.passes(now_ns)
        deltas = self.subject.complete(outcome, now_ns)
        self.live -= sum(delta[0] == "finished" for delta in deltas)
        return deltas


ONE_BY_ONE = Settings(blocks=4, seats=1, token_budget=16)


def markov(count: int, load: float, service_ns: int) -> list[Incoming]:
    """Poisson arrivals of requests of one step each."""
    dice, now, made = Random(f"M/D/1 {load}"), 0.0, []
    for number in range(count):
        now += dice.expovariate(load / service_ns)
        made.append(incoming(f"r{number}", int(now), 4, 1))
    return made


def test_littles_law_holds_exactly() -> None:
    """From empty to empty, the integral of how many there are is the sum of how long each was there."""
    subject = Counting(ONE_BY_ONE, 0)
    log = Simulation(subject, Constant()).run(markov(300, 0.7, 10 * MS))  # type: ignore[arg-type]
    stays = [record.ended_ns - record.arrived_ns for record in log.records.values() if record.ended_ns is not None]
    assert len(stays) == 300
    assert subject.integral == sum(stays)


def test_one_at_a_time_waits_as_lindley_says() -> None:
    work = markov(400, 0.8, 10 * MS)
    log = run(make, ONE_BY_ONE, work, Constant())
    wait = 0
    expected = [0]
    for before, after in pairwise(work):
        wait = max(0, wait + 10 * MS - (after.now_ns - before.now_ns))
        expected.append(wait)
    assert [record.queue_ns for record in log.records.values()] == expected


@pytest.mark.parametrize("load", [0.3, 0.6])
def test_the_mean_wait_is_that_of_m_d_1(load: float) -> None:
    """D + R D² / 2(1 - R D) to the first token.  Busy periods are independent, so that the ratio of their sums has a
    standard error that the run itself gives; 4.5 of them are exceeded once in 150,000 seeds."""
    service_ns = 10 * MS
    log = run(make, ONE_BY_ONE, markov(2_500, load, service_ns), Constant(service_ns))
    cycles: list[list[int]] = []
    for record in log.records.values():
        if record.queue_ns == 0:
            cycles.append([])
        cycles[-1].append(record.token_ns[0] - record.arrived_ns)
    expected = service_ns * (1 + load / (2 * (1 - load)))
    count = sum(map(len, cycles))
    mean = sum(map(sum, cycles)) / count
    error = sqrt(sum((sum(cycle) - mean * len(cycle)) ** 2 for cycle in cycles)) / count
    assert error < 0.05 * expected  # else it would prove nothing
    assert abs(mean - expected) < 4.5 * error


def test_a_prefill_stretches_everybodys_itl_and_chunks_bound_it() -> None:
    """Eight decode when a prompt of 1,000 tokens comes: the step with it is what all of them wait for."""
    cost = PerToken()
    longest = {}
    for chunk in (0, 100):
        plain = Settings(blocks=512, seats=16, token_budget=2_048, chunk_tokens=chunk)
        decoding = [incoming(f"r{n}", 0, 8, 40) for n in range(8)]
        log = run(make, plain, [*decoding, incoming("long", 100 * MS, 1_000, 1)], cost)
        gaps = [
            max(later - earlier for earlier, later in pairwise(log.records[one.request.id].token_ns))
            for one in decoding
        ]
        assert len(set(gaps)) == 1
        longest[chunk] = gaps[0]
    decode_ns = cost.step_ns(Batch(8, 8 * 48))
    assert cost.step_ns(Batch(8, 8 * 8, ((0, 1_000),))) <= longest[0] <= decode_ns + 1_000 * cost.token_ns
    assert longest[100] <= decode_ns + 100 * cost.token_ns < longest[0]


def test_memory_decides_how_many_run() -> None:
    """More seats do not help where the pool is full; more blocks do."""
    work = poisson(5, 60, 1_000, 30, 30)
    spans = {}
    for blocks, seats in ((24, 16), (24, 32), (48, 16)):
        plain = Settings(blocks=blocks, block_size=4, seats=seats, token_budget=256, reserve="declared")
        log = run(make, plain, work, Constant())
        spans[blocks, seats] = metrics(log)["engine"]["span_ns"]
        assert max(log.resident.maxima) <= blocks * 4
    assert spans[24, 16] == spans[24, 32]
    assert spans[48, 16] < 0.7 * spans[24, 16]


# --- skipping ahead ------------------------------------------------------------------------------------------

ONE_QUEUE: tuple[Policy, ...] = ("fcfs", "priority", "srpt")
SHARED: tuple[Policy, ...] = ("vtc", "lcf", "drr")


@st.composite
def worlds(draw: st.DrawFn) -> tuple[Settings, list[Incoming]]:
    """Small pools and seats, so that all ends of a calm stretch come: an edge, a full pool, a stop, an arrival."""
    policy: Policy = draw(st.sampled_from(ONE_QUEUE + SHARED))
    plain = Settings(
        blocks=draw(st.integers(10, 40)),
        block_size=draw(st.sampled_from([1, 2, 3, 4, 16])),
        seats=draw(st.integers(1, 6)),
        token_budget=draw(st.sampled_from([3, 6, 64])),
        watermark_blocks=draw(st.integers(0, 3)),
        policy=policy,
        reserve=draw(st.sampled_from(["on_demand", "declared"])),
        at_blocked_head=draw(st.sampled_from(["break", "skip"])),
        max_overtaken=0 if policy in SHARED else draw(st.integers(0, 2)),
    )
    rate = draw(st.sampled_from([2.0, 10.0, 60.0]))
    seed = draw(st.integers(0, 999))
    return plain, with_priorities(poisson(seed, draw(st.integers(1, 12)), rate, 20, 60, clients=3), seed)


def watched(factory, plain: Settings, work: list[Incoming], **options: object) -> tuple[Log, bytes, list[object]]:  # type: ignore[no-untyped-def]
    subject = Watched(factory(plain, 0))
    log = Simulation(subject, PerToken(), **options).run(work)  # type: ignore[arg-type]
    return log, as_bytes(log), [*subject.seen, subject.subject.observe()]


@settings(max_examples=60, deadline=None, derandomize=True)
@given(worlds())
def test_skipping_ahead_changes_nothing(world: tuple[Settings, list[Incoming]]) -> None:
    """Neither the metrics nor the state whenever somebody comes, blocks by number included; and both are what the
    reference has, which never skips."""
    plain, work = world
    _, skipped, states = watched(optimized.make, plain, work)
    slow, stepped, expected = watched(optimized.make, plain, work, fast_forward=False)
    _, by_the_reference, _ = watched(make, plain, work)
    assert slow.skipped_steps == 0
    assert skipped == stepped == by_the_reference == as_bytes(run(optimized.make, plain, work))
    assert states == expected


def long_decodes(blocks: int = 200, **more: object) -> tuple[Settings, list[Incoming]]:
    plain = Settings(blocks=blocks, block_size=4, seats=8, token_budget=64, **more)  # type: ignore[arg-type]
    return plain, [incoming(f"r{n}", n * 300 * MS, 5 + n, 100 + 7 * n) for n in range(6)]


def test_most_steps_of_long_decodes_are_skipped() -> None:
    plain, work = long_decodes()
    log, *_ = watched(optimized.make, plain, work)
    assert log.skipped_steps > 0.8 * log.steps


def test_steps_are_skipped_while_somebody_waits_for_blocks() -> None:
    plain, work = long_decodes(60, reserve="declared")
    log, shown, _ = watched(optimized.make, plain, work)
    assert max(record.queue_ns for record in log.records.values()) > 100 * MS
    assert log.skipped_steps > 0.5 * log.steps
    assert shown == watched(make, plain, work)[1]


def test_two_steps_in_flight_are_never_skipped() -> None:
    plain, work = long_decodes(overlap_depth=2)
    log = run(optimized.make, plain, work)
    assert log.skipped_steps == 0
    assert as_bytes(log) == as_bytes(run(make, plain, work))


class LetsNobodyIn(Optimized):
    """It goes on although somebody who waits would fit."""

    def is_shut(self, calendar: Calendar) -> bool:
        return True


class ForgetsArrivals(Optimized):
    """Who did not fit stands for whoever comes later."""

    def open_calendar(self) -> None:
        pass


class ForgetsEdges(Optimized):
    """No blocks for those who cross an edge."""

    def grow_by_one(self, rows):  # type: ignore[no-untyped-def]
        if self.record:
            super().grow_by_one(rows)


class GoesTooFar(Optimized):
    """It does a step more than it says."""

    def run_ahead(self, steps, stopping=()):  # type: ignore[no-untyped-def]
        done, deltas = super().run_ahead(steps + 1, stopping)
        return max(0, done - 1), deltas


class HidesWhoEnters(Optimized):
    """A step in which somebody enters is told as if nobody did."""

    def step_calm(self, now_ns):  # type: ignore[no-untyped-def]
        told = super().step_calm(now_ns)
        return told if isinstance(told, Plan) else Calm()


class HearsNoStops(Optimized):
    """Whose model stops goes on."""

    def complete_calm(self, stopping, now_ns):  # type: ignore[no-untyped-def]
        return super().complete_calm([], now_ns)

    def run_ahead(self, steps, stopping=()):  # type: ignore[no-untyped-def]
        return super().run_ahead(steps)


@pytest.mark.parametrize(
    "fault", [LetsNobodyIn, ForgetsArrivals, ForgetsEdges, GoesTooFar, HidesWhoEnters, HearsNoStops]
)
def test_a_planted_fault_of_skipping_shows(fault: type[Optimized]) -> None:
    shut = {"reserve": "declared", "at_blocked_head": "skip"}
    plain, work = long_decodes(60, **shut)
    small = incoming("small", 1_700 * MS, 2, 2)
    work = sorted([*work, small], key=lambda one: one.now_ns)
    roomy, others = long_decodes()
    worlds = [(plain, work), (roomy, others), (ROOMY, poisson(3, 20, 40, 20, 12))]  # the last stop before they must

    def outcome(kind: type[Optimized], world: tuple[Settings, list[Incoming]]) -> object:
        try:
            return watched(lambda plain, seed: kind(plain), *world)[1:]
        except (IndexError, KeyError, AssertionError, SimulationError, RuntimeError, ValueError) as broken:
            return type(broken)

    assert [outcome(fault, world) for world in worlds] != [outcome(Optimized, world) for world in worlds]


@pytest.mark.parametrize("until_ms", [0, 400, 1_234])
def test_a_run_that_stops_early_stops_at_the_same_step_with_skipping(until_ms: int) -> None:
    work = [incoming("a", 0, 4, 300), incoming("b", 50 * MS, 9, 400), incoming("c", 2_000 * MS, 5, 9)]
    logs = [
        run(optimized.make, ROOMY, work, until_ns=until_ms * MS, fast_forward=fast_forward)
        for fast_forward in (True, False)
    ]
    assert as_bytes(logs[0]) == as_bytes(logs[1])
    assert logs[0].skipped_steps > 0.8 * logs[0].steps - 1
