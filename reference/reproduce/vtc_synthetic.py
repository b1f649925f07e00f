"""VTC (Sheng et al., OSDI 2024), synthetic clients: weights, and the drift of FCFS."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import lcm
from statistics import correlation, linear_regression

from ...spec.vocabulary import NS_PER_S
from ...spec.workloads import Incoming, MissingWorkload
from ..systems.vtc import VTC
from ..systems.vtc_artifact import Artifact
from .framework import Constant, Reproduction, Run, Target
from .vtc import (
    COMMON,
    JITTER_NS,
    JITTERED,
    PAPER,
    SAMPLE_NS,
    SCHEDULERS,
    SHIPPED,
    later,
    measured,
    of_artifact,
    paper_settings,
    requests_of,
    served,
    simulated,
)
from .vtc_metric import Served

WEIGHTS = (1, 2, 3, 4)
WEIGHTED_PER_S = (0.4, 0.8, 1.2, 1.6)
DRIFT_PER_S = (1.5, 3.0)
PROMPT = OUTPUT = 256
RUN_S, WEIGHTED_RUN_S, LONG_RUN_S = 600, 360, 1_260
FIRST_MINUTE_S = 60
ROUND_GAP_S, LEAST_ROUND = 0.08, 10
WEIGHTED = "overload-weighted__WVTC"


def evenly(rates_per_s: Iterable[float], seconds: float) -> Iterator[Incoming]:
    """Clients 0, 1, … that ask at even intervals."""
    times = [
        (int(number * NS_PER_S / rate), str(client))
        for client, rate in enumerate(rates_per_s)
        for number in range(int(rate * seconds))
    ]
    for number, (now_ns, client) in enumerate(sorted(times)):
        yield of_artifact(number, now_ns, client, PROMPT, OUTPUT)


def measure_weights(run: Run) -> Mapping[str, float]:
    """Service of each client while all wait, over that of client 0; the paper's rule has a longer window, in which a
    request of client 0 is less than half a percent of what it gets."""
    prices = {str(client): lcm(*WEIGHTS) // weight for client, weight in enumerate(WEIGHTS)}
    seconds, long_s = (part // 3 if run.sample else part for part in (WEIGHTED_RUN_S, LONG_RUN_S))
    workload = weighted(run)
    heaviest = {"measured": shares_of_heaviest(_measured_or_nothing(WEIGHTED))}
    plain, at_pick = (one for one in SCHEDULERS if one.name in ("vtc", "vtc_oracle"))
    ours: dict[str, float] = {}
    for name, factory, settings, requests, until_s in run.stages(
        "rules",
        (
            ("artifact", Artifact, plain.settings(prices=prices), workload, seconds),
            ("at_pick", Artifact, at_pick.settings(prices=prices), workload, seconds),
            ("paper", VTC.make, paper_settings(prices=prices), list(evenly(WEIGHTED_PER_S, long_s)), long_s),
        ),
    ):
        found = served(simulated(factory, settings, requests).records.values())
        heaviest[name] = shares_of_heaviest(found)
        service = _service(found, FIRST_MINUTE_S, until_s)
        run.note(f"{name}, service a second: " + _listed(service, until_s - FIRST_MINUTE_S))
        ours |= {f"{name}_client_{weight}": service[str(n)] / service["0"] for n, weight in enumerate(WEIGHTS) if n}
    tell_longer(run, prices)
    told = "; ".join(f"{name} {shares}" for name, shares in heaviest.items())
    run.note(f"of those who enter together, {LEAST_ROUND} or more, client 3 has: {told}")
    return ours


def tell_longer(run: Run, prices: Mapping[str, int]) -> None:
    """What the program's rule comes to in longer windows, and if its requests come a bit later: in the paper's window
    there are some 25 rounds of admissions, and one of them at its edge is a few percent."""
    longest_s = LONG_RUN_S // 6 if run.sample else LONG_RUN_S
    vtc = next(one for one in SCHEDULERS if one.name == "vtc")

    def farthest(found: Sequence[Served], end_s: float) -> str:
        service = _service(found, FIRST_MINUTE_S, end_s)
        ratios = (service[str(n)] / service["0"] / weight for n, weight in enumerate(WEIGHTS) if n)
        return f"{100 * max(abs(ratio - 1) for ratio in ratios):.1f}"

    def of(requests: Sequence[Incoming]) -> list[Served]:
        return served(simulated(Artifact, vtc.settings(prices=prices), requests).records.values())

    found = of(list(evenly(WEIGHTED_PER_S, longest_s)))
    ends = [FIRST_MINUTE_S + (longest_s - FIRST_MINUTE_S) * part // 4 for part in range(1, 5)]
    listed = ", ".join(f"{end_s - FIRST_MINUTE_S} s {farthest(found, end_s)}" for end_s in ends)
    run.note(f"artifact, the client farthest from its weight, in percent, by the length of the window: {listed}")
    late = [of(later(weighted(run), seed)) for seed in range(run.seed, run.seed + (1 if run.sample else JITTERED))]
    end_s = WEIGHTED_RUN_S // 3 if run.sample else WEIGHTED_RUN_S
    run.note(
        f"artifact, the same in the paper's window, if each request comes up to {JITTER_NS // 1_000_000} ms later:"
        f" {', '.join(farthest(one, end_s) for one in late)}"
    )


def _measured_or_nothing(file: str) -> Sequence[Served]:
    try:
        return measured(file)
    except MissingWorkload:
        return ()


def weighted(run: Run) -> list[Incoming]:
    try:
        return requests_of(WEIGHTED, SAMPLE_NS if run.sample else None)
    except MissingWorkload:
        run.note("clients ask at even intervals: the artefact's run is not at hand")
        return list(evenly(WEIGHTED_PER_S, WEIGHTED_RUN_S / 3 if run.sample else WEIGHTED_RUN_S))


def shares_of_heaviest(found: Iterable[Served]) -> str:
    """Of the rounds of admission with `LEAST_ROUND` requests or more, after the first minute."""
    entries = sorted((one.first_token_s, one.client) for one in found)
    rounds: list[list[str]] = []
    before_s = 0.0
    for at_s, client in entries:
        if FIRST_MINUTE_S <= at_s < WEIGHTED_RUN_S:
            if at_s - before_s > ROUND_GAP_S:
                rounds.append([])
            rounds[-1].append(client)
        before_s = at_s
    heaviest = str(len(WEIGHTS) - 1)
    shares = [100 * one.count(heaviest) / len(one) for one in rounds if len(one) >= LEAST_ROUND]
    return f"{min(shares):.0f} to {max(shares):.0f} % in {len(shares)} rounds" if shares else "no such round"


def _listed(service: Mapping[str, float], seconds: float) -> str:
    return ", ".join(f"{service[str(client)] / seconds:.1f}" for client in range(len(WEIGHTS)))


def measure_drift(run: Run) -> Mapping[str, float]:
    """Two clients of whom one asks twice as much: how much more service it has got, by time."""
    seconds = RUN_S / 4 if run.sample else RUN_S
    workload = list(evenly(DRIFT_PER_S, seconds))
    found = served(simulated(Artifact, SCHEDULERS[0].settings(), workload).records.values())
    times = [seconds * part / 20 for part in range(2, 21)]
    ahead = [_ahead(_service(found, 0, time_s)) for time_s in times]
    fair = served(simulated(VTC.make, paper_settings(), workload).records.values())
    widest = max(abs(_ahead(_service(fair, 0, time_s))) for time_s in times)
    run.note(f"under the paper's VTC the clients differ by {widest:,.0f} at most")
    return {
        "fcfs_drift_per_s": linear_regression(times, ahead).slope,
        "fcfs_correlation_with_time": correlation(times, ahead),
        "vtc_difference": widest,
    }


def _service(served: Iterable[Served], begin_s: float, end_s: float) -> dict[str, float]:
    service: dict[str, float] = defaultdict(float)
    for one in served:
        service[one.client] += one.service_between(begin_s, end_s)
    return service


def _ahead(service: Mapping[str, float]) -> float:
    return service["1"] - service["0"]


VTC_WEIGHTED = Reproduction(
    name="vtc-weighted",
    title="service of clients of weight 1, 2, 3 and 4",
    source=PAPER + "section 5.3",
    constants=(
        *COMMON,
        Constant("requests_per_s", WEIGHTED_PER_S, SHIPPED + "overload-weighted, of each client"),
        Constant(
            "window_s", (FIRST_MINUTE_S, WEIGHTED_RUN_S), "this window of the measured run gives the published digits"
        ),
        Constant(
            "at_pick",
            "outputs are charged at the pick",
            SHIPPED + "vtc_oracle, as measured rounds suggest; see the note",
        ),
        Constant("tokens", (PROMPT, OUTPUT), SHIPPED + "overload-weighted: prompt and output"),
    ),
    targets=tuple(
        Target(f"{name}_client_{weight}", weight, PAPER + "weighted VTC", within_percent=1)
        for name in ("artifact", "at_pick", "paper")
        for weight in WEIGHTS[1:]
    ),
    measure=measure_weights,
)
VTC_DRIFT = Reproduction(
    name="vtc-drift",
    title="FCFS lets the client that asks more run ahead for ever, VTC does not",
    source=PAPER + "section 5.2, overload",
    constants=(
        *COMMON,
        Constant("requests_per_s", DRIFT_PER_S, SHIPPED + "overload, of each client"),
        Constant("tokens", (PROMPT, OUTPUT), SHIPPED + "overload: prompt and output"),
    ),
    targets=(
        Target("fcfs_drift_per_s", 263_228 / 600, SHIPPED + "overload, FCFS", within_percent=15, unit="tokens/s"),
        Target("fcfs_correlation_with_time", 0.99, "ours: it is linear", at_least=True),
        Target("vtc_difference", 40_000, PAPER + "theorem 4.4: 2U, U = 2 · 10,000", at_most=True, unit="tokens"),
    ),
    measure=measure_drift,
)
