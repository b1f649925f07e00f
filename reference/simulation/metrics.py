"""What a run was like, as plain data: the same log gives the same bytes.  Times are integers in nanoseconds."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any

from attrs import define, frozen

from .record import Log, Record
from .samples import Sample, distribution, itl

NS_PER_S = 1_000_000_000
NS_PER_HOUR = 3_600 * NS_PER_S
CURVE_PERMILLE = (*range(0, 1_000, 10), 995, 999, 1_000)
"""Where a cumulative distribution is told."""


@frozen(kw_only=True)
class Objective:
    """What a request is promised: time to first token, and time per output token after it."""

    ttft_ns: int = NS_PER_S
    tpot_ns: int = 100_000_000

    def is_met(self, record: Record) -> bool:
        if not record.has_finished or ttft_ns(record) > self.ttft_ns:
            return False
        tpot = tpot_ns(record)
        return tpot is None or tpot <= self.tpot_ns


@frozen(kw_only=True)
class Shares:
    """How service is compared (VTC, OSDI 2024, section 5): a prompt token weighs `input_weight`, an output
    `output_weight`; windows of `window_ns`, a new one each half of that."""

    input_weight: int = 1
    output_weight: int = 2
    window_ns: int = 60 * NS_PER_S


def metrics(
    log: Log,
    objective: Objective | None = None,
    shares: Shares | None = None,
    price_per_hour: Fraction | None = None,
) -> dict[str, Any]:
    """All metrics of a run: of everybody, of each lane and of each client.  `price_per_hour`: of the machine, in any
    currency, if prices are to be told."""
    objective, records = objective or Objective(), list(log.records.values())
    span_ns = _span_ns(records)
    whole = Group(records)
    shown = group_metrics(whole, objective, span_ns)

    def told(groups: Mapping[str, Group]) -> dict[str, dict[str, Any]]:
        return {
            name: dict(shown) if group is whole else group_metrics(group, objective, span_ns)
            for name, group in groups.items()
        }

    lanes = _by(whole, lambda record: record.lane)
    return shown | {
        "objective": {"ttft_ns": objective.ttft_ns, "tpot_ns": objective.tpot_ns},
        "engine": _engine(log, span_ns),
        "cost": cost(shown["tokens"], span_ns, price_per_hour),
        "curves": {"permille": list(CURVE_PERMILLE), "lanes": _curves(lanes)},
        "kv_tokens": _kv(log),
        "service": service(records, shares or Shares()),
        "lanes": told(lanes),
        "clients": told(_by(whole, lambda record: record.client)),
    }


@define(slots=False)
class Group:
    """Requests that are told together, and the times of them that are asked for more than once."""

    records: Sequence[Record]

    @cached_property
    def finished(self) -> list[Record]:
        return [record for record in self.records if record.has_finished]

    @cached_property
    def ttft(self) -> Sample:
        return Sample.of(ttft_ns(record) for record in self.records if record.token_ns)

    @cached_property
    def itl(self) -> Sample:
        return itl(self.records)

    @cached_property
    def end_to_end(self) -> Sample:
        return Sample.of(map(_end_to_end_ns, self.finished))


def group_metrics(group: Group, objective: Objective, span_ns: int) -> dict[str, Any]:
    records, finished = group.records, group.finished
    met = sum(objective.is_met(record) for record in records)
    return {
        "requests": len(records),
        "finished": len(finished),
        "refused": sum(record.refused is not None for record in records),
        "instead": dict(sorted(Counter(r.instead for r in records if r.instead is not None).items())),
        "ended_otherwise": sum(record.end is not None and not record.has_finished for record in records),
        "preemptions": sum(record.preemptions for record in records),
        "ttft_ns": distribution(group.ttft),
        "itl_ns": distribution(group.itl),
        "tpot_ns": distribution(t for record in finished if (t := tpot_ns(record)) is not None),
        "queue_age_ns": distribution(_queue_age_ns(record) for record in records if record.admitted_ns is not None),
        "end_to_end_ns": distribution(group.end_to_end),
        "queue_ns": distribution(record.queue_ns for record in finished),
        "model_ns": distribution(_end_to_end_ns(record) - record.queue_ns for record in finished),
        "goodput": {"met": met, "share": _ratio(met, len(records)), "requests_per_s": _per_s(met, span_ns)},
        "tokens": _tokens(records, span_ns),
    }


def ttft_ns(record: Record) -> int:
    return record.token_ns[0] - record.arrived_ns


def tpot_ns(record: Record) -> int | None:
    """Mean time of an output after the first; None if there is but one."""
    times = record.token_ns
    return (times[-1] - times[0]) // (len(times) - 1) if len(times) > 1 else None


def _queue_age_ns(record: Record) -> int:
    assert record.admitted_ns is not None
    return record.admitted_ns - record.arrived_ns


def _end_to_end_ns(record: Record) -> int:
    assert record.ended_ns is not None
    return record.ended_ns - record.arrived_ns


def _curves(lanes: Mapping[str, Group]) -> dict[str, dict[str, list[int]]]:
    """Of each lane the times that so many permille do not exceed, in the order of CURVE_PERMILLE; nothing of nobody."""
    return {
        lane: {"ttft_ns": _curve(of.ttft), "itl_ns": _curve(of.itl), "end_to_end_ns": _curve(of.end_to_end)}
        for lane, of in lanes.items()
    }


def _curve(sample: Sample) -> list[int]:
    return [sample.at(permille, 1_000) for permille in CURVE_PERMILLE] if sample.count else []


def _tokens(records: Sequence[Record], span_ns: int) -> dict[str, Any]:
    """Run tokens are useful if a request that finished needed them, once.  `repeated` were run before; `wasted` are
    those and what was run for requests that did not finish, or beyond their last token.  `wasted_by` has each of them
    once: by how the request ended, and of those that finished whether it was run again or too far."""
    run = sum(record.run_tokens for record in records)
    useful = sum(_useful_tokens(record) for record in records)
    outputs = sum(len(record.token_ns) for record in records)
    return {
        "run": run,
        "useful": useful,
        "useful_outputs": sum(len(record.token_ns) for record in records if record.has_finished),
        "wasted": run - useful,
        "wasted_by": _wasted_by(records),
        "repeated": sum(record.repeated_tokens for record in records),
        "cached": sum(record.cached_tokens for record in records),
        "restored": sum(record.restored_tokens for record in records),
        "outputs": outputs,
        "outputs_per_s": _per_s(outputs, span_ns),
    }


def _wasted_by(records: Sequence[Record]) -> dict[str, int]:
    wasted = dict.fromkeys(("recomputed", "too_far", "cancelled", "expired", "failed", "unfinished"), 0)
    for record in records:
        if record.has_finished:
            wasted["recomputed"] += record.repeated_tokens
            wasted["too_far"] += record.run_tokens - record.repeated_tokens - _useful_tokens(record)
        else:
            wasted[record.end or "unfinished"] += record.run_tokens
    return wasted


def cost(tokens: Mapping[str, Any], span_ns: int, price_per_hour: Fraction | None) -> dict[str, Any]:
    """Machine time, from the first arrival to the last end, for each token that somebody who finished needed, and for
    each output among them; with a price also what a million of each costs.  None if there is none."""
    told: dict[str, Any] = {"machine_ns": span_ns}
    for name, count in (("useful_token", tokens["useful"]), ("useful_output", tokens["useful_outputs"])):
        told[f"machine_ns_per_{name}"] = span_ns // count if count else None
        if price_per_hour is not None:
            price = price_per_hour * span_ns * 1_000_000 / (NS_PER_HOUR * count) if count else None
            told[f"price_per_million_{name}s"] = None if price is None else round(float(price), 6)
    return told


def _useful_tokens(record: Record) -> int:
    if not record.has_finished:
        return 0
    return min(record.run_tokens - record.repeated_tokens, record.prompt_tokens + len(record.token_ns) - 1)


def _engine(log: Log, span_ns: int) -> dict[str, Any]:
    return {
        "steps": log.steps,
        "span_ns": span_ns,
        "busy_ns": log.busy_ns,
        "busy_share": _ratio(log.busy_ns, span_ns),
        "tokens_per_step": _ratio(log.run_tokens, log.steps),
    }


def _kv(log: Log) -> dict[str, Any]:
    """Resident positions: in each second the mean over all of it, and the maximum."""
    resident = log.resident
    means = [integral // resident.window_ns for integral in resident.integrals]
    return {"window_ns": resident.window_ns, "mean": means, "max": resident.maxima}


def _span_ns(records: Sequence[Record]) -> int:
    """From the first arrival to the last end."""
    ends = [record.ended_ns for record in records if record.ended_ns is not None]
    return max(ends) - min(record.arrived_ns for record in records) if ends else 0


def _by(whole: Group, key: Callable[[Record], str]) -> dict[str, Group]:
    """In the order of their names; a group of all is the whole."""
    groups: dict[str, list[Record]] = {}
    for record in whole.records:
        groups.setdefault(key(record), []).append(record)
    return {name: whole if len(groups) == 1 else Group(groups[name]) for name in sorted(groups)}


def _ratio(part: int, whole: int) -> float:
    return round(part / whole, 6) if whole else 0.0


def _per_s(count: int, span_ns: int) -> float:
    return _ratio(count * NS_PER_S, span_ns)


# --- service of clients -------------------------------------------------------------------------------------


def service(records: Sequence[Record], shares: Shares) -> dict[str, Any]:
    """Service per client over time, and VTC's difference of service.

    In a window the difference is the sum over clients of min(most service of anybody − its service, |what its arrivals
    asked for − its service|): who is not served for want of requests is owed nothing.  Given per second.
    """
    half_ns = shares.window_ns // 2
    last = max((_last_ns(record) for record in records), default=0)
    edges = range(0, last + 1, half_ns)
    served: dict[str, list[int]] = {}
    asked: dict[str, list[int]] = {}
    for record in sorted(records, key=lambda record: record.client):
        row = served.setdefault(record.client, [0] * len(edges))
        want = asked.setdefault(record.client, [0] * len(edges))
        want[record.arrived_ns // half_ns] += _service(shares, record.prompt_tokens, record.output_tokens)
        _add_service(record, shares, edges, row)
    differences = [
        _difference([_window(row, place) for row in served.values()], [_window(row, place) for row in asked.values()])
        for place in range(_whole_windows(records, half_ns))
    ]
    return {
        "window_ns": shares.window_ns,
        "half_ns": half_ns,
        "served": served,
        "difference_per_s": _spread(differences, shares.window_ns),
    }


def _service(shares: Shares, prompt_tokens: int, output_tokens: int) -> int:
    return shares.input_weight * prompt_tokens + shares.output_weight * output_tokens


def _add_service(record: Record, shares: Shares, edges: range, row: list[int]) -> None:
    """The prompt counts with the first token, each output when it is delivered."""
    times = record.token_ns
    if not times:
        return
    row[times[0] // edges.step] += shares.input_weight * record.prompt_tokens
    for place in range(times[0] // edges.step, times[-1] // edges.step + 1):
        first, after = edges.step * place, edges.step * (place + 1)
        row[place] += shares.output_weight * (bisect_left(times, after) - bisect_left(times, first))


def _last_ns(record: Record) -> int:
    return max(record.arrived_ns, record.token_ns[-1] if record.token_ns else 0)


def _whole_windows(records: Sequence[Record], half_ns: int) -> int:
    """Windows that end before the last arrival: afterwards the system only empties."""
    return max(0, max((record.arrived_ns for record in records), default=0) // half_ns - 1)


def _window(row: Sequence[int], place: int) -> int:
    return row[place] + row[place + 1]


def _difference(served: Sequence[int], asked: Sequence[int]) -> int:
    most = max(served)
    return sum(min(most - got, abs(want - got)) for got, want in zip(served, asked, strict=True))


def _spread(differences: Sequence[int], window_ns: int) -> dict[str, Any] | None:
    if not differences:
        return None
    per_s = [difference * NS_PER_S / window_ns for difference in differences]
    mean = sum(per_s) / len(per_s)
    variance = sum((value - mean) ** 2 for value in per_s) / len(per_s)
    return {
        "count": len(per_s),
        "max": round(max(per_s), 3),
        "mean": round(mean, 3),
        "variance": round(variance, 3),
    }
