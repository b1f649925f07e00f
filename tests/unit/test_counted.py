"""Decisions on counts alone: what a run leaves behind is the same, and so is what counts whenever somebody comes."""

import os
from collections.abc import Sequence
from itertools import count
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from schedspec import optimized
from schedspec.optimized.calm import Calm
from schedspec.optimized.counted import Counted, Course
from schedspec.optimized.scheduler import Scheduler
from schedspec.reference import make
from schedspec.reference.simulation import Simulation, SimulationError
from schedspec.spec.vocabulary import Policy, Request, Settings
from schedspec.spec.workloads import Incoming, Patience

from .simulated import MS, PerToken, Watched, as_bytes, incoming, poisson, run, with_priorities

EXAMPLES = int(os.environ.get("COUNTED_EXAMPLES", "80"))
MOST_TURNS = 20_000
POLICIES: tuple[Policy, ...] = ("fcfs", "priority", "edf", "sjf", "srpt", "aging", "mlfq")


class Seen(Watched):
    """A subject of which it is noted, whenever somebody comes, how many run and wait, and how much is free."""

    def look(self) -> object:
        return self.counts()

    def counts(self) -> Sequence[int]:
        subject = self.subject
        if isinstance(subject, Counted):
            running = len(subject.running) + (subject.cut is not None)
            return running, subject.queue.size, subject.free, subject.steps
        shown = subject.observe().counters
        steps = subject.state.step if hasattr(subject, "state") else subject.steps
        return shown["running"], shown["waiting"], shown["free_blocks"], steps


def outcome(subject: Any, work: Sequence[Incoming]) -> object:
    """What is left behind, whatever was seen on the way, and what is there at the end; or how it broke."""
    seen = Seen(subject)
    simulation, turns = Simulation(seen, PerToken()), count()  # type: ignore[arg-type]

    def goes_on(requests: int) -> None:
        if next(turns) == MOST_TURNS:
            raise SimulationError("it goes on for ever")

    try:
        log = simulation.run(work, goes_on)
    except (IndexError, KeyError, StopIteration, SimulationError) as broken:
        return type(broken)
    records = [(r.id, r.end, r.refused, r.preemptions, list(r.token_ns)) for r in log.records.values()]
    return as_bytes(log), records, seen.seen, seen.counts()


