"""VTC (Sheng et al., OSDI 2024): the table of the real trace, and medians of its clients.

The program that was measured is `reference/systems/vtc_artifact.py`; beside each of its numbers the note tells what the
paper's own algorithm comes to.  The device is the artefact's A10G as its synthetic runs met it; `real` is held out.
"""

import csv
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from random import Random
from statistics import median

from attrs import evolve, frozen

from ...spec.vocabulary import NS_PER_S, Door, Request, Settings, SubjectFactory
from ...spec.workloads import Incoming, MissingWorkload, locate, parse_workload
from ..simulation import PROFILES, Log, Record, Simulation
from ..systems.vtc import VTC
from ..systems.vtc_artifact import ARTIFACT, Artifact, PredictingArtifact
from .framework import Constant, Reproduction, Run, Target
from .vtc_metric import Served, service_difference, tokens_per_s

PAPER = "VTC, OSDI 2024, "
SHIPPED = "Ying1123/VTC-artifact, commit 192c2e20, "
PROFILE = "vtc-llama2-7b-a10g-served"
POOL_TOKENS = 10_000
PREFILL_TOKENS = 3_072
SEATS = 1_000
CLIENT_NS = 31_000_000
WINDOW_NS = 60 * NS_PER_S
SAMPLE_NS = 120 * NS_PER_S
JITTER_NS, JITTERED = 10_000_000, 3
REAL = "real__FCFS"
"""Arrivals are the same in all runs of the real trace."""
WITHIN = 0.2

COMMON = (
    Constant("pool_tokens", POOL_TOKENS, PAPER + "section 5.1: Llama-2-7B on an A10G"),
    Constant("prefill_tokens", PREFILL_TOKENS, SHIPPED + "api_server: the longest request, 2,048 + 1,024 tokens"),
    Constant("seats", SEATS, SHIPPED + "api_server: running_max_req_size"),
    Constant("cost", PROFILE, "fitted to the artefact's synthetic runs; see reference/simulation/profiles.py"),
    Constant(
        "client_ns",
        CLIENT_NS,
        "fitted: first tokens on an idle server came after 61 ms (64 tokens) and 134 ms (256), less a prefill each",
    ),
)


@frozen
class Scheduler:
    """A column of the table.  `rpm`: requests of a client that are let in within a minute."""

    name: str
    file: str
    policy: str
    factory: SubjectFactory = Artifact
    predicts: bool = False
    rpm: int = 0

    def settings(self, **more: object) -> Settings:
        door = Door(rate_window_ns=WINDOW_NS + 1, rate_requests=self.rpm) if self.rpm else Door()
        sizes = {"blocks": POOL_TOKENS, "block_size": 1, "seats": SEATS, "token_budget": PREFILL_TOKENS}
        return ARTIFACT.settings(**sizes, policy=self.policy, charge_prediction=self.predicts, door=door, **more)


SCHEDULERS = (
    Scheduler("fcfs", "FCFS", "fcfs"),
    Scheduler("lcf", "LCF", "lcf"),
    Scheduler("vtc", "VTC", "vtc"),
    Scheduler("vtc_predict", "VTC_predict", "vtc", PredictingArtifact, predicts=True),
    Scheduler("vtc_oracle", "VTC_oracle", "vtc", predicts=True),
    *(Scheduler(f"rpm{limit}", f"LShare_rpm{limit}", "fcfs", rpm=limit) for limit in (5, 10, 15, 20, 30)),
)

# Maximum and average difference of service, tokens per second.
TABLE = {
    "fcfs": (759.97, 433.53, 777),
    "lcf": (750.49, 323.82, 778),
    "vtc": (368.40, 251.66, 779),
    "vtc_predict": (365.47, 240.33, 773),
    "vtc_oracle": (329.46, 227.51, 781),
    "rpm5": (143.86, 83.58, 340),
    "rpm10": (217.65, 128.24, 532),
    "rpm15": (343.07, 161.06, 626),
    "rpm20": (446.76, 195.71, 694),
    "rpm30": (693.66, 309.45, 747),
}


# --- runs ---------------------------------------------------------------------------------------------------


def paper_settings(**more: object) -> Settings:
    """The paper's algorithm on the same pool."""
    sizes = {"blocks": POOL_TOKENS, "block_size": 1, "seats": SEATS, "token_budget": POOL_TOKENS}
    return VTC.settings(**sizes, **more)


