"""The optimized scheduler decides as the reference does, bit for bit; and these tests would notice if it did not."""

import importlib.util
import os
from random import Random

import hypothesis.strategies as st
import numpy as np
import pytest
from attrs import evolve
from click.testing import CliRunner
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from schedspec.cli import cli
from schedspec.conformance.features import of_feature
from schedspec.conformance.machine import small_settings, submissions
from schedspec.conformance.scenarios import Scenario, scenarios
from schedspec.conformance.script import COMPLETE, STEP, Op, Script, cancel, rounds, submit, with_deadline
from schedspec.optimized.admission import Admission
from schedspec.optimized.arrays import FEW_ROWS, Rows
from schedspec.optimized.batch import Batch, Growth
from schedspec.optimized.blocks import Blocks
from schedspec.optimized.clients import ClientQueue
from schedspec.optimized.ints import LARGEST, Bools, Ints
from schedspec.optimized.job import Job, Member
from schedspec.optimized.members import Group, Patience, Sharing
from schedspec.optimized.race import Race
from schedspec.optimized.scheduler import Scheduler
from schedspec.optimized.service import Counters
from schedspec.optimized.sharing import Vtc
from schedspec.spec.vocabulary import Delta, Outcome, Request, Settings, Unsupported

from .hostile import SMALL, overlapped, workload
from .lock_step import Pair, compare, drawn, first_difference, supported
from .test_hostile import POLICIES

WALKS = int(os.environ.get("LOCK_STEP_WALKS", "400"))
"""`LOCK_STEP_WALKS=10000 make test ARGS=tests/unit/test_optimized.py` compares more of them."""

PLAIN = Settings(blocks=64, block_size=4, seats=8, token_budget=64)


# --- equal -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", range(8))
def test_random_workloads_are_decided_alike(part: int) -> None:
    for seed in range(part, WALKS, 8):
        compare(drawn(seed))


@pytest.mark.parametrize("scenario", list(scenarios(0)), ids=lambda scenario: scenario.name)
def test_directed_scenarios_are_decided_alike(scenario: Scenario) -> None:
    script = scenario.script
    compare(evolve(script, settings=supported(script.settings)))


@pytest.mark.parametrize("kind", POLICIES)
def test_hostile_workloads_are_decided_alike(kind: str) -> None:
    settings = supported(evolve(SMALL, **POLICIES[kind]))
    compare(Script(settings, 1, tuple(workload(1, 60, overlapped(settings)))))


class LockStep(RuleBasedStateMachine):
    """The operations of the suite's own search, with results that come late or more than once."""

    pair: Pair
    submitted: int
    dice: Random

    @initialize(wanted=small_settings(), seed=st.integers(0, 2**32 - 1), calm_steps=st.integers(1, 2))
    def begin(self, wanted: Settings, seed: int, calm_steps: int) -> None:
        self.pair = Pair.of(supported(wanted), seed, calm_steps=calm_steps)
        self.submitted = 0
        self.dice = Random(seed)

    @rule(drawn=submissions(), count=st.integers(1, 4), longer=st.sampled_from((0, 0, 0, 9)))
    def submits(self, drawn: tuple[int | tuple[int, ...], int, int | None, int, str], count: int, longer: int) -> None:
        prompt, output, stop, priority, client = drawn
        for _ in range(count):
            self.submitted += 1
            op = submit(
                f"r{self.submitted}", prompt, output + longer, stop_after=stop, priority=priority, client=client
            )
            settings = self.pair.settings
            op = with_deadline(op) if settings.policy == "edf" else op
            self.pair.do(of_feature(self.dice, op, settings))

    @rule(which=st.integers(0, 5))
    def cancels(self, which: int) -> None:
        self.pair.do(cancel(f"r{self.submitted - which}"))

    @rule(count=st.integers(1, 3))
    def steps(self, count: int) -> None:
        for _ in range(count):
            self.pair.do(STEP)

    @rule(count=st.integers(1, 8), ahead=st.booleans())
    def goes_on(self, count: int, ahead: bool) -> None:
        for _ in range(count):
            self.pair.do(STEP)
            if ahead:
                self.pair.do(STEP)
            self.pair.do(COMPLETE)

    @rule(late=st.sampled_from((1, 1, 1, 2)))
    def completes(self, late: int) -> None:
        self.pair.do(Op("complete", back=late))

    @rule(back=st.integers(1, 2))
    def repeats(self, back: int) -> None:
        self.pair.do(Op("repeat", back=back))

    def teardown(self) -> None:
        if hasattr(self, "pair"):
            self.pair.drain()