@st.composite
def worlds(draw: st.DrawFn) -> tuple[Settings, list[Incoming]]:
    """Pools that are too small, prompts that are cut, and clients that leave at any time."""
    size = draw(st.sampled_from([1, 2, 3, 4, 16]))
    seats = draw(st.integers(1, 6))
    plain = Settings(
        blocks=-(-90 // size) + draw(st.integers(0, 20)),
        block_size=size,
        seats=seats,
        token_budget=seats + draw(st.sampled_from([0, 1, 7, 60])),
        watermark_blocks=draw(st.sampled_from([0, 0, 3])),
        policy=draw(st.sampled_from(POLICIES)),
        reserve=draw(st.sampled_from(["on_demand", "on_demand", "known", "declared"])),
        at_blocked_head=draw(st.sampled_from(["break", "skip"])),
        chunked_prefill=draw(st.sampled_from([True, True, False])),
        max_overtaken=draw(st.integers(0, 2)),
        resident_tokens=draw(st.sampled_from([0, 0, 100])),
        prefilling_requests=draw(st.sampled_from([0, 0, 1, 2])),
        quantum=draw(st.sampled_from([4, 16])),
    )
    rate, seed = draw(st.sampled_from([2.0, 10.0, 60.0])), draw(st.integers(0, 999))
    work = with_priorities(poisson(seed, draw(st.integers(1, 14)), rate, 24, 60), seed)
    leaves = st.none() | st.integers(1, 900).map(lambda ms: ms * MS)
    for place, one in enumerate(work):
        patience = None if draw(st.booleans()) else Patience(first_token_ns=40 * MS, retries=1, retry_ns=30 * MS)
        work[place] = evolve(one, cancel_after_ns=draw(leaves), patience=patience)
    return plain, work


@settings(max_examples=EXAMPLES, deadline=None, derandomize=True)
@given(worlds())
def test_counts_decide_what_blocks_and_the_reference_decide(world: tuple[Settings, list[Incoming]]) -> None:
    plain, work = world
    counted = Scheduler(plain).in_counts()
    assert counted is not None
    assert outcome(counted, work) == outcome(make(plain, 0), work)
    assert counted.free == plain.blocks
    assert counted.crossing == [0] * plain.block_size


def test_a_simulation_takes_the_counts_by_itself_where_there_are_some() -> None:
    work = poisson(1, 30, 20.0, 24, 60)
    plain = Settings(blocks=40, block_size=4, seats=6, token_budget=16)
    simulation = Simulation(optimized.make(plain, 0), PerToken())
    assert isinstance(simulation.subject, Counted)
    assert as_bytes(simulation.run(work)) == as_bytes(run(make, plain, work))
    shared = evolve(plain, policy="vtc")
    others = [shared, evolve(plain, chunk_tokens=4), evolve(plain, victim="lowest_priority"), evolve(plain, seats=17)]
    for other in others:
        assert isinstance(Simulation(optimized.make(other, 0), PerToken()).subject, Scheduler)


# --- planted faults ----------------------------------------------------------------------------------------------


class KeepsAnEdge(Counted):
    """Who leaves is still counted among those who cross an edge."""

    def _stops(self, course: Course) -> Any:
        course.is_counted = False
        return super()._stops(course)


class CountsTooEarly(Counted):
    """Who has blocks for longer crosses an edge all the same."""

    def _decodes(self, job: Any, held: int) -> None:
        super()._decodes(job, held)
        course = self.running[job.request.id]
        if not course.is_counted:
            self._count(course)


class ForgetsBlocks(Counted):
    """What is taken at edges is not given back."""

    def _stops(self, course: Course) -> Any:
        course.edge = self.clock
        return super()._stops(course)


class StaysClosed(Counted):
    """Who did not fit stands for whoever comes later."""

    def submit(self, request: Request, now_ns: int) -> Any:
        was_closed = self.is_closed
        receipt = super().submit(request, now_ns)
        self.is_closed = was_closed
        return receipt


class AdmitsAfterVictims(Counted):
    """Others enter in a step that has preempted somebody."""

    def step_calm(self, now_ns: int) -> Any:
        deltas = self._make_room()
        told = super().step_calm(now_ns)
        return Calm(told.entries, [*deltas, *told.deltas]) if isinstance(told, Calm) else told


class SparesTheNewest(Counted):
    """The oldest makes room."""

    def _preempt(self) -> Any:
        return self._stops(next(iter(self.running.values()))) if self.running else super()._preempt()


class OutlivesItsLength(Counted):
    """Ends by length are seen a step late."""

    def _decodes(self, job: Any, held: int) -> None:
        super()._decodes(job, held)
        self.running[job.request.id].end += 1
        self._ends[:] = sorted((course.end, number, course) for _, number, course in self._ends)


FAULTS = [KeepsAnEdge, CountsTooEarly, ForgetsBlocks, StaysClosed, AdmitsAfterVictims, SparesTheNewest]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_shows(fault: type[Counted]) -> None:
    plain = Settings(blocks=40, block_size=4, seats=6, token_budget=16)
    tight = evolve(plain, reserve="declared", at_blocked_head="skip")
    small = incoming("small", 450 * MS, 2, 2)
    long = [incoming(f"r{n}", n * 100 * MS, 5 + n, 60 + 7 * n, declared=100) for n in range(5)]
    worlds = [(plain, poisson(3, 30, 40, 24, 60)), (tight, sorted([*long, small], key=lambda one: one.now_ns))]
    assert [outcome(fault(s), work) for s, work in worlds] != [outcome(Counted(s), work) for s, work in worlds]


def test_ends_by_length_are_seen_at_once() -> None:
    """The simulation says when a model stops, and that is at its length at the latest: so the fault shows alone."""
    plain = Settings(blocks=40, block_size=4, seats=6, token_budget=16)
    for kind, ends in ((Counted, 3), (OutlivesItsLength, 4)):
        subject = kind(plain)
        subject.submit(Request(id="a", prompt_ids=(1, 2), max_output_tokens=3), 0)
        for step in range(1, 5):
            subject.step_calm(0)
            deltas = subject.complete_calm((), 0)
            if deltas:
                assert (step, list(deltas)) == (ends, [("finished", "a", "length")])
                break
        else:
            raise AssertionError("it never ended")
