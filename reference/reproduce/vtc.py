"""VTC (Sheng et al., OSDI 2024): the table of the real trace, and medians of its clients.

The program that was measured is `reference/systems/vtc_artifact.py`; beside each of its numbers the note tells what the
paper's own algorithm comes to.  The device is the artefact's A10G as its synthetic runs met it; `real` is held out.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise, product
from random import Random
from statistics import median

from attrs import evolve, field, frozen

from ...spec.vocabulary import NS_PER_S, Door, Request, Settings, SubjectFactory
from ...spec.workloads import Arrival, Incoming, MissingWorkload, locate, parse_workload
from ...spec.workloads.vtc import Seen, read_seen
from ..simulation import PROFILES, Log, Record, Simulation
from ..systems.vtc import VTC
from ..systems.vtc_artifact import ARTIFACT, Artifact, PredictingArtifact
from .framework import Constant, Reproduction, Run, Target
from .vtc_metric import Served, service_difference, tokens_per_s
from .vtc_second_run import SECOND_RUN_S, SECOND_WINDOW_S

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
NEAR_RANKS = ("vtc", "vtc_predict", "vtc_oracle")
NEAR_RUNS = 5
"""Of each of them, whose published averages are near to each other."""
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
    """A column of the table.  `rpm`: requests of a client that are let in within a minute; `weights`: of what service
    costs, where it is not one for a prompt token and two for an output; `prices` of clients."""

    name: str
    file: str
    policy: str
    factory: SubjectFactory = Artifact
    predicts: bool = False
    rpm: int = 0
    weights: Mapping[str, int] = field(factory=dict, hash=False)
    prices: Mapping[str, int] = field(factory=dict, hash=False)

    def __str__(self) -> str:
        return self.name

    def settings(self, **more: object) -> Settings:
        door = Door(rate_window_ns=WINDOW_NS + 1, rate_requests=self.rpm) if self.rpm else Door()
        more = {**self.weights, "prices": self.prices, **more}
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
    """A run of the artefact that is at hand, as arrivals.  Raises MissingWorkload."""
    found = incoming(parse_workload(f"vtc:{locate(f'vtc/{file}.csv')}", first_s=None).arrivals())
    return [one for one in found if until_ns is None or one.now_ns < until_ns]


def incoming(arrivals: Iterable[Arrival]) -> list[Incoming]:
    return [
        of_artifact(number, one.now_ns, one.client, one.prompt_tokens, one.output_tokens)
        for number, one in enumerate(arrivals)
    ]


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


@lru_cache(maxsize=len(NEAR_RANKS) * NEAR_RUNS)
def jittered(name: str, seed: int, until_ns: int | None) -> tuple[Served, ...]:
    """The real trace, if each request comes a little later.  Raises MissingWorkload."""
    scheduler = next(one for one in SCHEDULERS if one.name == name)
    late = later(requests_of(REAL, until_ns), seed)
    return tuple(served(simulated(scheduler.factory, scheduler.settings(), late).records.values()))


def later(requests: Iterable[Incoming], seed: int) -> list[Incoming]:
    """Each by up to `JITTER_NS`."""
    dice = Random(seed)
    late = [evolve(one, now_ns=one.now_ns + dice.randint(0, JITTER_NS)) for one in requests]
    return sorted(late, key=lambda one: one.now_ns)


def jitters(run: Run, name: str, count: int) -> list[Sequence[Served]]:
    seeds = range(run.seed, run.seed + (1 if run.sample else count))
    return [jittered(name, seed, SAMPLE_NS if run.sample else None) for seed in run.stages(f"jitter of {name}", seeds)]


def tell_spread(run: Run) -> None:
    """How far the greatest of 19 windows, and the order of three schedulers, depend on milliseconds that nobody
    recorded."""
    found = {name: [service_difference(one) for one in jitters(run, name, NEAR_RUNS)] for name in NEAR_RANKS}
    later = f"if each request comes up to {JITTER_NS // 1_000_000} ms later, as tokenizing may take"
    for name, differences in found.items():
        listed = ", ".join(f"{one.maximum:.0f} and {one.average:.0f}" for one in differences)
        run.note(f"{name}, {later}; maximum and average: {listed}")
    published = sorted(NEAR_RANKS, key=lambda name: TABLE[name][1])
    draws = [
        dict(zip(found, (one.average for one in drawn), strict=True))
        for drawn in product(*(found[one] for one in found))
    ]
    as_published = sum(sorted(one, key=one.__getitem__) == published for one in draws)
    run.note(
        f"the published averages of {', '.join(published)} are {' and '.join(_gaps(published))} tokens/s apart: of"
        f" {len(draws)} ways to take one such run of each, {as_published} have their published order"
    )


def _gaps(names: Sequence[str]) -> list[str]:
    return [f"{TABLE[after][1] - TABLE[before][1]:.1f}" for before, after in pairwise(names)]


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
        for what, of in WAITS.items():
            theirs, mine = medians(seen, of), medians(simulation, of)
            ours[f"{scheduler.name}_{what}_clients"] = near(mine, theirs)
            middle = median(mine[client] / theirs[client] for client in theirs.keys() & mine.keys())
            run.note(f"{scheduler.name}: {what} over the measured one, the median client's: {middle:.2f}")
    tell_repeats(run)
    return ours


def tell_repeats(run: Run) -> None:
    """How near two runs of the same program are to each other: nobody's simulation is nearer."""
    first, *others = jitters(run, "vtc_predict", JITTERED)
    for what, of in WAITS.items():
        same = ", ".join(f"{near(medians(other, of), medians(first, of)):.0f}" for other in others)
        run.note(
            f"vtc_predict against itself, each request up to {JITTER_NS // 1_000_000} ms later: {what} is within"
            f" {100 * WITHIN:.0f} % for {same} % of the clients"
        )
    if not run.sample:
        tell_second_run(run, replayed(next(one for one in SCHEDULERS if one.name == "vtc"), None))