def simulated(factory: SubjectFactory, settings: Settings, workload: Iterable[Incoming]) -> Log:
    return Simulation(factory(settings, 0), PROFILES[PROFILE].cost).run(workload)


def requests_of(file: str, until_ns: int | None = None) -> list[Incoming]:
    """A run of the artefact, as arrivals.  Raises MissingWorkload."""
    found = []
    for number, arrival in enumerate(parse_workload(f"vtc:{locate(f'vtc/{file}.csv')}", first_s=None).arrivals()):
        if until_ns is None or arrival.now_ns < until_ns:
            found.append(
                of_artifact(number, arrival.now_ns, arrival.client, arrival.prompt_tokens, arrival.output_tokens)
            )
    return found


@lru_cache(maxsize=len(SCHEDULERS))
def replayed(scheduler: Scheduler, until_ns: int | None) -> tuple[Served, ...]:
    """The real trace under a scheduler: the table and the medians look at the same runs.  Raises MissingWorkload."""
    workload = requests_of(REAL, until_ns)
    return tuple(served(simulated(scheduler.factory, scheduler.settings(), workload).records.values()))


def of_artifact(number: int, now_ns: int, client: str, prompt: int, output: int) -> Incoming:
    """All is declared as it will be."""
    request = Request(id=f"r{number}", client=client, prompt_ids=(0,) * prompt, max_output_tokens=output)
    return Incoming(now_ns=now_ns, request=request, output_tokens=output)


def served(records: Iterable[Record]) -> list[Served]:
    """As their clients saw them; those who were refused are not among them."""
    return [
        Served(
            record.client,
            record.arrived_ns / NS_PER_S,
            (record.token_ns[0] + CLIENT_NS) / NS_PER_S,
            (record.token_ns[-1] + CLIENT_NS) / NS_PER_S,
            record.prompt_tokens,
            record.output_tokens,
        )
        for record in records
        if record.has_finished
    ]


# --- the table ----------------------------------------------------------------------------------------------


def measure_table(run: Run) -> Mapping[str, float]:
    until_ns = SAMPLE_NS if run.sample else None
    try:
        workload = requests_of(REAL, until_ns)
    except MissingWorkload as error:
        run.note(str(error))
        return {}
    ours: dict[str, float] = {}
    order = {}
    for scheduler in run.stages("schedulers", SCHEDULERS):
        found = replayed(scheduler, until_ns)
        difference = service_difference(found)
        ours[f"{scheduler.name}_max"], ours[f"{scheduler.name}_avg"] = difference.maximum, difference.average
        ours[f"{scheduler.name}_tokens_per_s"] = tokens_per_s(found)
        order[scheduler.name] = difference.average
    ours["ranks_that_differ"] = _ranks_that_differ(order)
    paper = service_difference(served(simulated(VTC.make, paper_settings(), workload).records.values()))
    run.note(f"the paper's algorithm on the same trace: max {paper.maximum:.1f}, average {paper.average:.1f}")
    tell_spread(run)
    return ours


@lru_cache(maxsize=JITTERED)
def jittered(seed: int, until_ns: int | None) -> tuple[Served, ...]:
    """`vtc_predict` on the real trace, if each request comes a little later.  Raises MissingWorkload."""
    scheduler, dice = next(one for one in SCHEDULERS if one.name == "vtc_predict"), Random(seed)
    late = [evolve(one, now_ns=one.now_ns + dice.randint(0, JITTER_NS)) for one in requests_of(REAL, until_ns)]
    late.sort(key=lambda one: one.now_ns)
    return tuple(served(simulated(scheduler.factory, scheduler.settings(), late).records.values()))


def jitters(run: Run) -> list[Sequence[Served]]:
    seeds = range(run.seed, run.seed + (1 if run.sample else JITTERED))
    return [jittered(seed, SAMPLE_NS if run.sample else None) for seed in run.stages("jitter", seeds)]


def tell_spread(run: Run) -> None:
    """How far the greatest of 19 windows depends on milliseconds that nobody recorded."""
    found = map(service_difference, jitters(run))
    listed = ", ".join(f"{one.maximum:.0f} and {one.average:.0f}" for one in found)
    run.note(
        f"vtc_predict, if each request comes up to {JITTER_NS // 1_000_000} ms later, as tokenizing may take; maximum"
        f" and average: {listed}"
    )


def _ranks_that_differ(average: Mapping[str, float]) -> int:
    """Schedulers by average difference: how many stand elsewhere than in the table."""
    published = sorted(TABLE, key=lambda name: TABLE[name][1])
    return sum(ours != theirs for ours, theirs in zip(sorted(average, key=average.__getitem__), published, strict=True))


