"""No policy is better than the best schedule in hindsight (Jaillet et al., 2025), and MC-SF never runs out of memory.

Their model: a batch takes a unit of time; a request that is started runs to its end, an output in each step, and holds
its prompt and what it has; what counts is the sum over requests of the time from arrival to end.  With all arrivals and
lengths known, the best schedule is an integer program, solved by HiGHS (extra `reproduce`).  MC-SF takes the shortest
first while nobody will exceed the memory at any moment to come: policy `sjf` with the reserve `peak` here.
"""

from collections.abc import Mapping, Sequence
from itertools import product
from random import Random

from attrs import frozen

from ...spec.settings import Reserve, Settings
from ...spec.vocabulary import Policy, Request
from ...spec.workloads import Incoming
from ..scheduler import make
from ..simulation.costs import EqualSteps
from ..simulation.engine import Simulation
from .framework import Constant, Reproduction, Run, Target

STEP_NS = 1_000_000
POLICIES: tuple[Policy, ...] = ("fcfs", "sjf", "srpt", "vtc", "lcf", "priority")
RESERVES: tuple[Reserve, ...] = ("peak", "declared")
INSTANCES = 150
SAMPLE_INSTANCES = 15
MOST_REQUESTS = 6
MOST_PROMPT_TOKENS, MOST_OUTPUT_TOKENS, LAST_ARRIVAL_STEP = 6, 8, 6


@frozen
class Job:
    """`arrival`: the first step that it may run in."""

    arrival: int
    prompt_tokens: int
    output_tokens: int


@frozen
class Instance:
    """`memory_tokens`: prompts and outputs that fit at once; each job fits alone."""

    jobs: tuple[Job, ...]
    memory_tokens: int


def drawn(random: Random) -> Instance:
    """A tiny one, in which memory is scarce."""
    jobs = tuple(
        Job(
            random.randint(0, LAST_ARRIVAL_STEP),
            random.randint(1, MOST_PROMPT_TOKENS),
            random.randint(1, MOST_OUTPUT_TOKENS),
        )
        for _ in range(random.randint(2, MOST_REQUESTS))
    )
    needs = [job.prompt_tokens + job.output_tokens - 1 for job in jobs]
    return Instance(jobs, random.randint(max(needs), max(max(needs), sum(needs) * 2 // 3)))


def optimum(instance: Instance) -> int:
    """The least sum of latencies, in steps, of any schedule that starts each job once and lets it run to its end.

    Raises RuntimeError without scipy, or if the solver does not find the optimum.
    """
    try:
        from scipy.optimize import Bounds, LinearConstraint, milp
    except ImportError:
        raise RuntimeError("the best schedule in hindsight needs scipy: pip install 'schedspec[reproduce]'") from None

    jobs = instance.jobs
    horizon = max(job.arrival for job in jobs) + sum(job.output_tokens for job in jobs)
    starts = [
        (number, at) for number, job in enumerate(jobs) for at in range(job.arrival, horizon - job.output_tokens + 1)
    ]
    once = [[int(number == one) for number, _ in starts] for one in range(len(jobs))]
    held = [[_held(jobs[number], at, step) for number, at in starts] for step in range(horizon)]
    found = milp(
        [at + jobs[number].output_tokens - jobs[number].arrival for number, at in starts],
        integrality=[1] * len(starts),
        bounds=Bounds(0, 1),
        constraints=[LinearConstraint(once, 1, 1), LinearConstraint(held, 0, instance.memory_tokens)],
    )
    if not found.success:
        raise RuntimeError(f"the solver did not find the best schedule: {found.message}")
    return round(float(found.fun))


def _held(job: Job, start: int, step: int) -> int:
    """KV in a step of a job that was started: in its first one the prompt, then a position more in each."""
    return job.prompt_tokens + step - start if start <= step < start + job.output_tokens else 0


def settings_for(instance: Instance, policy: Policy, reserve: Reserve) -> Settings:
    """Memory is all that is scarce."""
    return Settings(
        blocks=instance.memory_tokens,
        block_size=1,
        seats=MOST_REQUESTS,
        token_budget=MOST_REQUESTS * (MOST_PROMPT_TOKENS + MOST_OUTPUT_TOKENS),
        policy=policy,
        reserve=reserve,
    )


def latency_of(instance: Instance, settings: Settings) -> tuple[int, int]:
    """What the reference comes to: the sum of latencies in steps, and how often it preempted."""
    log = Simulation(make(settings, 0), EqualSteps(STEP_NS)).run(_incoming(instance))
    latency = sum((record.ended_ns or 0) - record.arrived_ns for record in log.records.values())
    return latency // STEP_NS, sum(record.preemptions for record in log.records.values())


def _incoming(instance: Instance) -> Sequence[Incoming]:
    """Lengths are declared, and predicted, as they will be."""
    ordered = sorted(enumerate(instance.jobs), key=lambda pair: pair[1].arrival)
    return [
        Incoming(
            now_ns=job.arrival * STEP_NS,
            request=Request(
                id=str(number),
                client=str(number % 2),
                prompt_ids=list(range(job.prompt_tokens)),
                max_output_tokens=job.output_tokens,
                predicted_output_tokens=job.output_tokens,
                priority=number % 3,
            ),
            output_tokens=job.output_tokens,
        )
        for number, job in ordered
    ]


def measure(run: Run) -> Mapping[str, float]:
    count = SAMPLE_INSTANCES if run.sample else INSTANCES
    random = Random(run.seed)
    better = overflows = 0
    best = mc_sf = 0
    for instance in run.stages("instances", [drawn(random) for _ in range(count)]):
        least = optimum(instance)
        best += least
        for policy, reserve in product(POLICIES, RESERVES):
            latency, preemptions = latency_of(instance, settings_for(instance, policy, reserve))
            better += latency < least
            if (policy, reserve) == ("sjf", "peak"):
                mc_sf += latency
                overflows += preemptions
    runs = len(POLICIES) * len(RESERVES)
    run.note(f"{count} instances, {runs} policies and reserves each; MC-SF takes {mc_sf / best:.3f} times the least")
    return {"runs_better_than_hindsight": better, "overflows_of_mc_sf": overflows}


HINDSIGHT = Reproduction(
    name="hindsight",
    title="no policy beats the best schedule in hindsight; MC-SF never overflows with exact lengths",
    source="Jaillet et al., Online scheduling for LLM inference with KV cache constraints, arXiv 2502.07115",
    constants=(
        Constant("instances", INSTANCES, "ours: small enough to be solved exactly"),
        Constant("most_requests", MOST_REQUESTS, "ours: small enough to be solved exactly"),
        Constant("policies", POLICIES, "of this project, with the reserves " + " and ".join(RESERVES)),
    ),
    targets=(
        Target("runs_better_than_hindsight", 0, "section 2: the optimum is a bound by definition", within_points=0),
        Target("overflows_of_mc_sf", 0, "section 4: MC-SF starts only what will fit at every moment", within_points=0),
    ),
    measure=measure,
)
