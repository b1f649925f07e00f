"""What it costs to check a fleet, and what of it can be left out: `python tests/bench/scale.py [--tiny] [--write]`.

Everything in spec/SCALE.md is measured here, but for the sizes of the fleets.  `--write` writes that file.
"""

import argparse
import gzip
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]  # it is run by its path

from attrs import frozen  # noqa: E402

from schedspec import optimized  # noqa: E402
from schedspec.commands.recorded import judge_file  # noqa: E402
from schedspec.conformance.driver import Driver  # noqa: E402
from schedspec.conformance.project import Shortening, project  # noqa: E402
from schedspec.conformance.replaying import SETTINGS, StepTime, replay_workload  # noqa: E402
from schedspec.conformance.walks import walk  # noqa: E402
from schedspec.reference import make  # noqa: E402
from schedspec.reference.faults.routers import BySession  # noqa: E402
from schedspec.reference.fleet import STEP_NS, Fleet, arrivals, flooded, new_fleet  # noqa: E402
from schedspec.reference.router import Dealer, Router  # noqa: E402
from schedspec.spec.catalogue import registry  # noqa: E402
from schedspec.spec.errors import ProtocolError  # noqa: E402
from schedspec.spec.fleets.judge import Fleet as Records  # noqa: E402
from schedspec.spec.fleets.judge import FleetVerdict, judge_fleet  # noqa: E402
from schedspec.spec.fleets.router_log import RouterLog  # noqa: E402
from schedspec.spec.fleets.rules import RULES, leads  # noqa: E402
from schedspec.spec.fleets.stays import Witness  # noqa: E402
from schedspec.spec.monitor import Monitor  # noqa: E402
from schedspec.spec.pooled import new_monitor  # noqa: E402
from schedspec.spec.trace import TraceWriter  # noqa: E402
from schedspec.spec.trace_columns import convert_trace  # noqa: E402
from schedspec.spec.vocabulary import Message  # noqa: E402
from schedspec.spec.workloads import parse_workload  # noqa: E402

COMMAND = "python tests/bench/scale.py --write"
FLEETS = (1_000, 100_000)
DAY_S = 86_400
FEWEST = 10
"""Halves that exercised a rule, before it is said to be kept."""
WINDOW_NS = 2 * STEP_NS
GB, TB = 10**9, 10**12


@frozen
class Size:
    workload_s: int = 60
    runs: int = 200
    fleets: int = 4
    floods: tuple[int, ...] = (1, 2, 4, 6)


TINY = Size(workload_s=4, runs=20, fleets=1, floods=(1, 2))


# --- a day ---------------------------------------------------------------------------------------------------


@frozen(kw_only=True)
class Day:
    """One engine, for as long as it was recorded; `cpu_s` of judging it, `unpacking_s` beside that of gzip."""

    seconds: float
    requests: int
    messages: int
    entries: int
    jsonl_bytes: int
    gzip_bytes: int
    zstd_bytes: int | None
    columns_bytes: int
    jsonl_cpu_s: float
    columns_cpu_s: float


def day(workload_s: int) -> Day:
    driver = Driver.start(optimized.make, SETTINGS, 0)
    workload = parse_workload("fitted:azure-conv", first_s=str(workload_s), seed=0)
    replayed = replay_workload(driver, workload, seed=0, step_time=StepTime())
    with TemporaryDirectory() as folder:
        lines, columns = Path(folder) / "day.jsonl", Path(folder) / "day.columns"
        with lines.open("w") as file:
            writer = TraceWriter(file, driver.header)
            for message in driver.messages:
                writer.write(message)
        convert_trace(lines, columns)
        content = lines.read_bytes()
        return Day(
            seconds=driver.now_ns / 1e9,
            requests=replayed.requests,
            messages=len(driver.messages),
            entries=replayed.pairs,
            jsonl_bytes=len(content),
            gzip_bytes=len(gzip.compress(content)),
            zstd_bytes=_zstd_bytes(content),
            columns_bytes=columns.stat().st_size,
            jsonl_cpu_s=_judged_in(lines),
            columns_cpu_s=_judged_in(columns),
        )


def _zstd_bytes(content: bytes) -> int | None:
    try:
        from zstandard import ZstdCompressor
    except ImportError:
        return None
    return len(ZstdCompressor().compress(content))


def _judged_in(path: Path) -> float:
    """CPU time of this process: what else the machine does is not counted.  With what a fleet needs beside."""
    begun = time.process_time()
    judged = judge_file(path, lambda *_: None, plain=False, witness=Witness(), shortening=Shortening(most_messages=0))
    assert judged.fault is None
    return time.process_time() - begun


