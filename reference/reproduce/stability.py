"""Up to which load a queue stays finite (Li, Dai and Peng, 2025): with batches that mix phases, up to the budget.

A step takes the same time whatever is in it, up to `token_budget` tokens.  A policy that fills steps with whatever
waits is stable if fewer tokens come than steps can take, prompts and outputs together.  One that gives a step to
prefill or to decode is stable only while the time for both is enough: prompts at `budget` tokens a step, and outputs at
as many as run (ours, of the same argument).  Between these two loads one queue stays, and the other one grows at the
rate that is left over.
"""

from collections.abc import Mapping
from statistics import linear_regression

from attrs import evolve

from ...spec.vocabulary import NS_PER_S, Settings
from ..scheduler import make
from ..simulation import Log, Simulation
from ..simulation.costs import EqualSteps
from .drawn import poisson, uniform
from .framework import Constant, Reproduction, Run, Target

STEP_NS = 50_000_000
BUDGET = 512
SEATS = 128
PROMPT, OUTPUT = 512, 64
SECONDS, SAMPLE_SECONDS = 240, 40

STEP_S = STEP_NS / NS_PER_S
MIXED_PER_S = BUDGET / STEP_S / (PROMPT + OUTPUT)
EXCLUSIVE_PER_S = 1 / (PROMPT / BUDGET * STEP_S + OUTPUT / SEATS * STEP_S)
LOAD_PER_S = (MIXED_PER_S + EXCLUSIVE_PER_S) / 2

MIXED = Settings(blocks=SEATS * (PROMPT + OUTPUT), block_size=1, seats=SEATS, token_budget=BUDGET, phase_first="decode")
EXCLUSIVE = evolve(MIXED, batch_mix="exclusive", phase_first="prefill")


def growth_per_s(log: Log, seconds: float) -> float:
    """By how many requests the system grows in a second, from the middle of the arrivals to their end."""
    times = [seconds * (0.5 + part / 40) for part in range(21)]
    came = [record.arrived_ns / NS_PER_S for record in log.records.values()]
    left = [(record.ended_ns or 0) / NS_PER_S for record in log.records.values()]
    inside = [sum(at <= time for at in came) - sum(at <= time for at in left) for time in times]
    return linear_regression(times, inside).slope


def finished_per_s(log: Log, seconds: float) -> float:
    """While requests come, after the first quarter."""
    begin_s = seconds / 4
    ends = [(record.ended_ns or 0) / NS_PER_S for record in log.records.values()]
    return sum(begin_s <= end < seconds for end in ends) / (seconds - begin_s)


def measure(run: Run) -> Mapping[str, float]:
    seconds = SAMPLE_SECONDS if run.sample else SECONDS
    logs = {}
    for name, settings in run.stages("batches", (("mixed", MIXED), ("exclusive", EXCLUSIVE))):
        arrivals = poisson(uniform((PROMPT, PROMPT), (OUTPUT, OUTPUT)), LOAD_PER_S, seconds, run.seed)
        logs[name] = Simulation(make(settings, 0), EqualSteps(STEP_NS)).run(arrivals)
    came = len(logs["mixed"].records) / seconds
    run.note(
        f"{came:.2f} requests a second came; stable up to {MIXED_PER_S:.2f} mixed, {EXCLUSIVE_PER_S:.2f} exclusive"
    )
    return {
        "mixed_growth_share": growth_per_s(logs["mixed"], seconds) / came,
        "exclusive_finished_per_s": finished_per_s(logs["exclusive"], seconds),
        "exclusive_growth_per_s": growth_per_s(logs["exclusive"], seconds),
    }


STABILITY = Reproduction(
    name="stability",
    title="a load that mixed batches carry, and exclusive ones do not",
    source="Li, Dai and Peng, Throughput-optimal scheduling algorithms for LLM inference, arXiv 2504.07347",
    constants=(
        Constant("step_ns", STEP_NS, "ours: any time does"),
        Constant("token_budget", BUDGET, "ours"),
        Constant("seats", SEATS, "ours: fewer than the budget, so that decode steps are not full"),
        Constant("tokens", (PROMPT, OUTPUT), "ours: prompt and output of each request"),
        Constant("requests_per_s", LOAD_PER_S, "in the middle between the two bounds"),
    ),
    targets=(
        Target("mixed_growth_share", 0.02, "theorem 1: stable, λ (m_p + m_d) < b / t_b", at_most=True),
        Target("exclusive_finished_per_s", EXCLUSIVE_PER_S, "derived: 1 / (m_p t/b + m_d t/N)", within_percent=5),
        Target("exclusive_growth_per_s", LOAD_PER_S - EXCLUSIVE_PER_S, "derived: what is left over", within_percent=15),
    ),
    measure=measure,
)