def test_whatever_is_done_is_answered_alike() -> None:
    run_state_machine_as_test(
        LockStep,
        settings=hypothesis_settings(
            max_examples=60,
            stateful_step_count=25,
            derandomize=True,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.parametrize("requests", [1, FEW_ROWS, FEW_ROWS + 1, 2 * FEW_ROWS + 1])
@pytest.mark.parametrize("size", [1, 16])
def test_arrays_grow_with_what_runs(requests: int, size: int) -> None:
    settings = Settings(
        blocks=50 * requests // size + 8, block_size=size, seats=requests, token_budget=512, policy="vtc"
    )
    pair = Pair.of(settings, 0)
    pair.look_every = 8
    for number in range(requests):
        pair.do(submit(f"r{number}", 1 + number % 9, 40, client=f"c{number}"))
    for op in rounds(20):
        pair.do(op)
    assert len(pair.optimized.order) == requests
    assert pair.optimized.calendar is not None
    pair.drain()


@pytest.mark.parametrize("left", [-1, 0, 1])
def test_a_budget_of_almost_what_is_known(left: int) -> None:
    pair = Pair.of(evolve(PLAIN, token_budget=24 + left), 0)
    for number in range(6):
        pair.do(submit(f"r{number}", 4, 12))
    pair.drain()


@pytest.mark.parametrize("weight", [1 << 30, 1 << 59, 1 << 62, (1 << 63) - 1, 1 << 63, 1 << 70])
@pytest.mark.parametrize("name", ["output_weight", "input_weight", "square_weight", "product_weight"])
@pytest.mark.parametrize("clients", [1, 3])
def test_counters_beyond_machine_integers(name: str, weight: int, clients: int) -> None:
    pair = Pair.of(evolve(PLAIN, policy="vtc", **{name: weight}), 0)  # type: ignore[arg-type]
    for number in range(12):
        pair.do(submit(f"r{number}", 4, 20, client=f"c{number % clients}"))
    pair.drain()
    assert max(pair.optimized.queue.counters().values()) > weight


@pytest.mark.parametrize("name", ["token_budget", "chunk_tokens", "seats", "resident_tokens", "max_model_tokens"])
def test_settings_beyond_machine_integers(name: str) -> None:
    pair = Pair.of(evolve(PLAIN, **{name: 1 << 70}), 0)  # type: ignore[arg-type]
    for number in range(12):
        pair.do(submit(f"r{number}", 9, 20, priority=-(1 << 70) * number))
    pair.drain()


def test_a_calendar_outlives_who_comes_and_goes() -> None:
    """By length, by a stop, and all at once; admissions in between; fair and not."""
    for policy in ("fcfs", "vtc", "lanes"):
        pair = Pair.of(evolve(PLAIN, policy=policy, seats=5), 0)
        for number in range(40):
            stop = 3 if number % 5 == 0 else None
            pair.do(submit(f"r{number}", 1 + number % 7, 2 + number % 11, stop_after=stop, client=f"c{number % 3}"))
        for op in rounds(3):
            pair.do(op)
        calendar = pair.optimized.calendar
        assert calendar is not None
        for op in rounds(15):
            pair.do(op)
        assert pair.optimized.calendar is calendar
        assert pair.optimized.admissions > 15
        pair.drain()


@pytest.mark.parametrize("depth", [2, 3])
@pytest.mark.parametrize("how", ["stop", "length", "cancel", "admission", "edge"])
def test_what_happens_to_a_calendar_with_steps_in_flight(how: str, depth: int) -> None:
    """It ends, and results that were on their way count for who still runs."""
    settings = evolve(PLAIN, seats=4, overlap_depth=depth, policy="vtc", blocks=9 if how == "edge" else 64)
    pair = Pair.of(settings, 0)
    for number in range(3):
        stop = 20 if how == "stop" and number == 1 else None
        length = 20 if how == "length" and number == 1 else 40
        pair.do(submit(f"r{number}", 3, 9 if how == "edge" else length, stop_after=stop, client=f"c{number}"))
    stood = 0
    for step in range(60):
        if step == 15 and how == "cancel":
            pair.do(cancel("r1"))
        if step == 15 and how == "admission":
            pair.do(submit("late", 5, 9, client="c9"))
        pair.do(STEP)
        if len(pair.plans) >= depth:
            pair.do(COMPLETE)
        stood += pair.optimized.calendar is not None
    assert stood > (0 if how == "edge" else 10)
    pair.drain()


def test_a_calendar_lasts_while_nothing_changes() -> None:
    pair = Pair.of(PLAIN, 0)
    for number in range(3):
        pair.do(submit(f"r{number}", 5 + number, 50))
    for op in rounds(40):
        pair.do(op)
    calendar = pair.optimized.calendar
    assert calendar is not None
    assert calendar.steps > 30
    pair.drain()


@pytest.mark.parametrize("scale", [1, 1 << 31, 1 << 45])
@pytest.mark.parametrize("seed", range(100))
def test_the_scans_are_the_loops_on_any_rows(seed: int, scale: int) -> None:
    """Also on rows that no run of requests leads to: many behind the budget, tables longer than needed, sums far beyond
    32 bits."""
    dice = Random(seed)
    size, count = dice.choice((1, 2, 3, 16)), dice.randint(1, 12)
    settings = evolve(
        PLAIN,
        block_size=size,
        seats=16,
        token_budget=scale * dice.randint(1, 30) + dice.randint(0, 1),
        chunk_tokens=dice.choice((0, 0, 3 * scale)),
    )
    scheduler = Scheduler(settings)
    rows = scheduler.rows
    scheduler.order = np.array(dice.sample(range(FEW_ROWS), count), dtype=np.int64)
    scheduler.in_flight = {1: Batch(1)}
    for row in scheduler.order.tolist():
        rows.issued[row] = scale * dice.randint(0, 40) + dice.randint(0, 2)
        rows.left[row] = scale * dice.choice((0, 1, 1, 1, dice.randint(1, 20)))
        rows.samples_left[row], rows.held[row] = dice.randint(0, 2), -(-rows.issued[row] // size) + dice.randint(0, 1)
    budget, tokens, needs = settings.token_budget, [], []
    for row in scheduler.order.tolist():
        wanted = min(int(rows.left[row]), settings.chunk_tokens or LARGEST) if rows.samples_left[row] else 0
        tokens.append(min(wanted, budget))
        budget -= tokens[-1]
        needs.append(max(0, -(-int(rows.issued[row] + tokens[-1]) // size) - int(rows.held[row])))
    growth = scheduler.compose(scheduler.order)
    assert (growth.tokens.tolist(), growth.scheduled, growth.needed) == (tokens, sum(tokens), sum(needs))
    assert growth.start.tolist() == rows.issued[scheduler.order].tolist()
    shown = dict(zip(growth.growing.tolist(), growth.blocks.tolist(), strict=True))
    assert shown == {place: need for place, need in enumerate(needs) if need}
    held = rows.held[scheduler.order].tolist()
    edges = {sum(needs[:kept]) - sum(held[kept:]) + step for kept in range(count) for step in (-1, 0, 1)}
    for free in sorted(edge for edge in edges if 0 <= edge < sum(needs)):
        scheduler.blocks.free, kept = free, count
        while sum(needs[:kept]) > free + sum(held[kept:]):
            kept -= 1
        assert scheduler.kept(growth) == kept
        first = growth.first(kept)
        assert (first.needed, first.scheduled) == (sum(needs[:kept]), sum(tokens[:kept]))
        assert first.row.tolist() == scheduler.order[:kept].tolist()


def test_whoever_waits_again_is_as_patient_as_at_first() -> None:
    """A request that entered and was preempted: of its first spell an entry is left."""
    patience, job = Patience(3), Job.of(Request(id="a", prompt_ids=(1,), max_output_tokens=1), 1)
    patience.begins(job)
    assert not patience.ends(job)
    assert list(patience.admitted()) == []
    patience.begins(job)
    assert [list(patience.admitted()) for _ in range(3)] == [[], [], [job]]


@pytest.mark.parametrize("declared", [1, (1 << 16) + 1, (1 << 31) + 1, 1 << 40])
def test_who_is_seated_alone_is_seated_like_one_of_many(declared: int) -> None:
    """A row of one is written in another way than rows of several."""
    asked = [Request(id=f"r{n}", prompt_ids=range(3 + n), max_output_tokens=declared + n) for n in range(2)]
    together, alone = Rows.of(2), Rows.of(2)
    for rows, groups in ((together, [asked]), (alone, [asked[:1], asked[1:]])):
        for group in groups:
            jobs = [Job.of(request, 1) for request in group]
            rows.seat(jobs, np.array([2 + job.prompt for job in jobs]))
    assert together.columns.tolist() == alone.columns.tolist()
    assert together.samples_left.tolist() == [declared, declared + 1]


@pytest.mark.parametrize("seed", range(60))
def test_counters_add_up_like_integers(seed: int) -> None:
    """Up to what is added at most before they are emptied: by entries, and by a clock that is joined and left."""
    dice = Random(seed)
    counters, expected = Counters(), [0] * dice.choice((1, 3, 40))
    ticking: list[tuple[int, int]] = []
    for _ in expected:
        counters.new()
    for _ in range(80):
        most = dice.choice((1, 1 << 31, 1 << 32, 1 << 56, 1 << 61, LARGEST - 1))
        members = [dice.randrange(len(expected)) for _ in range(dice.randint(1, min(6, LARGEST // most)))]
        amounts = [dice.choice((most, dice.randint(0, most))) for _ in members]
        some = list(zip(members, amounts, strict=True))
        what = dice.choice(("add", "join", "tick", "tick", "leave", "stop"))
        if what == "add":
            counters.add_each(np.array(members), np.array(amounts), most)
            for member, amount in some:
                expected[member] += amount
        elif what == "join" and fits([*ticking, *some], counters.ticks + 1):
            counters.join(np.array(members), np.array(amounts), max(amounts))
            ticking += some
        elif what == "tick" and fits(ticking, counters.ticks + 1):
            counters.ticks += 1
            for member, amount in ticking:
                expected[member] += amount
        elif what == "leave" and ticking:
            leaving = ticking[: dice.randint(1, len(ticking))]
            del ticking[: len(leaving)]
            members, amounts = map(list, zip(*leaving, strict=True))
            counters.leave(np.array(members), np.array(amounts), max(amounts))
        elif what == "stop":
            counters.stop()
            ticking = []
        assert [counters.of(member) for member in range(len(expected))] == expected
        assert max(map(abs, counters.since.tolist())) <= counters.bound < 2 * LARGEST


def fits(ticking: list[tuple[int, int]], ticks: int) -> bool:
    """What whoever starts a clock sees to."""
    return max((rate for _, rate in ticking), default=0) * len(ticking) * ticks < LARGEST


# --- planted faults ----------------------------------------------------------------------------------------------


class LateAtTheEdge(Scheduler):
    """A block is taken one position after the edge."""

    def begin_calendar(self) -> None:
        super().begin_calendar()
        if self.calendar is not None:
            self.calendar.edges[:] += 1


class OneTooMany(Scheduler):
    """Whoever just fills its last block gets another one."""

    def compose(self, order: Ints) -> Growth:
        growth = super().compose(order)
        full = growth.start + growth.tokens == self.rows.held[order] * self.settings.block_size
        growing = np.flatnonzero(full & (growth.tokens > 0))
        if len(growth.growing) or len(growing) != 1 or not self.blocks.free:
            return growth
        return evolve(growth, growing=growing, blocks=np.ones(1, dtype=np.int64), needed=1)


class OneVictimMore(Scheduler):
    """`<` for `<=`: those who just fit do not."""

    def kept(self, growth: Growth) -> int:
        held = self.rows.held[growth.row]
        needs = np.zeros_like(held)
        needs[growth.growing] = growth.blocks
        return int(np.searchsorted(np.cumsum(needs + held), self.blocks.free + held.sum(), side="left"))


class NeedsBeforeTheBudget(Scheduler):
    """Blocks are counted for tokens that the budget leaves out."""

    def compose(self, order: Ints) -> Growth:
        growth = super().compose(order)
        asked = self.rows.issued[order] + self.rows.left[order] - self.rows.held[order] * self.settings.block_size
        growing = np.flatnonzero((asked > 0) & (growth.tokens == 0))
        if not len(growing) or len(growth.growing):
            return growth
        return evolve(growth, needed=growth.needed + len(growing))


class WrongTie(Scheduler):
    """Among equal counters, or keys, who came last."""

    def __init__(self, settings: Settings, seed: int = 0) -> None:
        super().__init__(settings, seed)
        plain = self.queue.push

        def push(job: Job) -> None:
            job.arrival = -job.arrival
            plain(job)

        self.queue.push = push  # type: ignore[method-assign]


class LastSeenFirst(Race):
    def first(self) -> Member | None:
        first = super().first()
        if first is None:
            return None
        members = [member for _, _, member in self.heap]
        return max((m for m in members if self.rank(m) == self.rank(first)), key=lambda m: m.number)


class WrongTieOfClients(Scheduler):
    """Among equal counters the client that was seen last."""

    def __init__(self, settings: Settings, seed: int = 0) -> None:
        super().__init__(settings, seed)
        if isinstance(self.queue, ClientQueue):
            self.queue.group.race = LastSeenFirst(self.queue.group.rank)


class Int32(Scheduler):
    """Service of clients is added up in 32 bits."""

    def complete(self, outcome: Outcome, now_ns: int) -> list[Delta]:
        deltas = super().complete(outcome, now_ns)
        if isinstance(self.queue, ClientQueue):
            service = self.queue.of_clients
            service.since = service.since.astype(np.int32).astype(np.int64)
        return list(deltas)


class StaleCalendar(Scheduler):
    """A cancel leaves the calendar as it was."""

    def cancel(self, request_id: str, now_ns: int) -> list[Delta]:
        kept, self.calendar = self.calendar, None
        deltas = super().cancel(request_id, now_ns)
        self.calendar = kept
        return list(deltas)


class StaleRow(Scheduler):
    """A result of somebody who left its row counts for who has it now."""

    def served_by(self, batch: Batch) -> tuple[Bools | None, Ints]:
        rows = self.rows
        standing = rows.taken[batch.row]
        served = batch.row[standing & (batch.samples > 0)]
        return (None if standing.all() else standing), served


class DeepestFirst(Blocks):
    def take(self, count: int) -> Ints:
        return super().take(count)[::-1]


class BlocksTheOtherWay(Scheduler):
    """Of the blocks on top of the stack the deepest first."""

    def __init__(self, settings: Settings, seed: int = 0) -> None:
        super().__init__(settings, seed)
        self.blocks = DeepestFirst(self.blocks.stack, self.blocks.free, self.blocks.tables)


class VictimAtTheBack(Scheduler):
    """A preempted request waits behind everybody."""

    def release(self, victims: Ints, growth: Growth) -> None:
        for job in self.rows.jobs_at(victims):
            self.arrivals += 1
            job.arrival = self.arrivals
        super().release(victims, growth)


class WatermarkAlways(Scheduler):
    """Nobody may enter an empty machine that would go below the watermark."""

    def admit(self, tokens: int, blocks: int) -> list[Admission]:
        alone = not len(self.order)
        return super().admit(tokens, blocks - (self.settings.watermark_blocks if alone else 0))


class PastItsLength(Scheduler):
    """The calendar goes on for a step after somebody's last."""

    def begin_calendar(self) -> None:
        super().begin_calendar()
        if self.calendar is not None:
            self.calendar.next_end += 1


class Unlifted(Scheduler):
    """A client that comes back is lifted to nothing."""

    def __init__(self, settings: Settings, seed: int = 0) -> None:
        super().__init__(settings, seed)
        if isinstance(self.queue, ClientQueue):
            self.queue.group.sharing = Sharing()


class NeverAged(Scheduler):
    """Nobody is preferred for its long wait."""

    def __init__(self, settings: Settings, seed: int = 0) -> None:
        super().__init__(settings, seed)
        if isinstance(self.queue, ClientQueue):
            self.queue.group.credit = 0


class UnrefundingVtc(Vtc):
    def refund(self, group: Group, member: Member, amount: int) -> None:
        pass


class UnrefundedPredictions(Scheduler):
    """What was charged for outputs that did not come stays charged."""

    def __init__(self, settings: Settings, seed: int = 0) -> None:
        super().__init__(settings, seed)
        if isinstance(self.queue, ClientQueue) and settings.policy == "vtc":
            self.queue.group.sharing = UnrefundingVtc()


FAULTS: tuple[type[Scheduler], ...] = (
    LateAtTheEdge,
    OneTooMany,
    OneVictimMore,
    NeedsBeforeTheBudget,
    WrongTie,
    WrongTieOfClients,
    Int32,
    StaleCalendar,
    StaleRow,
    BlocksTheOtherWay,
    VictimAtTheBack,
    WatermarkAlways,
    PastItsLength,
    Unlifted,
    NeverAged,
    UnrefundedPredictions,
)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_shows(fault: type[Scheduler]) -> None:
    assert first_difference(fault, range(200)) is not None


@pytest.mark.parametrize("seed", [4026, 9618])
def test_a_last_token_that_comes_before_an_earlier_one_ends_nobody(seed: int) -> None:
    """With two steps in flight, the earlier one of before the calendar began."""
    compare(drawn(seed))


@pytest.mark.parametrize("seed", [486, 1026, 2839])
def test_workloads_that_tell_a_small_change_from_the_original(seed: int) -> None:
    """Ranks of a calendar that began long ago; the least counter while two are out of line; a job that is out of line
    when it has seen enough.  Each was noticed by none of the others (`tests/mutants/small_changes.py`)."""
    compare(drawn(seed))


# --- bad input ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("prefix_caching", True),
        ("policy", "lpm"),
        ("policy", "dlpm"),
        ("reserve", "peak"),
        ("adapter_slots", 1),
        ("block_size", 1 << 60),
    ],
)
def test_what_it_does_not_honour_it_refuses_by_name(setting: str, value: object) -> None:
    with pytest.raises(Unsupported, match=f"setting {setting}={value!r} is not supported"):
        Scheduler(evolve(Settings(), **{setting: value}))  # type: ignore[arg-type]


def test_a_pool_of_no_blocks_is_refused_before_it_is_made() -> None:
    with pytest.raises(ValueError, match="blocks is 0, but must be an integer of at least 1"):
        Settings(blocks=0)


@pytest.mark.parametrize("size", [("prompt_ids", (0,) * 300), ("max_output_tokens", 1 << 63)])
def test_who_is_longer_than_the_pool_is_refused_at_the_door(size: tuple[str, object]) -> None:
    request = Request(**({"id": "a", "prompt_ids": (1,), "max_output_tokens": 2} | dict([size])))  # type: ignore[arg-type]
    settings = evolve(PLAIN, max_output_tokens=1 << 70, max_model_tokens=1 << 70)
    receipt = Scheduler(settings).submit(request, 0)
    assert (receipt.verdict, receipt.reason, receipt.limit) == ("refused", "kv_blocks", PLAIN.blocks)


@pytest.mark.parametrize("stops", [0, 1, 3])
def test_stops_of_another_number_than_sampled_are_refused_in_a_sentence(stops: int) -> None:
    scheduler = Scheduler(PLAIN)
    for name in "ab":
        scheduler.submit(Request(id=name, prompt_ids=(1, 2), max_output_tokens=2), 0)
    batch = scheduler.step_arrays()
    with pytest.raises(ValueError, match=f"stop has {stops} entries, but 2 entries of step 1 sampled: give one for"):
        scheduler.complete_arrays(batch, np.zeros(stops, dtype=np.bool_))
    assert not len(scheduler.complete_arrays(batch, np.zeros(2, dtype=np.bool_)))


def test_a_result_without_a_token_is_no_result() -> None:
    scheduler = Scheduler(PLAIN)
    assert scheduler.submit(Request(id="a", prompt_ids=(1, 2), max_output_tokens=2), 0).verdict == "accepted"
    scheduler.step(0)
    with pytest.raises(KeyError, match="a"):
        scheduler.complete(Outcome(step=1), 0)


def test_results_of_no_step_change_nothing() -> None:
    scheduler = Scheduler(PLAIN)
    assert scheduler.complete(Outcome(step=7, request=["a"], token=[1], stop=[True]), 0) == []
    assert not len(scheduler.complete_arrays(Batch(7), np.zeros(0, dtype=np.bool_)))


def test_without_numpy_one_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    result = CliRunner().invoke(cli, ["check", "optimized", "--depth", "smoke", "--workload", "none"])
    assert result.exit_code == 2
    assert "the optimized scheduler needs numpy: pip install 'schedspec[optimized]'" in result.output
    assert "Traceback" not in result.output