def day_table(one: Day) -> Iterator[str]:
    yield "| | one engine, recorded | an engine a day | " + " | ".join(f"{n:,} GPUs a day" for n in FLEETS) + " |"
    yield "| --- | --- | --- | " + " | ".join("---" for _ in FLEETS) + " |"
    times = DAY_S / one.seconds
    rows: list[tuple[str, float | None, float, str]] = [
        ("requests", one.requests, 1, "{:,.0f}"),
        ("messages", one.messages, 1, "{:,.0f}"),
        ("entries of steps (request, step)", one.entries, 1, "{:,.0f}"),
        ("JSONL, GB", one.jsonl_bytes, GB, "{:,.3g}"),
        ("JSONL and gzip, GB", one.gzip_bytes, GB, "{:,.3g}"),
        ("JSONL and zstd, GB", one.zstd_bytes, GB, "{:,.3g}"),
        ("columns, GB", one.columns_bytes, GB, "{:,.3g}"),
        ("core hours, JSONL", one.jsonl_cpu_s, 3_600, "{:,.3g}"),
        ("core hours, columns", one.columns_cpu_s, 3_600, "{:,.3g}"),
    ]
    for name, value, unit, form in rows:
        if value is not None:
            cells = [value / unit, value * times / unit, *(value * times * gpus / unit for gpus in FLEETS)]
            yield f"| {name} | " + " | ".join(_round(cell, form) for cell in cells) + " |"


def _round(value: float, form: str) -> str:
    """Three digits that mean something."""
    if value >= 1_000:
        digits = len(str(int(value))) - 3
        return f"{round(value / 10**digits) * 10**digits:,}"
    return form.format(value)


# --- sampling by request -------------------------------------------------------------------------------------


def sampled(runs: int) -> dict[str, tuple[int, int]]:
    """Rule -> (runs of which a half exercised it, in how many of these that half broke it)."""
    halves, alarms = Counter[str](), Counter[str]()
    draws = random.Random(0)
    for seed in range(runs):
        driver = _walked(seed)
        if driver is None:
            continue
        names = [message.given.id for message in driver.messages if message.kind == "submit"]
        kept = {request for request in names if draws.random() < 0.5}
        messages = [m for m in project(driver.messages, kept) if m.kind != "observe"]
        exercised, broken = _judge_half(driver, messages)
        halves.update(exercised)
        alarms.update(broken)
    ids = [rule.id for rule in registry.sorted_rules()]
    return {rule: (halves[rule], alarms[rule]) for rule in ids}


def _walked(seed: int) -> Driver | None:
    script = walk(seed)
    try:
        driver = Driver.start(make, script.settings, script.seed)
    except Exception:  # settings that the reference refuses
        return None
    driver.run(script.ops)
    driver.drain()
    return None if driver.over else driver


def _judge_half(driver: Driver, messages: Sequence[Message]) -> tuple[set[str], set[str]]:
    monitor = new_monitor(driver.header)
    broken: set[str] = set()
    for message in messages:
        try:
            found = {violation.rule for violation in monitor.feed(message)}
        except ProtocolError:
            break
        if found:  # what comes after a break says nothing
            broken = found
            break
    return {rule for rule, times in monitor.exercised().items() if times} | broken, broken


def sample_table(found: Mapping[str, tuple[int, int]]) -> Iterator[str]:
    yield f"| family | broken by no half (of so many) | broken by halves | exercised by fewer than {FEWEST} halves |"
    yield "| --- | --- | --- | --- |"
    for family in dict.fromkeys(registry.rules[rule].family for rule in found):
        rules = [rule for rule in found if registry.rules[rule].family == family]
        kept = [f"{rule} ({found[rule][0]})" for rule in rules if found[rule][0] >= FEWEST and not found[rule][1]]
        lost = [f"{rule} ({found[rule][1]} of {found[rule][0]})" for rule in rules if found[rule][1]]
        unseen = [rule for rule in rules if found[rule][0] < FEWEST and not found[rule][1]]
        yield f"| {family} | {', '.join(kept) or '–'} | {', '.join(lost) or '–'} | {_ids(unseen)} |"


def _ids(rules: Sequence[str]) -> str:
    return ", ".join(rules) or "–"


# --- fleets --------------------------------------------------------------------------------------------------


def parts_of(fleet: Fleet) -> dict[str, list[dict[str, Any]]]:
    parts = {}
    for engine in fleet.engines.values():
        monitor, witness = Monitor(engine.header), Witness(WINDOW_NS)
        witness.begin(monitor)
        for message in engine.messages:
            monitor.feed(message)
            witness.see(message)
        parts[engine.name] = [witness.plain]
    return parts


def flood(engines: int, router: type[Router], seed: int) -> Records:
    """One client more than engines, who all wait from the beginning nearly to the end."""
    fleet = flooded(engines, router, seed, each=120)
    return Records(parts_of(fleet), RouterLog(tuple(fleet.engines), Dealer.claims), 0, WINDOW_NS)


def largest_gap(records: Records) -> tuple[int, int]:
    """(the largest difference between two that wait, the bound of FLEET-4)."""
    found = (ahead for pair in records.pairs() for _, ahead, _ in leads(records, *pair))
    return max(found, default=0), records.bound


def gap_table(floods: Sequence[int]) -> Iterator[str]:
    yield "| engines | bound of FLEET-4 | dealt in turn | by session |"
    yield "| --- | --- | --- | --- |"
    for engines in floods:
        gap, bound = largest_gap(flood(engines, Dealer, 1))
        sticky, _ = largest_gap(flood(engines, BySession, 1))
        yield f"| {engines} | {bound:,} | {gap:,} | {sticky:,} |"


