"""The model of the theorems and the queues of the reference are two texts: generated runs give the same counters and
the same turns, of Virtual Token Counter, of rounds of a quantum, and of lanes with bursts."""

from pathlib import Path
from random import Random
from typing import Any

import pytest
from attrs import Factory, define
from tests.unit.coq import needs_coqc
from tests.unit.coq_model import CLIENTS, Shown, in_coq, run_term

from schedspec.reference.job import ENDED, RUNNING, WAITING, Job
from schedspec.reference.pool import Pool
from schedspec.reference.prefixes import Prefixes
from schedspec.reference.selection import POLICIES, SharedQueue
from schedspec.reference.selection.race import Member
from schedspec.spec.service import lane_prices
from schedspec.spec.settings import Lane, Settings
from schedspec.spec.vocabulary import Request

NAMES = [str(number) for number in range(CLIENTS)]


@define
class Run:
    """A run of a queue; its events as Coq has them, and what shows after each.  A lane is a client of the model."""

    settings: Settings
    random: Random
    queue: SharedQueue
    waiting: list[Job] = Factory(list)
    running: list[Job] = Factory(list)
    came: int = 0
    preferred: int = 0
    below: int = 0
    within: int = 0
    events: list[str] = Factory(list)
    shown: list[Shown] = Factory(list)

    def go_on(self) -> None:
        acts = [self.arrive, self.arrive, self.pick, self.pick, self.serve, self.serve, self.compute, self.leave]
        act = self.random.choice(acts)
        act()

    def arrive(self) -> None:
        name, prompt, most = self.random.choice(NAMES), self.random.randint(1, 4), self.random.randint(1, 4)
        guess = self.random.randint(1, most)
        lane = name if self.settings.lanes else "default"
        request = Request(
            id=str(self.came),
            prompt_ids=tuple(range(prompt)),
            max_output_tokens=most,
            client=name,
            lane=lane,
            predicted_output_tokens=guess,
        )
        self.begins(Job.of(request, self.came))
        predicted = guess if self.settings.charge_prediction else 0
        self.note(f"Arrive {self.came} {name} {prompt} {most} {predicted}")
        self.came += 1

    def pick(self) -> None:
        """Whoever the queue says, who must be one of those whose turn it is."""
        least = min((member.counter for member in self.ready()), default=0)
        job = self.queue.pop()
        if job is None:
            return
        assert int(job.id) in self.shown[-1][1], f"{job.id} after {self.events}"
        member = self.member_of(job)
        ahead = member.counter - least
        self.preferred += member.aged > 0 and ahead > 0
        self.within += not member.aged and ahead > 0
        self.waiting.remove(job)
        job.state = RUNNING
        self.running.append(job)
        self.queue.picked(job)
        self.note(f"Pick {job.id} 0")

    def compute(self) -> None:
        if self.running and self.settings.charge_prompt == "chunk":
            job = self.random.choice(self.running)
            end = self.random.randint(0, job.request.prompt_tokens)
            self.queue.ran(job, end)
            self.note(f"Compute {job.id} {end}")

    def serve(self) -> None:
        """Outputs come after the prompt, which is charged by then."""
        paid = [job for job in self.running if job.charged_prompt >= job.request.prompt_tokens]
        going = [job for job in paid if job.outputs < job.request.max_output_tokens]
        if going:
            job = self.random.choice(going)
            job.outputs += 1
            self.queue.served(job)
            self.note(f"Serve {job.id}")

    def leave(self) -> None:
        """It ends, is cancelled while it waits, or is preempted."""
        if self.waiting and self.random.random() < 0.3:
            job = self.random.choice(self.waiting)
            self.waiting.remove(job)
            job.state = ENDED
            self.queue.left(job)
            self.queue.ended(job)
            self.note(f"Withdraw {job.id}")
        elif self.running:
            job = self.running.pop(self.random.randrange(len(self.running)))
            self.queue.released(job)
            if self.random.random() < 0.5:
                job.state = ENDED
                self.queue.ended(job)
                self.note(f"Finish {job.id}")
            else:
                job.state = WAITING
                self.begins(job)
                self.note(f"Preempt {job.id}")

    def begins(self, job: Job) -> None:
        self.waiting.append(job)
        self.queue.push(job)
        self.below += self.member_of(job).counter < self.queue.members.virtual_time

    # --- what shows ------------------------------------------------------------------------------------------

    def member_of(self, job: Job) -> Member:
        return self.queue.members.member_of(job)

    def ready(self) -> list[Member]:
        return [m for m in self.queue.members.members.values() if m.waiting and not m.held]

    def in_turn(self) -> list[int]:
        """Who may be picked: all of the least round, or beyond it by the credit."""
        members, ready = self.queue.members, self.ready()
        if not ready:
            return []
        least = min(members.sharing.rank(member, member.counter)[0] for member in ready)
        allowed = {m.name for m in ready if members._rank(m)[0] <= least}
        return [int(job.id) for job in reversed(self.waiting) if members.name_of(job) in allowed]

    def note(self, event: str) -> None:
        members = self.queue.members
        counters = [members.members[name].counter if name in members.members else 0 for name in NAMES]
        left = -1 if members.last_left is None else int(members.last_left.name)
        self.events.append(event)
        self.shown.append(([members.virtual_time, left, *counters], self.in_turn()))

    def in_coq(self) -> str:
        s = self.settings
        prices, bursts = [dict(s.prices).get(name, 1) for name in NAMES], [0] * CLIENTS
        if s.lanes:
            by_share = lane_prices(s)
            prices = [by_share[name] for name in NAMES]
            bursts = [lane.burst * by_share[lane.name] for lane in s.lanes]
        return run_term("counters", s, prices, bursts, self.events)


