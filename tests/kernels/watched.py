"""Steps of the reference as arrays: what it saw before each, what it decided, and where every block lay after it."""

from collections.abc import Iterator
from copy import copy
from random import Random
from typing import Any

from attrs import Factory, define

from schedspec.reference.job import WAITING, Job
from schedspec.reference.scheduler import Scheduler
from schedspec.reference.selection import ClientQueues, SharedQueue, WaitingQueue
from schedspec.reference.state import Decision
from schedspec.spec.vocabulary import Outcome, Plan, Request, Settings


@define
class Client:
    counter: int
    jobs: list[Job]


@define
class Step:
    """A step: arrays are in order of admission, resp. of those who wait; indices stand for jobs."""

    settings: Settings
    running: list[Job]
    wanted: list[int]
    issued: list[int]
    tables: list[list[int]]
    free: list[int]
    waiting: list[Job]
    chunk: list[int]
    reserved: list[int]
    charges: list[int]
    counters: list[int]
    lengths: list[int]
    virtual_time: int
    victims: list[int] = Factory(list)
    requester: int = -1
    growth: list[tuple[int, int]] = Factory(list)
    budget_left: int = 0
    entered: list[tuple[int, int, int]] = Factory(list)
    counters_after: list[int] = Factory(list)
    virtual_time_after: int = 0
    tables_after: list[list[int]] = Factory(list)
    entering_tables: list[list[int]] = Factory(list)
    free_after: list[int] = Factory(list)

    @property
    def held(self) -> list[int]:
        return [len(table) for table in self.tables]

    @property
    def budget(self) -> int:
        return self.settings.token_budget

    @property
    def block_size(self) -> int:
        return self.settings.block_size

    @property
    def free_blocks(self) -> int:
        return len(self.free)

    @property
    def limits(self) -> dict[str, Any]:
        s = self.settings
        told = {"seats": s.seats, "watermark": s.watermark_blocks, "chunked": s.chunked_prefill}
        return told | {"block_size": s.block_size}


class Watched(Scheduler):
    """The reference; `seen` is its last step."""

    seen: Step
    decision: Decision

    def step(self, now_ns: int) -> Plan:
        before = self.before()
        plan = super().step(now_ns)
        self.seen = self.after(before)
        return plan

    def decide(self) -> Decision:
        self.decision = super().decide()
        return self.decision

    def before(self) -> Step:
        state = self.state
        running = list(state.running.values())
        clients = self.clients()
        waiting = [job for client in clients for job in client.jobs]
        return Step(
            settings=state.settings,
            running=running,
            wanted=[0 if job.is_sure_to_end else self.chunk(job, job.issued) for job in running],
            issued=[job.issued for job in running],
            tables=[list(job.table) for job in running],
            free=list(state.pool.free),
            waiting=waiting,
            chunk=[self.chunk(job, 0) for job in waiting],
            reserved=[0 if state.settings.reserve == "on_demand" else self.reserved_tokens(job, 0) for job in waiting],
            charges=[self.charge_of(job) for job in waiting],
            counters=[client.counter for client in clients],
            lengths=[len(client.jobs) for client in clients],
            virtual_time=self.virtual_time(),
        )

    def after(self, step: Step) -> Step:
        decision = self.decision
        at = {job.id: index for index, job in enumerate(step.running)}
        of_waiting = {job.id: index for index, job in enumerate(step.waiting)}
        step.victims = [at[job.id] for job in decision.victims]
        step.requester = -1 if decision.requester is None else at[decision.requester.id]
        step.growth = [(at[job.id], tokens) for job, tokens in decision.growth]
        step.budget_left = decision.budget_left
        for entry in decision.admissions:
            step.entered.append((of_waiting[entry.job.id], entry.tokens, len(entry.job.table)))
            step.entering_tables.append(list(entry.job.table))
        step.counters_after = [client.counter for client in self.clients()]
        step.virtual_time_after = self.virtual_time()
        step.tables_after = [list(job.table) for job in step.running]
        step.free_after = list(self.state.pool.free)
        return step

    def clients(self) -> list[Client]:
        """One queue is the queue of one client."""
        queue = self.state.queue
        if isinstance(queue, SharedQueue):
            assert isinstance(queue.members, ClientQueues)
            lines = [(member, member.queue) for member in queue.members.members.values()]
            return [Client(member.counter, [job for _, job in by_arrival(line)]) for member, line in lines]
        assert isinstance(queue, WaitingQueue)
        places = sorted(entry[:3] for entry in queue.heap if queue.standing.get(entry[3]) == entry[2])
        jobs = {entry[2]: entry[3] for entry in queue.heap}
        return [Client(0, [jobs[entry] for *_, entry in places])]

    def charge_of(self, job: Job) -> int:
        queue = self.state.queue
        return queue.bill.pick(copy(job)) if isinstance(queue, SharedQueue) else 0

    def virtual_time(self) -> int:
        queue = self.state.queue
        return queue.members.virtual_time if isinstance(queue, SharedQueue) else 0


def by_arrival(line: Any) -> list[tuple[int, Job]]:
    return sorted((entry for entry in line.heap if entry[1].state == WAITING), key=lambda entry: entry[0])


def settings_of(rng: Random, policy: str) -> Settings:
    block_size = rng.choice((1, 2, 4, 16))
    blocks = max(2, rng.randint(24, 64) // block_size)  # memory is for two or three requests
    chosen: dict[str, Any] = {"policy": policy}
    if policy == "vtc":
        weights = rng.choice(((1, 2), (0, 1), (3, 1)))
        chosen |= {"input_weight": weights[0], "output_weight": weights[1], "request_weight": rng.choice((0, 0, 5))}
        chosen["prices"] = {"a": rng.randint(1, 3)}
    chunked = rng.random() < 0.7
    return Settings(
        blocks=blocks,
        block_size=block_size,
        seats=rng.randint(1, 8),
        token_budget=rng.randint(1, 40),
        watermark_blocks=rng.randint(0, min(3, blocks - 1)),
        chunked_prefill=chunked,
        chunk_tokens=rng.choice((0, 0, 3, 8)) if chunked else 0,
        reserve=rng.choice(("on_demand", "on_demand", "known", "declared")),
        overlap_depth=rng.choice((1, 1, 2)),
        **chosen,
    )


def watch(policy: str, runs: int = 60, steps: int = 40) -> Iterator[Step]:
    """Steps of random workloads, small and crowded; now and then a request is cancelled or stops early."""
    for seed in range(runs):
        yield from run(Random(f"{policy} {seed}"), policy, steps)


def run(rng: Random, policy: str, steps: int) -> Iterator[Step]:
    settings = settings_of(rng, policy)
    subject = Watched(settings)
    in_flight: list[Plan] = []
    for number in range(steps):
        for extra in range(rng.choice((0, 0, 1, 1, 2, 4))):
            prompt = tuple(range(rng.randint(1, 20)))
            request = Request(
                id=f"{number}.{extra}",
                prompt_ids=prompt,
                max_output_tokens=rng.randint(1, 12),
                client=rng.choice("abcde"),
            )
            subject.submit(request, number)
        if subject.state.jobs and rng.random() < 0.05:
            subject.cancel(rng.choice(sorted(subject.state.jobs)), number)
        in_flight.append(subject.step(number))
        yield subject.seen
        while len(in_flight) >= settings.overlap_depth:
            plan = in_flight.pop(0)
            names = [request for request, samples in zip(plan.request, plan.samples, strict=True) if samples]
            stop = [rng.random() < 0.05 for _ in names]
            subject.complete(Outcome(step=plan.step, request=names, token=[7] * len(names), stop=stop), number)
