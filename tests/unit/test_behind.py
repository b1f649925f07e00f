"""What breaks behind a broken rule is found, shortened by itself, and told in the order of what it tells."""

from collections.abc import Sequence

from attrs import evolve

from schedspec.conformance.check import Check, Depth
from schedspec.conformance.findings import Failure, telling
from schedspec.conformance.script import STEP, Op, Script, cancel, rounds, submit
from schedspec.conformance.shortening import LONG
from schedspec.conformance.shrink import LARGE
from schedspec.reference import Scheduler
from schedspec.reference.faults.steps import OverfillsTheSeats
from schedspec.reference.job import Job
from schedspec.spec.vocabulary import Delta, Observation, Outcome, Settings

DEPTH = Depth(name="none", search_s=0.0, workload_s=0.0, shrink_s=120.0, examples=0, reruns=False)
"""Shortening ends when nothing helps, however slow the machine is."""
POOL = Settings(blocks=16, block_size=2)


class DeliversTwice(Scheduler):
    """A result that comes twice is delivered twice; and a gauge is wrong as soon as anybody runs."""

    def complete(self, outcome: Outcome, now_ns: int) -> Sequence[Delta]:
        is_late = outcome.step not in self.state.in_flight
        if is_late and outcome.request and outcome.request[0] in self.state.jobs:
            return [("delivered", [outcome.request[0]], [outcome.token[0]])]
        return super().complete(outcome, now_ns)

    def observe(self) -> Observation:
        shown = super().observe()
        return evolve(shown, counters={**shown.counters, "waiting": len(self.state.jobs)})


class LeaksAndOverfills(OverfillsTheSeats):
    """A cancel leaks, and behind that there is one more than seats."""

    def cancel(self, request_id: str, now_ns: int) -> Sequence[Delta]:
        if job := self.state.jobs.get(request_id):
            job.table = []
        return super().cancel(request_id, now_ns)


class ForgetsTheCount(Scheduler):
    """Everybody ends with its twenty-fifth output."""

    def is_at_its_length(self, job: Job) -> bool:
        return super().is_at_its_length(job) or job.outputs >= 25


def checked(subject: type[Scheduler], *scripts: Script) -> Check:
    check = Check(name="subject", factory=subject, seed=0, depth=DEPTH)
    for number, script in enumerate(scripts):
        check.run_script(script, f"script {number}")
    check.shorten_all()
    return check


def test_a_wrong_gauge_does_not_end_a_run() -> None:
    ops = (submit("a", 3, 4), *rounds(2), Op("repeat"), *rounds(3))
    check = checked(DeliversTwice, Script(POOL, 0, ops))
    first, second = check.findings.told()
    assert (first.rule, second.rule) == ("LIFE-7", "OBS-3")
    assert first.alone
    assert not second.alone
    assert first.messages <= 7
    assert first.violation is not None
    assert "repeat" in [op.kind for op in first.script.ops]


def test_what_breaks_behind_a_leak_has_a_trace_of_its_own() -> None:
    """The leak is no part of it."""
    ops = (submit("a", 1, 3), STEP, cancel("a"), submit("b", 3, 2), submit("c", 3, 2), *rounds(4))
    check = checked(LeaksAndOverfills, Script(evolve(POOL, seats=1), 0, ops))
    failures = {failure.rule: failure for failure in check.findings.told()}
    assert failures.keys() == {"KV-7", "STEP-2"}
    assert failures["STEP-2"].stage == "script 0, behind KV-7"
    assert "cancel" not in [op.kind for op in failures["STEP-2"].script.ops]


def test_what_follows_from_a_leak_is_no_news() -> None:
    """The block that is gone is missed at the end, in the account of the pool; without the leak it is not."""
    ops = (submit("a", 1, 3), STEP, cancel("a"), submit("b", 3, 2), *rounds(4))
    check = checked(LeaksAndOverfills, Script(POOL, 0, ops))
    assert [failure.rule for failure in check.findings.told()] == ["KV-7"]


def failure(rule: str, messages: int) -> Failure:
    return Failure(rule=rule, conjunct=f"{rule}.1", stage="", script=Script(POOL, 0, ()), also=[], messages=messages)


def test_the_most_telling_failure_is_told_first() -> None:
    """What a call did wrong, what came of it, what a snapshot shows, what two runs do not share, advice."""
    order = [("KV-7", 9), ("STEP-2", 12), ("LIVE-1", 3), ("OBS-3", 2), ("DET-2", 1), ("LIVE-11", 1)]
    told = sorted((failure(*one) for one in reversed(order)), key=telling)
    assert [(one.rule, one.messages) for one in told] == order


class Lags(Scheduler):
    """Whoever has a prompt of 90 tokens or more is cancelled in vain."""

    def cancel(self, request_id: str, now_ns: int) -> Sequence[Delta]:
        job = self.state.jobs.get(request_id)
        return [] if job is not None and job.request.prompt_tokens >= 90 else super().cancel(request_id, now_ns)


def test_a_run_with_hundreds_of_requests_is_shortened_to_the_one_that_matters() -> None:
    settings = Settings(blocks=512, block_size=16, seats=64, token_budget=512)
    ops: list[Op] = []
    for number in range(120):
        ops += [submit(f"r{number}", 30 + number, 4), *rounds(1)]
        if number % 7 == 3:
            ops.append(cancel(f"r{number}"))
    assert len(ops) > LARGE
    check = Check(name="lags", factory=Lags, seed=0, depth=DEPTH)
    check.run_script(Script(settings, 0, ops), "workload: many")
    check.shorten_all()
    first = check.findings.told()[0]
    assert first.rule == "LIFE-6"
    assert first.messages <= 3
    assert not first.stays


def test_the_report_says_why_a_trace_stays_long() -> None:
    """Its fault needs more messages than a page shows."""
    check = Check(name="subject", factory=ForgetsTheCount, seed=0, depth=evolve(DEPTH, shrink_s=0.0))
    check.run_script(Script(POOL, 0, (submit("a", 1, 30), *rounds(30))), "script")
    check.shorten_all()
    first = check.findings.told()[0]
    assert first.messages > LONG
    assert first.stays.startswith("time was up, after ")
    assert any("its trace stays at" in note for note in check.findings.notes)