def tell_second_run(run: Run, simulation: Sequence[Served]) -> None:
    """The artefact was run twice under VTC: how near its runs are, request by request, and how near ours is."""
    first = _between(measured("real__VTC"))
    again = [
        evolve(one, first_token_s=one.arrival_s + first_s, end_s=one.arrival_s + latency_s)
        for one, (first_s, latency_s) in zip(first, SECOND_RUN_S, strict=True)
    ]
    ours = _between(simulation)
    begin_s, end_s = SECOND_WINDOW_S
    for what, of in WAITS.items():
        artefact, mine = (_share(others, first, of) for others in (again, ours))
        run.note(
            f"{what} of the {len(first)} requests from {begin_s:.0f} to {end_s:.0f} s under VTC is within"
            f" {100 * WITHIN:.0f} % of the measured run's for {artefact:.0f} % in another run of the artefact itself"
            f" (commit 15d4aa16, all_results_real), and for {mine:.0f} % here"
        )


def _between(served: Iterable[Served]) -> list[Served]:
    begin_s, end_s = SECOND_WINDOW_S
    return sorted((one for one in served if begin_s < one.arrival_s < end_s), key=lambda one: one.arrival_s)


def _share(others: Sequence[Served], first: Sequence[Served], of: Callable[[Served], float]) -> float:
    pairs = list(zip(others, first, strict=True))
    return 100 * sum(abs(of(other) / of(one) - 1) <= WITHIN for other, one in pairs) / len(pairs)


def near(mine: Mapping[str, float], theirs: Mapping[str, float]) -> float:
    """Percent of the clients for whom they are within the tolerance."""
    clients = theirs.keys() & mine.keys()
    return 100 * sum(abs(mine[client] / theirs[client] - 1) <= WITHIN for client in clients) / len(clients)


def measured(file: str) -> list[Served]:
    """What the clients of a run of the artefact that is at hand saw.  Raises MissingWorkload."""
    return clients_saw(read_seen(locate(f"vtc/{file}.csv")))


def clients_saw(run: Iterable[Seen]) -> list[Served]:
    """Without those who were refused."""
    found = []
    for one in run:
        came_s = one.arrival.now_ns / NS_PER_S
        if one.first_token_s is not None and one.latency_s is not None:
            times = came_s, came_s + one.first_token_s, came_s + one.latency_s
            found.append(Served(one.arrival.client, *times, one.arrival.prompt_tokens, one.arrival.output_tokens))
    return found


def _first_token_s(one: Served) -> float:
    return one.first_token_s - one.arrival_s


def _latency_s(one: Served) -> float:
    return one.end_s - one.arrival_s


WAITS: Mapping[str, Callable[[Served], float]] = {"ttft": _first_token_s, "latency": _latency_s}


def medians(served: Iterable[Served], of: Callable[[Served], float]) -> dict[str, float]:
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