# --- medians per client -------------------------------------------------------------------------------------


def measure_medians(run: Run) -> Mapping[str, float]:
    """Of the clients of each measured run, for how many percent the median is near the measured one."""
    ours: dict[str, float] = {}
    for scheduler in run.stages("schedulers", SCHEDULERS):
        try:
            seen = measured(f"real__{scheduler.file}")
            simulation = replayed(scheduler, SAMPLE_NS if run.sample else None)
        except MissingWorkload as error:
            run.note(str(error))
            return {}
        for what, of in (("ttft", _first_token_s), ("latency", _latency_s)):
            theirs, mine = _medians(seen, of), _medians(simulation, of)
            ours[f"{scheduler.name}_{what}_clients"] = _near(mine, theirs)
            middle = median(mine[client] / theirs[client] for client in theirs.keys() & mine.keys())
            run.note(f"{scheduler.name}: {what} over the measured one, the median client's: {middle:.2f}")
    tell_repeats(run)
    return ours


def tell_repeats(run: Run) -> None:
    """How near two runs of the same program are to each other: nobody's simulation is nearer."""
    first, *others = jitters(run)
    for what, of in (("ttft", _first_token_s), ("latency", _latency_s)):
        near = ", ".join(f"{_near(_medians(other, of), _medians(first, of)):.0f}" for other in others)
        run.note(
            f"vtc_predict against itself, each request up to {JITTER_NS // 1_000_000} ms later: {what} is within"
            f" {100 * WITHIN:.0f} % for {near} % of the clients"
        )


def _near(mine: Mapping[str, float], theirs: Mapping[str, float]) -> float:
    """Percent of the clients for whom they are within the tolerance."""
    clients = theirs.keys() & mine.keys()
    return 100 * sum(abs(mine[client] / theirs[client] - 1) <= WITHIN for client in clients) / len(clients)


def measured(file: str) -> list[Served]:
    """What the clients of a run of the artefact saw.  Raises MissingWorkload."""
    with locate(f"vtc/{file}.csv").open(encoding="utf-8") as lines:
        rows = [row for row in csv.DictReader(lines) if float(row["latency_s"]) >= 0]
    found = []
    for row in rows:
        came_s = float(row["req_time_s"])
        times = came_s, came_s + float(row["ttft_s"]), came_s + float(row["latency_s"])
        found.append(Served(row["client"], *times, int(row["prompt_len"]), int(row["output_len"])))
    return found


def _first_token_s(one: Served) -> float:
    return one.first_token_s - one.arrival_s


def _latency_s(one: Served) -> float:
    return one.end_s - one.arrival_s


def _medians(served: Iterable[Served], of: Callable[[Served], float]) -> dict[str, float]:
    by_client: dict[str, list[float]] = defaultdict(list)
    for one in served:
        by_client[one.client].append(of(one))
    return {client: median(times) for client, times in by_client.items()}


# --- what is published ----------------------------------------------------------------------------------------


def _of_table() -> Iterator[Target]:
    source = PAPER + "table of the real trace; equal to the artefact's shipped results"
    for name, (most, average, speed) in TABLE.items():
        yield Target(f"{name}_max", most, source, within_percent=15, unit="tokens/s")
        yield Target(f"{name}_avg", average, source, within_percent=15, unit="tokens/s")
        yield Target(f"{name}_tokens_per_s", speed, source, within_percent=15)
    yield Target("ranks_that_differ", 0, source, within_points=0)


VTC_REAL = Reproduction(
    name="vtc-real",
    title="difference of service and throughput on the real trace, 27 clients",
    source="VTC, OSDI 2024, section 5; the program that was measured, with its deviations",
    constants=COMMON,
    targets=tuple(_of_table()),
    measure=measure_table,
)
VTC_MEDIANS = Reproduction(
    name="vtc-medians",
    title="median TTFT and latency of each client within 20 % of the measured run",
    source=SHIPPED + "fair_bench, all_results_real of each scheduler",
    constants=(*COMMON, Constant("within", WITHIN, "of the measured median of the client")),
    targets=tuple(
        Target(f"{scheduler.name}_{what}_clients", 100, SHIPPED + "real", within_points=0, unit="%")
        for scheduler in SCHEDULERS
        for what in ("ttft", "latency")
    ),
    measure=measure_medians,
)