def fleet_samples(count: int) -> dict[str, Counter[str]]:
    """Rule -> of samples of clean fleets, in how many it was broken: by engine, by request, by key."""
    found: dict[str, Counter[str]] = {name: Counter() for name in ("engine", "request", "key")}
    for seed in range(count):
        fleet = new_fleet(4, seed, router=Router, patience_ns=8 * STEP_NS)
        fleet.run(arrivals(120, seed, gap_ns=STEP_NS // 4, keys=5))
        whole = Records(parts_of(fleet), RouterLog(tuple(fleet.engines)), 0, WINDOW_NS)
        shared = flood(3, Dealer, seed)
        for name in found:
            draws = random.Random(seed)
            for records in (whole, shared):
                found[name].update(_sample(records, name, draws).breaks.keys())
    return found


def _sample(records: Records, by: str, draws: random.Random) -> FleetVerdict:
    engines = {name: [dict(part) for part in parts] for name, parts in records.engines.items()}
    if by == "engine":
        gone = draws.choice(sorted(engines))
        del engines[gone]
    else:
        salt = draws.random()
        for parts in engines.values():
            for part in parts:
                part["stays"] = [row for row in part["stays"] if _is_in(row, by, salt)]
    return judge_fleet(Records(engines, records.router, records.skew_ns, records.window_ns))


def _is_in(row: Sequence[Any], by: str, salt: float) -> bool:
    name = row[0] if by == "request" or row[2] is None else f"{row[1]} {row[2]}"
    return random.Random(f"{salt} {name}").random() < 0.5


def fleet_table(found: Mapping[str, Counter[str]], count: int) -> Iterator[str]:
    yield "| rule | a sample of engines | a sample of requests | a sample of keys |"
    yield "| --- | --- | --- | --- |"
    for rule in RULES:
        cells = [f"broken in {times[rule]} of {count}" if times[rule] else "kept" for times in found.values()]
        if rule == "FLEET-4":
            cells = ["–"] * len(cells)
        yield f"| {rule} | {' | '.join(cells)} |"


# --- the page ------------------------------------------------------------------------------------------------


TEXT = """\
# What it costs to check a fleet

Written by `{command}`, which measures every figure here on the machine that it runs on. Times are
of one core: processor time of the process that judges. Seeds are fixed, so counts and bytes are the same everywhere.

## A day of traffic

Recorded was one engine under `fitted:azure-conv` at its own rate ({one.requests:,} requests, {one.seconds:,.0f} s of
the engine's clock), steps of 25 ms and 50 µs a token, with tables. An engine is one GPU here: where it is eight, take
an eighth. All of it grows in proportion to engines and to seconds, since each file is judged by itself and in constant
memory; what is merged is a row for each request, and a number for each client and window of time.

{day}

`schedspec trace 'logs/**/*.jsonl.zst' --on local` (or `--on ray:HOST:PORT`) divides the core hours by the cores.

## Leaving requests out

Of {size.runs:,} random runs of the reference, which break nothing, half of the requests were left out, with all that is
about them (`tests/conformance/project.py`). A rule that halves break gives false alarms on a sample of requests, and
must be judged on whole engines; so must one that compares clients, lanes or queues, whatever the halves did (FAIR,
LANE, the order of admissions). The others find less on a sample, and nothing wrong. In brackets: halves that
exercised it.

{samples}

A sample of whole engines keeps each of these rules: an engine is judged by its own file.

## Leaving engines out

Of {size.fleets} pairs of fleets that break nothing one engine, half of the requests, or half of the keys (all requests
with a key together) was left out.

{fleets}

FLEET-1 asks who never ended, and what a router said, only where all engines are there: a sample of engines leaves that
open. Requests are sampled by a hash of their id, so that all engines leave out the same ones. FLEET-4 compares what
clients got, so it needs all of their requests; where an engine that the router names is missing it is not observable.

## Bounds and engines

The largest difference of service between two clients that wait, of n + 1 that all wait from the beginning nearly to the
end, over n engines with Virtual Token Counter each: where each client's requests are dealt to the engines in turn, and
where all of a client go to one engine, so that two clients share one and the others have one each. The bound of FLEET-4
grows with n; without a router that keeps it no bound holds: the difference grows with the time that they wait.

{gaps}
"""


def page(size: Size) -> str:
    one = day(size.workload_s)
    return TEXT.format(
        command=COMMAND,
        one=one,
        size=size,
        day="\n".join(day_table(one)),
        samples="\n".join(sample_table(sampled(size.runs))),
        fleets="\n".join(fleet_table(fleet_samples(size.fleets), size.fleets)),
        gaps="\n".join(gap_table(size.floods)),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="What it costs to check a fleet.")
    parser.add_argument("--tiny", action="store_true", help="small sizes: does it run at all?")
    parser.add_argument("--write", action="store_true", help="write spec/SCALE.md")
    options = parser.parse_args()
    text = page(TINY if options.tiny else Size())
    if options.write:
        (ROOT / "spec" / "SCALE.md").write_text(text, encoding="utf-8")
    else:
        print(text)


if __name__ == "__main__":
    main()