def generated(policy: Any, seed: int, events: int = 60) -> Run:
    random = Random(f"{policy} {seed}")
    credit = random.choice([0, 10, 40])
    changes: dict[str, Any] = {}
    if policy == "lanes":
        shares = random.choice([(20, 30, 50), (10, 40, 50), (60, 30, 10)])
        lanes = zip(NAMES, shares, strict=True)
        changes["lanes"] = [
            Lane(name=name, share_percent=share, burst=random.choice([0, 4, 9])) for name, share in lanes
        ]
    else:
        changes["prices"] = {name: random.randint(1, 3) for name in NAMES}
        changes["client_seats"] = random.choice([0, 0, 0, 2])
        changes["client_resident_tokens"] = random.choice([0, 0, 0, 12])
    settings = Settings(
        policy=policy,
        quantum=random.choice([3, 8, 20]),
        input_weight=random.randint(0, 3),
        output_weight=random.randint(1, 3),
        product_weight=random.choice([0, 0, 1]),
        charge_prompt=random.choice(["pick", "chunk"]),
        charge_prediction=random.random() < 0.5,
        aging_credit=credit,
        aging_picks=random.randint(1, 3) if credit else 0,
        **changes,
    )
    run = Run(settings, random, POLICIES[policy](settings, Prefixes(settings, Pool.of(settings.blocks))))
    for _ in range(events):
        run.go_on()
    return run


POLICIES_OF_THE_MODEL = ("vtc", "drr", "dlpm", "lanes")
RUNS = range(20)


@needs_coqc
def test_the_model_and_the_queues_of_the_reference_agree(tmp_path: Path) -> None:
    runs = [generated(policy, seed) for policy in POLICIES_OF_THE_MODEL for seed in RUNS]
    for run, rows in zip(runs, in_coq(tmp_path, [run.in_coq() for run in runs]), strict=True):
        assert run.shown == rows, run.in_coq()


def test_the_runs_are_no_trivial_ones() -> None:
    """Aging prefers somebody, a round has several in turn, and lanes come back below the virtual time."""
    runs = {policy: [generated(policy, seed) for seed in RUNS] for policy in POLICIES_OF_THE_MODEL}
    for policy, some in runs.items():
        kinds = {event.split()[0] for run in some for event in run.events}
        assert kinds == {"Arrive", "Pick", "Compute", "Serve", "Finish", "Withdraw", "Preempt"}, policy
        assert sum(run.preferred > 0 for run in some) > 1, policy
    assert sum(run.within > 0 for run in runs["drr"]) > 5
    assert sum(run.below > 0 for run in runs["lanes"]) > 5


PLANTED = (
    ("drr", "c / quantum S * quantum S", "c"),
    ("drr", "credit S else 0)) / quantum S <=? m / quantum S", "credit S else 0)) <=? m"),
    ("lanes", "(v - burst S u)", "v"),
    ("lanes", "let v := Z.max (virtual_time s) m in", "let v := m in"),
    ("vtc", "patience S <=? picks s - since j", "patience S <? picks s - since j"),
    ("vtc", "negb (holds S (waiting s) (running s) u)\n", "true\n"),
    ("vtc", "Z.min c (virtual_time s)", "Z.min c (virtual_time s - 1)"),
)


@needs_coqc
@pytest.mark.parametrize(
    ("policy", "old", "new"), [PLANTED[0], *(pytest.param(*planted, marks=pytest.mark.deep) for planted in PLANTED[1:])]
)
def test_another_model_does_not_agree(tmp_path: Path, policy: str, old: str, new: str) -> None:
    runs = [generated(policy, seed) for seed in RUNS]
    assert [run.shown for run in runs] != in_coq(tmp_path, [run.in_coq() for run in runs], ("Model", old, new))
